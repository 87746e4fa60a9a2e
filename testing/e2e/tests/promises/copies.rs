//! Many copies of one request at once.

use std::time::{Duration, Instant};

use hapax_testkit::{Answer, Request, Stage, UpstreamKind, copies, eventually, fresh_key};

use crate::SOON;

/// Every copy was answered from the one execution, or told that it is under way.
#[track_caller]
fn assert_one_execution(answers: &[Answer]) {
    let (own, others): (Vec<_>, Vec<_>) =
        answers.iter().partition(|answer| answer.status == 201 && !answer.is_replay());
    assert_eq!(own.len(), 1, "one copy executes: {answers:#?}");
    own[0].assert_stored(201);
    for other in others {
        match other.status {
            409 => other
                .assert_problem(409, "in-flight")
                .assert_retry_after(1)
                .assert_outcome("unknown"),
            _ => other.assert_replays(own[0]),
        };
    }
}

#[test]
fn t01_64_copies_through_two_gateways_one_arrival() {
    let stage = Stage::new();
    let other = stage.gateway.twin();
    let payment = Request::payment(&fresh_key()).act("sleep 200");
    let answers = copies(64, &[&stage.gateway, &other], &payment);
    assert_one_execution(&answers);
    stage.upstream.assert_arrivals(1);
    stage.upstream.assert_effects(1);
    // Afterwards both gateways know the outcome.
    let first = answers.iter().find(|answer| answer.status == 201).expect("an answer");
    for gateway in [&stage.gateway, &other] {
        assert_eq!(gateway.send(&payment).body, first.body);
    }
    stage.upstream.assert_arrivals(1);
}

#[test]
fn t01_many_keys_at_once_through_two_gateways_one_effect_each() {
    let stage = Stage::new();
    let other = stage.gateway.twin();
    let started: Vec<Vec<_>> = (0..40)
        .map(|_| {
            let payment = Request::payment(&fresh_key());
            let gateways = [&stage.gateway, &other].into_iter().cycle().take(4);
            gateways.map(|gateway| gateway.start(&payment)).collect()
        })
        .collect();
    for of_one_key in started {
        let answers: Vec<_> = of_one_key.into_iter().map(|pending| pending.answer()).collect();
        assert_one_execution(&answers);
    }
    stage.upstream.assert_arrivals(40);
    stage.upstream.assert_effects(40);
}

#[test]
fn a_copy_waits_for_the_first_and_gets_its_bytes_in_both_processes() {
    let stage = Stage::new();
    let other = stage.gateway.twin();
    let payment = Request::payment(&fresh_key()).act("gate answer");
    let first = stage.gateway.start(&payment);
    stage.upstream.arrived(1);
    let waiting = [stage.gateway.start(&payment), other.start(&payment)];
    for gateway in [&stage.gateway, &other] {
        eventually("a copy waits", SOON, || gateway.metric("hapax_waiting", &[]) == 1.0);
    }
    stage.upstream.open("answer");
    let first = first.answer();
    first.assert_stored(201);
    for copy in waiting {
        copy.answer().assert_replays(&first);
    }
    stage.upstream.assert_arrivals(1);
}

#[test]
fn a_copy_that_waited_long_enough_is_told_that_the_first_is_in_flight() {
    let stage = Stage::new();
    let payment = Request::payment(&fresh_key()).act("gate answer");
    let first = stage.gateway.start(&payment);
    stage.upstream.arrived(1);
    let begun = Instant::now();
    let copy = stage.gateway.send(&payment);
    let waited = begun.elapsed();
    copy.assert_problem(409, "in-flight").assert_retry_after(1).assert_outcome("unknown");
    assert!(waited >= Duration::from_millis(1900), "it waits 2 s first, not {waited:?}");
    stage.upstream.open("answer");
    let first = first.answer();
    first.assert_stored(201);
    stage.gateway.send(&payment).assert_replays(&first);
    stage.upstream.assert_arrivals(1);
}

