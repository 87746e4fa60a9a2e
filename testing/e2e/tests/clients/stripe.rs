//! What Stripe's SDKs have in common, before a service that speaks like Stripe's.

use hapax_testkit::{Client, Fault, UpstreamKind, Way};

use crate::{
    driver::{Driver, Payment},
    scene::Scene,
};

pub(crate) const fn sdk(client: Client, script: &'static str) -> Driver {
    Driver {
        client,
        script,
        honours_retry_after: false,
        retries_in_flight: true,
        // Each 409 is one that passes, for it.
        repeats_an_unknown_outcome: 3,
    }
}

/// The tests of an SDK whose own keys are `random`.
macro_rules! promises_of_an_sdk {
    ($sdk:expr, $random:expr) => {
        crate::cases::promises! { $sdk,
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
            crate::stripe::its_own_key_is_kept_for_its_retries(&$sdk, $random);
        }

        #[test]
        fn a_key_that_the_sdk_made_is_lost_with_an_answer_that_is_cut_in_its_body() {
            crate::stripe::its_own_key_is_lost_with_an_answer_that_is_cut(&$sdk);
        }
    };
}

pub(crate) use promises_of_an_sdk;

pub(crate) fn its_own_key_is_kept_for_its_retries(sdk: &Driver, random: fn(&str) -> Option<&str>) {
    if sdk.is_left_out() {
        return;
    }
    // As the service would see it without hapax.
    let observed = Scene::with(UpstreamKind::Plain, "mode = \"observe\"");
    sdk.pay(&observed, &Payment::without_key());
    let key = observed.upstream.only_arrival().field("idempotency-key").to_owned();
    // Bare, which is no String of RFC 9651 and is taken all the same.
    assert!(random(&key).is_some_and(|uuid| uuid::Uuid::parse_str(uuid).is_ok()), "{key}");

    let scene = Scene::holding();
    scene.front.on_turns(1, Fault::cut(Way::ToClient));
    let came = sdk.pay(&scene, &Payment::without_key());
    assert_eq!(came.id.as_deref(), Some("pay_1"), "{came:?}");
    assert_eq!(scene.front.counts().faults, 1);
    scene.upstream.only_arrival().effect_id();
    scene.upstream.assert_effects(1);
}

pub(crate) fn its_own_key_is_lost_with_an_answer_that_is_cut(sdk: &Driver) {
    if sdk.is_left_out() {
        return;
    }
    let scene = Scene::holding();
    sdk.pay(&scene, &Payment::without_key());
    let length = scene.front.counts().to_client;
    scene.front.on_turns(1, Fault::cut(Way::ToClient).after(length - 5));
    let came = sdk.pay(&scene, &Payment::without_key());
    assert_eq!(scene.front.counts().faults, 1);
    // It took effect, and nobody can ask again for what came of it.
    assert!(came.error.is_some(), "{came:?}");
    assert_eq!(came.id, None, "{came:?}");
    scene.upstream.assert_effects(2);
}
