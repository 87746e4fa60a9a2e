//! Proxies in front that send a request again by themselves, as `docs/recipes` has them do: what
//! they hide from the caller is one effect all the same.

use std::cell::Cell;

use hapax_testkit::{
    Answer, Fault, FaultProxy, Gateway, Proxy, ProxyKind, Request, UpstreamKind, Way, eventually,
    fresh_key, until,
};

use crate::{SOON, scene::Scene};

/// A proxy in front of two gateways on one store.
struct Fronted {
    proxy: Proxy,
    scene: Scene,
    other: Gateway,
    /// Before the other one; that before the first is the scene's.
    other_front: FaultProxy,
}

impl Fronted {
    fn new(kind: ProxyKind) -> Self {
        Self::of(kind, Scene::with(UpstreamKind::Plain, "in_flight = { wait = \"2s\" }"))
    }

    fn of(kind: ProxyKind, scene: Scene) -> Self {
        let other = scene.gateway.twin();
        let other_front = FaultProxy::before(other.address());
        let proxy = kind.start(scene.front.address(), other_front.address());
        Self { proxy, scene, other, other_front }
    }

    fn faults(&self) -> usize {
        self.scene.front.counts().faults
    }

    /// Sends requests until one goes by way of the fault, whose turn it may not be. With its answer
    /// comes how many were sent.
    fn until_faulty(&self, fault: Fault, request: impl Fn() -> Request) -> (Answer, usize) {
        let before = self.faults();
        self.scene.front.on_turns(1, fault);
        for sent in 1..=8 {
            let answer = self.proxy.send(&request());
            if self.faults() > before {
                return (answer, sent);
            }
        }
        panic!("no connection had the fault");
    }
}

fn an_answer_that_is_lost_is_replayed_through(kind: ProxyKind) {
    if kind.is_left_out() {
        return;
    }
    let fronted = Fronted::new(kind);
    let mut effects = 0;
    let faults = [
        Fault::cut(Way::ToClient),
        Fault::cut(Way::ToClient).after(20),
        Fault::cut(Way::ToClient).after(60),
        Fault::reset(Way::ToClient),
        Fault::reset(Way::ToClient).after(60),
    ];
    for fault in faults {
        let (answer, sent) = fronted.until_faulty(fault, || Request::payment(&fresh_key()));
        // The caller sees nothing of it but the mark.
        assert_eq!(answer.status, 201, "{fault:?}: {answer:?}");
        assert!(answer.is_replay(), "{fault:?}: {answer:?}");
        effects += sent;
        fronted.scene.upstream.assert_effects(effects);
    }
}

fn an_answer_cut_in_its_body_is_the_clients_to_ask_for_again_through(kind: ProxyKind) {
    if kind.is_left_out() {
        return;
    }
    let fronted = Fronted::new(kind);
    let last = Cell::new(String::new());
    let payment = || {
        let key = fresh_key();
        last.set(key.clone());
        // Long enough to be on its way to the caller when it is cut.
        Request::payment(&key).act("effect; body sized 200000")
    };
    let (answer, sent) = fronted.until_faulty(Fault::cut(Way::ToClient).after(100_000), payment);
    assert!(!answer.complete, "{answer:?}");
    let again = fronted.proxy.send(&Request::payment(&last.take()));
    assert!(again.is_replay() && again.complete, "{again:?}");
    assert_eq!((again.status, again.body.len()), (201, 200_000));
    fronted.scene.upstream.assert_effects(sent);
}

fn an_execution_that_is_cut_off_is_waited_for_through(kind: ProxyKind) {
    if kind.is_left_out() {
        return;
    }
    let fronted = Fronted::new(kind);
    let upstream = &fronted.scene.upstream;
    // One of two goes by way of the first gateway.
    let payments = [0, 1].map(|_| Request::payment(&fresh_key()).act("gate answer"));
    let pending = payments.clone().map(|payment| fronted.proxy.start(&payment));
    upstream.arrived(2);
    fronted.scene.front.cut_now();
    eventually("the copy waits", SOON, || {
        let waits = |gateway: &Gateway| gateway.metric("hapax_waiting", &[]) >= 1.0;
        waits(&fronted.scene.gateway) || waits(&fronted.other)
    });
    upstream.open("answer");
    let answers = pending.map(|pending| pending.answer());
    assert!(answers.iter().all(|answer| answer.status == 201), "{answers:?}");
    assert_eq!(answers.iter().filter(|answer| answer.is_replay()).count(), 1, "{answers:?}");
    upstream.assert_arrivals(2);
    upstream.assert_effects(2);
}

fn an_unkeyed_request_is_not_sent_again_through(kind: ProxyKind) {
    if kind.is_left_out() {
        return;
    }
    let fronted = Fronted::new(kind);
    let unkeyed = || Request::payment("none").without("idempotency-key");
    let (answer, sent) = fronted.until_faulty(Fault::cut(Way::ToClient), unkeyed);
    assert_eq!(answer.status, 502, "{answer:?}");
    fronted.scene.upstream.assert_effects(sent);
}

fn a_gateway_that_dies_in_between_is_no_second_effect_through(kind: ProxyKind) {
    if kind.is_left_out() {
        return;
    }
    let mut fronted = Fronted::new(kind);
    let payments = [0, 1].map(|_| Request::payment(&fresh_key()).act("gate answer"));
    let pending = payments.clone().map(|payment| fronted.proxy.start(&payment));
    fronted.scene.upstream.arrived(2);
    fronted.scene.gateway.kill();
    fronted.scene.upstream.open("answer");
    for (pending, payment) in pending.into_iter().zip(&payments) {
        let answer = pending.answer();
        // What the dead one had sent is unknown, and is said to be.
        assert!(answer.status == 201 || answer.status == 409, "{answer:?}");
        let again = fronted.proxy.send(payment);
        assert!(again.is_replay() || again.status == 409, "{again:?}");
    }
    fronted.scene.upstream.assert_effects(2);
}

