//! Proxies in front that send a request again by themselves, as `docs/recipes` has them do: what
//! they hide from the caller is one effect all the same.

use hapax_testkit::{Cutter, Gateway, Proxy, ProxyKind, Request, Stage, eventually, fresh_key};

use crate::SOON;

/// A proxy in front of two gateways on one store; its connections to the first can be cut.
struct Scene {
    proxy: Proxy,
    cutter: Cutter,
    stage: Stage,
    other: Gateway,
}

impl Scene {
    fn new(kind: ProxyKind) -> Self {
        let stage = Stage::new();
        let other = stage.gateway.twin();
        let cutter = Cutter::before(stage.gateway.address());
        let proxy = kind.start(cutter.address(), other.address());
        Self { proxy, cutter, stage, other }
    }

    /// Sends requests until one goes by way of the cutter, whose turn it may not be.
    fn until_cut<T>(&self, send: impl Fn() -> T) -> T {
        let before = self.cutter.cuts();
        self.cutter.cut_next(1);
        for _ in 0..8 {
            let sent = send();
            if self.cutter.cuts() > before {
                return sent;
            }
        }
        panic!("no connection was cut");
    }
}

fn an_answer_that_is_cut_off_is_replayed_through(kind: ProxyKind) {
    if kind.is_left_out() {
        return;
    }
    let scene = Scene::new(kind);
    for _ in 0..5 {
        let before = scene.stage.upstream.effects().len();
        let sent = std::cell::Cell::new(0);
        let answer = scene.until_cut(|| {
            sent.set(sent.get() + 1);
            scene.proxy.send(&Request::payment(&fresh_key()))
        });
        // The caller sees nothing of it but the mark.
        assert_eq!(answer.status, 201, "{answer:?}");
        assert!(answer.is_replay(), "{answer:?}");
        scene.stage.upstream.assert_effects(before + sent.get());
    }
}

fn an_execution_that_is_cut_off_is_waited_for_through(kind: ProxyKind) {
    if kind.is_left_out() {
        return;
    }
    let scene = Scene::new(kind);
    // One of two goes by way of the first gateway.
    let payments = [0, 1].map(|_| Request::payment(&fresh_key()).act("gate answer"));
    let pending = payments.clone().map(|payment| scene.proxy.start(&payment));
    scene.stage.upstream.arrived(2);
    scene.cutter.cut_now();
    eventually("the copy waits", SOON, || {
        let waits = |gateway: &Gateway| gateway.metric("hapax_waiting", &[]) >= 1.0;
        waits(&scene.stage.gateway) || waits(&scene.other)
    });
    scene.stage.upstream.open("answer");
    let answers = pending.map(|pending| pending.answer());
    assert!(answers.iter().all(|answer| answer.status == 201), "{answers:?}");
    assert_eq!(answers.iter().filter(|answer| answer.is_replay()).count(), 1, "{answers:?}");
    scene.stage.upstream.assert_arrivals(2);
    scene.stage.upstream.assert_effects(2);
}

fn an_unkeyed_request_is_not_sent_again_through(kind: ProxyKind) {
    if kind.is_left_out() {
        return;
    }
    let scene = Scene::new(kind);
    let sent = std::cell::Cell::new(0);
    let answer = scene.until_cut(|| {
        sent.set(sent.get() + 1);
        scene.proxy.send(&Request::payment("none").without("idempotency-key"))
    });
    assert_eq!(answer.status, 502, "{answer:?}");
    scene.stage.upstream.assert_effects(sent.get());
}

fn a_gateway_that_dies_in_between_is_no_second_effect_through(kind: ProxyKind) {
    if kind.is_left_out() {
        return;
    }
    let mut scene = Scene::new(kind);
    let payments = [0, 1].map(|_| Request::payment(&fresh_key()).act("gate answer"));
    let pending = payments.clone().map(|payment| scene.proxy.start(&payment));
    scene.stage.upstream.arrived(2);
    scene.stage.gateway.kill();
    scene.stage.upstream.open("answer");
    for (pending, payment) in pending.into_iter().zip(&payments) {
        let answer = pending.answer();
        // What the dead one had sent is unknown, and is said to be.
        assert!(answer.status == 201 || answer.status == 409, "{answer:?}");
        let again = scene.proxy.send(payment);
        assert!(again.is_replay() || again.status == 409, "{again:?}");
    }
    scene.stage.upstream.assert_effects(2);
}

#[test]
fn p51_an_answer_that_is_cut_off_is_replayed_through_nginx() {
    an_answer_that_is_cut_off_is_replayed_through(ProxyKind::Nginx);
}

#[test]
fn p51_an_answer_that_is_cut_off_is_replayed_through_haproxy() {
    an_answer_that_is_cut_off_is_replayed_through(ProxyKind::Haproxy);
}

#[test]
fn p51_an_execution_that_is_cut_off_is_waited_for_through_nginx() {
    an_execution_that_is_cut_off_is_waited_for_through(ProxyKind::Nginx);
}

#[test]
fn p51_an_execution_that_is_cut_off_is_waited_for_through_haproxy() {
    an_execution_that_is_cut_off_is_waited_for_through(ProxyKind::Haproxy);
}

#[test]
fn an_unkeyed_request_is_not_sent_again_through_nginx() {
    an_unkeyed_request_is_not_sent_again_through(ProxyKind::Nginx);
}

#[test]
fn an_unkeyed_request_is_not_sent_again_through_haproxy() {
    an_unkeyed_request_is_not_sent_again_through(ProxyKind::Haproxy);
}

#[test]
fn a_gateway_that_dies_in_between_is_no_second_effect_through_nginx() {
    a_gateway_that_dies_in_between_is_no_second_effect_through(ProxyKind::Nginx);
}

#[test]
fn a_gateway_that_dies_in_between_is_no_second_effect_through_haproxy() {
    a_gateway_that_dies_in_between_is_no_second_effect_through(ProxyKind::Haproxy);
}
