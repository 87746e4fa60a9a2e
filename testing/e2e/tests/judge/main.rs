//! The judge of histories is seen to catch bugs: real engines on a store with one, and the same run
//! on a store without, of which it has nothing to say.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod broken;
mod inside;

use std::{collections::BTreeSet, time::Duration};

use hapax_store::{Clock, Sweep, SystemClock};
use hapax_testkit::{
    Downstream, Scene, eventually, fresh_key,
    history::{History, Payment, Rule},
};
use http::{HeaderMap, HeaderValue};

use crate::{
    broken::{Broken, Bug},
    inside::{RUNTIME, STEPS, gateway, records, service},
};

/// What cannot take longer, on a machine that also compiles.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// The rules that a run has broken, in order.
#[track_caller]
fn found(scene: &Scene, store: &Broken, steps: &[&str]) -> Vec<Rule> {
    let history = History::of(scene, records(store, steps));
    let findings = history.findings();
    findings.iter().for_each(|finding| println!("{finding}"));
    findings.iter().map(|finding| finding.rule).collect::<BTreeSet<_>>().into_iter().collect()
}

const fn unchanged(_: &mut HeaderMap) {}

/// Two copies at once, through two gateways.
fn two_copies(bug: Option<Bug>) -> Vec<Rule> {
    let (scene, store) = (Scene::new(Downstream::named("plain-hold")), Broken::new(bug));
    let payment = Payment::new("a");
    let one = gateway(&scene, &store, unchanged);
    let other = gateway(&scene, &store.node(), unchanged);
    let copies = [one, other].map(|at| scene.recorder.start(at, &payment));
    for copy in copies {
        copy.answer();
    }
    found(&scene, &store, &[""])
}

#[test]
fn p49_who_reads_first_and_inserts_then_is_caught() {
    assert_eq!(two_copies(None), []);
    assert_eq!(
        two_copies(Some(Bug::ReadThenInsert)),
        [Rule::Twice, Rule::AnswersDisagree, Rule::SentTwice]
    );
}

/// The lease of the first attempt ends while it waits for its answer; another one ends before it.
fn late_answer(bug: Option<Bug>) -> Vec<Rule> {
    let (scene, store) = (Scene::new(Downstream::named("collapsing-resend")), Broken::new(bug));
    let cut_off = store.node();
    cut_off.cut_off();
    let slow = gateway(&scene, &cut_off, unchanged);
    let other = gateway(&scene, &store, unchanged);
    let payment = Payment::new("a");
    let late = payment.clone().act("effect; gate slow; status 201; body text late");
    let late = scene.recorder.start(slow, &late);
    scene.upstream.arrived(1);
    scene.paid(other, &payment);
    scene.upstream.open("slow");
    late.answer();
    scene.send(other, &payment);
    found(&scene, &store, &[""])
}

#[test]
fn p49_an_answer_that_nothing_fences_is_caught() {
    assert_eq!(late_answer(None), []);
    assert_eq!(late_answer(Some(Bug::NoFence)), [Rule::AnswersDisagree]);
}

/// The effect is there, and the service says that it failed.
fn failure_after_the_effect(bug: Option<Bug>) -> Vec<Rule> {
    let (scene, store) = (Scene::new(Downstream::named("plain-hold")), Broken::new(bug));
    let at = gateway(&scene, &store, unchanged);
    let payment = Payment::new("a");
    scene.send(at, &payment.clone().act("effect; status 500"));
    scene.send(at, &payment);
    found(&scene, &store, &[""])
}

#[test]
fn p49_a_release_on_5xx_is_caught() {
    assert_eq!(failure_after_the_effect(None), []);
    assert_eq!(failure_after_the_effect(Some(Bug::ReleasesOn5xx)), [Rule::Twice]);
}

