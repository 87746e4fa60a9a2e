use super::*;

fn headers(lines: &[(&str, &'static str)]) -> HeaderMap {
    let name = |name: &str| name.parse::<HeaderName>().unwrap();
    lines.iter().map(|line| (name(line.0), HeaderValue::from_static(line.1))).collect()
}

#[test]
fn our_own_fields_are_stripped_at_the_door() {
    let ours = [
        ("hapax-attempt", "7"),
        ("Hapax-Anything", "x"),
        ("idempotent-replayed", "true"),
        ("idempotency-expires", "soon"),
        ("idempotency-key", "k"),
    ];
    let mut request = headers(&ours);
    strip_ours_from_request(&mut request);
    assert!(!request.keys().any(is_ours));
    assert!(request.contains_key("idempotency-key"));

    let mut answer = headers(&ours);
    strip_ours_from_response(&mut answer);
    assert_eq!(answer, headers(&[("idempotency-key", "k")]));
}

#[test]
fn that_a_request_is_retried_above_is_told_to_those_below() {
    for (lines, kept) in [
        (&[("hapax-retries", "above")][..], true),
        (&[("hapax-retries", "Above")], true),
        (&[("hapax-retries", "below")], false),
        (&[("hapax-retries", "above"), ("hapax-retries", "above")], false),
        (&[("hapax_retries", "above")], false),
        (&[], false),
    ] {
        let mut request = headers(lines);
        assert_eq!(is_retried(&request), kept, "{lines:?}");
        strip_ours_from_request(&mut request);
        let expected: &[_] = if kept { &[("hapax-retries", "above")] } else { &[] };
        assert_eq!(request, headers(expected), "{lines:?}");
    }
}

#[test]
fn a_replay_keeps_the_outcome_with_repeats_order_and_bytes() {
    let mut answer = headers(&[
        ("content-type", "application/json"),
        ("link", "</a>; rel=next"),
        ("date", "now"),
        ("location", "/v1/payments/1"),
        ("x-balance", "12"),
        ("x-other", "no"),
    ]);
    answer.append(header::LINK, HeaderValue::from_static("</b>; rel=prev"));
    if let Ok(latin) = HeaderValue::from_bytes(b"\xfcber") {
        answer.append(header::ETAG, latin);
    }
    let kept = storable(&answer, &[HeaderName::from_static("x-balance")]);
    let kept: Vec<_> = kept.iter().map(|(name, value)| (&name[..], &value[..])).collect();
    let expected: [(&[u8], &[u8]); 6] = [
        (b"content-type", b"application/json"),
        (b"link", b"</a>; rel=next"),
        (b"link", b"</b>; rel=prev"),
        (b"location", b"/v1/payments/1"),
        (b"x-balance", b"12"),
        (b"etag", b"\xfcber"),
    ];
    assert_eq!(kept, expected);
}

#[test]
fn credentials_times_and_traces_are_never_replayed_even_if_listed() {
    let names = [
        "set-cookie",
        "www-authenticate",
        "authorization",
        "proxy-authenticate",
        "authentication-info",
        "date",
        "age",
        "ratelimit-remaining",
        "x-ratelimit-reset",
        "traceparent",
        "x-b3-traceid",
        "connection",
        "transfer-encoding",
        "content-length",
        "hapax-outcome",
        "idempotent-replayed",
    ];
    let extras: Vec<_> = names.map(HeaderName::from_static).into();
    let answer = headers(&names.map(|name| (name, "x")));
    assert_eq!(answer.len(), names.len());
    assert_eq!(storable(&answer, &extras), []);
}

#[test]
fn an_event_stream_is_known_by_its_media_type() {
    for (value, is) in [
        ("text/event-stream", true),
        ("Text/Event-Stream ; charset=utf-8", true),
        ("text/event-streams", false),
        ("application/json", false),
    ] {
        assert_eq!(is_event_stream(&headers(&[("content-type", value)])), is, "{value}");
    }
    assert!(!is_event_stream(&HeaderMap::new()));
}
