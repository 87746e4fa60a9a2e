//! Stripe's SDK for Python, before a service that speaks like Stripe's.

use hapax_testkit::{Client, Fault, UpstreamKind, Way};

use crate::{
    driver::{Driver, Payment},
    scene::Scene,
};

const STRIPE: Driver = Driver {
    client: Client::Python,
    script: "charge.py",
    honours_retry_after: false,
    retries_in_flight: true,
    // Each 409 is one that passes, for it.
    repeats_an_unknown_outcome: 3,
};

crate::cases::promises! { STRIPE,
    an_answer_lost_between_client_and_gateway_is_replayed
        as t06_an_answer_lost_between_the_sdk_and_gateway_is_replayed,
    a_request_cut_on_its_way_in_is_executed_once as a_request_of_the_sdk_that_is_cut_is_executed_once,
    an_answer_lost_behind_the_gateway_is_one_effect_under_resend
        as t06_an_answer_lost_behind_the_gateway_is_one_effect_for_the_sdk,
    what_is_refused_while_the_store_is_down_is_executed_once_when_it_is_back
        as p11_the_sdk_comes_back_when_the_store_is_back,
    a_retry_during_the_execution_starts_no_second_one as the_sdk_asks_again_while_it_is_executed,
    a_retry_during_the_execution_waits_where_the_operation_says_so
        as the_sdk_waits_for_the_first_request_where_the_operation_says_so,
    an_unknown_outcome_is_told_and_nothing_is_sent_again
        as the_sdk_is_told_of_an_unknown_outcome,
    a_changed_intent_is_refused_and_not_sent_again as t02_the_sdk_does_not_repeat_a_changed_intent,
    a_reused_connection_that_ends_is_one_effect_all_the_same
        as p41_a_reused_connection_of_the_sdk_that_ends_is_one_effect,
}

#[test]
fn a_key_that_the_sdk_makes_is_accepted_and_kept_for_its_own_retries() {
    if STRIPE.is_left_out() {
        return;
    }
    // As the service would see it without hapax.
    let observed = Scene::with(UpstreamKind::Plain, "mode = \"observe\"");
    STRIPE.pay(&observed, &Payment::without_key());
    let key = observed.upstream.only_arrival().field("idempotency-key").to_owned();
    // A bare UUID, which is no String of RFC 9651 and is taken all the same.
    assert!(uuid::Uuid::parse_str(&key).is_ok(), "{key}");

    let scene = Scene::holding();
    scene.front.on_turns(1, Fault::cut(Way::ToClient));
    let came = STRIPE.pay(&scene, &Payment::without_key());
    assert_eq!(came.id.as_deref(), Some("pay_1"), "{came:?}");
    assert_eq!(scene.front.counts().faults, 1);
    scene.upstream.only_arrival().effect_id();
    scene.upstream.assert_effects(1);
}

#[test]
fn a_key_that_the_sdk_made_is_lost_with_an_answer_that_is_cut_in_its_body() {
    if STRIPE.is_left_out() {
        return;
    }
    let scene = Scene::holding();
    STRIPE.pay(&scene, &Payment::without_key());
    let length = scene.front.counts().to_client;
    scene.front.on_turns(1, Fault::cut(Way::ToClient).after(length - 5));
    let came = STRIPE.pay(&scene, &Payment::without_key());
    assert_eq!(scene.front.counts().faults, 1);
    // It took effect, and nobody can ask again for what came of it.
    assert!(came.error.is_some(), "{came:?}");
    assert_eq!(came.id, None, "{came:?}");
    scene.upstream.assert_effects(2);
}

#[test]
fn the_sdk_raises_an_error_for_a_problem() {
    if STRIPE.is_left_out() {
        return;
    }
    let scene = Scene::holding();
    let payment = Payment::new();
    STRIPE.pay(&scene, &payment);
    let came = STRIPE.pay(&scene, &payment.changed());
    assert_eq!((came.status, came.error.as_deref()), (422, Some("APIError")), "{came:?}");
}
