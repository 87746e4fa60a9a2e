//! Requests that pass while the store is not available, and what becomes of them afterwards.

use std::{fs, path::PathBuf};

use hapax_testkit::{Answer, Gateway, Request, Stage, UpstreamKind, eventually, fresh_key, until};
use rusqlite::Connection;

use crate::SOON;

/// An operation that passes, with more settings of it; the store has half a second for an answer.
fn passing(settings: &str) -> String {
    format!(
        r#"
[limits]
store = "500ms"
[[operation]]
name       = "payments.create"
routes     = ["POST /payments"]
store_down = "pass"
lease      = "1s"
{settings}
"#
    )
}

const PROBED: &str = "on_unknown = \"probe\"\nprobe = { get = \"/effects/{effect_id}\", \
                      outcome = { status = 201, body = \"/payment\" } }\n";

fn stage(settings: &str) -> Stage {
    Stage::operations(UpstreamKind::Asked, &passing(settings))
}

/// Keeps every writer out of the database, until it is dropped.
fn lock(stage: &Stage) -> Connection {
    let connection = Connection::open(stage.database()).expect("the database opens");
    connection.busy_timeout(SOON).expect("a timeout");
    connection.execute_batch("BEGIN IMMEDIATE").expect("the lock is taken");
    connection
}

#[track_caller]
fn assert_passed(answer: &Answer, status: u16, outcome: &str) {
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.field("hapax-unprotected").as_deref(), Some("store-down"), "{answer:?}");
    assert_eq!(answer.field("hapax-outcome").as_deref(), Some(outcome), "{answer:?}");
    assert_eq!(answer.field("idempotency-expires"), None, "nothing is promised: {answer:?}");
}

/// Sends it until a record answers it.
#[track_caller]
fn ask_until_recorded(stage: &Stage, request: &Request) -> Answer {
    ask_gateway_until_recorded(&stage.gateway, request)
}

#[track_caller]
fn ask_gateway_until_recorded(gateway: &Gateway, request: &Request) -> Answer {
    until("it has a record", SOON, || {
        let answer = gateway.send(request);
        let is_open =
            answer.problem().is_some_and(|it| it == "in-flight" || it == "outcome-unknown");
        (answer.field("hapax-unprotected").is_none() && !is_open).then_some(answer)
    })
}

/// The files of what ran without a record, those that hold something.
fn spools(stage: &Stage) -> Vec<PathBuf> {
    let entries = fs::read_dir(stage.dir()).expect("a directory").flatten();
    let spools = entries.map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.contains(".spool.") && fs::metadata(path).is_ok_and(|found| found.len() > 0)
    });
    spools.collect()
}

