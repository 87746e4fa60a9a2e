//! A gateway that dies, or is held, at a named moment of an attempt, in front of every kind of
//! service. Where admission is a write of its own there will be one moment more; it is not built.

use std::thread;

use hapax_testkit::{Downstream, Scene, eventually, history::Payment};

use crate::SOON;

/// Sends the payment through a gateway that dies at this point, and waits for its death.
#[track_caller]
fn die_at(scene: &Scene, point: &str, payment: &Payment) {
    let mut dying = scene.serve.clone().failpoints(&format!("{point}=abort")).start();
    // What it does in the background can kill it, too.
    let _ = scene.recorder.send(dying.address(), payment);
    let _ = scene.recorder.send(dying.address(), payment);
    dying.ended(SOON);
}

/// Each in front of a service of its own, at the same time.
fn everywhere(test: impl Fn(Scene) + Sync) {
    thread::scope(|scope| {
        for downstream in Downstream::ALL {
            let test = &test;
            scope.spawn(move || test(Scene::new(downstream)));
        }
    });
}

#[test]
fn t04_killed_between_the_claim_and_the_first_byte_nothing_arrives_and_nobody_claims_to_know() {
    everywhere(|scene| {
        let payment = Payment::new("a");
        die_at(&scene, "claimed", &payment);
        scene.upstream.assert_arrivals(0);
        let gateway = scene.serve.start();
        scene.decided(gateway.address(), &payment, scene.downstream.goes_on);
        scene.assert_as_promised(usize::from(scene.downstream.goes_on));
    });
}

#[test]
fn t05_killed_when_the_head_of_the_answer_is_there_the_effect_stays_one() {
    everywhere(|scene| {
        let payment = Payment::new("a");
        die_at(&scene, "head", &payment);
        let gateway = scene.serve.start();
        scene.decided(gateway.address(), &payment, scene.downstream.finds);
        scene.assert_as_promised(1);
    });
}

#[test]
fn t05_killed_between_the_whole_answer_and_its_record_the_effect_stays_one() {
    everywhere(|scene| {
        let payment = Payment::new("a");
        die_at(&scene, "answered", &payment);
        let gateway = scene.serve.start();
        scene.decided(gateway.address(), &payment, scene.downstream.finds);
        scene.assert_as_promised(1);
    });
}

#[test]
fn t05_killed_between_the_record_and_the_reply_the_retry_is_replayed() {
    everywhere(|scene| {
        let payment = Payment::new("a");
        die_at(&scene, "settled", &payment);
        let gateway = scene.serve.start();
        let answer = scene.send(gateway.address(), &payment);
        assert!(answer.status == 201 && answer.is_replay(), "{answer:?}");
        scene.upstream.assert_arrivals(1);
        scene.assert_as_promised(1);
    });
}

#[test]
fn t05_killed_between_what_the_service_told_and_its_record_it_is_asked_again() {
    for name in ["asked-probe", "closing-probe", "unique-probe"] {
        let scene = Scene::new(Downstream::named(name));
        let payment = Payment::new("a");
        die_at(&scene, "probed", &payment.clone().act("effect; cut"));
        let gateway = scene.serve.start();
        scene.paid(gateway.address(), &payment);
        scene.upstream.assert_arrivals(1);
        assert!(scene.upstream.asked().len() >= 2, "{:?}", scene.upstream.asked());
        scene.assert_as_promised(1);
    }
}

#[test]
fn t05_killed_before_it_could_close_the_earlier_attempts_they_are_closed_by_the_next() {
    let scene = Scene::new(Downstream::named("closing-probe"));
    let payment = Payment::new("a");
    die_at(&scene, "closing", &payment.clone().act("gate late; effect"));
    let closes = || scene.upstream.asked().iter().filter(|asked| asked.method == "POST").count();
    assert_eq!(closes(), 0, "it died before");
    let gateway = scene.serve.start();
    scene.paid(gateway.address(), &payment);
    assert!(closes() > 0);
    scene.upstream.open("late");
    let refused = Payment::new("b");
    scene.paid(gateway.address(), &refused);
    scene.assert_as_promised(2);
}

#[test]
fn what_is_recorded_is_replayed_before_its_first_caller_is_told() {
    let scene = Scene::new(Downstream::named("plain-hold"));
    let gate = scene.dir().join("held");
    let held = format!("settled=pause:{}", gate.display());
    let slow = scene.serve.clone().failpoints(&held).start();
    let payment = Payment::new("a");
    let first = scene.recorder.start(slow.address(), &payment);
    let reached = gate.with_extension("reached");
    eventually("it is recorded", SOON, || reached.exists());
    let other = scene.serve.start();
    let replay = scene.send(other.address(), &payment);
    assert!(replay.is_replay() && !first.is_done(), "{replay:?}");
    std::fs::write(&gate, "").expect("the gate opens");
    let first = first.answer();
    first.assert_stored(201);
    replay.assert_replays(&first);
    scene.assert_as_promised(1);
}

#[test]
fn held_before_its_first_byte_past_its_time_a_request_is_never_sent_and_said_to_be_unknown() {
    let scene = Scene::new(Downstream::named("closing-probe"));
    let gate = scene.dir().join("held");
    let held = format!("claimed=pause:{}", gate.display());
    let slow = scene.serve.clone().failpoints(&held).start();
    let payment = Payment::new("a");
    let answer = scene.send(slow.address(), &payment);
    answer.assert_problem(409, "outcome-unknown").assert_outcome("unknown");
    std::fs::write(&gate, "").expect("the gate opens");
    scene.upstream.assert_arrivals(0);
    // A point acts once: what is closed goes through.
    scene.paid(slow.address(), &payment);
    scene.upstream.assert_arrivals(1);
    scene.assert_as_promised(1);
}