/// 503 while the store is down, from either gateway: whatever the proxy makes of that.
fn a_503_that_is_resent_executes_nothing_while_the_store_is_down_through(kind: ProxyKind) {
    if kind.is_left_out() {
        return;
    }
    let fronted = Fronted::new(kind);
    let payment = Request::payment(&fresh_key());
    let lock = fronted.scene.lock_store();
    let refused = fronted.proxy.send(&payment);
    refused.assert_problem(503, "store-unavailable").assert_retry_after(1);
    let refusals = |gateway: &Gateway| gateway.metric("hapax_problems_total", &[]);
    // It asked both by itself.
    assert!(refusals(&fronted.scene.gateway) >= 1.0, "{refused:?}");
    assert!(refusals(&fronted.other) >= 1.0, "{refused:?}");
    fronted.scene.upstream.assert_arrivals(0);
    drop(lock);
    // As a caller that comes back after each 503.
    let answer = until("the store is back", SOON, || {
        let answer = fronted.proxy.send(&payment);
        (answer.status != 503).then_some(answer)
    });
    answer.assert_stored(201);
    fronted.scene.upstream.assert_arrivals(1);
    fronted.scene.upstream.assert_effects(1);
}

/// 503 of an outcome that is not known, where another attempt is permitted.
fn a_503_that_is_resent_is_one_effect_under_resend_through(kind: ProxyKind) {
    if kind.is_left_out() {
        return;
    }
    let fronted = Fronted::of(kind, Scene::resending());
    let faults = [
        Fault::cut(Way::ToClient),
        Fault::cut(Way::ToClient).after(20),
        Fault::reset(Way::ToClient),
    ];
    for (n, fault) in faults.into_iter().enumerate() {
        fronted.scene.back.on_turns(1, fault);
        // Sent once by the caller, by way of either gateway.
        let answer = fronted.proxy.send(&Request::payment(&fresh_key()));
        answer.assert_stored(201);
        let arrivals = fronted.scene.upstream.arrivals();
        let [.., first, second] = &arrivals[..] else { panic!("{arrivals:#?}") };
        assert_eq!(arrivals.len(), 2 * (n + 1), "{arrivals:#?}");
        assert_eq!(first.effect_id(), second.effect_id());
        assert!(first.attempt() < second.attempt());
        fronted.scene.upstream.assert_effects(n + 1);
    }
}

/// Under `hold` an outcome that is not known is 409, which no proxy sends again.
fn an_unknown_outcome_is_told_at_once_through(kind: ProxyKind) {
    if kind.is_left_out() {
        return;
    }
    let fronted = Fronted::new(kind);
    fronted.scene.back.on_turns(1, Fault::cut(Way::ToClient));
    let payment = Request::payment(&fresh_key());
    fronted.proxy.send(&payment).assert_problem(409, "outcome-unknown");
    let decided = |gateway: &Gateway| gateway.metric("hapax_decisions_total", &[]);
    let decisions = decided(&fronted.scene.gateway) + decided(&fronted.other);
    assert!((decisions - 1.0).abs() < f64::EPSILON, "asked {decisions} times");
    fronted.proxy.send(&payment).assert_problem(409, "outcome-unknown");
    fronted.scene.upstream.assert_arrivals(1);
    assert_eq!(fronted.other_front.counts().faults, 0);
}

macro_rules! through_both {
    ($($case:ident: $nginx:ident, $haproxy:ident;)+) => {
        $(
            #[test]
            fn $nginx() {
                $case(ProxyKind::Nginx);
            }

            #[test]
            fn $haproxy() {
                $case(ProxyKind::Haproxy);
            }
        )+
    };
}

through_both! {
    an_answer_that_is_lost_is_replayed_through:
        p51_an_answer_that_is_lost_is_replayed_through_nginx,
        p51_an_answer_that_is_lost_is_replayed_through_haproxy;
    an_answer_cut_in_its_body_is_the_clients_to_ask_for_again_through:
        an_answer_cut_in_its_body_is_the_clients_to_ask_for_again_through_nginx,
        an_answer_cut_in_its_body_is_the_clients_to_ask_for_again_through_haproxy;
    an_execution_that_is_cut_off_is_waited_for_through:
        p51_an_execution_that_is_cut_off_is_waited_for_through_nginx,
        p51_an_execution_that_is_cut_off_is_waited_for_through_haproxy;
    an_unkeyed_request_is_not_sent_again_through:
        an_unkeyed_request_is_not_sent_again_through_nginx,
        an_unkeyed_request_is_not_sent_again_through_haproxy;
    a_gateway_that_dies_in_between_is_no_second_effect_through:
        a_gateway_that_dies_in_between_is_no_second_effect_through_nginx,
        a_gateway_that_dies_in_between_is_no_second_effect_through_haproxy;
    a_503_that_is_resent_executes_nothing_while_the_store_is_down_through:
        p11_a_503_that_is_resent_executes_nothing_while_the_store_is_down_through_nginx,
        p11_a_503_that_is_resent_executes_nothing_while_the_store_is_down_through_haproxy;
    a_503_that_is_resent_is_one_effect_under_resend_through:
        p11_a_503_that_is_resent_is_one_effect_under_resend_through_nginx,
        p11_a_503_that_is_resent_is_one_effect_under_resend_through_haproxy;
    an_unknown_outcome_is_told_at_once_through:
        an_unknown_outcome_is_told_at_once_through_nginx,
        an_unknown_outcome_is_told_at_once_through_haproxy;
}
