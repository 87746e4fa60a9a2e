//! Running it: the configuration read again, logs, request ids, and the way out behind a load
//! balancer.

use std::fs;

use hapax_testkit::{Gateway, Request, Serve, Stage, UpstreamKind, eventually, fresh_key, until};
use serde_json::Value;

use crate::SOON;

const PAY: &str = "[[operation]]\nname = \"pay\"\nroutes = [\"POST /payments\"]\n";
const REFUND: &str = "[[operation]]\nname = \"refund\"\nroutes = [\"POST /refunds\"]\n\
                      key = { required = true }\n";

/// Has the gateway read this text as its configuration, and waits for what came of it.
#[track_caller]
fn reload(stage: &Stage, text: &str, result: &str) {
    let reloads = |gateway: &Gateway| gateway.metric("hapax_config_reloads_total", &[result]);
    let before = reloads(&stage.gateway);
    fs::write(stage.dir().join("hapax.toml"), text).expect("written");
    stage.gateway.hang_up();
    eventually("the configuration is read", SOON, || reloads(&stage.gateway) > before);
}

fn configuration(stage: &Stage, operations: &str) -> String {
    let service = hapax_testkit::ONE_SERVICE
        .replace("{dir}", &stage.dir().display().to_string())
        .replace("{upstream}", &stage.upstream.url());
    format!("{service}{operations}")
}

#[test]
fn on_sighup_the_configuration_is_read_again_and_nothing_under_way_is_disturbed() {
    let stage = Stage::operations(UpstreamKind::Plain, PAY);
    let known = Request::payment(&fresh_key());
    let first = stage.gateway.send(&known);
    first.assert_stored(201);
    let running = Request::payment(&fresh_key()).act("gate answer");
    let pending = stage.gateway.start(&running);
    stage.upstream.arrived(2);
    let refund = Request::post("/refunds", "{}");
    assert_eq!(stage.gateway.send(&refund).status, 201, "on no route yet");

    reload(&stage, &configuration(&stage, &format!("{PAY}{REFUND}")), "applied");
    stage.gateway.send(&refund).assert_problem(400, "key-missing");
    stage.gateway.send(&known).assert_replays(&first);
    stage.upstream.open("answer");
    let answer = pending.answer();
    answer.assert_stored(201);
    stage.gateway.send(&running).assert_replays(&answer);
    stage.upstream.assert_arrivals(3);
}

#[test]
fn a_configuration_that_is_wrong_or_needs_a_restart_is_refused_whole() {
    let stage = Stage::operations(UpstreamKind::Plain, PAY);
    let refund = Request::post("/refunds", "{}");
    let right = configuration(&stage, &format!("{PAY}{REFUND}"));
    let itself = format!("http://{}", stage.gateway.address());
    for (wrong, word) in [
        (right.replace("routes = [\"POST /refunds\"]", "routs = []"), "routs"),
        (right.replace("hapax.db", "other.db"), "store"),
        ("not toml".to_owned(), "TOML"),
        (right.replace(&stage.upstream.url(), &itself), "is this gateway itself"),
    ] {
        reload(&stage, &wrong, "refused");
        until("it says why", SOON, || {
            stage.gateway.stderr().iter().any(|line| line.contains(word)).then_some(())
        });
        assert_eq!(stage.gateway.send(&refund).status, 201, "{word}");
    }
    reload(&stage, &right, "applied");
    stage.gateway.send(&refund).assert_problem(400, "key-missing");
}

#[track_caller]
fn assert_logged(gateway: &Gateway, words: &[&str]) {
    eventually("it is logged", SOON, || {
        let is_said = |line: &String| words.iter().all(|word| line.contains(word));
        gateway.stderr().iter().any(is_said)
    });
}

#[test]
fn an_operation_that_has_records_and_another_name_now_is_warned_of() {
    let stage = Stage::operations(UpstreamKind::Plain, PAY);
    stage.gateway.send(&Request::payment(&fresh_key())).assert_stored(201);
    let renamed = PAY.replace("\"pay\"", "\"payments.create\"");
    reload(&stage, &configuration(&stage, &renamed), "applied");
    assert_logged(&stage.gateway, &["WARN", "operation=pay", "executes again"]);
}

#[test]
fn an_unknown_outcome_is_found_by_the_requests_id_on_the_usual_level() {
    let stage = Stage::operations(UpstreamKind::Plain, PAY);
    let lost = Request::payment(&fresh_key()).act("cut").header("x-request-id", "order-7/a");
    stage.gateway.send(&lost).assert_problem(409, "outcome-unknown");
    assert_logged(&stage.gateway, &["is unknown", "request=\"order-7/a\""]);
}

