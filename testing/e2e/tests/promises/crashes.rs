//! Processes that die, answers that get lost.

use hapax_testkit::{
    Answer, Gateway, Request, Serve, Stage, Upstream, UpstreamKind, eventually, fresh_key, until,
};

use crate::SOON;

/// The truth under `hold`: it may have happened, and it is not sent again.
#[track_caller]
fn assert_held(answer: &Answer) {
    answer.assert_problem(409, "outcome-unknown").assert_retry_after(60).assert_outcome("unknown");
}

/// Asks again until the request is no longer taken to be in flight, nor told to come again at once.
#[track_caller]
fn ask_until_decided(gateway: &Gateway, request: &Request) -> Answer {
    until("the request is no longer in flight", SOON, || {
        let answer = gateway.send(request);
        let is_open = answer.problem().as_deref() == Some("in-flight") || answer.status == 503;
        (!is_open).then_some(answer)
    })
}

#[test]
fn a_gateway_killed_between_answer_and_retry_replays_after_its_restart() {
    let mut stage = Stage::new();
    let payment = Request::payment(&fresh_key());
    let first = stage.gateway.send(&payment);
    first.assert_stored(201);
    stage.gateway.restart();
    stage.gateway.send(&payment).assert_replays(&first);
    stage.upstream.assert_arrivals(1);
}

#[test]
fn t05_killed_while_executing_the_outcome_is_unknown_and_stays_so_under_hold() {
    let mut stage = Stage::with(&["--lease", "1s"]);
    let payment = Request::payment(&fresh_key()).act("gate answer");
    let _lost = stage.gateway.start(&payment);
    stage.upstream.arrived(1);
    stage.gateway.kill();
    stage.upstream.open("answer");
    eventually("the effect happens", SOON, || stage.upstream.effects().len() == 1);
    stage.gateway.restart();
    assert_held(&ask_until_decided(&stage.gateway, &payment));
    assert_held(&stage.gateway.send(&payment));
    stage.upstream.assert_arrivals(1);
}

#[test]
fn t05_killed_while_executing_the_other_gateway_says_unknown_once_the_lease_is_over() {
    let mut stage = Stage::with(&["--lease", "2s"]);
    let other = stage.gateway.twin();
    let payment = Request::payment(&fresh_key()).act("gate answer");
    let _lost = stage.gateway.start(&payment);
    stage.upstream.arrived(1);
    stage.gateway.kill();
    // The lease is the only sign of life there is; until its end the request counts as running.
    other.send(&payment).assert_problem(409, "in-flight");
    assert_held(&ask_until_decided(&other, &payment));
    stage.upstream.assert_arrivals(1);
}

#[test]
fn t05_killed_while_executing_a_retry_under_resend_continues_with_the_same_effect_id() {
    let mut stage = Stage::resending(&["--lease", "1s"]);
    let payment = Request::payment(&fresh_key()).act("effect; gate answer");
    let _lost = stage.gateway.start(&payment);
    stage.upstream.arrived(1);
    stage.gateway.kill();
    stage.upstream.open("answer");
    stage.gateway.restart();
    let answer = ask_until_decided(&stage.gateway, &payment);
    answer.assert_stored(201);
    stage.gateway.send(&payment).assert_replays(&answer);
    let arrivals = stage.upstream.arrivals();
    assert_eq!(arrivals.len(), 2, "{arrivals:#?}");
    assert_eq!(arrivals[0].effect_id(), arrivals[1].effect_id());
    assert_eq!([arrivals[0].attempt(), arrivals[1].attempt()], [1, 2]);
    stage.upstream.assert_effects(1);
}

#[test]
fn t08_a_gateway_paused_past_its_lease_settles_late_what_nobody_took_over() {
    let stage = Stage::with(&["--lease", "1s"]);
    let other = stage.gateway.twin();
    let payment = Request::payment(&fresh_key()).act("gate answer");
    let first = stage.gateway.start(&payment);
    stage.upstream.arrived(1);
    stage.gateway.pause();
    assert_held(&ask_until_decided(&other, &payment));
    stage.upstream.open("answer");
    stage.gateway.resume();
    let first = first.answer();
    first.assert_stored(201);
    other.send(&payment).assert_replays(&first);
    stage.upstream.assert_arrivals(1);
}

