//! Unknown outcomes: the service is asked, by a retry and in the background.

use hapax_testkit::{Answer, Gateway, Request, Stage, UpstreamKind, eventually, fresh_key, until};

use crate::SOON;

/// The operation whose service is asked, with short times.
const PROBED: &str = r#"
[[operation]]
name       = "payments.create"
routes     = ["POST /payments"]
on_unknown = "probe"
lease      = "1s"
"#;

/// How it is asked, with more settings of it.
fn probed(operation: &str, probe: &str) -> String {
    let outcome = r#"outcome = { status = 201, body = "/payment" }"#;
    format!("{PROBED}{operation}probe = {{ get = \"/effects/{{effect_id}}\", {outcome}{probe} }}\n")
}

#[track_caller]
fn assert_unknown(answer: &Answer) {
    answer.assert_problem(409, "outcome-unknown").assert_retry_after(5).assert_outcome("unknown");
}

/// The outcome as the service tells it, replayed.
#[track_caller]
fn assert_found(answer: &Answer, body: &str) {
    assert_eq!((answer.status, &*answer.text()), (201, body), "{answer:?}");
    assert!(answer.is_replay(), "{answer:?}");
    assert_eq!(answer.all("content-type"), ["application/json"]);
    answer.assert_expires();
}

/// Sends it until it is no longer unknown what became of it.
#[track_caller]
fn ask_until_known(gateway: &Gateway, request: &Request) -> Answer {
    until("it is known what became of it", SOON, || {
        let answer = gateway.send(request);
        let open = ["in-flight", "outcome-unknown"];
        let known = answer.problem().is_none_or(|problem| !open.contains(&&*problem));
        known.then_some(answer)
    })
}

/// The history of the only record, as it is shown.
#[track_caller]
fn history(stage: &Stage) -> String {
    let listed = stage.records(&["list", "--json"]).json();
    let id = listed["record"].as_str().expect("a record").to_owned();
    stage.records(&["show", &id]).stdout
}

