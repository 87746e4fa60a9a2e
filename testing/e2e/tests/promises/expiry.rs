//! The end of what is remembered.

use std::time::{Duration, SystemTime};

use hapax_testkit::{Answer, Gateway, Request, Stage, UpstreamKind, fresh_key, until};

use crate::SOON;

/// Asks until the outcome is no longer kept; until then every answer is the replay.
#[track_caller]
fn until_expired(gateway: &Gateway, request: &Request, first: &Answer) -> Answer {
    until("the outcome expires", SOON, || {
        let answer = gateway.send(request);
        if answer.status == 410 {
            return Some(answer);
        }
        answer.assert_replays(first);
        None
    })
}

#[test]
fn t14_a_retry_before_the_end_is_replayed_and_after_it_refused_and_never_executed() {
    let mut stage = Stage::with(&["--retain", "2s"]);
    let payment = Request::payment(&fresh_key());
    let first = stage.gateway.send(&payment);
    first.assert_stored(201);
    stage.gateway.send(&payment).assert_replays(&first);
    let expired = until_expired(&stage.gateway, &payment, &first);
    expired.assert_problem(410, "key-expired").assert_outcome("unknown");
    // Whatever the content, and after a restart too.
    let changed = payment.clone().json(r#"{"amount":1}"#);
    stage.gateway.send(&changed).assert_problem(410, "key-expired");
    stage.gateway.restart();
    stage.gateway.send(&payment).assert_problem(410, "key-expired");
    stage.gateway.send(&changed).assert_problem(410, "key-expired");
    stage.upstream.assert_arrivals(1);
    let shown = stage.records(&["list", "--state", "tombstone", "--json"]);
    assert_eq!(shown.stdout.lines().count(), 1, "{shown:?}");
}

/// A link that is signed for as long as the outcome is kept.
#[test]
fn t10_a_link_that_expires_is_never_replayed_when_it_is_dead() {
    let operation = "[[operation]]\nname = \"exports.create\"\nroutes = [\"POST /exports\"]\n\
                     retention = { outcome = \"2s\", tombstone = \"1h\" }\n";
    let stage = Stage::operations(UpstreamKind::Plain, operation);
    let link = "https://files.example/export?signed=7f3a&for=2s";
    let script = format!("effect; header location: {link}; status 201; body text {link}");
    let export = Request::payment(&fresh_key()).to("/exports").act(&script);
    let first = stage.gateway.send(&export);
    first.assert_stored(201);
    let replay = stage.gateway.send(&export);
    replay.assert_replays(&first);
    assert_eq!(replay.all("location"), [link]);
    let dead = until_expired(&stage.gateway, &export, &first);
    dead.assert_problem(410, "key-expired");
    assert!(dead.field("location").is_none() && !dead.text().contains("signed"), "{dead:?}");
    stage.upstream.assert_effects(1);
    // What it made has an address that lasts; who needs another link asks for it there.
    stage.gateway.send(&export).assert_problem(410, "key-expired");
    stage.upstream.assert_arrivals(1);
}

#[test]
fn a_failure_expires_like_a_success_and_an_unknown_outcome_does_not_expire() {
    let stage = Stage::with(&["--retain", "1s"]);
    let unknown = Request::payment(&fresh_key()).act("effect; cut");
    stage.gateway.send(&unknown).assert_problem(409, "outcome-unknown");
    let observed = Request::payment(&fresh_key()).act("status 500; body text broken");
    stage.gateway.send(&observed).assert_unresolved(500);
    let failed = Request::payment(&fresh_key()).act("status 404");
    let first = stage.gateway.send(&failed);
    first.assert_stored(404);
    until_expired(&stage.gateway, &failed, &first).assert_problem(410, "key-expired");
    stage.gateway.send(&unknown).assert_problem(409, "outcome-unknown");
    stage.gateway.send(&observed).assert_unresolved(500);
    stage.upstream.assert_arrivals(3);
}

#[test]
fn idempotency_expires_says_how_long_the_outcome_is_kept() {
    for (flags, kept) in [(&[][..], 86_400), (&["--retain", "90m"], 5400)] {
        let stage = Stage::with(flags);
        let before = SystemTime::now();
        let first = stage.gateway.send(&Request::payment(&fresh_key()));
        let said = first.assert_expires().field("idempotency-expires").expect("it is there");
        let until = humantime::parse_rfc3339(&said).expect("RFC 3339");
        let kept = Duration::from_secs(kept);
        let tolerance = Duration::from_secs(30);
        let expected = before + kept;
        assert!(
            until + Duration::from_secs(1) >= expected && until <= expected + tolerance,
            "{said}"
        );
    }
}

#[test]
fn t14_after_its_tombstone_a_key_is_unknown_again() {
    let mut stage = Stage::operations(
        UpstreamKind::Plain,
        r#"
        [[operation]]
        name = "payments.create"
        routes = ["POST /payments"]
        retention = { outcome = "1s", tombstone = "3s" }
        "#,
    );
    let payment = Request::payment(&fresh_key());
    let first = stage.gateway.send(&payment);
    first.assert_stored(201);
    until_expired(&stage.gateway, &payment, &first).assert_problem(410, "key-expired");
    // A start sweeps: the answer's body goes with its retention, the tombstone stays.
    stage.gateway.restart();
    let record = |stage: &Stage| {
        let listed = stage.records(&["list", "--json"]).stdout;
        listed.lines().next().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
    };
    let swept = until("the body is swept", SOON, || {
        record(&stage).filter(|record| record["body_bytes"].is_null())
    });
    assert_eq!(swept["state"], "tombstone", "{swept}");
    // GUARANTEES says so: the end of our memory, not of the intent.
    let again = until("the tombstone ends", SOON, || {
        let answer = stage.gateway.send(&payment);
        if answer.status == 410 {
            stage.gateway.restart();
            return None;
        }
        Some(answer)
    });
    again.assert_stored(201);
    assert_ne!(again.body, first.body);
    stage.upstream.assert_arrivals(2);
}