#[test]
fn t08_a_gateway_paused_past_its_lease_cannot_overwrite_its_successor() {
    let stage = Stage::resending(&["--lease", "1s"]);
    let other = stage.gateway.twin();
    let payment = Request::payment(&fresh_key());
    let slow = stage.gateway.start(&payment.clone().act("effect; gate slow; status 500"));
    stage.upstream.arrived(1);
    stage.gateway.pause();
    let second = ask_until_decided(&other, &payment);
    second.assert_stored(201);
    stage.upstream.open("slow");
    stage.gateway.resume();
    // The paused one's own answer came late: the record speaks, not it.
    slow.answer().assert_replays(&second);
    other.send(&payment).assert_replays(&second);
    let arrivals = stage.upstream.arrivals();
    assert_eq!(arrivals.iter().map(|a| a.attempt()).collect::<Vec<_>>(), [1, 2]);
    stage.upstream.assert_effects(1);
}

#[test]
fn t08_a_late_answer_does_not_settle_the_attempt_of_its_successor() {
    let stage = Stage::resending(&["--lease", "1s"]);
    let other = stage.gateway.twin();
    let payment = Request::payment(&fresh_key());
    let slow =
        stage.gateway.start(&payment.clone().act("effect; gate slow; status 201; body text late"));
    stage.upstream.arrived(1);
    stage.gateway.pause();
    let taking_over = payment.clone().act("effect; gate second; status 201; body text second");
    // Until the lease is over, copies are told that the first is in flight.
    let second = until("a second attempt", SOON, || {
        let pending = other.start(&taking_over);
        let arrives_or_ends = || stage.upstream.arrivals().len() == 2 || pending.is_done();
        eventually("it arrives or is answered", SOON, arrives_or_ends);
        (stage.upstream.arrivals().len() == 2).then_some(pending)
    });
    stage.upstream.open("slow");
    stage.gateway.resume();
    let late = slow.answer();
    assert!(!late.text().contains("late"), "it was fenced: {late:?}");
    late.assert_problem(409, "in-flight");
    stage.upstream.open("second");
    let second = second.answer();
    second.assert_stored(201);
    assert_eq!(second.text(), "second");
    for gateway in [&stage.gateway, &other] {
        gateway.send(&payment).assert_replays(&second);
    }
    stage.upstream.assert_arrivals(2);
    stage.upstream.assert_effects(1);
}

#[test]
fn an_execution_longer_than_its_lease_keeps_it() {
    let stage = Stage::with(&["--lease", "1s"]);
    let other = stage.gateway.twin();
    let payment = Request::payment(&fresh_key()).act("gate answer");
    let first = stage.gateway.start(&payment);
    stage.upstream.arrived(1);
    // Two waits of 2 s each: the lease is renewed meanwhile.
    for _ in 0..2 {
        other.send(&payment).assert_problem(409, "in-flight");
    }
    stage.upstream.open("answer");
    let first = first.answer();
    first.assert_stored(201);
    other.send(&payment).assert_replays(&first);
    stage.upstream.assert_arrivals(1);
}

#[test]
fn an_upstream_that_is_down_executed_nothing_and_the_retry_executes() {
    let mut stage = Stage::new();
    stage.upstream.kill();
    let payment = Request::payment(&fresh_key());
    for _ in 0..2 {
        let answer = stage.gateway.send(&payment);
        answer.assert_problem(503, "upstream-unreachable").assert_retry_after(1);
        answer.assert_outcome("not-applied");
    }
    stage.upstream.restart();
    let first = stage.gateway.send(&payment);
    first.assert_stored(201);
    stage.gateway.send(&payment).assert_replays(&first);
    stage.upstream.only_arrival();
    stage.upstream.assert_effects(1);
}

#[test]
fn an_idle_connection_that_the_upstream_closed_does_not_make_an_outcome_unknown() {
    let mut stage = Stage::new();
    stage.gateway.send(&Request::payment(&fresh_key())).assert_stored(201);
    stage.upstream.restart();
    stage.gateway.send(&Request::payment(&fresh_key())).assert_stored(201);
    stage.upstream.assert_arrivals(2);
}

