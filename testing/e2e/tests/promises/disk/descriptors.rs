//! A process that may open no more files.

use hapax_testkit::{Request, eventually, fresh_key, is_missing, until};

use super::Scene;
use crate::SOON;

#[test]
fn without_files_to_open_nothing_runs_twice_and_it_goes_on_when_there_are() {
    if is_missing("prlimit") {
        return;
    }
    let mut scene = Scene::new();
    let first = Request::payment(&fresh_key());
    let mut connected = scene.gateway.connect();
    // It is accepted by now.
    connected.write("GET /.well-known/idempotency HTTP/1.1\r\nhost: gateway\r\n\r\n");
    connected.read_until("\r\n\r\n");
    // None but those that are open: 0 to 2 always are.
    scene.gateway.limit_files(3);
    // The store has its files; the service cannot be connected to, so nothing was sent.
    connected.write(first.to_bytes());
    connected.read_until("upstream-unreachable");
    scene.upstream.assert_arrivals(0);
    let second = Request::payment(&fresh_key());
    let waiting = scene.gateway.start(&second);
    let told = || scene.gateway.stderr().iter().any(|line| line.contains("accepting connections"));
    eventually("it is told", SOON, told);
    assert!(!waiting.is_done(), "who cannot be accepted waits");
    scene.gateway.limit_files(4096);
    let answer = waiting.answer();
    scene.stored.push((second, answer.assert_stored(201).clone()));
    assert_eq!(scene.gateway.operator("/readyz").status, 200);
    let answer = until("it executes", SOON, || {
        let answer = scene.gateway.send(&first);
        (answer.status == 201).then_some(answer)
    });
    scene.stored.push((first, answer));
    scene.store(1);
    scene.assert_replays();
    scene.assert_no_repeats();
}
