//! Answers of every shape, and what a retry gets of them.

use hapax_testkit::{Answer, Request, Stage, UpstreamKind, eventually, fresh_key};

use crate::SOON;

const MIB: usize = 1 << 20;

#[test]
fn p12_every_answer_is_replayed_exactly_whatever_its_shape() {
    let stage = Stage::new();
    let shapes = [
        "status 200; body text plain",
        "status 200; body empty",
        "status 201; body empty; header content-length: 0",
        "status 202; body binary",
        "status 204; body empty",
        "status 205; body empty",
        "status 200; body chunked 200000",
        "status 200; body sized 200000",
        "status 301; header location: /elsewhere; body empty",
        "status 303; header location: https://shop.example/orders/1?x=%20; body text see there",
        "status 200; header content-type: application/octet-stream; header content-encoding: gzip; body binary",
        "status 200; header content-type: text/html;charset=utf-8; body text <b>x</b>",
        "status 299; body text nobody has defined this",
    ];
    for (count, shape) in shapes.into_iter().enumerate() {
        let request = Request::payment(&fresh_key()).act(shape);
        let first = stage.gateway.send(&request);
        assert!(first.complete && first.problem().is_none(), "{shape}: {first:?}");
        first.assert_expires();
        // What it would be answered now does not matter.
        let retry = stage.gateway.send(&request.act("status 500"));
        assert_eq!(retry.status, first.status, "{shape}: {retry:?}");
        retry.assert_replays(&first);
        stage.upstream.assert_arrivals(count + 1);
    }
}

#[test]
fn a_binary_answer_keeps_every_byte() {
    let stage = Stage::new();
    let request = Request::payment(&fresh_key()).act("status 200; body binary");
    let bytes: Vec<u8> = (0..3).flat_map(|_| 0..=255).collect();
    assert_eq!(stage.gateway.send(&request).body, bytes);
    assert_eq!(stage.gateway.send(&request).body, bytes);
    stage.upstream.assert_arrivals(1);
}

/// An answer with fields of every kind, some of them twice.
const MANY_FIELDS: &[u8] = b"HTTP/1.1 201 Created\r\n\
    Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
    Age: 7\r\n\
    Content-Type: application/json\r\n\
    Content-Language: de\r\n\
    Location: /payments/1\r\n\
    Content-Location: /payments/1?full\r\n\
    ETag: \"v1\"\r\n\
    Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
    Link: </a>; rel=\"next\", </b>; rel=\"prev\"\r\n\
    Set-Cookie: session=first; HttpOnly\r\n\
    Link: </c>; rel=\"self\"\r\n\
    Set-Cookie: csrf=second\r\n\
    WWW-Authenticate: Bearer\r\n\
    WWW-Authenticate: Basic realm=\"x\"\r\n\
    Proxy-Authenticate: Basic\r\n\
    Authentication-Info: nextnonce=\"n\"\r\n\
    Authorization: Bearer leaked\r\n\
    X-RateLimit-Remaining: 3\r\n\
    RateLimit: \"default\";r=50;t=30\r\n\
    Retry-After: 5\r\n\
    Traceparent: 00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-bbbbbbbbbbbbbbbb-01\r\n\
    X-Request-Id: r1\r\n\
    Server-Timing: db;dur=53\r\n\
    X-Payment-Id: p1\r\n\
    X-Payment-Id: p2\r\n\
    Content-Length: 2\r\n\r\n{}";

/// Fields that belong to one exchange or to one receiver.
const NEVER_REPLAYED: [&str; 12] = [
    "set-cookie",
    "www-authenticate",
    "proxy-authenticate",
    "authentication-info",
    "authorization",
    "age",
    "x-ratelimit-remaining",
    "ratelimit",
    "traceparent",
    "server-timing",
    "retry-after",
    "x-served-by",
];