#[test]
fn t06_a_lost_answer_is_unknown_under_hold_and_never_sent_again() {
    let mut stage = Stage::new();
    let payment = Request::payment(&fresh_key()).act("effect; cut");
    assert_held(&stage.gateway.send(&payment));
    // Not even if it would be answered now.
    let again = payment.clone().act("status 201");
    for _ in 0..3 {
        assert_held(&stage.gateway.send(&again));
    }
    stage.gateway.restart();
    assert_held(&stage.gateway.send(&again));
    stage.upstream.assert_arrivals(1);
    stage.upstream.assert_effects(1);
}

#[test]
fn t06_a_lost_answer_under_resend_is_asked_for_again_with_the_same_effect_id() {
    let stage = Stage::resending(&[]);
    let payment = Request::payment(&fresh_key());
    let lost = stage.gateway.send(&payment.clone().act("effect; cut"));
    lost.assert_problem(503, "outcome-unknown").assert_retry_after(1).assert_outcome("unknown");
    stage.upstream.assert_arrivals(1);
    let second = stage.gateway.send(&payment);
    second.assert_stored(201);
    stage.gateway.send(&payment).assert_replays(&second);
    let arrivals = stage.upstream.arrivals();
    assert_eq!(arrivals.len(), 2, "{arrivals:#?}");
    assert_eq!(arrivals[0].effect_id(), arrivals[1].effect_id());
    assert_eq!([arrivals[0].attempt(), arrivals[1].attempt()], [1, 2]);
    assert_eq!(arrivals[0].sha256, arrivals[1].sha256);
    stage.upstream.assert_effects(1);
}

#[test]
fn t06_copies_of_a_retry_under_resend_make_one_more_attempt_together() {
    let stage = Stage::resending(&[]);
    let payment = Request::payment(&fresh_key());
    stage.gateway.send(&payment.clone().act("effect; cut")).assert_problem(503, "outcome-unknown");
    let other = stage.gateway.twin();
    let retry = payment.act("sleep 100");
    for answer in hapax_testkit::copies(16, &[&stage.gateway, &other], &retry) {
        if answer.status == 409 {
            answer.assert_problem(409, "in-flight");
        } else {
            assert_eq!(answer.status, 201, "{answer:?}");
        }
    }
    stage.upstream.assert_arrivals(2);
    stage.upstream.assert_effects(1);
}

#[test]
fn p41_a_request_that_is_lost_on_a_reused_connection_is_not_sent_again_by_itself() {
    let stage = Stage::new();
    for round in 1..=5 {
        // Leaves an idle connection behind, which the next request takes.
        stage.gateway.send(&Request::payment(&fresh_key())).assert_stored(201);
        let lost = Request::payment(&fresh_key()).act("effect; cut");
        assert_held(&stage.gateway.send(&lost));
        stage.upstream.assert_arrivals(2 * round);
    }
}

#[test]
fn an_incomplete_answer_proves_nothing_whatever_its_status() {
    let stage = Stage::new();
    let cut: [(&str, &[u8]); 6] = [
        ("before its first byte", b""),
        ("in its head", b"HTTP/1.1 201 Created\r\nContent-Ty"),
        ("short of its length", b"HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\n{\"id\":"),
        (
            "before its last chunk",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        ),
        ("a refusal, short", b"HTTP/1.1 400 Bad Request\r\nContent-Length: 9\r\n\r\nno"),
        ("no HTTP", b"220 mail.example ESMTP ready\r\n\r\n"),
    ];
    for (case, (name, bytes)) in cut.into_iter().enumerate() {
        let payment = Request::payment(&fresh_key()).answered_raw("effect; ", bytes);
        let first = stage.gateway.send(&payment);
        assert_eq!(first.problem().as_deref(), Some("outcome-unknown"), "{name}: {first:?}");
        assert_held(&first);
        assert_held(&stage.gateway.send(&payment.act("status 201")));
        stage.upstream.assert_arrivals(case + 1);
    }
}

