//! Messages that are made to be misunderstood.

use hapax_testkit::{Request, Stage, fresh_key};

/// What an attacker hopes that the service takes for a request of its own.
const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: gateway\r\n\r\n";

#[test]
fn smuggled_requests_are_refused_or_arrive_as_what_they_are() {
    let stage = Stage::new();
    let post = |fields: &str, body: &str| {
        format!("POST /x HTTP/1.1\r\nHost: gateway\r\n{fields}\r\n{body}")
    };
    let length = SMUGGLED.len();
    for (what, message) in [
        (
            "two lengths",
            post(&format!("Content-Length: 0\r\nContent-Length: {length}\r\n"), SMUGGLED),
        ),
        ("a list of lengths", post(&format!("Content-Length: 0, {length}\r\n"), SMUGGLED)),
        (
            "a length and chunks",
            post(
                "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
                &format!("0\r\n\r\n{SMUGGLED}"),
            ),
        ),
        (
            "chunks and a length",
            post(
                "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
                &format!("0\r\n\r\n{SMUGGLED}"),
            ),
        ),
        (
            "two codings",
            post(
                "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n",
                &format!("0\r\n\r\n{SMUGGLED}"),
            ),
        ),
        ("a coding that is none", post("Transfer-Encoding: xchunked\r\n", SMUGGLED)),
        (
            "a tab before the coding",
            post("Transfer-Encoding:\x0bchunked\r\n", &format!("0\r\n\r\n{SMUGGLED}")),
        ),
        ("a space before the colon", post("Content-Length : 0\r\n", SMUGGLED)),
        ("a folded line", post("X-A: b\r\n Content-Length: 0\r\n", SMUGGLED)),
        (
            "a folded coding",
            post("Transfer-Encoding:\r\n chunked\r\n", &format!("0\r\n\r\n{SMUGGLED}")),
        ),
        ("a negative length", post("Content-Length: -1\r\n", SMUGGLED)),
        ("a signed length", post("Content-Length: +0\r\n", SMUGGLED)),
        (
            "a chunk of a negative length",
            post("Transfer-Encoding: chunked\r\n", &format!("-1\r\n\r\n{SMUGGLED}")),
        ),
        (
            "a chunk line that ends in a bare LF",
            post("Transfer-Encoding: chunked\r\n", &format!("0\n\r\n{SMUGGLED}")),
        ),
        (
            "lines that end in a bare LF",
            format!("POST /x HTTP/1.1\nHost: gateway\nContent-Length: {length}\n\n{SMUGGLED}"),
        ),
        ("one line that ends in a bare LF", post("X-A: b\nContent-Length: 0\r\n", SMUGGLED)),
        ("a bare CR in a field", post("X-A: b\rContent-Length: 0\r\n", SMUGGLED)),
        ("a NUL in a field", post("X-A: b\0c\r\nContent-Length: 0\r\n", SMUGGLED)),
    ] {
        let mut client = stage.gateway.connect();
        let _ = client.try_write(&message);
        client.finish_writing();
        let answered = client.read_to_end();
        // One refusal at the most, then the end: what follows is no request.
        let status = answered.split(' ').nth(1).unwrap_or("none");
        assert!(matches!(status, "400" | "501" | "none"), "{what}: {answered}");
        assert!(answered.matches("HTTP/1.1 ").count() <= 1, "{what}: {answered}");
        // Content that is malformed behind a good head may have been on its way: as a part.
        for arrival in stage.upstream.arrivals() {
            assert!(arrival.target == "/x" && !arrival.complete, "{what}: {arrival:?}");
        }
    }
    assert_eq!(stage.gateway.send(&Request::get("/x")).status, 200, "others are unharmed");
}

#[test]
fn floods_of_header_fields_are_refused_in_bounded_memory() {
    let stage = Stage::new();
    let before = stage.gateway.peak_memory();
    let many: String = (0..50_000).map(|n| format!("X-{n}: y\r\n")).collect();
    let large = format!("X-Large: {}\r\n", "y".repeat(8 << 20));
    let endless = "X".repeat(8 << 20);
    for fields in [&many, &large, &endless] {
        for _ in 0..20 {
            let mut client = stage.gateway.connect();
            let message = format!("POST /x HTTP/1.1\r\nHost: gateway\r\n{fields}\r\n");
            let _ = client.try_write(message);
            let answered = client.read_to_end();
            let status = answered.split(' ').nth(1).unwrap_or("none");
            // The connection may end before the answer was read.
            assert!(matches!(status, "431" | "400" | "none"), "{answered}");
        }
    }
    // Over HTTP/2 as well.
    let flood = (0..2_000)
        .fold(Request::get("/x"), |request, n| request.header(&format!("x-{n}"), &"y".repeat(100)));
    let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        stage.gateway.send_http_2(&flood).status
    }));
    assert!(refused.is_err() || refused.is_ok_and(|status| status == 431));
    stage.upstream.assert_arrivals(0);
    let grown = stage.gateway.peak_memory() - before;
    assert!(grown < 32 << 20, "it took {} MiB", grown >> 20);
    stage.gateway.send(&Request::payment(&fresh_key())).assert_stored(201);
}

#[test]
fn an_upgrade_cannot_hide_a_second_request() {
    let stage = Stage::new();
    // The service declines; what stands behind the request is the next one, and is judged as such.
    let mut client = stage.gateway.connect();
    client.write(
        "GET /x HTTP/1.1\r\nHost: gateway\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         X-Do: status 400; body text no\r\n\r\nPOST /payments HTTP/1.1\r\nHost: gateway\r\n\
         Idempotency-Key: \"short\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    );
    let answered = client.read_to_end();
    assert!(answered.contains("key-invalid") || !answered.contains("HTTP/1.1 201"), "{answered}");
    stage.upstream.assert_arrivals(1);
}
