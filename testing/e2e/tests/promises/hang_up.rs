//! Clients that go away.

use hapax_testkit::{Request, Stage, eventually, fresh_key};

use crate::SOON;

#[test]
fn the_execution_finishes_when_the_client_hangs_up_and_the_retry_replays_its_bytes() {
    let stage = Stage::new();
    let payment = Request::payment(&fresh_key()).act("gate answer");
    let client = stage.gateway.start(&payment);
    stage.upstream.arrived(1);
    client.hang_up();
    stage.upstream.open("answer");
    let is_stored = || stage.gateway.metric("hapax_executions_total", &["succeeded"]) == 1.0;
    eventually("the execution ends", SOON, is_stored);
    let retry = stage.gateway.send(&payment);
    assert_eq!(retry.status, 201, "{retry:?}");
    assert!(retry.is_replay(), "{retry:?}");
    assert!(retry.text().contains("pay_1"), "{retry:?}");
    assert_eq!(stage.upstream.only_arrival().attempt(), 1);
    stage.upstream.assert_effects(1);
}

#[test]
fn a_retry_while_the_abandoned_execution_runs_waits_for_it() {
    let stage = Stage::new();
    let payment = Request::payment(&fresh_key()).act("gate answer");
    let client = stage.gateway.start(&payment);
    stage.upstream.arrived(1);
    client.hang_up();
    let retry = stage.gateway.start(&payment);
    eventually("the retry waits", SOON, || stage.gateway.metric("hapax_waiting", &[]) == 1.0);
    stage.upstream.open("answer");
    let retry = retry.answer();
    assert!(retry.status == 201 && retry.is_replay(), "{retry:?}");
    stage.upstream.assert_arrivals(1);
}

#[test]
fn a_client_that_closes_only_its_half_does_not_end_the_execution_either() {
    let stage = Stage::new();
    let payment = Request::payment(&fresh_key()).act("gate answer");
    let mut client = stage.gateway.connect();
    client.write(payment.to_bytes());
    stage.upstream.arrived(1);
    client.finish_writing();
    stage.upstream.open("answer");
    let is_stored = || stage.gateway.metric("hapax_executions_total", &["succeeded"]) == 1.0;
    eventually("the execution ends", SOON, is_stored);
    let retry = stage.gateway.send(&payment);
    assert!(retry.status == 201 && retry.is_replay(), "{retry:?}");
    stage.upstream.assert_arrivals(1);
}

#[test]
fn a_request_cut_off_on_its_way_in_claims_nothing_and_sends_nothing() {
    let stage = Stage::new();
    let payment = Request::payment(&fresh_key());
    let whole = payment.to_bytes();
    let head = whole.windows(4).position(|w| w == b"\r\n\r\n").expect("a head") + 4;
    // In the head, before the body, in the body, one byte short.
    for sent in [head / 2, head, head + 5, whole.len() - 1] {
        let mut client = stage.gateway.connect();
        client.write(&whole[..sent]);
        client.hang_up();
    }
    let first = stage.gateway.send(&payment);
    first.assert_stored(201);
    let arrival = stage.upstream.only_arrival();
    assert_eq!(arrival.attempt(), 1, "nothing was claimed before: {arrival:?}");
}

#[test]
fn a_waiting_copy_that_hangs_up_changes_nothing() {
    let stage = Stage::new();
    let payment = Request::payment(&fresh_key()).act("gate answer");
    let first = stage.gateway.start(&payment);
    stage.upstream.arrived(1);
    let copy = stage.gateway.start(&payment);
    eventually("a copy waits", SOON, || stage.gateway.metric("hapax_waiting", &[]) == 1.0);
    copy.hang_up();
    eventually("it waits no more", SOON, || stage.gateway.metric("hapax_waiting", &[]) == 0.0);
    stage.upstream.open("answer");
    let first = first.answer();
    first.assert_stored(201);
    stage.gateway.send(&payment).assert_replays(&first);
    stage.upstream.assert_arrivals(1);
}