#[test]
fn an_answer_that_ends_with_its_connection_counts_when_it_ends_cleanly() {
    let stage = Stage::new();
    let payment = Request::payment(&fresh_key()).answered_raw(
        "effect; ",
        b"HTTP/1.1 201 Created\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nall of it",
    );
    let first = stage.gateway.send(&payment);
    first.assert_stored(201);
    assert_eq!(first.text(), "all of it");
    stage.gateway.send(&payment).assert_replays(&first);
    stage.upstream.assert_arrivals(1);
}

#[test]
fn an_upstream_that_dies_while_it_executes_leaves_an_unknown_outcome() {
    let mut stage = Stage::new();
    let payment = Request::payment(&fresh_key());
    assert_held(&stage.gateway.send(&payment.clone().act("effect; die")));
    // Dead or alive, it is not asked again.
    assert_held(&stage.gateway.send(&payment));
    stage.upstream.restart();
    assert_held(&stage.gateway.send(&payment));
    stage.upstream.assert_arrivals(1);
}

/// Short times, and a service that is said to collapse for two seconds.
const SHORT: &str = r#"
    [[operation]]
    name = "payments.create"
    routes = ["POST /payments"]
    on_unknown = "resend"
    collapse_for = "2s"
    late_arrival = "100ms"
    timeout = "500ms"
"#;

#[test]
fn an_answer_that_takes_longer_than_the_timeout_is_unknown() {
    let stage = Stage::operations(
        UpstreamKind::Plain,
        &SHORT.replace("resend", "hold").replace("collapse_for = \"2s\"", ""),
    );
    let late_head = Request::payment(&fresh_key()).act("effect; sleep 30000");
    assert_held(&stage.gateway.send(&late_head));
    assert_held(&stage.gateway.send(&late_head));
    stage.upstream.assert_arrivals(1);
}

#[test]
fn a_resend_is_permitted_only_while_the_upstream_remembers() {
    let stage = Stage::operations(UpstreamKind::Collapsing, SHORT);
    let payment = Request::payment(&fresh_key()).act("effect; cut");
    stage.gateway.send(&payment).assert_problem(503, "outcome-unknown");
    // Each retry is executed, until the two seconds are over.
    let held = until("the permission ends", SOON, || {
        let answer = stage.gateway.send(&payment);
        (answer.status == 409).then_some(answer)
    });
    assert_held(&held);
    let arrivals = stage.upstream.arrivals().len();
    assert!(arrivals >= 2, "{arrivals}");
    assert_held(&stage.gateway.send(&payment.act("status 201")));
    stage.upstream.assert_arrivals(arrivals);
    stage.upstream.assert_effects(1);
}