#[test]
fn p11_what_passed_while_the_store_was_down_is_replayed_once_it_is_back() {
    let stage = stage("");
    let lock = lock(&stage);
    let payment = Request::payment(&fresh_key());
    let first = stage.gateway.send(&payment);
    assert_passed(&first, 201, "applied");
    let readiness = stage.gateway.operator("/readyz");
    assert_eq!(readiness.status, 200, "elsewhere it would not pass either: {readiness:?}");
    assert!(readiness.text().starts_with("ready in part: "), "{readiness:?}");
    let again = stage.gateway.send(&payment);
    assert_passed(&again, 201, "applied");
    assert_eq!(again.body, first.body);
    assert!(again.is_replay(), "{again:?}");
    let other = stage.gateway.send(&payment.clone().json(r#"{"amount":1}"#));
    other.assert_problem(422, "key-reused");
    let arrival = stage.upstream.only_arrival();
    assert_eq!(arrival.all("hapax-attempt"), ["1"], "a closer fences it like any other");
    assert_eq!(spools(&stage).len(), 1);
    let key = payment.to_bytes();
    let noted = fs::read_to_string(&spools(&stage)[0]).expect("a spool");
    let key = String::from_utf8_lossy(&key).lines().find_map(|line| {
        line.strip_prefix("idempotency-key: ").map(|key| key.trim_matches('"').to_owned())
    });
    let key = key.expect("a key");
    assert!(!noted.contains(&key) && !noted.contains("1200"), "no key and no body: {noted}");

    drop(lock);
    let replay = ask_until_recorded(&stage, &payment);
    assert_eq!((replay.status, &replay.body), (201, &first.body), "{replay:?}");
    assert!(replay.is_replay() && replay.field("idempotency-expires").is_some(), "{replay:?}");
    stage.upstream.assert_arrivals(1);
    // The record carries the identity that the service got.
    let effect_id = arrival.effect_id().to_string();
    let shown = stage.records(&["show", "--effect-id", &effect_id]).stdout;
    assert!(shown.contains("ran-unprotected  by hapax"), "{shown}");
    let operation = "operation=\"payments.create\"";
    let applied = [operation, "result=\"applied\""];
    assert_eq!(stage.gateway.metric("hapax_unprotected_total", &applied), 1.0);
    let recorded = ["result=\"recorded\""];
    assert_eq!(stage.gateway.metric("hapax_unprotected_brought_in_total", &recorded), 1.0);
    assert_eq!(stage.gateway.metric("hapax_unprotected_pending", &[]), 0.0);
    eventually("nothing is noted any more", SOON, || spools(&stage).is_empty());
    // Protected again.
    stage.gateway.send(&Request::payment(&fresh_key())).assert_stored(201);
}

#[test]
fn copies_that_pass_at_the_same_time_run_once() {
    let stage = stage("");
    let lock = lock(&stage);
    let payment = Request::payment(&fresh_key()).act("gate answer");
    let first = stage.gateway.start(&payment);
    stage.upstream.arrived(1);
    stage.gateway.send(&payment).assert_problem(409, "in-flight");
    stage.upstream.open("answer");
    assert_passed(&first.answer(), 201, "applied");
    drop(lock);
    assert!(ask_until_recorded(&stage, &payment).is_replay());
    stage.upstream.assert_arrivals(1);
}

#[test]
fn what_the_store_knows_of_a_key_goes_before_passing() {
    let stage = stage("");
    let payment = Request::payment(&fresh_key());
    let first = stage.gateway.send(&payment);
    first.assert_stored(201);
    let unknown = Request::payment(&fresh_key());
    stage.gateway.send(&unknown.clone().act("effect; cut")).assert_problem(409, "outcome-unknown");
    let _lock = lock(&stage);
    stage.gateway.send(&payment).assert_replays(&first);
    stage.gateway.send(&unknown).assert_problem(409, "outcome-unknown");
    let changed = payment.clone().json(r#"{"amount":1}"#);
    stage.gateway.send(&changed).assert_problem(422, "key-reused");
    stage.upstream.assert_arrivals(2);
}

#[test]
fn t17_killed_in_an_outage_it_knows_afterwards_what_ran() {
    for (settings, asked) in [("", false), (PROBED, true)] {
        let mut stage = stage(settings);
        let lock = lock(&stage);
        let payment = Request::payment(&fresh_key());
        assert_passed(&stage.gateway.send(&payment), 201, "applied");
        stage.gateway.kill();
        drop(lock);
        stage.gateway.restart();
        let answer = ask_until_recorded(&stage, &payment);
        if asked {
            assert_eq!((answer.status, &*answer.text()), (201, r#"{"id":"pay_1"}"#), "{answer:?}");
            assert!(answer.is_replay(), "{answer:?}");
        } else {
            // The answer died with the process, and it is known that it was a success.
            answer.assert_problem(409, "outcome-not-kept");
        }
        stage.upstream.assert_arrivals(1);
        assert_eq!(spools(&stage), Vec::<PathBuf>::new());
    }
}

#[test]
fn what_a_process_ran_before_it_died_is_not_executed_by_the_others() {
    let mut stage = stage("");
    let other = stage.gateway.twin();
    let lock = lock(&stage);
    let payment = Request::payment(&fresh_key());
    assert_passed(&stage.gateway.send(&payment), 201, "applied");
    let under_way = Request::payment(&fresh_key()).act("effect; gate answer");
    let _lost = stage.gateway.start(&under_way);
    eventually("the effect happens", SOON, || stage.upstream.effects().len() == 2);
    // It lives, and what it noted is known to the other one, which cannot reach the store either.
    other.send(&payment).assert_problem(409, "outcome-unknown");
    other.send(&under_way).assert_problem(409, "outcome-unknown");
    stage.gateway.kill();
    drop(lock);
    ask_gateway_until_recorded(&other, &payment).assert_problem(409, "outcome-not-kept");
    eventually("everything was brought in", SOON, || spools(&stage).is_empty());
    other.send(&under_way).assert_problem(409, "outcome-unknown");
    stage.upstream.assert_arrivals(2);
    other.send(&Request::payment(&fresh_key())).assert_stored(201);
}

#[test]
fn what_is_under_way_when_the_store_is_back_is_not_executed_by_the_others() {
    let stage = stage("");
    let other = stage.gateway.twin();
    let lock = lock(&stage);
    let payment = Request::payment(&fresh_key()).act("gate answer");
    let first = stage.gateway.start(&payment);
    stage.upstream.arrived(1);
    drop(lock);
    let is_open = |kind: String| kind == "in-flight" || kind == "outcome-unknown";
    until("the store knows it", SOON, || {
        let answer = other.send(&payment);
        assert!(answer.problem().is_some_and(is_open), "{answer:?}");
        let shown = stage.records(&["list"]).stdout;
        shown.contains("payments.create").then_some(())
    });
    stage.upstream.open("answer");
    let first = first.answer();
    assert_passed(&first, 201, "applied");
    let replay = ask_gateway_until_recorded(&other, &payment);
    assert_eq!((replay.status, &replay.body), (201, &first.body), "{replay:?}");
    stage.upstream.assert_arrivals(1);
}

#[test]
fn killed_while_something_passes_its_outcome_is_unknown() {
    let mut stage = stage("");
    let lock = lock(&stage);
    let payment = Request::payment(&fresh_key());
    let _lost = stage.gateway.start(&payment.clone().act("effect; gate answer"));
    eventually("the effect happens", SOON, || stage.upstream.effects().len() == 1);
    stage.gateway.kill();
    // A line that was being written when it died.
    let spool = spools(&stage).remove(0);
    let mut text = fs::read_to_string(&spool).expect("a spool");
    text.push_str("{\"what\":\"begun\",\"v\":1,\"ru");
    fs::write(&spool, text).expect("torn");
    drop(lock);
    for _ in 0..2 {
        stage.gateway.restart();
        stage.gateway.send(&payment).assert_problem(409, "outcome-unknown");
    }
    stage.upstream.assert_arrivals(1);
    let uncertain = stage.records(&["list", "--state", "uncertain", "--json"]).stdout;
    assert_eq!(uncertain.lines().count(), 1, "it is brought in once: {uncertain}");
}

#[test]
fn what_was_refused_while_the_store_was_down_may_be_tried_again() {
    let stage = stage("");
    let lock = lock(&stage);
    let payment = Request::payment(&fresh_key());
    // Nobody knows what an earlier attempt came to, so a refusal says nothing of the key.
    assert_passed(&stage.gateway.send(&payment.clone().act("status 422")), 422, "unknown");
    let first = stage.gateway.send(&payment);
    assert_passed(&first, 201, "applied");
    drop(lock);
    let replay = ask_until_recorded(&stage, &payment);
    assert_eq!(replay.body, first.body, "{replay:?}");
    stage.upstream.assert_effects(1);
    let arrivals = stage.upstream.arrivals();
    assert_eq!(arrivals.len(), 2);
    assert_eq!(arrivals[0].effect_id(), arrivals[1].effect_id());
}
