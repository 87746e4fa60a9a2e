//! Traffic without a key: passed through as it is.

use hapax_testkit::{Request, Stage, eventually, fresh_key};

use crate::SOON;

const MIB: usize = 1 << 20;

/// Fields that hapax adds to protected requests and answers.
const OURS: [&str; 5] = [
    "hapax-attempt",
    "hapax-outcome",
    "idempotency-expires",
    "idempotent-replayed",
    "idempotency-key",
];

#[test]
fn requests_without_a_key_pass_each_time_with_nothing_added() {
    let stage = Stage::new();
    let request = Request::post("/payments", r#"{"amount":1}"#)
        .header("authorization", "Bearer x")
        .header("x-twice", "1")
        .header("x-twice", "2")
        .header("cookie", "a=1");
    let first = stage.gateway.send(&request);
    let second = stage.gateway.send(&request);
    assert_eq!([first.status, second.status], [201, 201]);
    assert_ne!(first.body, second.body);
    for answer in [&first, &second] {
        for field in OURS {
            assert_eq!(answer.all(field), [""; 0], "{answer:?}");
        }
        for field in ["set-cookie", "x-request-id", "x-served-by", "location", "etag"] {
            assert_eq!(answer.all(field).len(), 1, "{field}: {answer:?}");
        }
    }
    for arrival in stage.upstream.arrivals() {
        for field in OURS {
            assert_eq!(arrival.all(field), [""; 0], "{arrival:?}");
        }
        assert_eq!(arrival.all("x-twice"), ["1", "2"]);
        assert_eq!(arrival.field("authorization"), "Bearer x");
        assert_eq!(arrival.field("cookie"), "a=1");
        assert_eq!(arrival.text.as_deref(), Some(r#"{"amount":1}"#));
    }
    stage.upstream.assert_effects(2);
}

#[test]
fn other_methods_pass_also_with_a_key_which_stays_the_clients() {
    let stage = Stage::new();
    let key = fresh_key();
    for method in ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PROPFIND"] {
        for _ in 0..2 {
            let answer = stage.gateway.send(&Request::new(method, "/payments/7").key(&key));
            assert!(answer.problem().is_none() && answer.status < 300, "{method}: {answer:?}");
            assert!(!answer.is_replay(), "{method}: {answer:?}");
        }
    }
    let arrivals = stage.upstream.arrivals();
    assert_eq!(arrivals.len(), 12);
    for arrival in arrivals {
        assert_eq!(arrival.field("idempotency-key"), format!("\"{key}\""));
        assert_eq!(arrival.all("hapax-attempt"), [""; 0]);
    }
}

#[test]
fn the_target_goes_through_byte_for_byte() {
    let stage = Stage::new();
    for target in ["/a%2Fb//c/../d?x=%20&y=+&x=1", "/%e4%F6?", "/?q=a/b?c", "/;v=1,2"] {
        stage.gateway.send(&Request::get(target));
        assert_eq!(stage.upstream.arrivals().last().expect("one").target, target);
        stage.gateway.send(&Request::post(target, "{}").key(&fresh_key())).assert_stored(201);
        assert_eq!(stage.upstream.arrivals().last().expect("one").target, target);
    }
}

#[test]
fn p18_fields_of_ours_from_a_client_end_at_the_door() {
    let stage = Stage::new();
    let request = Request::post("/payments", "{}")
        .header("hapax-attempt", "7")
        .header("hapax-intent", "x")
        .header("hapax-outcome", "applied")
        .header("HAPAX-ANYTHING", "x");
    stage.gateway.send(&request);
    stage.gateway.send(&request.method("GET").without("content-type"));
    for arrival in stage.upstream.arrivals() {
        let ours = arrival.headers.iter().find(|(name, _)| name.starts_with("hapax-"));
        assert_eq!(ours, None, "{arrival:?}");
    }
}

#[test]
fn fields_of_the_connection_end_at_the_gateway() {
    let stage = Stage::new();
    stage.gateway.send_raw(
        "GET /x HTTP/1.1\r\nHost: gateway\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\n\
         Keep-Alive: timeout=9\r\nProxy-Connection: keep-alive\r\nTE: gzip\r\nUpgrade: h2c\r\n\
         X-Stays: 2\r\n\r\n",
    );
    let arrival = stage.upstream.only_arrival();
    for field in ["x-hop", "keep-alive", "proxy-connection", "te", "upgrade"] {
        assert_eq!(arrival.all(field), [""; 0], "{arrival:?}");
    }
    assert_eq!(arrival.field("x-stays"), "2");
    assert_eq!(arrival.field("host"), "gateway");
}

#[test]
fn bodies_stream_both_ways_at_once() {
    let stage = Stage::new();
    let mut client = stage.gateway.connect();
    client.write(
        "POST /echo HTTP/1.1\r\nHost: gateway\r\nX-Do: body duplex\r\n\
         Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
    );
    // Each part is answered before the next one is sent.
    for part in ["first part", "2nd part!!", "3rd part!!"] {
        client.write(format!("a\r\n{part}\r\n"));
        client.read_until(part);
    }
    client.write("0\r\n\r\n");
    let answer = client.answer();
    assert_eq!((answer.status, answer.complete), (200, true), "{answer:?}");
    assert_eq!(answer.text(), "first part2nd part!!3rd part!!");
}

#[test]
fn large_uploads_pass_whole_with_a_length_or_without() {
    let stage = Stage::new();
    let bytes: Vec<u8> = (0..=250).cycle().take(32 * MIB).collect();
    let upload = Request::new("PUT", "/files/1").body("application/octet-stream", bytes);
    for request in [upload.clone(), upload.clone().chunked(), upload.method("POST")] {
        let answer = stage.gateway.send(&request);
        assert_eq!(answer.status, 201, "{answer:?}");
    }
    let arrivals = stage.upstream.arrivals();
    for arrival in &arrivals {
        assert_eq!((arrival.length, arrival.complete), (32 * MIB as u64, true));
        assert_eq!(arrival.sha256, arrivals[0].sha256);
    }
    assert_eq!(arrivals[0].field("content-length"), (32 * MIB).to_string());
    assert_eq!(arrivals[1].field("transfer-encoding"), "chunked");
}

#[test]
fn an_upload_that_breaks_off_reaches_the_upstream_as_broken() {
    let stage = Stage::new();
    let mut client = stage.gateway.connect();
    client.write("POST /files HTTP/1.1\r\nHost: gateway\r\nContent-Length: 1000\r\n\r\nhalf of it");
    client.finish_writing();
    client.hang_up();
    let arrival = stage.upstream.arrived(1).remove(0);
    assert!(!arrival.complete, "{arrival:?}");
}

#[test]
fn an_answer_that_comes_before_the_upload_was_read_is_passed_on() {
    let stage = Stage::new();
    for size in [100, 30 * MIB] {
        let upload = Request::new("PUT", "/files")
            .body("application/octet-stream", vec![7; size])
            .act("early; status 413; body text too large");
        let mut client = stage.gateway.connect();
        // The upstream closes its connection with the upload unread.
        let _ = client.try_write(upload.to_bytes());
        let answer = client.answer();
        assert_eq!((answer.status, answer.text().as_str()), (413, "too large"), "{answer:?}");
    }
}

#[test]
fn an_upload_that_the_upstream_cuts_off_without_an_answer_is_told_so() {
    let stage = Stage::new();
    let upload = Request::new("PUT", "/files").body("application/octet-stream", vec![7; 30 * MIB]);
    let mut client = stage.gateway.connect();
    let _ = client.try_write(upload.act("early; cut").to_bytes());
    client.answer().assert_problem(502, "upstream-failed");
}

#[test]
fn large_and_endless_answers_stream() {
    let stage = Stage::new();
    for kind in ["sized", "chunked"] {
        let get = Request::get("/big").act(&format!("status 200; body {kind} {}", 30 * MIB));
        let answer = stage.gateway.send(&get);
        assert!(answer.complete, "{answer:?}");
        assert_eq!(answer.body.len(), 30 * MIB);
        let right = |(at, byte): (usize, &u8)| *byte == b"0123456789abcdef"[(at / 7 + at) % 16];
        assert!(answer.body.iter().enumerate().all(right), "other bytes");
    }
    let mut client = stage.gateway.connect();
    client.write(Request::get("/events").act("status 200; body events").to_bytes());
    client.read_until("data: event 3\n");
    client.hang_up();
    let mut client = stage.gateway.connect();
    client.write(Request::get("/endless").act("status 200; body endless").to_bytes());
    client.read_bytes(5 * MIB);
    client.hang_up();
    eventually("the upstream is let go", SOON, || stage.upstream.given_up() == 2);
}

#[test]
fn an_answer_that_breaks_off_breaks_off_for_the_client_too() {
    let stage = Stage::new();
    for cut in [
        &b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"[..],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
    ] {
        let answer = stage.gateway.start(&Request::get("/x").answered_raw("", cut)).result();
        let whole = answer.as_ref().is_ok_and(|answer| answer.complete);
        assert!(!whole, "a part is passed off as the whole: {answer:?}");
    }
}

#[test]
fn head_answers_keep_their_length_and_have_no_body() {
    let stage = Stage::new();
    let head =
        Request::new("HEAD", "/file").act("status 200; header content-length: 1234; body empty");
    let answer = stage.gateway.send(&head);
    assert_eq!((answer.status, answer.body.len()), (200, 0), "{answer:?}");
    assert_eq!(answer.all("content-length"), ["1234"]);
    assert_eq!(stage.upstream.only_arrival().method, "HEAD");
}

#[test]
fn trailers_pass_both_ways() {
    let stage = Stage::new();
    let request = Request::post("/x", "{}")
        .header("te", "trailers")
        .trailer("x-checksum", "7")
        .act("status 200; body trailers");
    let answer = stage.gateway.send(&request);
    assert_eq!(answer.text(), "with trailers");
    assert_eq!(answer.trailers, [("x-sum".to_owned(), b"42".to_vec())], "{answer:?}");
    let arrival = stage.upstream.only_arrival();
    assert_eq!(arrival.trailers, [("x-checksum".to_owned(), "7".to_owned())], "{arrival:?}");
}

#[test]
fn without_an_upstream_the_client_is_told_whether_the_request_went_out() {
    let mut stage = Stage::new();
    let request = Request::post("/payments", "{}");
    let broken = stage.gateway.send(&request.clone().act("effect; cut"));
    broken.assert_problem(502, "upstream-failed");
    stage.upstream.assert_arrivals(1);
    stage.upstream.kill();
    stage.gateway.send(&request).assert_problem(503, "upstream-unreachable").assert_retry_after(1);
    stage.upstream.restart();
    assert_eq!(stage.gateway.send(&request).status, 201);
    stage.upstream.assert_arrivals(2);
}

#[test]
fn http_2_with_prior_knowledge_is_the_same_operation() {
    let stage = Stage::new();
    let payment = Request::payment(&fresh_key());
    let first = stage.gateway.send_http_2(&payment);
    first.assert_stored(201);
    stage.gateway.send_http_2(&payment).assert_replays(&first);
    stage.gateway.send(&payment).assert_replays(&first);
    stage.upstream.assert_arrivals(1);
    let changed = payment.json(r#"{"amount":1}"#);
    stage.gateway.send_http_2(&changed).assert_problem(422, "key-reused");
    let unkeyed = stage.gateway.send_http_2(&Request::get("/x"));
    assert_eq!(unkeyed.status, 200, "{unkeyed:?}");
    // Two key fields over HTTP/2 are two.
    let twice = Request::payment(&fresh_key()).header("idempotency-key", &fresh_key());
    stage.gateway.send_http_2(&twice).assert_problem(400, "key-invalid");
    stage.upstream.assert_arrivals(2);
}

#[test]
fn messages_whose_framing_is_ambiguous_are_not_passed_on() {
    let stage = Stage::new();
    let head = format!(
        "POST /payments HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\nIdempotency-Key: \"{}\"\r\n",
        fresh_key()
    );
    for (fields, body) in [
        ("Content-Length: 4\r\nContent-Length: 6\r\n", "abcdef"),
        ("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"),
        ("Transfer-Encoding: identity\r\nContent-Length: 2\r\n", "ab"),
        ("Host: other\r\nContent-Length: 2\r\n", "ab"),
        ("Content-Length: -1\r\n", ""),
    ] {
        let answer = stage.gateway.send_raw(&format!("{head}{fields}\r\n{body}"));
        assert!(answer.status == 400 || answer.status == 501, "{fields:?}: {answer:?}");
        assert_eq!(stage.upstream.arrivals().len(), 0, "{fields:?} arrived");
    }
    let no_host = stage.gateway.send_raw("GET / HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert_eq!(no_host.status, 400, "{no_host:?}");
    let tunnel =
        stage.gateway.send_raw("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nConnection: close\r\n\r\n");
    assert_eq!(tunnel.status, 501, "{tunnel:?}");
    stage.upstream.assert_arrivals(0);
}
