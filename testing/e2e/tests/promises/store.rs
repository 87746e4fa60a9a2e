//! Stores that fail, and stores that go back in time.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use hapax_testkit::{Gateway, Request, Stage, UpstreamKind, eventually, fresh_key};
use rusqlite::Connection;

use crate::SOON;

/// Keeps every writer out of the database.
fn lock(database: &Path) -> Connection {
    let connection = Connection::open(database).expect("the database opens");
    connection.busy_timeout(SOON).expect("a timeout");
    connection.execute_batch("BEGIN IMMEDIATE").expect("the lock is taken");
    connection
}

/// A copy of the database as it is now, whole in one file.
fn copy(database: &Path, to: &Path) {
    let connection = Connection::open(database).expect("the database opens");
    connection.busy_timeout(SOON).expect("a timeout");
    connection.execute("VACUUM INTO ?1", [to.display().to_string()]).expect("a copy");
}

/// Keyed requests are refused, all others pass, and it says that it is not ready.
#[track_caller]
fn assert_regressed(stage: &Stage, payment: &Request) {
    let before = stage.upstream.arrivals().len();
    let answer = stage.gateway.send(payment);
    answer.assert_problem(503, "store-regressed");
    assert!(answer.field("retry-after").is_some(), "{answer:?}");
    let fresh = stage.gateway.send(&Request::payment(&fresh_key()));
    fresh.assert_problem(503, "store-regressed");
    stage.upstream.assert_arrivals(before);
    let readiness = stage.gateway.operator("/readyz");
    assert_eq!(readiness.status, 503, "{readiness:?}");
    assert!(readiness.text().contains("regressed"), "{readiness:?}");
    assert_eq!(stage.gateway.operator("/healthz").status, 200);
    let unkeyed = stage.gateway.send(&payment.clone().without("idempotency-key"));
    assert_eq!(unkeyed.status, 201, "{unkeyed:?}");
}

/// After a restart it works on the file that is there.
#[track_caller]
fn assert_works(gateway: &Gateway) {
    assert_eq!(gateway.operator("/readyz").status, 200);
    gateway.send(&Request::payment(&fresh_key())).assert_stored(201);
}

#[test]
fn p30_a_database_file_that_is_replaced_is_noticed_before_anything_is_executed() {
    let mut stage = Stage::new();
    let old = stage.dir().join("backup.db");
    let payment = Request::payment(&fresh_key());
    stage.gateway.send(&Request::payment(&fresh_key())).assert_stored(201);
    copy(&stage.database(), &old);
    // This one is not in the backup.
    stage.gateway.send(&payment).assert_stored(201);
    fs::rename(&old, stage.database()).expect("the file is replaced");
    assert_regressed(&stage, &payment);
    stage.gateway.restart();
    assert_works(&stage.gateway);
}

#[test]
fn p37_a_database_file_that_is_removed_or_moved_away_is_noticed() {
    let stage = Stage::new();
    let payment = Request::payment(&fresh_key());
    stage.gateway.send(&payment).assert_stored(201);
    fs::rename(stage.database(), stage.dir().join("elsewhere.db")).expect("the file is moved");
    assert_regressed(&stage, &payment);
    let removed = Stage::new();
    removed.gateway.send(&payment).assert_stored(201);
    fs::remove_file(removed.database()).expect("the file is removed");
    assert_regressed(&removed, &payment);
}

#[test]
fn p30_content_that_went_back_in_the_same_file_is_noticed_by_the_mark() {
    let mut stage = Stage::new();
    let payment = Request::payment(&fresh_key());
    stage.gateway.send(&payment).assert_stored(201);
    let connection = Connection::open(stage.database()).expect("the database opens");
    connection.busy_timeout(SOON).expect("a timeout");
    // As a restore into the same file would leave it: records and mark of an earlier moment.
    connection.execute("UPDATE hapax_mark SET seq = seq - 1", ()).expect("the mark goes back");
    assert_regressed(&stage, &payment);
    stage.gateway.restart();
    stage.gateway.send(&payment);
    assert_works(&stage.gateway);
}

#[test]
fn an_idle_gateway_notices_too_and_says_so() {
    let stage = Stage::new();
    let copied = stage.dir().join("copy.db");
    copy(&stage.database(), &copied);
    fs::rename(&copied, stage.database()).expect("the file is replaced");
    eventually("it is not ready", SOON, || stage.gateway.operator("/readyz").status == 503);
    assert_regressed(&stage, &Request::payment(&fresh_key()));
}

#[test]
fn an_outcome_that_the_replaced_store_cannot_take_is_unknown_for_its_caller() {
    let stage = Stage::new();
    let payment = Request::payment(&fresh_key()).act("gate answer");
    let first = stage.gateway.start(&payment);
    stage.upstream.arrived(1);
    let copied = stage.dir().join("copy.db");
    copy(&stage.database(), &copied);
    fs::rename(&copied, stage.database()).expect("the file is replaced");
    stage.upstream.open("answer");
    // Neither success, which a retry would not find, nor "nothing was executed".
    let answer = first.answer();
    answer.assert_problem(409, "outcome-unknown").assert_outcome("unknown");
    stage.upstream.assert_arrivals(1);
}