#[test]
fn p16_t10_repeated_fields_are_replayed_as_they_are_and_credentials_never() {
    let stage = Stage::new();
    let request = Request::payment(&fresh_key()).answered_raw("", MANY_FIELDS);
    let first = stage.gateway.send(&request);
    first.assert_stored(201);
    // The first answer passes all of it.
    assert_eq!(first.all("set-cookie"), ["session=first; HttpOnly", "csrf=second"]);
    assert_eq!(first.all("link"), ["</a>; rel=\"next\", </b>; rel=\"prev\"", "</c>; rel=\"self\""]);
    assert_eq!(first.all("www-authenticate"), ["Bearer", "Basic realm=\"x\""]);
    assert_eq!(first.all("x-payment-id"), ["p1", "p2"]);
    assert_eq!(first.all("date"), ["Sun, 06 Nov 1994 08:49:37 GMT"]);
    for field in ["age", "traceparent", "x-request-id", "retry-after", "ratelimit"] {
        assert_eq!(first.all(field).len(), 1, "{field}: {first:?}");
    }
    let replay = stage.gateway.send(&request);
    replay.assert_replays(&first);
    for field in [
        "content-type",
        "content-language",
        "location",
        "content-location",
        "etag",
        "last-modified",
        "link",
    ] {
        assert_eq!(replay.all(field), first.all(field), "{field}");
    }
    for field in NEVER_REPLAYED {
        assert_eq!(replay.all(field), [""; 0], "{field}: {replay:?}");
    }
    assert_eq!(replay.all("x-payment-id"), [""; 0], "not on the list: {replay:?}");
    assert_ne!(replay.all("date"), first.all("date"), "a replay has its own time: {replay:?}");
    stage.upstream.assert_arrivals(1);
}

#[test]
fn an_operations_own_fields_are_replayed_where_it_says_so() {
    let stage = Stage::operations(
        UpstreamKind::Plain,
        r#"
        [[operation]]
        name = "payments.create"
        routes = ["POST /payments"]
        replay_headers = ["X-Payment-Id"]
        "#,
    );
    let request = Request::payment(&fresh_key()).answered_raw("", MANY_FIELDS);
    let first = stage.gateway.send(&request);
    let replay = stage.gateway.send(&request);
    replay.assert_replays(&first);
    assert_eq!(replay.all("x-payment-id"), ["p1", "p2"]);
}

#[test]
fn fields_of_ours_from_the_upstream_and_of_its_connection_do_not_pass() {
    let stage = Stage::new();
    let answer = b"HTTP/1.1 200 OK\r\nIdempotent-Replayed: true\r\nIdempotency-Expires: tomorrow\r\n\
        Hapax-Attempt: 9\r\nHapax-Anything: x\r\nConnection: close, x-hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=9\r\n\
        Proxy-Connection: close\r\nX-Own: 1\r\nContent-Length: 2\r\n\r\nok";
    let request = Request::payment(&fresh_key()).answered_raw("", answer);
    let first = stage.gateway.send(&request);
    first.assert_stored(200);
    for field in [
        "hapax-attempt",
        "hapax-anything",
        "hapax-outcome",
        "x-hop",
        "keep-alive",
        "proxy-connection",
    ] {
        assert_eq!(first.all(field), [""; 0], "{field}: {first:?}");
    }
    assert_eq!(first.all("x-own"), ["1"]);
    assert_eq!(first.all("idempotency-expires").len(), 1);
    // Somebody used this effect id before, by the upstream's word: stored, counted, warned of.
    assert_eq!(stage.gateway.metric("hapax_downstream_replays_total", &[]), 1.0);
    stage.gateway.send(&request).assert_replays(&first);
}

#[test]
fn interim_answers_are_no_answer() {
    let stage = Stage::new();
    let answer = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n\
        HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\ndone";
    let request = Request::payment(&fresh_key()).answered_raw("effect; ", answer);
    let first = stage.gateway.send(&request);
    first.assert_stored(201);
    assert_eq!(first.text(), "done");
    stage.gateway.send(&request).assert_replays(&first);
    stage.upstream.assert_arrivals(1);
}

