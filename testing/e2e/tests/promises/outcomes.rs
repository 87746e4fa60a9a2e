//! What an answer of the upstream amounts to: the key is free, the answer is kept, or nobody knows.

use hapax_testkit::{Request, Stage, UpstreamKind, fresh_key};

/// A payment that is answered with this status.
fn answered(status: u16) -> Request {
    Request::payment(&fresh_key()).act(&format!("status {status}; body text said {status}"))
}

#[test]
fn a_refusal_before_any_effect_frees_the_key() {
    let stage = Stage::new();
    let refusals =
        [307, 308, 400, 401, 405, 411, 413, 414, 415, 417, 421, 422, 425, 426, 428, 429, 431];
    for status in refusals {
        let payment = answered(status);
        let first = stage.gateway.send(&payment);
        assert_eq!((first.status, first.text()), (status, format!("said {status}")), "{first:?}");
        assert_eq!(first.field("idempotency-expires"), None, "{status}: {first:?}");
        assert_eq!(first.field("hapax-outcome"), None, "{status}: {first:?}");
        let second = stage.gateway.send(&payment.act("effect; status 201"));
        assert_eq!(second.status, 201, "{status} frees the key: {second:?}");
        second.assert_stored(201);
    }
    stage.upstream.assert_arrivals(2 * refusals.len());
    stage.upstream.assert_effects(refusals.len());
    assert!(stage.upstream.arrivals().chunks(2).all(|pair| {
        pair[0].effect_id() == pair[1].effect_id()
            && [pair[0].attempt(), pair[1].attempt()] == [1, 2]
    }));
}

#[test]
fn a_refusal_that_comes_before_the_body_was_read_frees_the_key_too() {
    let stage = Stage::new();
    for size in [10, 1 << 20] {
        let upload = Request::new("POST", "/upload")
            .body("application/octet-stream", vec![7; size])
            .key(&fresh_key());
        let first = stage.gateway.send(&upload.clone().act("early; status 401; body text no"));
        assert_eq!((first.status, first.text().as_str()), (401, "no"), "{first:?}");
        stage.gateway.send(&upload).assert_stored(201);
    }
    stage.upstream.assert_effects(2);
}

#[test]
fn a_stable_failure_is_replayed() {
    let stage = Stage::new();
    let failures = [402, 403, 404, 409, 410, 412, 451];
    for status in failures {
        let payment = answered(status);
        let first = stage.gateway.send(&payment);
        first.assert_stored(status);
        stage.gateway.send(&payment.act("status 201")).assert_replays(&first);
    }
    stage.upstream.assert_arrivals(failures.len());
}

#[test]
fn p09_any_5xx_is_shown_again_as_observed_and_stays_unknown_under_hold() {
    let mut stage = Stage::new();
    let unknown = [500, 501, 502, 503, 504, 507, 599, 406, 408, 416, 418, 424, 300, 305, 499];
    let payments = unknown.map(|status| (status, answered(status)));
    for (status, payment) in &payments {
        let first = stage.gateway.send(payment);
        first.assert_unresolved(*status);
        assert_eq!(first.text(), format!("said {status}"));
    }
    let assert_shown = |stage: &Stage| {
        for (status, payment) in &payments {
            let again = stage.gateway.send(&payment.clone().act("status 201"));
            again.assert_unresolved(*status).assert_retry_after(60);
            assert_eq!(again.text(), format!("said {status}"));
            assert_eq!(again.field("idempotent-replayed"), None, "{again:?}");
        }
    };
    assert_shown(&stage);
    stage.gateway.restart();
    assert_shown(&stage);
    stage.upstream.assert_arrivals(unknown.len());
    let listed = stage.records(&["list", "--state", "uncertain", "--json"]);
    assert_eq!(listed.stdout.lines().count(), unknown.len(), "{listed:?}");
}

#[test]
fn an_observed_answer_shows_no_credentials_again() {
    let stage = Stage::new();
    let payment = Request::payment(&fresh_key())
        .act("status 500; header set-cookie: session=x; header x-request-id: r; header content-type: text/plain; body text broken");
    let first = stage.gateway.send(&payment);
    first.assert_unresolved(500);
    assert_eq!(first.all("set-cookie"), ["session=x"]);
    let again = stage.gateway.send(&payment);
    again.assert_unresolved(500);
    assert_eq!(again.all("content-type"), ["text/plain"]);
    assert_eq!(again.all("set-cookie"), [""; 0]);
    assert_ne!(again.all("x-request-id"), ["r"]);
}

