//! Bodies of keyed requests: read whole, within bounds, before anything is claimed.

use std::time::{Duration, Instant};

use hapax_testkit::{Answer, Connection, Request, Stage, UpstreamKind, eventually, fresh_key};

use crate::SOON;

const MIB: usize = 1 << 20;

/// A keyed upload of so many bytes.
fn upload(size: usize) -> Request {
    Request::new("POST", "/upload")
        .body("application/octet-stream", vec![b'x'; size])
        .key(&fresh_key())
}

/// The answer to a request that is refused before all of it was sent.
fn refused_early(stage: &Stage, request: &Request) -> Answer {
    let mut client = stage.gateway.connect();
    // It is refused before the last byte, and the refusal waits for a client that goes on.
    client.write(request.to_bytes());
    client.answer()
}

/// Short bounds, so that they can be waited for.
const SHORT: &str = r#"
    [limits]
    body_within = "500ms"
    buffered_total = "2MiB"
    [[operation]]
    name = "upload"
    routes = ["POST /*"]
"#;

#[test]
fn p42_a_body_of_the_limit_passes_and_one_byte_more_is_413_with_nothing_claimed() {
    let stage = Stage::new();
    let largest = upload(MIB);
    stage.gateway.send(&largest).assert_stored(201);
    assert_eq!(stage.upstream.only_arrival().length, MIB as u64);
    for too_large in [upload(MIB + 1), upload(MIB + 1).chunked()] {
        refused_early(&stage, &too_large).assert_problem(413, "body-too-large");
        stage.upstream.assert_arrivals(1);
    }
    // The key was not claimed: the smaller request is the first intent under it.
    let key = fresh_key();
    refused_early(&stage, &upload(2 * MIB).key(&key)).assert_problem(413, "body-too-large");
    stage.gateway.send(&upload(10).key(&key)).assert_stored(201);
    assert_eq!(stage.upstream.arrivals()[1].attempt(), 1);
}

#[test]
fn p42_a_declared_length_over_the_limit_is_refused_before_the_body_is_sent() {
    let stage = Stage::new();
    let answer = stage.gateway.send_raw(&format!(
        "POST /upload HTTP/1.1\r\nHost: gateway\r\nIdempotency-Key: \"{}\"\r\n\
         Content-Length: 99999999999\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n",
        fresh_key()
    ));
    answer.assert_problem(413, "body-too-large");
    stage.upstream.assert_arrivals(0);
}

#[test]
fn p42_a_body_that_does_not_come_in_time_is_408_with_nothing_claimed() {
    let stage = Stage::operations(UpstreamKind::Plain, SHORT);
    let payment = Request::payment(&fresh_key());
    let whole = payment.to_bytes();
    let mut slow = stage.gateway.connect();
    let begun = Instant::now();
    slow.write(&whole[..whole.len() - 3]);
    slow.answer().assert_problem(408, "body-timeout");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    stage.upstream.assert_arrivals(0);
    stage.gateway.send(&payment).assert_stored(201);
    assert_eq!(stage.upstream.only_arrival().attempt(), 1);
}

#[test]
fn p42_a_body_that_trickles_in_is_bounded_in_time_as_a_whole() {
    let stage = Stage::operations(UpstreamKind::Plain, SHORT);
    let payment = Request::payment(&fresh_key()).to_bytes();
    let mut slow = stage.gateway.connect();
    let head = payment.windows(4).position(|w| w == b"\r\n\r\n").expect("a head") + 4;
    slow.write(&payment[..head]);
    let begun = Instant::now();
    for byte in &payment[head..] {
        std::thread::sleep(Duration::from_millis(50));
        if slow.try_write([*byte]).is_err() || begun.elapsed() > Duration::from_secs(1) {
            break;
        }
    }
    slow.answer().assert_problem(408, "body-timeout");
    stage.upstream.assert_arrivals(0);
}

#[test]
fn p42_while_a_body_is_under_way_its_key_is_not_claimed() {
    let stage = Stage::new();
    let payment = Request::payment(&fresh_key());
    let whole = payment.to_bytes();
    let mut slow = stage.gateway.connect();
    slow.write(&whole[..whole.len() - 1]);
    // Another intent takes the key meanwhile.
    let other = payment.json(r#"{"amount":7}"#);
    stage.gateway.send(&other).assert_stored(201);
    slow.write(&whole[whole.len() - 1..]);
    slow.answer().assert_problem(422, "key-reused");
    stage.upstream.assert_arrivals(1);
}

#[test]
fn p42_the_bodies_of_all_connections_together_are_bounded() {
    let stage = Stage::operations(UpstreamKind::Plain, &SHORT.replace("500ms", "30s"));
    let whole = upload(MIB).to_bytes();
    let almost: Vec<Connection> = (0..2)
        .map(|_| {
            let mut connection = stage.gateway.connect();
            connection.write(&whole[..whole.len() - 1]);
            connection
        })
        .collect();
    let held = || stage.gateway.metric("hapax_buffered_bytes", &[]);
    eventually("both are held but for a byte each", SOON, || held() == 2.0 * MIB as f64 - 2.0);
    let refused = Request::payment(&fresh_key());
    stage.gateway.send(&refused).assert_problem(503, "overloaded").assert_retry_after(1);
    stage.gateway.send(&refused.clone().chunked()).assert_problem(503, "overloaded");
    // Without a key nothing is held, so it passes.
    let unkeyed = stage.gateway.send(&refused.clone().without("idempotency-key"));
    assert_eq!(unkeyed.status, 201, "{unkeyed:?}");
    stage.upstream.assert_arrivals(1);
    almost.into_iter().for_each(Connection::hang_up);
    eventually("there is room again", SOON, || stage.gateway.send(&refused).status == 201);
}

#[test]
fn a_chunked_body_is_the_same_intent_as_one_with_its_length() {
    let stage = Stage::new();
    let payment = Request::payment(&fresh_key());
    let first = stage.gateway.send(&payment.clone().chunked());
    first.assert_stored(201);
    stage.gateway.send(&payment).assert_replays(&first);
    let arrival = stage.upstream.only_arrival();
    assert_eq!(arrival.text.as_deref(), Some(r#"{"amount":1200,"currency":"EUR"}"#));
}

#[test]
fn a_client_that_waits_for_100_continue_gets_it() {
    let stage = Stage::new();
    let mut client = stage.gateway.connect();
    client.write(format!(
        "POST /payments HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\n\
         Idempotency-Key: \"{}\"\r\nContent-Length: 12\r\nExpect: 100-continue\r\n\
         Connection: close\r\n\r\n",
        fresh_key()
    ));
    client.read_until("HTTP/1.1 100");
    client.write(r#"{"amount":1}"#);
    client.answer().assert_stored(201);
    stage.upstream.assert_arrivals(1);
}

#[test]
fn an_empty_body_is_a_body() {
    let stage = Stage::new();
    let request = Request::new("POST", "/payments/7/capture").key(&fresh_key());
    let first = stage.gateway.send(&request);
    first.assert_stored(201);
    stage.gateway.send(&request).assert_replays(&first);
    stage.gateway.send(&request.body("text/plain", "x")).assert_problem(422, "key-reused");
    stage.upstream.assert_arrivals(1);
}
