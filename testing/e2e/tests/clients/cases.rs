//! What every client promises together with the gateway.

use std::time::{Duration, Instant};

use hapax_testkit::{Fault, UpstreamKind, Way, eventually};

use crate::{
    SOON,
    driver::{Driver, Payment},
    scene::{Scene, WAITING},
};

/// How an answer is lost on its way: before its first byte, in its head, and in its body, whose
/// place is found out by one that came through.
fn losses(length: usize) -> [Fault; 6] {
    [
        Fault::cut(Way::ToClient),
        // Behind the status line's text: what is lenient takes that for a whole head.
        Fault::cut(Way::ToClient).after("HTTP/1.1 201 Created".len()),
        Fault::cut(Way::ToClient).after(60),
        Fault::cut(Way::ToClient).after(length - 5),
        Fault::reset(Way::ToClient),
        Fault::reset(Way::ToClient).after(length - 5),
    ]
}

pub(crate) fn an_answer_lost_between_client_and_gateway_is_replayed(driver: &Driver) {
    if driver.is_left_out() {
        return;
    }
    let scene = Scene::holding();
    let healthy = Payment::new();
    driver.pay(&scene, &healthy).assert_outcome(&scene, &healthy, 1);
    let length = scene.front.counts().to_client;
    for (n, fault) in losses(length).into_iter().enumerate() {
        scene.front.on_turns(1, fault);
        let payment = Payment::new();
        let came = driver.pay(&scene, &payment);
        assert_eq!(scene.front.counts().faults, n + 1, "{fault:?}");
        came.assert_outcome(&scene, &payment, n + 2);
    }
    scene.upstream.assert_arrivals(7);
}

pub(crate) fn a_request_cut_on_its_way_in_is_executed_once(driver: &Driver) {
    if driver.is_left_out() {
        return;
    }
    let scene = Scene::holding();
    for (n, after) in [0, 30, 150].into_iter().enumerate() {
        scene.front.on_turns(1, Fault::cut(Way::ToServer).after(after));
        let payment = Payment::new();
        driver.pay(&scene, &payment).assert_outcome(&scene, &payment, n + 1);
        assert_eq!(scene.front.counts().faults, n + 1);
    }
    scene.upstream.assert_arrivals(3);
}

pub(crate) fn an_answer_lost_behind_the_gateway_is_one_effect_under_resend(driver: &Driver) {
    if driver.is_left_out() {
        return;
    }
    let scene = Scene::resending();
    let faults = [
        Fault::cut(Way::ToClient),
        Fault::cut(Way::ToClient).after(20),
        Fault::reset(Way::ToClient),
    ];
    for (n, fault) in faults.into_iter().enumerate() {
        scene.back.on_turns(1, fault);
        let payment = Payment::new();
        let came = driver.pay(&scene, &payment);
        assert_eq!(scene.back.counts().faults, n + 1, "{fault:?}");
        came.assert_outcome(&scene, &payment, n + 1);
        let arrivals = scene.upstream.arrivals();
        let [.., first, second] = &arrivals[..] else { panic!("{arrivals:#?}") };
        assert_eq!(arrivals.len(), 2 * (n + 1));
        assert_eq!(first.effect_id(), second.effect_id());
        assert!(first.attempt() < second.attempt());
    }
}

pub(crate) fn what_is_refused_while_the_store_is_down_is_executed_once_when_it_is_back(
    driver: &Driver,
) {
    if driver.is_left_out() {
        return;
    }
    let scene = Scene::holding();
    let payment = Payment::new();
    let lock = scene.lock_store();
    let running = driver.start(&scene, std::slice::from_ref(&payment));
    scene.front.until("the refusal", |counts| counts.to_client > 0);
    let refused = Instant::now();
    scene.upstream.assert_arrivals(0);
    drop(lock);
    let came = running.came().remove(0);
    let waited = refused.elapsed();
    if driver.honours_retry_after {
        assert!(waited >= Duration::from_millis(950), "Retry-After: 1, and {waited:?}");
    }
    came.assert_outcome(&scene, &payment, 1);
    scene.upstream.assert_arrivals(1);
}