#[test]
fn with_in_flight_conflict_a_copy_is_told_at_once() {
    let stage = Stage::operations(
        UpstreamKind::Plain,
        r#"
        [[operation]]
        name = "payments.create"
        routes = ["POST /payments"]
        in_flight = "conflict"
        "#,
    );
    let payment = Request::payment(&fresh_key()).act("gate answer");
    let first = stage.gateway.start(&payment);
    stage.upstream.arrived(1);
    let begun = Instant::now();
    stage.gateway.send(&payment).assert_problem(409, "in-flight").assert_retry_after(1);
    assert!(begun.elapsed() < Duration::from_millis(1900), "{:?}", begun.elapsed());
    stage.upstream.open("answer");
    first.answer().assert_stored(201);
}

#[test]
fn copies_that_wait_for_a_refused_request_get_its_answer_and_do_not_execute_in_turn() {
    let stage = Stage::new();
    let payment = Request::payment(&fresh_key());
    let refused = payment.clone().act("gate answer; status 400; body text no such account");
    let first = stage.gateway.start(&refused);
    stage.upstream.arrived(1);
    let waiting: Vec<_> = (0..6).map(|_| stage.gateway.start(&refused)).collect();
    eventually("six wait", SOON, || stage.gateway.metric("hapax_waiting", &[]) == 6.0);
    stage.upstream.open("answer");
    for answer in std::iter::once(first).chain(waiting).map(|pending| pending.answer()) {
        assert_eq!((answer.status, answer.text().as_str()), (400, "no such account"));
    }
    stage.upstream.assert_arrivals(1);
    // The key is free: the next one executes.
    stage.gateway.send(&payment).assert_stored(201);
    stage.upstream.assert_arrivals(2);
}

#[test]
fn a_copy_that_waits_elsewhere_for_a_refused_request_does_not_execute_in_turn() {
    let stage = Stage::new();
    let other = stage.gateway.twin();
    let refused = Request::payment(&fresh_key()).act("gate answer; status 400; body text no");
    let first = stage.gateway.start(&refused);
    stage.upstream.arrived(1);
    let waiting = other.start(&refused);
    eventually("a copy waits", SOON, || other.metric("hapax_waiting", &[]) == 1.0);
    stage.upstream.open("answer");
    assert_eq!(first.answer().status, 400);
    // That process cannot know the refusal; the next retry executes.
    waiting.answer().assert_problem(409, "in-flight").assert_retry_after(1);
    stage.upstream.assert_arrivals(1);
}

#[test]
fn copies_that_wait_for_an_answer_that_is_lost_are_told_so_and_do_not_execute_in_turn() {
    let stage = Stage::resending(&[]);
    for (gate, end, status) in [("lost", "cut", 503), ("failed", "status 502", 502)] {
        let arrived = stage.upstream.arrivals().len();
        let script = format!("gate {gate}; effect; {end}");
        let payment = Request::payment(&fresh_key()).act(&script);
        let first = stage.gateway.start(&payment);
        stage.upstream.arrived(arrived + 1);
        let waiting: Vec<_> = (0..4).map(|_| stage.gateway.start(&payment)).collect();
        eventually("four wait", SOON, || stage.gateway.metric("hapax_waiting", &[]) == 4.0);
        stage.upstream.open(gate);
        for answer in std::iter::once(first).chain(waiting).map(|pending| pending.answer()) {
            assert_eq!(answer.status, status, "{answer:?}");
            answer.assert_outcome("unknown").assert_retry_after(1);
        }
        stage.upstream.assert_arrivals(arrived + 1);
    }
}

#[test]
fn equal_content_under_another_key_is_another_intent() {
    let stage = Stage::new();
    let first = stage.gateway.send(&Request::payment(&fresh_key()));
    let second = stage.gateway.send(&Request::payment(&fresh_key()));
    first.assert_stored(201);
    second.assert_stored(201);
    assert_ne!(first.body, second.body);
    let arrivals = stage.upstream.arrivals();
    assert_ne!(arrivals[0].effect_id(), arrivals[1].effect_id());
    stage.upstream.assert_effects(2);
}