#[test]
fn t06_a_retry_gets_the_outcome_that_the_service_knows() {
    let stage = Stage::operations(UpstreamKind::Asked, &probed("", ""));
    let payment = Request::payment(&fresh_key());
    assert_unknown(&stage.gateway.send(&payment.clone().act("effect; cut")));
    let found = stage.gateway.send(&payment);
    assert_found(&found, r#"{"id":"pay_1"}"#);
    stage.gateway.send(&payment).assert_replays(&found);
    stage.upstream.assert_arrivals(1);
    let effect_id = stage.upstream.only_arrival().effect_id();
    let asked = stage.upstream.asked();
    assert!(!asked.is_empty() && asked.iter().all(|asked| asked.method == "GET"), "{asked:?}");
    assert_eq!(asked[0].target, format!("/effects/{effect_id}"));
    assert_eq!(asked[0].attempt.as_deref(), Some("1"));
    let shown = history(&stage);
    assert!(shown.contains("judged-applied") && shown.contains("GET answered 200"), "{shown}");
}

#[test]
fn t05_a_gateway_killed_while_executing_finds_out_by_itself_after_its_restart() {
    let mut stage = Stage::operations(UpstreamKind::Asked, &probed("", ""));
    let payment = Request::payment(&fresh_key());
    let _lost = stage.gateway.start(&payment.clone().act("effect; gate answer"));
    eventually("the effect happens", SOON, || stage.upstream.effects().len() == 1);
    stage.gateway.kill();
    stage.gateway.restart();
    // Nobody sends anything.
    eventually("the record is settled", SOON, || {
        stage.records(&["list", "--state", "succeeded", "--json"]).stdout.contains("succeeded")
    });
    assert_found(&stage.gateway.send(&payment), r#"{"id":"pay_1"}"#);
    stage.upstream.assert_arrivals(1);
    let applied = ["operation=\"payments.create\"", "verdict=\"applied\""];
    assert_eq!(stage.gateway.metric("hapax_probes_total", &applied), 1.0);
}

#[test]
fn p07_what_is_not_there_yet_is_not_sent_again() {
    let stage = Stage::operations(UpstreamKind::Asked, &probed("", ""));
    let payment = Request::payment(&fresh_key());
    assert_unknown(&stage.gateway.send(&payment.clone().act("cut")));
    for _ in 0..3 {
        assert_unknown(&stage.gateway.send(&payment));
    }
    stage.upstream.assert_arrivals(1);
}

#[test]
fn not_seen_yet_permits_a_resend_under_the_same_effect_id_where_the_service_collapses() {
    let settings = probed("collapse_for = \"1h\"\n", "");
    let stage = Stage::operations(UpstreamKind::Collapsing, &settings);
    let payment = Request::payment(&fresh_key());
    stage.gateway.send(&payment.clone().act("cut"));
    let second = ask_until_known(&stage.gateway, &payment);
    second.assert_stored(201);
    let arrivals = stage.upstream.arrivals();
    assert_eq!(arrivals.iter().map(|it| it.attempt()).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(arrivals[0].effect_id(), arrivals[1].effect_id());
    assert!(!stage.upstream.asked().is_empty(), "it was asked first");
    stage.upstream.assert_effects(1);
}

#[test]
fn a_deadline_that_the_service_enforces_frees_the_key_when_it_is_over() {
    let settings = probed("timeout = \"1s\"\n", ", closer = { deadline = \"1s\" }");
    let stage = Stage::operations(UpstreamKind::Closing, &settings);
    let payment = Request::payment(&fresh_key());
    assert_unknown(&stage.gateway.send(&payment.clone().act("gate late; effect")));
    let second = ask_until_known(&stage.gateway, &payment);
    second.assert_stored(201);
    // The first request comes through now, and is refused.
    stage.upstream.open("late");
    let arrivals = stage.upstream.arrivals();
    assert_eq!(arrivals.iter().map(|it| it.attempt()).collect::<Vec<_>>(), [1, 2]);
    let deadline = humantime::parse_rfc3339(arrivals[0].field("hapax-deadline"));
    assert!(deadline.is_ok(), "{arrivals:?}");
    stage.gateway.send(&Request::payment(&fresh_key())).assert_stored(201);
    stage.upstream.assert_effects(2);
    stage.gateway.send(&payment).assert_replays(&second);
}

#[test]
fn a_closer_frees_the_key_at_once_and_fences_what_is_under_way() {
    let closer = r#", closer = { post = "/close/{effect_id}?attempt={attempt}", closed = [404] }"#;
    let settings = probed("timeout = \"1s\"\n", closer);
    let stage = Stage::operations(UpstreamKind::Closing, &settings);
    let payment = Request::payment(&fresh_key());
    assert_unknown(&stage.gateway.send(&payment.clone().act("gate late; effect")));
    let second = ask_until_known(&stage.gateway, &payment);
    second.assert_stored(201);
    stage.upstream.open("late");
    let arrivals = stage.upstream.arrivals();
    assert_eq!(arrivals.iter().map(|it| it.attempt()).collect::<Vec<_>>(), [1, 3]);
    let closed = stage.upstream.asked().into_iter().find(|asked| asked.method == "POST");
    assert_eq!(closed.and_then(|asked| asked.attempt).as_deref(), Some("2"));
    stage.gateway.send(&payment).assert_replays(&second);
    stage.upstream.assert_effects(1);
    let shown = history(&stage);
    assert!(shown.contains("closing") && shown.contains("judged-not-applied"), "{shown}");
}

/// So does a router that knows no such place.
#[test]
fn a_404_to_a_closer_that_is_not_named_frees_nothing() {
    let closer = r#", closer = { post = "/close/{effect_id}?attempt={attempt}" }"#;
    let settings = probed("timeout = \"1s\"\n", closer);
    let stage = Stage::operations(UpstreamKind::Closing, &settings);
    let payment = Request::payment(&fresh_key());
    assert_unknown(&stage.gateway.send(&payment.clone().act("gate late; effect")));
    let closes = || stage.upstream.asked().iter().filter(|asked| asked.method == "POST").count();
    eventually("it is asked to close", SOON, || {
        assert_unknown(&stage.gateway.send(&payment));
        closes() >= 2
    });
    assert_unknown(&stage.gateway.send(&payment));
    stage.upstream.assert_arrivals(1);
}

#[test]
fn t17_a_service_that_cannot_be_asked_changes_nothing_until_it_can() {
    let stage = Stage::operations(UpstreamKind::Collapsing, &probed("collapse_for = \"1h\"\n", ""));
    stage.upstream.open("ledger-down");
    let payment = Request::payment(&fresh_key());
    assert_unknown(&stage.gateway.send(&payment.clone().act("effect; cut")));
    assert_unknown(&stage.gateway.send(&payment));
    let operation = "operation=\"payments.create\"";
    eventually("the background asks and is told nothing", SOON, || {
        let unknown = [operation, "verdict=\"unknown\""];
        stage.gateway.metric("hapax_probes_total", &unknown) >= 2.0
    });
    eventually("what is unknown is measured", SOON, || {
        stage.gateway.metric("hapax_uncertain_records", &[operation, "under_1m"]) == 1.0
    });
    assert!(stage.gateway.metric("hapax_uncertain_oldest_seconds", &[operation]) > 0.0);
    stage.upstream.assert_arrivals(1);
    stage.upstream.shut("ledger-down");
    assert_found(&ask_until_known(&stage.gateway, &payment), r#"{"id":"pay_1"}"#);
    stage.upstream.assert_arrivals(1);
    eventually("nothing is unknown", SOON, || {
        stage.gateway.metric("hapax_uncertain_records", &[operation]) == 0.0
    });
}

#[test]
fn a_service_that_wants_a_credential_is_asked_with_it() {
    let credential = ", authorization = { file = \"{dir}/credential\" }";
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("credential"), "Bearer of-the-gateway\n").expect("written");
    let credential = credential.replace("{dir}", &dir.path().display().to_string());
    let stage = Stage::operations(UpstreamKind::Asked, &probed("", &credential));
    let payment = Request::payment(&fresh_key()).header("authorization", "Bearer of-the-caller");
    stage.gateway.send(&payment.clone().act("effect; cut"));
    assert_found(&ask_until_known(&stage.gateway, &payment), r#"{"id":"pay_1"}"#);
    let asked = stage.upstream.asked();
    assert_eq!(asked[0].authorization.as_deref(), Some("Bearer of-the-gateway"));
    assert!(!stage.gateway.stderr().join("\n").contains("of-the-gateway"));
}