pub(crate) fn a_retry_during_the_execution_starts_no_second_one(driver: &Driver) {
    if driver.is_left_out() {
        return;
    }
    let scene = Scene::holding();
    let payment = Payment::new();
    driver.service_does(&scene, "gate answer");
    let running = driver.start(&scene, std::slice::from_ref(&payment));
    scene.upstream.arrived(1);
    scene.front.cut_now();
    eventually("it comes again", SOON, || scene.decided("in_flight") >= 1);
    let came = if driver.retries_in_flight {
        scene.upstream.open("answer");
        running.came().remove(0)
    } else {
        let told = running.came().remove(0);
        assert_eq!(told.status, 409, "{told:?}");
        assert_eq!(scene.decided("in_flight"), 1);
        scene.upstream.open("answer");
        // A later run, with the same key, is what it takes.
        eventually("the outcome is kept", SOON, || {
            scene.gateway.metric("hapax_executions_total", &[]) >= 1.0
        });
        driver.pay(&scene, &payment)
    };
    came.assert_outcome(&scene, &payment, 1);
    scene.upstream.assert_arrivals(1);
}

pub(crate) fn a_retry_during_the_execution_waits_where_the_operation_says_so(driver: &Driver) {
    if driver.is_left_out() {
        return;
    }
    let scene = Scene::of(UpstreamKind::Plain, "", WAITING);
    let payment = Payment::new();
    driver.service_does(&scene, "gate answer");
    let running = driver.start(&scene, std::slice::from_ref(&payment));
    scene.upstream.arrived(1);
    scene.front.cut_now();
    eventually("the retry waits", SOON, || scene.gateway.metric("hapax_waiting", &[]) >= 1.0);
    scene.upstream.open("answer");
    running.came().remove(0).assert_outcome(&scene, &payment, 1);
    assert_eq!(scene.decided("in_flight"), 0);
    scene.upstream.assert_arrivals(1);
}

pub(crate) fn an_unknown_outcome_is_told_and_nothing_is_sent_again(driver: &Driver) {
    if driver.is_left_out() {
        return;
    }
    let scene = Scene::holding();
    scene.back.on_turns(1, Fault::cut(Way::ToClient));
    let begun = Instant::now();
    let came = driver.pay(&scene, &Payment::new());
    assert_eq!((came.status, came.id.as_deref()), (409, None), "{came:?}");
    // It says to come again after 60 s.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(scene.decided("hold"), driver.repeats_an_unknown_outcome);
    scene.upstream.assert_arrivals(1);
    scene.upstream.assert_effects(1);
}

pub(crate) fn a_changed_intent_is_refused_and_not_sent_again(driver: &Driver) {
    if driver.is_left_out() {
        return;
    }
    let scene = Scene::holding();
    let payment = Payment::new();
    driver.pay(&scene, &payment).assert_outcome(&scene, &payment, 1);
    let came = driver.pay(&scene, &payment.changed());
    assert_eq!(came.status, 422, "{came:?}");
    assert_eq!(came.id, None, "{came:?}");
    assert_eq!(scene.decided("key_reused"), 1, "sent once");
    scene.upstream.assert_arrivals(1);
}

pub(crate) fn a_reused_connection_that_ends_is_one_effect_all_the_same(driver: &Driver) {
    if driver.is_left_out() {
        return;
    }
    let scene = Scene::holding();
    // The first comes through, and the second goes on the same connection.
    scene.front.on_turns(1, Fault::delay(Way::ToClient, Duration::ZERO));
    scene.front.on_turns(1, Fault::reset(Way::ToClient));
    let payments = [Payment::new(), Payment::new()];
    let came = driver.start(&scene, &payments).came();
    let [first, second] = &came[..] else { panic!("{came:?}") };
    assert_eq!(first.id.as_deref(), Some("pay_1"), "{first:?}");
    second.assert_outcome(&scene, &payments[1], 2);
    let counts = scene.front.counts();
    assert_eq!((counts.connections, counts.faults), (2, 2), "{counts:?}");
    scene.upstream.assert_arrivals(2);
}

/// The promises that every client keeps, as tests of its module.
macro_rules! promises {
    ($driver:expr, $($case:ident as $name:ident),+ $(,)?) => {
        $(
            #[test]
            fn $name() {
                crate::cases::$case(&$driver);
            }
        )+
    };
}

pub(crate) use promises;
