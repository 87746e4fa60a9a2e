//! A gateway that is stopped for longer than its lease, and goes on, in front of every kind of
//! service.

use std::thread;

use hapax_testkit::{Downstream, Scene, UpstreamKind, eventually, history::Payment};

use crate::SOON;

/// Its effect is there, and its answer waits.
const ACTED: &str = "effect; gate slow; status 201";

/// Nothing is there yet.
const UNDER_WAY: &str = "gate slow; effect";

/// One gateway sends and is stopped, the other is asked until its lease is over, and goes on as it
/// may; then the first wakes up and gets its answer. Returns how many attempts arrived.
#[track_caller]
fn paused(downstream: Downstream, act: &str) -> usize {
    let scene = Scene::new(downstream);
    let (slow, other) = (scene.serve.start(), scene.serve.start());
    let payment = Payment::new("a");
    let first = scene.recorder.start(slow.address(), &payment.clone().act(act));
    scene.upstream.arrived(1);
    let is_there = || act == UNDER_WAY || !scene.upstream.effects().is_empty();
    eventually("the effect is there", SOON, is_there);
    slow.pause();
    let Downstream { finds, goes_on, .. } = scene.downstream;
    let is_paid = if act == ACTED { finds } else { goes_on };
    scene.decided(other.address(), &payment, is_paid);
    scene.upstream.open("slow");
    slow.resume();
    // Whatever it is told, the judge compares it with all else.
    let _ = first.result();
    for gateway in [&slow, &other] {
        scene.not_in_flight(gateway.address(), &payment);
    }
    scene.healed();
    scene.assert_as_promised(1);
    scene.upstream.arrivals().len()
}

#[track_caller]
fn paused_before_and_after_its_effect(name: &str) {
    paused(Downstream::named(name), ACTED);
    paused(Downstream::named(name), UNDER_WAY);
}

#[test]
fn t08_under_hold_a_gateway_paused_past_its_lease_is_never_followed_by_another_attempt() {
    thread::scope(|scope| {
        for kind in UpstreamKind::ALL {
            for act in [ACTED, UNDER_WAY] {
                scope.spawn(move || {
                    let arrivals = paused(Downstream::holding(kind), act);
                    assert_eq!(arrivals, 1, "{kind:?}");
                });
            }
        }
    });
}

#[test]
fn t08_a_gateway_paused_past_its_lease_before_a_service_that_cannot_be_asked() {
    paused_before_and_after_its_effect("plain-hold");
}

#[test]
fn t08_a_gateway_paused_past_its_lease_before_a_service_that_can_be_asked() {
    paused_before_and_after_its_effect("asked-probe");
}

#[test]
fn t08_a_gateway_paused_past_its_lease_before_a_service_that_closes_attempts() {
    paused_before_and_after_its_effect("closing-probe");
}

#[test]
fn t08_a_gateway_paused_past_its_lease_before_a_service_that_enforces_deadlines() {
    paused_before_and_after_its_effect("closing-deadline");
}

#[test]
fn t08_a_gateway_paused_past_its_lease_before_a_service_that_refuses_older_attempts() {
    paused_before_and_after_its_effect("refusing-probe");
}

#[test]
fn t08_a_gateway_paused_past_its_lease_before_a_service_that_refuses_duplicates() {
    paused_before_and_after_its_effect("unique-probe");
    paused_before_and_after_its_effect("unique-resend");
}

#[test]
fn t08_a_gateway_paused_past_its_lease_before_a_service_that_collapses() {
    paused_before_and_after_its_effect("collapsing-probe");
    paused_before_and_after_its_effect("collapsing-resend");
}
