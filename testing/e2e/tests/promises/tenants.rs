//! Tenants that do not meet.

use hapax_testkit::{Request, Serve, Stage, Upstream, UpstreamKind, fresh_key};

fn stage() -> Stage {
    Stage::of(UpstreamKind::Plain, |serve| {
        serve.without("--single-tenant", 0).args(["--scope-header", "X-Account"])
    })
}

#[test]
fn t03_another_tenant_with_a_known_key_executes_its_own_and_sees_nothing_of_the_first() {
    let stage = stage();
    let payment = Request::payment(&fresh_key());
    let [anna, bert] = ["anna", "bert"].map(|name| payment.clone().header("x-account", name));
    let annas = stage.gateway.send(&anna);
    annas.assert_stored(201);
    let berts = stage.gateway.send(&bert);
    berts.assert_stored(201);
    assert_ne!(annas.body, berts.body);
    stage.gateway.send(&anna).assert_replays(&annas);
    stage.gateway.send(&bert).assert_replays(&berts);
    let arrivals = stage.upstream.arrivals();
    assert_eq!(arrivals.len(), 2, "{arrivals:#?}");
    assert_ne!(arrivals[0].effect_id(), arrivals[1].effect_id());
    assert_eq!([arrivals[0].attempt(), arrivals[1].attempt()], [1, 1]);
    stage.upstream.assert_effects(2);
}

#[test]
fn p13_a_key_taken_by_another_tenant_with_another_intent_is_still_free_for_this_one() {
    let stage = stage();
    let payment = Request::payment(&fresh_key());
    let squatter = payment.clone().json(r#"{"amount":1}"#).header("x-account", "squatter");
    let running = stage.gateway.start(&squatter.clone().act("gate answer"));
    stage.upstream.arrived(1);
    let owner = payment.header("x-account", "owner");
    let first = stage.gateway.send(&owner);
    first.assert_stored(201);
    stage.upstream.open("answer");
    running.answer().assert_stored(201);
    stage.gateway.send(&owner).assert_replays(&first);
}

#[test]
fn scopes_are_compared_exactly_and_keys_do_not_run_into_them() {
    let stage = stage();
    let key = fresh_key();
    // The same characters, divided in another way between scope and key.
    for (scope, key) in [("a", format!("b{key}")), ("ab", key.clone()), ("A", format!("b{key}"))] {
        stage.gateway.send(&Request::payment(&key).header("x-account", scope)).assert_stored(201);
    }
    stage.upstream.assert_effects(3);
}

#[test]
fn a_keyed_request_that_does_not_say_whose_it_is_is_refused_and_nothing_arrives() {
    let stage = stage();
    let payment = Request::payment(&fresh_key());
    let refused = [
        payment.clone(),
        payment.clone().header("x-account", ""),
        payment.clone().header("x-account", "anna").header("x-account", "bert"),
        payment.clone().header("x-account", "anna").header("x-account", "anna"),
    ];
    for request in refused {
        let answer = stage.gateway.send(&request);
        answer.assert_problem(401, "scope-missing");
        // RFC 9110 15.5.2: a 401 has a challenge.
        assert_eq!(answer.all("www-authenticate").len(), 1, "{answer:?}");
    }
    stage.upstream.assert_arrivals(0);
    // Without a key there is nothing to protect, so it passes.
    let unkeyed = stage.gateway.send(&payment.clone().without("idempotency-key"));
    assert_eq!(unkeyed.status, 201, "{unkeyed:?}");
    stage.gateway.send(&payment.header("x-account", "anna")).assert_stored(201);
}

#[test]
fn the_single_tenant_is_no_name_that_a_header_could_say() {
    let dir = tempfile::tempdir().expect("a directory");
    let upstream = Upstream::start(dir.path(), UpstreamKind::Plain);
    let payment = Request::payment(&fresh_key());
    let serve = Serve::new(dir.path(), &upstream);
    let single = serve.start();
    single.send(&payment).assert_stored(201);
    drop(single);
    let scoped = serve.without("--single-tenant", 0).args(["--scope-header", "X-Account"]).start();
    for name in ["single-tenant", "single_tenant", "default", "\0", "*"] {
        let answer = scoped.send(&payment.clone().header("x-account", name.trim_matches('\0')));
        assert!(!answer.is_replay(), "{name:?}: {answer:?}");
    }
}