#[test]
fn a_5xx_under_resend_is_executed_again_with_the_same_effect_id() {
    let stage = Stage::resending(&[]);
    let payment = Request::payment(&fresh_key());
    stage
        .gateway
        .send(&payment.clone().act("effect; status 500"))
        .assert_unresolved(500)
        .assert_retry_after(1);
    let second = stage.gateway.send(&payment);
    second.assert_stored(201);
    stage.gateway.send(&payment).assert_replays(&second);
    let arrivals = stage.upstream.arrivals();
    assert_eq!([arrivals[0].effect_id(), arrivals[0].effect_id()], [arrivals[1].effect_id(); 2]);
    assert_eq!([arrivals[0].attempt(), arrivals[1].attempt()], [1, 2]);
    stage.upstream.assert_effects(1);
}

#[test]
fn the_upstreams_own_retry_after_is_passed_on() {
    let stage = Stage::new();
    let payment =
        Request::payment(&fresh_key()).act("status 503; header retry-after: 7; body empty");
    stage.gateway.send(&payment).assert_unresolved(503).assert_retry_after(7);
}

#[test]
fn hapax_outcome_applied_keeps_any_answer() {
    let stage = Stage::new();
    for status in [200, 400, 409, 429, 500, 503] {
        let script =
            format!("effect; status {status}; header hapax-outcome: applied; body text done");
        let payment = Request::payment(&fresh_key()).act(&script);
        let first = stage.gateway.send(&payment);
        first.assert_stored(status);
        assert_eq!(first.field("hapax-outcome"), None, "{first:?}");
        stage.gateway.send(&payment.act("status 201")).assert_replays(&first);
    }
    stage.upstream.assert_arrivals(6);
}

#[test]
fn hapax_outcome_not_applied_frees_the_key_whatever_the_status() {
    let stage = Stage::new();
    for status in [200, 402, 409, 500, 503] {
        let script =
            format!("status {status}; header hapax-outcome: not-applied; body text nothing");
        let payment = Request::payment(&fresh_key()).act(&script);
        let first = stage.gateway.send(&payment);
        assert_eq!(first.status, status, "{first:?}");
        assert_eq!(first.field("idempotency-expires"), None, "{first:?}");
        assert_eq!(first.field("hapax-outcome").as_deref(), Some("not-applied"), "{first:?}");
        stage.gateway.send(&payment.act("effect; status 201")).assert_stored(201);
    }
    stage.upstream.assert_arrivals(10);
    stage.upstream.assert_effects(5);
}

#[test]
fn hapax_outcome_unknown_makes_any_answer_unknown() {
    let stage = Stage::new();
    // A word that nobody knows cannot be relied on either.
    for (status, word) in
        [(200, "unknown"), (201, "unknown"), (400, "unknown"), (402, "unknown"), (200, "perhaps")]
    {
        let script = format!("effect; status {status}; header hapax-outcome: {word}; body text hm");
        let payment = Request::payment(&fresh_key()).act(&script);
        stage.gateway.send(&payment).assert_unresolved(status);
        let again = stage.gateway.send(&payment.act("status 201"));
        again.assert_unresolved(status);
        assert_eq!(again.text(), "hm");
    }
    stage.upstream.assert_arrivals(5);
}

#[test]
fn hapax_outcome_speaks_for_every_attempt_under_the_effect_id() {
    let stage = Stage::resending(&[]);
    let payment = Request::payment(&fresh_key());
    stage.gateway.send(&payment.clone().act("cut")).assert_problem(503, "outcome-unknown");
    // The second attempt's answer says that none has been or will be applied: the key is free,
    // also for a corrected intent.
    let nothing = payment.clone().act("status 404; header hapax-outcome: not-applied; body empty");
    let answer = stage.gateway.send(&nothing);
    assert_eq!(answer.status, 404, "{answer:?}");
    let corrected = payment.json(r#"{"amount":7}"#);
    stage.gateway.send(&corrected).assert_stored(201);
    let attempts: Vec<_> = stage.upstream.arrivals().iter().map(|a| a.attempt()).collect();
    assert_eq!(attempts, [1, 2, 3]);
    stage.upstream.assert_effects(1);
}

#[test]
fn with_store_refusals_the_four_refusals_are_kept() {
    let stage = Stage::operations(
        UpstreamKind::Plain,
        r#"
        [[operation]]
        name = "payments.create"
        routes = ["POST /payments"]
        store_refusals = true
        "#,
    );
    for status in [400, 401, 422, 429] {
        let payment = answered(status);
        let first = stage.gateway.send(&payment);
        first.assert_stored(status);
        stage.gateway.send(&payment.act("status 201")).assert_replays(&first);
    }
    let payment = answered(415);
    assert_eq!(stage.gateway.send(&payment).status, 415);
    stage.gateway.send(&payment.act("effect; status 201")).assert_stored(201);
}