#[test]
fn p51_a_refusal_of_a_later_attempt_proves_nothing_about_the_earlier() {
    let stage = Stage::resending(&[]);
    let payment = Request::payment(&fresh_key());
    stage.gateway.send(&payment.clone().act("effect; cut")).assert_problem(503, "outcome-unknown");
    for status in [400, 401, 409, 429, 503] {
        let refused = payment.clone().act(&format!("status {status}; body text refused"));
        let answer = stage.gateway.send(&refused);
        answer.assert_unresolved(status);
        assert_eq!(answer.text(), "refused");
    }
    // Another intent does not get in, as it would under a key that is free.
    let changed = payment.clone().json(r#"{"amount":1,"currency":"EUR"}"#);
    stage.gateway.send(&changed).assert_problem(422, "key-reused");
    stage.gateway.send(&payment).assert_stored(201);
    let attempts: Vec<_> = stage.upstream.arrivals().iter().map(|a| a.attempt()).collect();
    assert_eq!(attempts, [1, 2, 3, 4, 5, 6, 7]);
    stage.upstream.assert_effects(1);
}

#[test]
fn p51_never_sent_says_nothing_about_an_earlier_attempt() {
    let mut stage = Stage::resending(&[]);
    let payment = Request::payment(&fresh_key());
    stage.gateway.send(&payment.clone().act("effect; cut")).assert_problem(503, "outcome-unknown");
    stage.upstream.kill();
    let answer = stage.gateway.send(&payment);
    answer.assert_problem(503, "outcome-unknown").assert_outcome("unknown");
    stage.upstream.restart();
    stage.gateway.send(&payment).assert_stored(201);
    stage.upstream.assert_effects(1);
}

#[test]
fn an_outcome_that_became_unknown_under_hold_is_held_after_a_restart_with_resend() {
    let mut stage = Stage::new();
    let payment = Request::payment(&fresh_key());
    assert_held(&stage.gateway.send(&payment.clone().act("effect; cut")));
    stage.gateway.kill();
    let resending = Serve::new(stage.dir(), &stage.upstream)
        .args(["--on-unknown", "resend", "--collapse-for", "1h"])
        .start();
    let answer = resending.send(&payment);
    assert_eq!(answer.problem().as_deref(), Some("outcome-unknown"), "{answer:?}");
    assert_eq!(answer.status, 409, "the stricter of both policies holds: {answer:?}");
    stage.upstream.assert_arrivals(1);
}

#[test]
fn the_effect_id_is_the_same_on_every_attempt_and_after_every_restart() {
    let mut stage = Stage::resending(&[]);
    let payment = Request::payment(&fresh_key()).act("status 500");
    for _ in 0..3 {
        stage.gateway.send(&payment).assert_unresolved(500);
        stage.gateway.restart();
    }
    let arrivals = stage.upstream.arrivals();
    let ids: std::collections::BTreeSet<_> = arrivals.iter().map(|a| a.effect_id()).collect();
    assert_eq!((arrivals.len(), ids.len()), (3, 1), "{arrivals:#?}");
    assert_eq!(arrivals.iter().map(|a| a.attempt()).collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn an_unknown_outcome_at_another_upstream_is_not_resent_to_this_one() {
    let mut stage = Stage::resending(&[]);
    let payment = Request::payment(&fresh_key());
    stage.gateway.send(&payment.clone().act("effect; cut")).assert_problem(503, "outcome-unknown");
    stage.gateway.kill();
    let elsewhere = stage.dir().join("elsewhere");
    let other = Upstream::start(&elsewhere, UpstreamKind::Collapsing);
    let gateway = Serve::new(stage.dir(), &other)
        .args(["--on-unknown", "resend", "--collapse-for", "1h"])
        .start();
    assert_held(&gateway.send(&payment));
    other.assert_arrivals(0);
}

#[test]
fn no_intent_takes_effect_twice_while_gateways_are_killed_again_and_again() {
    // An upstream that collapses nothing, so every arrival is an effect.
    let mut stage = Stage::with(&["--lease", "1s"]);
    let payments: Vec<_> =
        (0..24).map(|_| Request::payment(&fresh_key()).act("sleep 20")).collect();
    let mut answers: Vec<Vec<Answer>> = payments.iter().map(|_| Vec::new()).collect();
    for _ in 0..4 {
        let other = stage.gateway.twin();
        let started: Vec<_> = payments
            .iter()
            .flat_map(|payment| [stage.gateway.start(payment), other.start(payment)])
            .collect();
        // Somewhere in the middle of it.
        let so_far = stage.upstream.arrivals().len();
        let some = || stage.upstream.arrivals().len() > so_far || started[0].is_done();
        eventually("some arrive", SOON, some);
        stage.gateway.restart();
        drop(other);
        // Where the connection broke, the client knows nothing.
        for (nth, pending) in started.into_iter().enumerate() {
            answers[nth / 2].extend(pending.result());
        }
    }
    for (payment, answers) in payments.iter().zip(&mut answers) {
        answers.push(ask_until_decided(&stage.gateway, payment));
        let bodies: std::collections::BTreeSet<_> =
            answers.iter().filter(|a| a.status == 201).map(|a| a.body.clone()).collect();
        assert!(bodies.len() <= 1, "successes disagree: {answers:#?}");
        let last = answers.last().expect("one");
        if last.status == 201 {
            assert!(last.is_replay() || answers.len() == 1 || bodies.len() == 1, "{answers:#?}");
        } else {
            assert_held(last);
            assert!(bodies.is_empty(), "a success that is forgotten: {answers:#?}");
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    for arrival in stage.upstream.arrivals() {
        assert!(seen.insert(arrival.effect_id()), "twice: {arrival:?}");
    }
}