#[test]
fn p11_a_locked_database_is_503_within_a_bound_and_nothing_arrives() {
    let stage = Stage::new();
    let payment = Request::payment(&fresh_key());
    let known = Request::payment(&fresh_key());
    let first = stage.gateway.send(&known);
    first.assert_stored(201);
    let locked = lock(&stage.database());
    let begun = Instant::now();
    let answer = stage.gateway.send(&payment);
    let took = begun.elapsed();
    answer.assert_problem(503, "store-unavailable");
    assert!(answer.field("retry-after").is_some(), "{answer:?}");
    assert!(took < Duration::from_secs(5), "{took:?}");
    stage.upstream.assert_arrivals(1);
    eventually("it is not ready", SOON, || stage.gateway.operator("/readyz").status == 503);
    // What needs no claim goes on.
    let unkeyed = stage.gateway.send(&payment.clone().without("idempotency-key"));
    assert_eq!(unkeyed.status, 201, "{unkeyed:?}");
    locked.execute_batch("ROLLBACK").expect("the lock is released");
    eventually("it is ready again", SOON, || stage.gateway.operator("/readyz").status == 200);
    let executed = hapax_testkit::until("the retry executes", SOON, || {
        let answer = stage.gateway.send(&payment);
        (answer.status == 201).then_some(answer)
    });
    executed.assert_stored(201);
    stage.gateway.send(&known).assert_replays(&first);
    stage.upstream.assert_arrivals(3);
}

#[test]
fn p11_many_requests_on_a_locked_database_are_all_refused_within_the_bound() {
    let stage = Stage::new();
    let locked = lock(&stage.database());
    let begun = Instant::now();
    let pending: Vec<_> =
        (0..50).map(|_| stage.gateway.start(&Request::payment(&fresh_key()))).collect();
    for answer in pending.into_iter().map(|pending| pending.answer()) {
        answer.assert_problem(503, "store-unavailable");
    }
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
    locked.execute_batch("ROLLBACK").expect("the lock is released");
    eventually("it is ready again", SOON, || stage.gateway.operator("/readyz").status == 200);
    stage.upstream.assert_arrivals(0);
}

#[test]
fn an_outcome_that_cannot_be_stored_yet_is_unknown_for_its_caller_and_stored_later() {
    let stage = Stage::new();
    let payment = Request::payment(&fresh_key()).act("gate answer");
    let first = stage.gateway.start(&payment);
    stage.upstream.arrived(1);
    let locked = lock(&stage.database());
    stage.upstream.open("answer");
    first.answer().assert_problem(409, "outcome-unknown").assert_outcome("unknown");
    locked.execute_batch("ROLLBACK").expect("the lock is released");
    let retry = hapax_testkit::until("the outcome is stored", SOON, || {
        let answer = stage.gateway.send(&payment);
        (answer.status == 201).then_some(answer)
    });
    assert!(retry.is_replay(), "{retry:?}");
    stage.upstream.assert_arrivals(1);
    stage.upstream.assert_effects(1);
}

#[test]
fn every_record_is_on_disk_before_the_request_is_forwarded() {
    let stage = Stage::new();
    let _running = stage.gateway.start(&Request::payment(&fresh_key()).act("gate never"));
    stage.upstream.arrived(1);
    // Another process sees the claim of the request that is under way.
    let listed = stage.records(&["list", "--state", "executing", "--json"]);
    assert_eq!(listed.stdout.lines().count(), 1, "{listed:?}");
}

#[test]
fn p11_on_a_full_disk_nothing_arrives_and_it_goes_on_when_there_is_room() {
    let mut stage = Stage::of(UpstreamKind::Plain, |serve| serve.with_room_for(400));
    let big = || Request::payment(&fresh_key()).act("effect; status 201; body sized 60000");
    // Until a claim does not fit any more.
    let mut settled = Vec::new();
    let refused = hapax_testkit::until("the disk is full", SOON, || {
        let request = big();
        let answer = stage.gateway.send(&request);
        match answer.problem().as_deref() {
            None => settled.push((request, answer.assert_stored(201).clone())),
            // The claim fitted and the answer did not.
            Some("outcome-unknown") => {}
            Some(_) => return Some((request, answer)),
        }
        None
    });
    refused.1.assert_problem(503, "store-unavailable");
    let before = stage.upstream.arrivals().len();
    stage.gateway.send(&refused.0).assert_problem(503, "store-unavailable");
    stage.upstream.assert_arrivals(before);
    eventually("it is not ready", SOON, || stage.gateway.operator("/readyz").status == 503);
    let unkeyed = stage.gateway.send(&big().without("idempotency-key"));
    assert_eq!(unkeyed.status, 201, "{unkeyed:?}");
    // What was stored is replayed.
    for (request, first) in &settled {
        stage.gateway.send(request).assert_replays(first);
    }
    stage.gateway.make_room();
    eventually("it is ready", SOON, || stage.gateway.operator("/readyz").status == 200);
    stage.gateway.send(&refused.0).assert_stored(201);
    for (request, first) in &settled {
        stage.gateway.send(request).assert_replays(first);
    }
    let mut seen = std::collections::BTreeSet::new();
    for arrival in stage.upstream.arrivals() {
        let fresh = arrival.all("idempotency-key").is_empty() || seen.insert(arrival.effect_id());
        assert!(fresh, "twice: {arrival:?}");
    }
}
