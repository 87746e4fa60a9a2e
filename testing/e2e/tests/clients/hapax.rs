//! What our own clients promise beside what every client does.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant, SystemTime},
};

use hapax_testkit::{Client, Fault, Way, eventually};

use crate::{
    SOON,
    driver::{Driver, Payment},
    scene::Scene,
};

/// Where the examples pay.
const EXAMPLE: &str = "https://api.example/payments";

pub(crate) const fn ours(client: Client, script: &'static str) -> Driver {
    Driver {
        client,
        script,
        honours_retry_after: true,
        retries_in_flight: true,
        repeats_an_unknown_outcome: 0,
    }
}

/// The tests of a client of ours.
macro_rules! promises_of_ours {
    ($ours:expr) => {
        crate::cases::promises! { $ours,
            an_answer_lost_between_client_and_gateway_is_replayed
                as t06_an_answer_lost_between_the_client_and_gateway_is_replayed,
            a_request_cut_on_its_way_in_is_executed_once
                as a_request_of_the_client_that_is_cut_is_executed_once,
            an_answer_lost_behind_the_gateway_is_one_effect_under_resend
                as t06_an_answer_lost_behind_the_gateway_is_one_effect_for_the_client,
            what_is_refused_while_the_store_is_down_is_executed_once_when_it_is_back
                as p11_the_client_comes_back_when_the_store_is_back,
            a_retry_during_the_execution_starts_no_second_one
                as the_client_asks_again_while_it_is_executed,
            a_retry_during_the_execution_waits_where_the_operation_says_so
                as the_client_waits_for_the_first_request_where_the_operation_says_so,
            an_unknown_outcome_is_told_and_nothing_is_sent_again
                as the_client_is_told_of_an_unknown_outcome,
            a_changed_intent_is_refused_and_not_sent_again
                as t02_the_client_does_not_repeat_a_changed_intent,
            a_reused_connection_that_ends_is_one_effect_all_the_same
                as p41_a_reused_connection_of_the_client_that_ends_is_one_effect,
        }

        #[test]
        fn a_copy_waits_for_the_execution_and_gets_the_replay() {
            crate::hapax::a_copy_waits_for_the_execution_and_gets_the_replay(&$ours);
        }

        #[test]
        fn t02_a_changed_intent_is_key_reused() {
            crate::hapax::a_changed_intent_is_key_reused(&$ours);
        }

        #[test]
        fn an_outcome_that_is_held_is_unknown() {
            crate::hapax::an_outcome_that_is_held_is_unknown(&$ours);
        }

        #[test]
        fn b1_the_client_makes_a_key_and_keeps_it() {
            crate::hapax::the_client_makes_a_key_and_keeps_it(&$ours);
        }

        #[test]
        fn b7_both_forms_of_retry_after_are_waited_for() {
            crate::hapax::both_forms_of_retry_after_are_waited_for(&$ours);
        }
    };
}

pub(crate) use promises_of_ours;

pub(crate) fn a_copy_waits_for_the_execution_and_gets_the_replay(ours: &Driver) {
    if ours.is_left_out() {
        return;
    }
    let scene = Scene::holding();
    let payment = Payment::new();
    ours.service_does(&scene, "gate answer");
    let first = ours.start(&scene, std::slice::from_ref(&payment));
    scene.upstream.arrived(1);
    let copy = ours.start(&scene, std::slice::from_ref(&payment));
    eventually("the copy is told to wait", SOON, || scene.decided("in_flight") >= 1);
    scene.upstream.open("answer");
    let (first, copy) = (first.came().remove(0), copy.came().remove(0));
    assert_eq!(first.outcome.as_deref(), Some("done"), "{first:?}");
    assert_eq!(copy.outcome.as_deref(), Some("replayed"), "{copy:?}");
    assert_eq!(first.body, copy.body);
    copy.assert_outcome(&scene, &payment, 1);
    // It asked for the status, which is no attempt.
    assert_eq!(scene.decided("in_flight"), 1);
    scene.upstream.assert_arrivals(1);
}

pub(crate) fn a_changed_intent_is_key_reused(ours: &Driver) {
    if ours.is_left_out() {
        return;
    }
    let scene = Scene::holding();
    let payment = Payment::new();
    let came = ours.pay(&scene, &payment);
    assert_eq!(came.outcome.as_deref(), Some("done"), "{came:?}");
    let came = ours.pay(&scene, &payment.changed());
    assert_eq!(came.outcome.as_deref(), Some("key-reused"), "{came:?}");
    scene.upstream.assert_arrivals(1);
}

