//! A gateway that dies, or is held, at a named moment of an attempt, in front of every kind of
//! service. Where admission is a write of its own there will be one moment more; it is not built.

use std::{path::PathBuf, thread};

use hapax_testkit::{
    Answer, Downstream, Gateway, Serve, Upstream, eventually,
    history::{History, Payment, Recorder, records},
    until,
};
use tempfile::TempDir;

use crate::SOON;

/// A service with a gateway in front of it that is armed, and all that its clients see.
struct Scene {
    downstream: Downstream,
    upstream: Upstream,
    serve: Serve,
    recorder: Recorder,
    dir: TempDir,
}

impl Scene {
    fn new(downstream: Downstream) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let upstream = Upstream::start(dir.path(), downstream.kind);
        let serve = Serve::operations(dir.path(), &upstream, &downstream.operation());
        Self { downstream, upstream, serve, recorder: Recorder::default(), dir }
    }

    fn gate(&self) -> PathBuf {
        self.dir.path().join("held")
    }

    /// Sends the payment through a gateway that dies at this point, and waits for its death.
    #[track_caller]
    fn die_at(&self, point: &str, payment: &Payment) {
        let mut dying = self.serve.clone().failpoints(&format!("{point}=abort")).start();
        // What it does in the background can kill it, too.
        let _ = self.recorder.send(dying.address(), payment);
        let _ = self.recorder.send(dying.address(), payment);
        dying.ended(SOON);
    }

    #[track_caller]
    fn send(&self, gateway: &Gateway, payment: &Payment) -> Answer {
        self.recorder.start(gateway.address(), payment).answer()
    }

    /// Sends until the payment is known to be made.
    #[track_caller]
    fn paid(&self, gateway: &Gateway, payment: &Payment) -> Answer {
        until(&format!("{}: it is paid", self.downstream.name), SOON, || {
            let answer = self.send(gateway, payment);
            let is_unknown = answer.field("hapax-outcome").as_deref() == Some("unknown");
            (answer.status == 201 && !is_unknown).then_some(answer)
        })
    }

    /// Sends until nobody is at it, and then some times more: nobody knows what came of it.
    #[track_caller]
    fn stays_unknown(&self, gateway: &Gateway, payment: &Payment) {
        let what = format!("{}: it is no longer in flight", self.downstream.name);
        eventually(&what, SOON, || {
            self.send(gateway, payment).problem().as_deref() != Some("in-flight")
        });
        for _ in 0..3 {
            self.send(gateway, payment).assert_outcome("unknown");
        }
    }

    /// Sends until it is decided, and asserts whether that is a payment.
    #[track_caller]
    fn decided(&self, gateway: &Gateway, payment: &Payment, is_paid: bool) {
        if is_paid {
            let first = self.paid(gateway, payment);
            let again = self.send(gateway, payment);
            assert_eq!((again.status, again.body), (201, first.body));
        } else {
            self.stays_unknown(gateway, payment);
        }
    }

    /// The judge has no objections, and there are so many effects.
    #[track_caller]
    fn assert_as_promised(&self, effects: usize) {
        let records = records(&self.dir.path().join("hapax.db"));
        History::of(&self.recorder, &self.upstream, records).assert_as_promised();
        assert_eq!(self.upstream.effects().len(), effects, "{}", self.downstream.name);
    }
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
        scene.die_at("claimed", &payment);
        scene.upstream.assert_arrivals(0);
        let gateway = scene.serve.start();
        scene.decided(&gateway, &payment, scene.downstream.goes_on);
        scene.assert_as_promised(usize::from(scene.downstream.goes_on));
    });
}

#[test]
fn t05_killed_when_the_head_of_the_answer_is_there_the_effect_stays_one() {
    everywhere(|scene| {
        let payment = Payment::new("a");
        scene.die_at("head", &payment);
        let gateway = scene.serve.start();
        scene.decided(&gateway, &payment, scene.downstream.finds);
        scene.assert_as_promised(1);
    });
}

#[test]
fn t05_killed_between_the_whole_answer_and_its_record_the_effect_stays_one() {
    everywhere(|scene| {
        let payment = Payment::new("a");
        scene.die_at("answered", &payment);
        let gateway = scene.serve.start();
        scene.decided(&gateway, &payment, scene.downstream.finds);
        scene.assert_as_promised(1);
    });
}

#[test]
fn t05_killed_between_the_record_and_the_reply_the_retry_is_replayed() {
    everywhere(|scene| {
        let payment = Payment::new("a");
        scene.die_at("settled", &payment);
        let gateway = scene.serve.start();
        let answer = scene.send(&gateway, &payment);
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
        scene.die_at("probed", &payment.clone().act("effect; cut"));
        let gateway = scene.serve.start();
        scene.paid(&gateway, &payment);
        scene.upstream.assert_arrivals(1);
        assert!(scene.upstream.asked().len() >= 2, "{:?}", scene.upstream.asked());
        scene.assert_as_promised(1);
    }
}

#[test]
fn t05_killed_before_it_could_close_the_earlier_attempts_they_are_closed_by_the_next() {
    let scene = Scene::new(Downstream::named("closing-probe"));
    let payment = Payment::new("a");
    scene.die_at("closing", &payment.clone().act("gate late; effect"));
    let closes = || scene.upstream.asked().iter().filter(|asked| asked.method == "POST").count();
    assert_eq!(closes(), 0, "it died before");
    let gateway = scene.serve.start();
    scene.paid(&gateway, &payment);
    assert!(closes() > 0);
    scene.upstream.open("late");
    let refused = Payment::new("b");
    scene.paid(&gateway, &refused);
    scene.assert_as_promised(2);
}

#[test]
fn what_is_recorded_is_replayed_before_its_first_caller_is_told() {
    let scene = Scene::new(Downstream::named("plain-hold"));
    let gate = scene.gate();
    let held = format!("settled=pause:{}", gate.display());
    let slow = scene.serve.clone().failpoints(&held).start();
    let payment = Payment::new("a");
    let first = scene.recorder.start(slow.address(), &payment);
    let reached = gate.with_extension("reached");
    eventually("it is recorded", SOON, || reached.exists());
    let other = scene.serve.start();
    let replay = scene.send(&other, &payment);
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
    let gate = scene.gate();
    let held = format!("claimed=pause:{}", gate.display());
    let slow = scene.serve.clone().failpoints(&held).start();
    let payment = Payment::new("a");
    let answer = scene.send(&slow, &payment);
    answer.assert_problem(409, "outcome-unknown").assert_outcome("unknown");
    std::fs::write(&gate, "").expect("the gate opens");
    scene.upstream.assert_arrivals(0);
    // A point acts once: what is closed goes through.
    scene.paid(&slow, &payment);
    scene.upstream.assert_arrivals(1);
    scene.assert_as_promised(1);
}
