//! Many callers that do nothing, or as little as they can: bounded memory, and others unharmed.

use std::{
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    time::Instant,
};

use hapax_testkit::{Request, Stage, UpstreamKind, eventually, fresh_key};

use crate::SOON;

const PAY: &str = "[[operation]]\nname = \"pay\"\nroutes = [\"POST /payments\"]\n";

/// What a gateway may take with 10,000 connections, most of them idle.
const MOST_MEMORY: usize = 320 << 20;

fn open(stage: &Stage, first: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(stage.gateway.address()).expect("a connection");
    stream.write_all(first).expect("it is taken");
    stream
}

/// A request for far more than anybody reads.
fn large() -> Vec<u8> {
    Request::get("/large").act("status 200; body sized 50000000").to_bytes()
}

const HALF_A_HEAD: &[u8] = b"POST /payments HTTP/1.1\r\nhost: gateway\r\nx-slow: ";
const HALF_AN_UPLOAD: &[u8] =
    b"POST /upload HTTP/1.1\r\nhost: gateway\r\ncontent-length: 1000000\r\n\r\n1";

#[test]
fn ten_thousand_connections_of_which_many_are_hostile_leave_others_unharmed() {
    // This process and the gateway each have one end of each.
    let limit = rlimit::increase_nofile_limit(20_000).expect("a limit");
    let idle = usize::try_from(limit).unwrap_or(usize::MAX).min(12_000) - 2_700;
    let stage = Stage::operations(UpstreamKind::Plain, PAY);
    let before = stage.gateway.send(&Request::payment(&fresh_key()));
    before.assert_stored(201);
    let mut crowd: Vec<TcpStream> = (0..idle).map(|_| open(&stage, b"")).collect();
    crowd.extend((0..300).map(|_| open(&stage, HALF_A_HEAD)));
    crowd.extend((0..150).map(|_| open(&stage, HALF_AN_UPLOAD)));
    crowd.extend((0..150).map(|_| open(&stage, &large())));
    eprintln!("{} connections", crowd.len());
    for _ in 0..20 {
        let payment = Request::payment(&fresh_key());
        let begun = Instant::now();
        let first = stage.gateway.send(&payment);
        first.assert_stored(201);
        stage.gateway.send(&payment).assert_replays(&first);
        assert!(begun.elapsed() < SOON);
    }
    let peak = stage.gateway.peak_memory();
    assert!(peak < MOST_MEMORY, "{} MiB", peak >> 20);
    assert_eq!(stage.gateway.operator("/readyz").status, 200);
    drop(crowd);
    stage.gateway.send(&Request::payment(&fresh_key())).assert_stored(201);
}

/// Whether the gateway has closed a connection whose answer nobody reads to its end.
fn is_closed(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).expect("a socket");
    // Written until the other end is gone: what was sent before says nothing.
    let written = (&*stream).write_all(b"x");
    written.is_err_and(|error| error.kind() != ErrorKind::WouldBlock)
}

#[test]
fn a_caller_that_takes_or_sends_nothing_loses_its_connection() {
    let limits = format!("{PAY}[limits]\nstalled = \"1s\"\n");
    let stage = Stage::operations(UpstreamKind::Plain, &limits);
    let slow_reader = open(&stage, &large());
    eventually("whoever takes nothing is cut", SOON, || is_closed(&slow_reader));
    let mut slow_sender = open(&stage, HALF_AN_UPLOAD);
    slow_sender.set_read_timeout(Some(SOON)).expect("a socket");
    let mut answer = Vec::new();
    // It may be told so first.
    let _ = slow_sender.read_to_end(&mut answer);
    assert!(!String::from_utf8_lossy(&answer).starts_with("HTTP/1.1 2"), "{answer:?}");
    eventually("whoever sends nothing is cut", SOON, || is_closed(&slow_sender));
    // Others are not affected, however slow the service is.
    let patient = Request::payment(&fresh_key()).act("sleep 1500");
    stage.gateway.send(&patient).assert_stored(201);
}