pub(crate) fn an_outcome_that_is_held_is_unknown(ours: &Driver) {
    if ours.is_left_out() {
        return;
    }
    let scene = Scene::holding();
    // Lost behind the gateway, and answers that settle nothing, which reach the caller as they are.
    scene.back.on_turns(1, Fault::cut(Way::ToClient));
    let lost = ours.pay(&scene, &Payment::new());
    assert_eq!((lost.outcome.as_deref(), lost.status), (Some("unknown"), 409), "{lost:?}");
    for script in ["status 500; effect", "status 200; effect; header hapax-outcome: unknown"] {
        ours.service_does(&scene, script);
        let came = ours.pay(&scene, &Payment::new());
        assert_eq!(came.outcome.as_deref(), Some("unknown"), "{script}: {came:?}");
    }
    scene.upstream.assert_arrivals(3);
}

pub(crate) fn the_client_makes_a_key_and_keeps_it(ours: &Driver) {
    if ours.is_left_out() {
        return;
    }
    let scene = Scene::holding();
    assert_eq!(ours.pay(&scene, &Payment::without_key()).id.as_deref(), Some("pay_1"));
    let length = scene.front.counts().to_client;
    let faults = [Fault::cut(Way::ToClient), Fault::cut(Way::ToClient).after(length - 5)];
    for (fault, id) in faults.into_iter().zip(["pay_2", "pay_3"]) {
        scene.front.on_turns(1, fault);
        let came = ours.pay(&scene, &Payment::without_key());
        assert_eq!(came.outcome.as_deref(), Some("replayed"), "{came:?}");
        assert_eq!(came.id.as_deref(), Some(id), "{came:?}");
    }
    assert_eq!(scene.front.counts().faults, 2);
    scene.upstream.assert_effects(3);
    scene.upstream.assert_arrivals(3);
}

pub(crate) fn both_forms_of_retry_after_are_waited_for(ours: &Driver) {
    if ours.is_left_out() {
        return;
    }
    let scene = Scene::holding();
    // A date is one of whole seconds.
    let waits: [fn() -> String; 2] = [|| "2".to_owned(), || date_in(Duration::from_secs(3))];
    // A 503 that does not say so may have had an effect.
    let refusals = ["status 429", "status 503; header hapax-outcome: not-applied"];
    let cases = refusals.iter().flat_map(|refusal| waits.iter().map(move |wait| (refusal, wait)));
    for (n, (refusal, wait)) in cases.enumerate() {
        let script = format!("{refusal}; header retry-after: {}", wait());
        ours.service_does(&scene, &script);
        let payment = Payment::new();
        let before = scene.front.counts().to_client;
        let running = ours.start(&scene, std::slice::from_ref(&payment));
        scene.front.until("the refusal", |counts| counts.to_client > before);
        let refused = Instant::now();
        ours.service_does(&scene, "status 201; effect");
        let came = running.came().remove(0);
        let waited = refused.elapsed();
        assert!(waited > Duration::from_millis(1_500), "{script}: {waited:?}, {came:?}");
        came.assert_outcome(&scene, &payment, n + 1);
    }
    scene.upstream.assert_arrivals(8);
}

/// The first example of a client's page, as it stands there, but for its address.
pub(crate) fn example(scene: &Scene, page: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients").join(page);
    let text = fs::read_to_string(page).expect("the page");
    let block = text.split("```").nth(1).expect("an example");
    let (_, code) = block.split_once('\n').expect("its language");
    assert!(code.contains(EXAMPLE), "{code}");
    code.replace(EXAMPLE, &scene.url("/payments"))
}

/// As HTTP has it (RFC 9110, section 5.6.7).
fn date_in(time: Duration) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let at = SystemTime::now() + time;
    let seconds = at.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs();
    let weekday = DAYS[usize::try_from(seconds / 86_400 % 7).expect("a day of the week")];
    let text = humantime::format_rfc3339_seconds(at).to_string();
    let month = MONTHS[text[5..7].parse::<usize>().expect("a month") - 1];
    format!("{weekday}, {} {month} {} {} GMT", &text[8..10], &text[..4], &text[11..19])
}