#[test]
fn an_answer_of_the_cap_is_kept_and_one_byte_more_is_not() {
    let stage = Stage::new();
    let request = |size: usize, kind: &str| {
        Request::payment(&fresh_key()).act(&format!("effect; status 201; body {kind} {size}"))
    };
    for kind in ["sized", "chunked"] {
        let kept = request(MIB, kind);
        let first = stage.gateway.send(&kept);
        first.assert_stored(201);
        assert_eq!(first.body.len(), MIB);
        stage.gateway.send(&kept).assert_replays(&first);
        assert_not_kept(&stage, &request(MIB + 1, kind), MIB + 1);
    }
    stage.upstream.assert_arrivals(4);
    stage.upstream.assert_effects(4);
}

#[test]
fn a_30_mb_answer_comes_through_whole_and_is_never_executed_again() {
    let stage = Stage::new();
    let size = 30 * MIB;
    for kind in ["sized", "chunked"] {
        let script = format!("effect; status 201; body {kind} {size}");
        assert_not_kept(&stage, &Request::payment(&fresh_key()).act(&script), size);
    }
    stage.upstream.assert_arrivals(2);
    stage.upstream.assert_effects(2);
}

/// The first answer is whole, and retries are refused for good, also after a restart.
#[track_caller]
fn assert_not_kept(stage: &Stage, request: &Request, size: usize) {
    let first = stage.gateway.send(request);
    assert_eq!(first.status, 201, "{first:?}");
    for field in ["idempotency-expires", "hapax-outcome"] {
        assert_eq!(first.field(field), None, "nothing of it is kept: {first:?}");
    }
    assert_eq!(first.body.len(), size, "{first:?}");
    let right = |(at, byte): (usize, &u8)| *byte == b"0123456789abcdef"[(at / 7 + at) % 16];
    assert!(first.body.iter().enumerate().all(right), "other bytes");
    for _ in 0..2 {
        stage.gateway.send(request).assert_problem(409, "outcome-not-kept");
    }
    let changed = request.clone().json(r#"{"amount":1}"#);
    stage.gateway.send(&changed).assert_problem(422, "key-reused");
}

#[test]
fn an_endless_answer_is_settled_by_its_head_and_never_executed_again() {
    let mut stage = Stage::new();
    let request = Request::payment(&fresh_key()).act("effect; status 200; body endless");
    let mut client = stage.gateway.connect();
    client.write(request.to_bytes());
    assert!(client.read_until("\r\n\r\n").starts_with("HTTP/1.1 200"));
    client.read_bytes(5 * MIB);
    // While it still streams, the outcome is known already.
    stage.gateway.send(&request).assert_problem(409, "outcome-not-kept");
    client.hang_up();
    eventually("the upstream is let go", SOON, || stage.upstream.given_up() == 1);
    stage.gateway.send(&request).assert_problem(409, "outcome-not-kept");
    stage.gateway.restart();
    stage.gateway.send(&request).assert_problem(409, "outcome-not-kept");
    stage.upstream.assert_arrivals(1);
    stage.upstream.assert_effects(1);
}

#[test]
fn an_event_stream_is_passed_on_as_it_comes_and_never_executed_again() {
    let stage = Stage::new();
    let request = Request::payment(&fresh_key()).act("effect; status 200; body events");
    let mut client = stage.gateway.connect();
    client.write(request.to_bytes());
    client.read_until("data: event 1\n");
    stage.gateway.send(&request).assert_problem(409, "outcome-not-kept");
    client.read_until("data: event 5\n");
    client.hang_up();
    eventually("the upstream is let go", SOON, || stage.upstream.given_up() == 1);
    stage.gateway.send(&request).assert_problem(409, "outcome-not-kept");
    stage.upstream.assert_arrivals(1);
}

#[test]
fn a_success_too_large_to_keep_is_settled_by_its_head_and_a_failure_is_not() {
    let stage = Stage::new();
    // Its client sees that it broke off; what it did is known from its head.
    let mut answer = b"HTTP/1.1 201 Created\r\nContent-Length: 3000000\r\n\r\n".to_vec();
    answer.resize(answer.len() + 2000, b'x');
    let broken = Request::payment(&fresh_key()).answered_raw("effect; ", &answer);
    let first = stage.gateway.send(&broken);
    assert_eq!((first.status, first.complete), (201, false), "{first:?}");
    stage.gateway.send(&broken).assert_problem(409, "outcome-not-kept");
    // A failure is not believed by its head: it may be followed by anything.
    let script = format!("status 500; body sized {}", 2 * MIB);
    let failed = Request::payment(&fresh_key()).act(&script);
    let first = stage.gateway.send(&failed);
    assert_eq!((first.status, first.body.len()), (500, 2 * MIB), "{first:?}");
    first.assert_unresolved(500);
    stage.gateway.send(&failed).assert_problem(409, "outcome-unknown");
    stage.upstream.assert_arrivals(2);
}

#[test]
fn trailers_of_a_first_answer_pass() {
    let stage = Stage::new();
    let request = Request::payment(&fresh_key())
        .header("te", "trailers")
        .act("effect; status 200; body trailers");
    let first = stage.gateway.send(&request);
    first.assert_stored(200);
    assert_eq!(first.text(), "with trailers");
    assert_eq!(first.trailers, [("x-sum".to_owned(), b"42".to_vec())], "{first:?}");
    let replay: Answer = stage.gateway.send(&request);
    assert_eq!(replay.body, first.body);
    assert!(replay.is_replay(), "{replay:?}");
}

#[test]
fn trailers_of_a_keyed_request_are_refused_rather_than_left_out_of_its_intent() {
    let stage = Stage::new();
    let request = Request::payment(&fresh_key()).trailer("x-checksum", "7");
    stage.gateway.send(&request).assert_problem(400, "body-invalid");
    stage.upstream.assert_arrivals(0);
}

#[test]
fn field_values_are_replayed_byte_for_byte() {
    let stage = Stage::new();
    let answer =
        b"HTTP/1.1 201 Created\r\nETag: \"caf\xe9\"\r\nLink: </\xc3\xa9>\r\nLocation: /a  b\r\n\
        Content-Language:\r\nContent-Length: 0\r\n\r\n";
    let request = Request::payment(&fresh_key()).answered_raw("", answer);
    for _ in 0..2 {
        let answer = stage.gateway.send(&request);
        let bytes = |name: &str| {
            let found = answer.headers.iter().find(|(field, _)| field == name);
            found.map(|(_, value)| value.clone())
        };
        assert_eq!(bytes("etag").as_deref(), Some(&b"\"caf\xe9\""[..]), "{answer:?}");
        assert_eq!(bytes("link").as_deref(), Some(&b"</\xc3\xa9>"[..]), "{answer:?}");
        assert_eq!(bytes("location").as_deref(), Some(&b"/a  b"[..]), "{answer:?}");
        assert_eq!(bytes("content-language").as_deref(), Some(&b""[..]), "{answer:?}");
    }
    stage.upstream.assert_arrivals(1);
}

#[test]
fn one_connection_serves_first_answers_replays_and_refusals_in_order() {
    let stage = Stage::new();
    let payment = |json: &str, key: &str, last: bool| {
        let request = Request::post("/payments", json).key(key).to_bytes();
        let text = String::from_utf8(request).expect("text");
        if last { text } else { text.replace("connection: close\r\n", "") }
    };
    let (one, two) = (fresh_key(), fresh_key());
    let mut client = stage.gateway.connect();
    // All at once: they are answered one after the other.
    client.write(payment("{}", &one, false) + &payment("{}", &one, false));
    client.write(payment("[]", &one, false) + &payment("{}", &two, true));
    let text = client.read_to_end();
    let statuses: Vec<_> =
        text.match_indices("HTTP/1.1 ").map(|(at, _)| &text[at + 9..at + 12]).collect();
    assert_eq!(statuses, ["201", "201", "422", "201"], "{text}");
    assert_eq!(text.matches("idempotent-replayed: true").count(), 1, "{text}");
    stage.upstream.assert_arrivals(2);
}
