//! A service that refuses a second request with an identity, and does not tell what the first one
//! came to.

use hapax_testkit::{Downstream, Scene, hapax, history::Payment};

#[test]
fn t07_a_duplicate_refused_by_its_id_is_no_failure_and_stays_open_until_somebody_looks() {
    let scene = Scene::new(Downstream::named("unique-resend"));
    let gateway = scene.serve.start();
    let payment = Payment::new("a");
    let lost = scene.send(gateway.address(), &payment.clone().act("effect; cut"));
    lost.assert_problem(503, "outcome-unknown").assert_outcome("unknown");
    for _ in 0..2 {
        // Its refusal is shown, and marked: it says nothing about the first attempt.
        let refused = scene.send(gateway.address(), &payment);
        refused.assert_unresolved(409);
        assert_eq!(refused.text(), r#"{"refused":"duplicate"}"#);
    }
    let changed = Payment::under(payment.key(), "b");
    scene.send(gateway.address(), &changed).assert_problem(422, "key-reused");
    let effect_id = scene.upstream.arrivals()[0].effect_id().to_string();
    let store = format!("sqlite:{}", scene.dir().join("hapax.db").display());
    let applied = ["records", "resolve", "--store", &store, "--effect-id", &effect_id, "--applied"];
    let known = r#"{"id":"pay_1"}"#;
    let answer = ["--status", "201", "--body", known, "--reason", "refused as a duplicate"];
    let found = hapax(applied.iter().chain(&answer));
    assert_eq!(found.code, Some(0), "{found:?}");
    let paid = scene.paid(gateway.address(), &payment);
    assert!(paid.is_replay() && paid.text() == known, "{paid:?}");
    scene.assert_as_promised(1);
}

#[test]
fn t07_a_service_that_refuses_duplicates_is_asked_instead_of_sent_to_again() {
    let scene = Scene::new(Downstream::named("unique-probe"));
    let gateway = scene.serve.start();
    let payment = Payment::new("a");
    let lost = scene.send(gateway.address(), &payment.clone().act("effect; cut"));
    lost.assert_problem(409, "outcome-unknown");
    let paid = scene.paid(gateway.address(), &payment);
    assert_eq!(paid.text(), r#"{"id":"pay_1"}"#);
    scene.upstream.assert_arrivals(1);
    scene.assert_as_promised(1);
}
