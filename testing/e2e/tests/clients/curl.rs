//! curl with `--retry`.

use std::time::Duration;

use hapax_testkit::{Client, Fault, UpstreamKind, Way};

use crate::{
    driver::{Driver, Payment},
    scene::{Scene, WAITING},
};

const CURL: Driver = Driver {
    client: Client::Curl,
    script: "pay.sh",
    honours_retry_after: true,
    // A 409 is no failure that passes, for curl.
    retries_in_flight: false,
    repeats_an_unknown_outcome: 0,
};

crate::cases::promises! { CURL,
    an_answer_lost_between_client_and_gateway_is_replayed
        as t06_an_answer_lost_between_curl_and_gateway_is_replayed,
    a_request_cut_on_its_way_in_is_executed_once as a_request_of_curl_that_is_cut_is_executed_once,
    an_answer_lost_behind_the_gateway_is_one_effect_under_resend
        as t06_an_answer_lost_behind_the_gateway_is_one_effect_for_curl,
    what_is_refused_while_the_store_is_down_is_executed_once_when_it_is_back
        as p11_curl_comes_back_when_the_store_is_back,
    a_retry_during_the_execution_starts_no_second_one as curl_stops_at_a_409_while_it_is_executed,
    a_retry_during_the_execution_waits_where_the_operation_says_so
        as curl_waits_for_the_first_request_where_the_operation_says_so,
    an_unknown_outcome_is_told_and_nothing_is_sent_again
        as curl_is_told_of_an_unknown_outcome,
    a_changed_intent_is_refused_and_not_sent_again as t02_curl_does_not_repeat_a_changed_intent,
}

/// A payment for whose body curl asks first (`Expect: 100-continue`).
fn large() -> Payment {
    Payment { note: "x".repeat(2 << 20), ..Payment::new() }
}

#[test]
fn a_large_body_of_curl_is_asked_for_each_time_and_executed_once() {
    if CURL.is_left_out() {
        return;
    }
    let scene = Scene::of(UpstreamKind::Plain, "request_body = \"4MiB\"", WAITING);
    // 100 comes through, and what comes behind the body does not.
    scene.front.on_turns(1, Fault::delay(Way::ToClient, Duration::ZERO));
    scene.front.on_turns(1, Fault::cut(Way::ToClient));
    let payment = large();
    CURL.pay(&scene, &payment).assert_outcome(&scene, &payment, 1);
    assert_eq!(scene.front.counts().faults, 2);
    let arrival = scene.upstream.only_arrival();
    assert_eq!(arrival.length, payment.json().len() as u64);
    assert!(scene.front.counts().to_server > 2 * payment.json().len(), "sent twice");
}

#[test]
fn a_body_of_curl_that_is_too_large_is_refused_before_it_is_sent() {
    if CURL.is_left_out() {
        return;
    }
    let scene = Scene::holding();
    let came = CURL.pay(&scene, &large());
    assert_eq!(came.status, 413, "{came:?}");
    let counts = scene.front.counts();
    assert!(counts.to_server < 1000, "{counts:?}");
    scene.upstream.assert_arrivals(0);
}

#[test]
fn curl_waits_as_long_as_it_is_told() {
    if CURL.is_left_out() {
        return;
    }
    let scene = Scene::holding();
    // By itself it would wait for a second.
    CURL.service_does(&scene, "status 429; header retry-after: 3");
    let payment = Payment::new();
    let running = CURL.start(&scene, std::slice::from_ref(&payment));
    scene.front.until("the refusal", |counts| counts.to_client > 0);
    let refused = std::time::Instant::now();
    CURL.service_does(&scene, "status 201; effect");
    running.came().remove(0).assert_outcome(&scene, &payment, 1);
    assert!(refused.elapsed() > Duration::from_millis(2_900), "{:?}", refused.elapsed());
    scene.upstream.assert_arrivals(2);
    assert_eq!(scene.front.counts().connections, 1, "it is used again");
}
