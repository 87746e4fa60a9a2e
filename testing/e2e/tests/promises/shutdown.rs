//! Stopping: what runs is finished, what cannot be is told truthfully.

use std::{
    fs,
    net::{TcpListener, TcpStream},
    time::{Duration, Instant},
};

use hapax_testkit::{Request, Stage, UpstreamKind, eventually, fresh_key};

use crate::SOON;

#[test]
fn p08_on_sigterm_a_request_in_flight_is_finished_answered_and_stored() {
    let mut stage = Stage::new();
    let payment = Request::payment(&fresh_key()).act("gate answer");
    let first = stage.gateway.start(&payment);
    stage.upstream.arrived(1);
    let abandoned = Request::payment(&fresh_key()).act("gate answer");
    let client = stage.gateway.start(&abandoned);
    stage.upstream.arrived(2);
    client.hang_up();
    stage.gateway.terminate();
    eventually("it is not ready any more", SOON, || {
        stage.gateway.operator("/readyz").status == 503
    });
    assert_eq!(stage.gateway.operator("/healthz").status, 200);
    stage.upstream.open("answer");
    let first = first.answer();
    first.assert_stored(201);
    assert_eq!(stage.gateway.ended(SOON).code(), Some(0));
    stage.gateway.restart();
    stage.gateway.send(&payment).assert_replays(&first);
    let retry = stage.gateway.send(&abandoned);
    assert!(retry.status == 201 && retry.is_replay(), "{retry:?}");
    stage.upstream.assert_arrivals(2);
}

#[test]
fn p08_on_sigterm_an_execution_whose_client_is_gone_is_finished_though_no_connection_is_left() {
    let mut stage = Stage::new();
    let payment = Request::payment(&fresh_key()).act("gate answer");
    let client = stage.gateway.start(&payment);
    stage.upstream.arrived(1);
    client.hang_up();
    stage.gateway.terminate();
    // The listener is closed, and all that hangs on it gone, before the service answers.
    let address = stage.gateway.address();
    eventually("nobody listens", SOON, || TcpStream::connect(address).is_err());
    stage.upstream.open("answer");
    assert_eq!(stage.gateway.ended(SOON).code(), Some(0));
    stage.gateway.restart();
    let retry = stage.gateway.send(&payment);
    assert!(retry.status == 201 && retry.is_replay(), "{retry:?}");
    stage.upstream.assert_arrivals(1);
}

#[test]
fn while_stopping_nothing_new_is_started() {
    let mut stage = Stage::new();
    let running = stage.gateway.start(&Request::payment(&fresh_key()).act("gate answer"));
    stage.upstream.arrived(1);
    // A keyed request whose body is still under way when the stop comes.
    let late = Request::payment(&fresh_key());
    let whole = late.to_bytes();
    let mut slow = stage.gateway.connect();
    slow.write(&whole[..whole.len() - 1]);
    stage.gateway.terminate();
    eventually("it is not ready any more", SOON, || {
        stage.gateway.operator("/readyz").status == 503
    });
    slow.write(&whole[whole.len() - 1..]);
    let refused = slow.answer();
    refused.assert_problem(503, "draining").assert_retry_after(1);
    stage.upstream.assert_arrivals(1);
    stage.upstream.open("answer");
    running.answer().assert_stored(201);
    assert_eq!(stage.gateway.ended(SOON).code(), Some(0));
    stage.gateway.restart();
    stage.gateway.send(&late).assert_stored(201);
    assert_eq!(stage.upstream.arrivals()[1].attempt(), 1, "nothing was claimed");
}

#[test]
fn what_is_not_done_at_the_end_of_the_drain_is_unknown_at_once() {
    let mut stage = Stage::operations(
        UpstreamKind::Plain,
        r#"
        [limits]
        drain = "500ms"
        [[operation]]
        name = "payments.create"
        routes = ["POST /payments"]
        "#,
    );
    let payment = Request::payment(&fresh_key()).act("gate never");
    let first = stage.gateway.start(&payment);
    stage.upstream.arrived(1);
    let begun = Instant::now();
    stage.gateway.terminate();
    first.answer().assert_problem(409, "outcome-unknown");
    assert_eq!(stage.gateway.ended(SOON).code(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    stage.gateway.restart();
    // Not only after the lease of 30 s.
    stage.gateway.send(&payment).assert_problem(409, "outcome-unknown");
    stage.upstream.assert_arrivals(1);
}

#[test]
fn a_configuration_that_is_waited_for_does_not_hold_a_stop_up() {
    let mut stage = Stage::operations(UpstreamKind::Plain, "");
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/keys", silent.local_addr().expect("an address"));
    let scope = format!(
        "{{ jwt = {{ jwks_url = \"{url}\", claim = \"sub\", algorithms = [\"RS256\"], audience = [\"x\"] }} }}"
    );
    let file = stage.dir().join("hapax.toml");
    let text = fs::read_to_string(&file).expect("a file");
    let waiting = text.replace("{ single_tenant = true }", &scope);
    assert_ne!(text, waiting);
    fs::write(&file, waiting).expect("written");
    stage.gateway.hang_up();
    let (_asked, _) = silent.accept().expect("the keys are asked for");
    let begun = Instant::now();
    stage.gateway.terminate();
    assert_eq!(stage.gateway.ended(SOON).code(), Some(0));
    // Asking takes 2 s, and it is asked again.
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[test]
fn an_idle_gateway_stops_at_once_and_takes_no_new_connections() {
    let mut stage = Stage::new();
    stage.gateway.send(&Request::payment(&fresh_key())).assert_stored(201);
    let begun = Instant::now();
    stage.gateway.terminate();
    assert_eq!(stage.gateway.ended(SOON).code(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(stage.gateway.start(&Request::get("/")).result().is_err());
}

#[test]
fn unkeyed_requests_in_flight_are_finished_too() {
    let mut stage = Stage::new();
    let get = stage.gateway.start(&Request::get("/slow").act("gate answer"));
    stage.upstream.arrived(1);
    stage.gateway.terminate();
    eventually("it is not ready any more", SOON, || {
        stage.gateway.operator("/readyz").status == 503
    });
    stage.upstream.open("answer");
    assert_eq!(get.answer().status, 200);
    assert_eq!(stage.gateway.ended(SOON).code(), Some(0));
}

#[test]
fn a_stop_that_comes_as_soon_as_it_is_ready_is_orderly_too() {
    let mut stage = Stage::new();
    for round in 0..6 {
        if round % 2 == 0 {
            stage.gateway.terminate()
        } else {
            stage.gateway.interrupt()
        }
        assert_eq!(stage.gateway.ended(SOON).code(), Some(0), "round {round}");
        stage.gateway.restart();
    }
}

#[test]
fn a_second_signal_stops_at_once_and_what_executes_is_told_unknown() {
    let mut stage = Stage::new();
    let payment = Request::payment(&fresh_key()).act("gate answer");
    let first = stage.gateway.start(&payment);
    stage.upstream.arrived(1);
    stage.gateway.terminate();
    eventually("it is not ready any more", SOON, || {
        stage.gateway.operator("/readyz").status == 503
    });
    stage.gateway.terminate();
    // Long before the drain of 30 s is over.
    assert_eq!(stage.gateway.ended(SOON).code(), Some(0));
    first.answer().assert_problem(409, "outcome-unknown");
    stage.upstream.open("answer");
    stage.gateway.restart();
    stage.gateway.send(&payment).assert_problem(409, "outcome-unknown");
    stage.upstream.assert_arrivals(1);
}
