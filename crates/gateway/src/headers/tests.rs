use http::Request;

use super::*;

fn headers(lines: &[(&str, &str)]) -> HeaderMap {
    lines
        .iter()
        .filter_map(|(name, value)| Some((name.parse().ok()?, HeaderValue::from_str(value).ok()?)))
        .fold(HeaderMap::new(), |mut map, (name, value): (HeaderName, _)| {
            map.append(name, value);
            map
        })
}

fn lines(headers: &HeaderMap) -> Vec<(&str, &str)> {
    headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap_or("?"))).collect()
}

#[test]
fn fields_of_the_connection_end_here_and_so_does_every_field_it_names() {
    let mut request = headers(&[
        ("host", "api.example"),
        ("connection", "keep-alive, X-Hop"),
        ("connection", "close,, x-other"),
        ("keep-alive", "timeout=5"),
        ("proxy-connection", "keep-alive"),
        ("te", "gzip"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "websocket"),
        ("expect", "100-continue"),
        ("x-hop", "1"),
        ("x-other", "2"),
        ("x-stays", "3"),
    ]);
    to_upstream(&mut request, Version::HTTP_11);
    assert_eq!(lines(&request), [("host", "api.example"), ("x-stays", "3")]);
}

#[test]
fn a_connection_field_cannot_take_host_or_length_away() {
    let mut request =
        headers(&[("connection", "host, content-length"), ("host", "a"), ("content-length", "3")]);
    to_upstream(&mut request, Version::HTTP_11);
    assert_eq!(lines(&request), [("content-length", "3"), ("host", "a")]);
}

#[test]
fn a_wish_for_trailers_is_renewed_for_our_own_connection() {
    let mut request = headers(&[("te", "deflate;q=0.5, Trailers")]);
    to_upstream(&mut request, Version::HTTP_11);
    assert_eq!(lines(&request), [("te", "trailers"), ("connection", "te")]);
}

#[test]
fn cookie_crumbs_of_http_2_become_one_line_and_lines_of_http_1_stay() {
    let crumbs = [("cookie", "a=1"), ("cookie", "b=2; c=3"), ("cookie", "d=4")];
    let mut request = headers(&crumbs);
    to_upstream(&mut request, Version::HTTP_2);
    assert_eq!(lines(&request), [("cookie", "a=1; b=2; c=3; d=4")]);

    let mut request = headers(&crumbs);
    to_upstream(&mut request, Version::HTTP_11);
    assert_eq!(lines(&request), crumbs);
}

#[test]
fn the_framing_of_an_answer_is_never_ambiguous() {
    let ok = StatusCode::OK;
    type Lines = &'static [(&'static str, &'static str)];
    let cases: [(StatusCode, Lines, Lines); 7] = [
        (ok, &[("content-length", "5")], &[("content-length", "5")]),
        (ok, &[("content-length", "5"), ("content-length", "5")], &[("content-length", "5")]),
        (ok, &[("content-length", "5, 005")], &[("content-length", "5")]),
        (ok, &[("content-length", "5, 6")], &[]),
        (ok, &[("content-length", "5"), ("transfer-encoding", "chunked")], &[]),
        (StatusCode::NO_CONTENT, &[("content-length", "5")], &[]),
        (ok, &[("trailer", "x-sum"), ("transfer-encoding", "chunked")], &[("trailer", "x-sum")]),
    ];
    for (status, received, passed_on) in cases {
        let mut answer = headers(received);
        from_upstream(&mut answer, status, false);
        assert_eq!(lines(&answer), passed_on, "{received:?}");
    }
}

#[test]
fn a_request_without_exactly_one_host_is_refused() {
    let request = |version, uri: &str, hosts: &[(&str, &str)]| {
        let mut head = Request::new(()).into_parts().0;
        head.version = version;
        head.uri = uri.parse().unwrap_or_default();
        head.headers = headers(hosts);
        check_request(&head)
    };
    let one = [("host", "a")];
    assert_eq!(request(Version::HTTP_11, "/", &one), Ok(()));
    assert_eq!(request(Version::HTTP_11, "http://a/", &[]), Ok(()));
    assert_eq!(request(Version::HTTP_10, "/", &[]), Ok(()));
    assert_eq!(request(Version::HTTP_11, "/", &[]), Err(RequestFault::Host));
    let two = [("host", "a"), ("host", "a")];
    assert_eq!(request(Version::HTTP_11, "/", &two), Err(RequestFault::Host));
}

#[test]
fn only_plain_chunked_is_a_transfer_coding_we_speak() {
    for (codings, foreign) in [
        (&[][..], false),
        (&[("transfer-encoding", "Chunked")], false),
        (&[("transfer-encoding", "gzip, chunked")], true),
        (&[("transfer-encoding", "gzip"), ("transfer-encoding", "chunked")], true),
        (&[("transfer-encoding", "gzip")], true),
    ] {
        assert_eq!(has_foreign_transfer_coding(&headers(codings)), foreign, "{codings:?}");
    }
}