/// A sweep runs between an answer and its replay.
fn sweep(bug: Option<Bug>) -> Vec<Rule> {
    let (scene, store) = (Scene::new(Downstream::named("plain-hold")), Broken::new(bug));
    let at = gateway(&scene, &store, unchanged);
    let payment = Payment::new("a");
    scene.send(at, &payment);
    RUNTIME.block_on(store.sweep(SystemClock.now(), 500)).expect("a sweep");
    scene.send(at, &payment);
    found(&scene, &store, &[""])
}

#[test]
fn p49_a_sweeper_with_a_gap_is_caught() {
    assert_eq!(sweep(None), []);
    assert_eq!(sweep(Some(Bug::SweepsWithAGap)), [Rule::Forgotten]);
}

/// The answer of the first attempt is lost, the second is refused; then another intent is sent.
fn refusal_of_the_second(bug: Option<Bug>) -> Vec<Rule> {
    let (scene, store) = (Scene::new(Downstream::named("collapsing-resend")), Broken::new(bug));
    let at = gateway(&scene, &store, unchanged);
    let payment = Payment::new("a");
    scene.send(at, &payment.clone().act("effect; cut"));
    scene.send(at, &payment.clone().act("status 401"));
    scene.send(at, &Payment::under(payment.key(), "b"));
    found(&scene, &store, &[""])
}

#[test]
fn p49_a_refusal_of_the_second_attempt_taken_for_proof_is_caught() {
    assert_eq!(refusal_of_the_second(None), []);
    assert_eq!(
        refusal_of_the_second(Some(Bug::RefusalIsProof)),
        [Rule::SuccessWithoutEffect, Rule::DeniedEffect]
    );
}

fn in_lower_case(headers: &mut HeaderMap) {
    if let Some(key) = headers.get("idempotency-key") {
        let lower = key.to_str().expect("text").to_lowercase();
        headers.insert("idempotency-key", HeaderValue::try_from(lower).expect("a value"));
    }
}

/// Two keys that differ in their case alone.
fn keys_of_two_cases(door: fn(&mut HeaderMap)) -> Vec<Rule> {
    let (scene, store) = (Scene::new(Downstream::named("plain-hold")), Broken::new(None));
    let at = gateway(&scene, &store, door);
    let key = fresh_key();
    scene.send(at, &Payment::under(&key, "a"));
    scene.send(at, &Payment::under(&key.to_uppercase(), "b"));
    found(&scene, &store, &[""])
}

#[test]
fn p49_keys_whose_case_does_not_count_are_caught() {
    assert_eq!(keys_of_two_cases(unchanged), []);
    assert_eq!(keys_of_two_cases(in_lower_case), [Rule::RefusedWithoutCause]);
}

/// An execution of two steps.
fn two_steps(one_id: bool) -> Vec<Rule> {
    let (scene, store) = (Scene::new(Downstream::named("collapsing-resend")), Broken::new(None));
    let at = service(&scene, &store, one_id);
    let payment = Payment::new("a");
    scene.send(at, &payment);
    scene.send(at, &payment);
    found(&scene, &store, &STEPS)
}

#[test]
fn p49_one_effect_id_for_two_steps_is_caught() {
    assert_eq!(two_steps(false), []);
    assert_eq!(two_steps(true), [Rule::SuccessWithoutEffect, Rule::ChangedIntent, Rule::SentTwice]);
}

/// The binary itself, in front of a service that does not do what is said of it.
#[test]
fn p49_a_service_that_does_not_collapse_as_it_is_said_to_is_caught() {
    for (downstream, rules) in [
        (Downstream::named("collapsing-resend"), vec![]),
        (Downstream::MISDECLARED, vec![Rule::Twice]),
    ] {
        let scene = Scene::new(downstream);
        let gateway = scene.serve.start();
        let payment = Payment::new("a");
        scene.send(gateway.address(), &payment.clone().act("effect; cut"));
        scene.paid(gateway.address(), &payment);
        eventually("two arrivals", SOON, || scene.upstream.arrivals().len() == 2);
        let findings = scene.history().findings();
        assert_eq!(findings.iter().map(|finding| finding.rule).collect::<Vec<_>>(), rules);
    }
}