/// Starts a gateway that logs everything as JSON.
fn logging(stage: &Stage) -> Gateway {
    let serve = Serve::new(stage.dir(), &stage.upstream);
    serve.env("HAPAX_LOG", "trace").env("HAPAX_LOG_FORMAT", "json").start()
}

#[test]
fn logs_are_structured_and_hold_no_key_no_body_and_no_credential() {
    let stage = Stage::new();
    let gateway = logging(&stage);
    let key = fresh_key();
    let secrets = [key.as_str(), "4111-1111-1111-1111", "sk_live_credential", "customer-4711"];
    let payment = Request::post("/payments?for=customer-4711", r#"{"card":"4111-1111-1111-1111"}"#)
        .key(&key)
        .header("authorization", "Bearer sk_live_credential")
        .header("cookie", "session=sk_live_credential");
    let answers =
        "status 201; header set-cookie: s=sk_live_credential; body text 4111-1111-1111-1111";
    gateway.send(&payment.clone().act(answers)).assert_stored(201);
    gateway.send(&payment);
    gateway.send(&payment.clone().json("{}"));
    gateway.send(&payment.clone().key("short-4711"));
    gateway.send(&payment.clone().act("cut").key(&fresh_key()));
    gateway.send(
        &Request::get("/customers/customer-4711").header("authorization", "sk_live_credential"),
    );
    until("the last request is logged", SOON, || {
        let lines = gateway.stderr();
        (lines.iter().filter(|line| line.contains("\"answered\"")).count() >= 6).then_some(())
    });
    for line in gateway.stderr() {
        let parsed: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("JSON: {line}"));
        let target = parsed["target"].as_str().expect("a target");
        if !target.starts_with("hapax") {
            // What the libraries below say on their most talkative level is theirs.
            continue;
        }
        for secret in secrets {
            assert!(!line.contains(secret), "{secret}: {line}");
        }
    }
}

#[test]
fn c2_a_request_is_found_by_its_id_and_trace_which_are_no_identity() {
    let stage = Stage::new();
    let gateway = logging(&stage);
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let traceparent = |span: &str| format!("00-{trace}-{span}-01");
    let payment = Request::payment(&fresh_key());
    let first = payment
        .clone()
        .header("x-request-id", "attempt-1")
        .header("traceparent", &traceparent("00f067aa0ba902b7"));
    let answer = gateway.send(&first);
    answer.assert_stored(201);
    // The service has one of its own for it.
    assert_eq!(answer.field("x-request-id").as_deref(), Some("request-1"));
    let named = first.clone().json("{}");
    assert_eq!(gateway.send(&named).field("x-request-id").as_deref(), Some("attempt-1"));
    let arrival = stage.upstream.only_arrival();
    assert_eq!(arrival.field("x-request-id"), "attempt-1");
    assert_eq!(arrival.field("traceparent"), traceparent("00f067aa0ba902b7"));
    // Another attempt at the same intent, without an id of its own.
    let again = gateway.send(&payment.header("traceparent", &traceparent("00f067aa0ba902b8")));
    again.assert_replays(&answer);
    let made = again.field("x-request-id").expect("an id");
    assert!(uuid_like(&made), "{made}");
    until("both are logged", SOON, || {
        let lines = gateway.stderr();
        let of = |id: &str| lines.iter().any(|line| line.contains(id) && line.contains(trace));
        (of("attempt-1") && of(&made)).then_some(())
    });
    stage.upstream.assert_arrivals(1);
}

fn uuid_like(text: &str) -> bool {
    text.len() == 36 && text.bytes().filter(|byte| *byte == b'-').count() == 4
}

#[test]
fn a_load_balancer_has_time_to_notice_that_it_stops() {
    let limits = format!("{PAY}[limits]\nannounce = \"2s\"\n");
    let mut stage = Stage::operations(UpstreamKind::Plain, &limits);
    stage.gateway.terminate();
    eventually("it is not ready any more", SOON, || {
        stage.gateway.operator("/readyz").status == 503
    });
    // Whoever has not noticed yet is served.
    let payment = Request::payment(&fresh_key());
    let first = stage.gateway.send(&payment);
    first.assert_stored(201);
    assert_eq!(stage.gateway.ended(SOON).code(), Some(0));
    stage.gateway.restart();
    stage.gateway.send(&payment).assert_replays(&first);
}
