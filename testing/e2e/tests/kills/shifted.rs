//! The clock of a gateway jumps while it runs. On SQLite it is the store's clock, so leases and
//! retention end early, or late. Nothing runs twice, and nothing is forgotten.

use hapax_testkit::{
    Clock, Downstream, Gateway, Request, Scene, Serve, Upstream, UpstreamKind, eventually,
    fresh_key, hapax, history::Payment,
};

use crate::{
    SOON,
    storm::{Disturbance, storm},
};

/// One gateway executes; for the other, whose clock jumps, its lease is over at once.
#[track_caller]
fn ahead(name: &str) {
    let scene = Scene::new(Downstream::named(name));
    let Some(clock) = Clock::new(scene.dir()) else { return };
    let (executing, ahead) = (scene.serve.start(), scene.serve.clone().clock(&clock).start());
    let payment = Payment::new("a");
    let first = payment.clone().act("gate slow; effect");
    let first = scene.recorder.start(executing.address(), &first);
    scene.upstream.arrived(1);
    clock.shift("+3h");
    let answer = scene.not_in_flight(ahead.address(), &payment);
    // What is closed is proven not to be there, so there a new attempt may have made it.
    if !answer.field("idempotency-expires").is_some_and(|_| name.starts_with("closing")) {
        answer.assert_problem(409, "outcome-unknown").assert_outcome("unknown");
    }
    scene.upstream.open("slow");
    let _ = first.result();
    for gateway in [&ahead, &executing] {
        scene.not_in_flight(gateway.address(), &payment);
    }
    clock.shift("+0");
    scene.healed();
    scene.assert_as_promised(1);
}

#[test]
fn a_clock_that_jumps_forward_makes_what_is_under_way_unknown_and_runs_nothing_again() {
    for downstream in Downstream::ALL {
        ahead(downstream.name);
    }
}

#[test]
fn a_clock_that_went_back_makes_leases_end_early_and_runs_nothing_again() {
    let scene = Scene::new(Downstream::named("plain-hold"));
    let Some(clock) = Clock::new(scene.dir()) else { return };
    let (behind, other) = (scene.serve.clone().clock(&clock).start(), scene.serve.start());
    clock.shift("-3h");
    let payment = Payment::new("a");
    let first = payment.clone().act("gate slow; effect");
    let first = scene.recorder.start(behind.address(), &first);
    scene.upstream.arrived(1);
    scene.stays_unknown(other.address(), &payment);
    scene.upstream.open("slow");
    first.answer().assert_stored(201);
    let replay = scene.send(other.address(), &payment);
    assert!(replay.is_replay(), "{replay:?}");
    scene.assert_as_promised(1);
}

#[test]
fn a_gateway_that_died_with_its_clock_ahead_is_waited_for_and_nothing_runs_again() {
    let scene = Scene::new(Downstream::named("collapsing-resend"));
    let Some(clock) = Clock::new(scene.dir()) else { return };
    let (mut ahead, other) = (scene.serve.clone().clock(&clock).start(), scene.serve.start());
    clock.shift("+3h");
    let payment = Payment::new("a");
    let first = payment.clone().act("effect; gate never");
    let _lost = scene.recorder.start(ahead.address(), &first);
    scene.upstream.arrived(1);
    ahead.kill();
    for _ in 0..2 {
        scene.send(other.address(), &payment).assert_problem(409, "in-flight");
    }
    scene.upstream.assert_arrivals(1);
    // When its lease is over by that clock, it goes on.
    let later = scene.serve.clone().clock(&clock).start();
    scene.paid(later.address(), &payment);
    scene.assert_as_promised(1);
}

#[track_caller]
fn assert_kept_while_a_clock_jumps(name: &str) {
    let scene = Scene::new(Downstream::named(name));
    let Some(clock) = Clock::new(scene.dir()) else { return };
    let storm = storm(scene, 7, Disturbance::Shifts(&clock), 16);
    println!("{}", storm.report);
    let findings: Vec<_> = storm.findings.iter().map(ToString::to_string).collect();
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

#[test]
fn while_a_clock_jumps_a_service_that_cannot_be_asked_acts_once() {
    assert_kept_while_a_clock_jumps("plain-hold");
}

#[test]
fn while_a_clock_jumps_a_service_that_closes_attempts_acts_once() {
    assert_kept_while_a_clock_jumps("closing-probe");
}

#[test]
fn while_a_clock_jumps_a_service_that_collapses_acts_once() {
    assert_kept_while_a_clock_jumps("collapsing-resend");
}

/// A sweeper takes one row at a time, so that it is at work for a while.
const SWEEPING: &str = r#"store = "sqlite:{dir}/hapax.db"
scope = { single_tenant = true }
sweep = 1
[[service]]
upstream = "{upstream}"
[[operation]]
name      = "short"
routes    = ["POST /short"]
retention = { outcome = "1s", tombstone = "2s" }
[[operation]]
name      = "payments.create"
routes    = ["POST /payments"]
"#;

#[test]
fn nothing_is_swept_because_a_clock_jumped_and_other_gateways_stay() {
    const SHORT: usize = 25;
    let dir = tempfile::tempdir().expect("a directory");
    let Some(clock) = Clock::new(dir.path()) else { return };
    let upstream = Upstream::start(dir.path(), UpstreamKind::Plain);
    let serve = Serve::configured(dir.path(), &upstream, SWEEPING);
    let payment = Request::payment(&fresh_key());
    let filling = serve.start();
    let first = filling.send(&payment);
    for _ in 0..SHORT {
        filling.send(&payment.clone().to("/short").key(&fresh_key())).assert_stored(201);
    }
    drop(filling);
    let store = format!("sqlite:{}", dir.path().join("hapax.db").display());
    let over = ["records", "list", "--store", &store, "--state", "tombstone", "--json"];
    eventually("the short ones are over", SOON, || hapax(over).stdout.lines().count() == SHORT);
    let other = serve.start();
    let sweeping = serve.clock(&clock).start();
    clock.shift("+40d");
    // Its retention is over by that clock. It is not executed for that.
    sweeping.send(&payment).assert_problem(410, "key-expired");
    eventually("the short ones are swept", SOON, || {
        let swept = |gateway: &Gateway| gateway.metric("hapax_swept_records_total", &[]);
        swept(&sweeping) + swept(&other) >= SHORT as f64
    });
    clock.shift("+0");
    for gateway in [&sweeping, &other] {
        gateway.send(&payment).assert_replays(&first);
        assert_eq!(gateway.operator("/readyz").status, 200);
        gateway.send(&Request::payment(&fresh_key())).assert_stored(201);
    }
    assert_eq!(upstream.effects().len(), SHORT + 3);
}
