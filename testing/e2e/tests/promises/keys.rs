//! What is a key, and what gets one that is not.

use hapax_testkit::{Request, Stage, UpstreamKind, fresh_key};

/// A payment with its key fields written as they are here.
fn raw(fields: &str) -> String {
    format!(
        "POST /payments HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\n{fields}\
         Content-Length: 12\r\nConnection: close\r\n\r\n{{\"amount\":1}}"
    )
}

#[test]
fn p19_a_key_that_is_not_exactly_one_acceptable_string_is_refused_and_nothing_arrives() {
    let stage = Stage::new();
    let key = fresh_key();
    let long = "0123456789abcdef".repeat(16);
    let refused = [
        ("two fields, the same", format!("\"{key}\"\r\nIdempotency-Key: \"{key}\"")),
        ("two fields, different", format!("\"{key}\"\r\nidempotency-key: \"{}\"", fresh_key())),
        ("a second, empty field", format!("\"{key}\"\r\nIdempotency-Key:")),
        ("two keys in one field", format!("\"{key}\", \"{}\"", fresh_key())),
        ("two bare keys in one field", format!("{key},{}", fresh_key())),
        ("empty", String::new()),
        ("only white space", "   ".to_owned()),
        ("an empty string", "\"\"".to_owned()),
        ("no closing quote", format!("\"{key}")),
        ("no opening quote", format!("{key}\"")),
        ("text after the string", format!("\"{key}\" and more")),
        ("a bad escape", format!("\"{key}\\n\"")),
        ("single quotes", format!("'{key}'")),
        ("white space in a bare key", key.replace('-', " ")),
        ("no ASCII", format!("\"{key}-é\"")),
        ("an integer", "1234567890123456789012345".to_owned()),
        ("a boolean", "?1".to_owned()),
        ("bytes", ":MDE5OGMyZjQ5YTFlN2M1NQ==:".to_owned()),
        ("a date", "@1659578233".to_owned()),
        ("an inner list", format!("(\"{key}\")")),
        ("a display string", format!("%\"{key}\"")),
        ("256 characters", format!("\"{long}\"")),
        ("256 bare characters", long.clone()),
        ("too short", "\"k3y-9f\"".to_owned()),
        ("one character again and again", format!("\"{}\"", "a".repeat(36))),
        ("a counter", "\"00000000000000000042\"".to_owned()),
        ("a word and a counter", "\"order-2026-000123\"".to_owned()),
        ("an e-mail address", "\"jane.doe+7f3a9c@example.com\"".to_owned()),
        ("a card number", "\"4111111111111111-9f8e7d6c5b4a\"".to_owned()),
        ("a token", "\"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U\"".to_owned()),
        ("a secret", "\"sk_live_4eC39HqLyjWDarjtT1zdp7dc\"".to_owned()),
    ];
    for (what, value) in &refused {
        let answer = stage.gateway.send_raw(&raw(&format!("Idempotency-Key: {value}\r\n")));
        assert_eq!(answer.problem().as_deref(), Some("key-invalid"), "{what}: {answer:?}");
        answer.assert_problem(400, "key-invalid");
        assert!(!answer.text().contains(&key), "{what}: the key is shown: {answer:?}");
        assert_eq!(stage.upstream.arrivals().len(), 0, "{what} arrived");
    }
}

#[test]
fn a_folded_key_field_is_refused_and_nothing_arrives() {
    let stage = Stage::new();
    let key = fresh_key();
    for folded in [
        format!("Idempotency-Key: \"{}\r\n {}\"\r\n", &key[..10], &key[10..]),
        format!("Idempotency-Key:\r\n \"{key}\"\r\n"),
        format!("Idempotency-Key : \"{key}\"\r\n"),
        format!("Idempotency-Key: \"{key}\0\"\r\n"),
    ] {
        let answer = stage.gateway.send_raw(&raw(&folded));
        assert_eq!(answer.status, 400, "{folded:?}: {answer:?}");
    }
    stage.upstream.assert_arrivals(0);
}

#[test]
fn quoted_and_bare_with_or_without_parameters_it_is_one_key() {
    let stage = Stage::new();
    let key = fresh_key();
    let payment = Request::payment(&key);
    let first = stage.gateway.send(&payment);
    first.assert_stored(201);
    let parameters = format!("\"{key}\";attempt=2;by=client");
    for same in [payment.clone().bare_key(&key), payment.clone().bare_key(&parameters)] {
        stage.gateway.send(&same).assert_replays(&first);
    }
    let spaces = stage.gateway.send_raw(&raw(&format!("idempotency-KEY:   \"{key}\"  \r\n")));
    spaces.assert_problem(422, "key-reused");
    stage.upstream.assert_arrivals(1);
}

#[test]
fn keys_are_compared_exactly() {
    let stage = Stage::new();
    let key = "Qm9keSBvZiBldmlkZW5jZQ-x7Zk2";
    let executed = [key.to_owned(), key.to_lowercase(), format!("{key}x"), format!("{key}\\\\")];
    for key in &executed {
        stage.gateway.send(&Request::payment(key)).assert_stored(201);
    }
    stage.upstream.assert_effects(executed.len());
}

#[test]
fn a_key_may_have_255_characters() {
    let stage = Stage::new();
    let key: String = (0..8).map(|_| fresh_key()).collect::<String>()[..255].to_owned();
    let payment = Request::payment(&key);
    let first = stage.gateway.send(&payment);
    first.assert_stored(201);
    stage.gateway.send(&payment.bare_key(&key)).assert_replays(&first);
    stage.upstream.assert_arrivals(1);
}

#[test]
fn the_floors_of_length_and_randomness_can_be_lowered_but_not_the_syntax() {
    let stage = Stage::with(&["--key-min-length", "1", "--key-min-bits", "0"]);
    let payment = Request::payment("1");
    let first = stage.gateway.send(&payment);
    first.assert_stored(201);
    stage.gateway.send(&payment).assert_replays(&first);
    stage.gateway.send(&payment.clone().bare_key("\"\"")).assert_problem(400, "key-invalid");
    let secret = payment.key("sk_live_4eC39HqLyjWDarjtT1zdp7dc");
    stage.gateway.send(&secret).assert_problem(400, "key-invalid");
    stage.upstream.assert_arrivals(1);
}

#[test]
fn an_operation_can_require_a_key_and_insist_on_quotes() {
    let stage = Stage::operations(
        UpstreamKind::Plain,
        r#"
        [[operation]]
        name = "payments.create"
        routes = ["POST /payments"]
        key = { required = true, syntax = "strict" }
        "#,
    );
    let key = fresh_key();
    let payment = Request::payment(&key);
    let without = payment.clone().without("idempotency-key");
    stage.gateway.send(&without).assert_problem(400, "key-missing");
    stage.gateway.send(&payment.clone().bare_key(&key)).assert_problem(400, "key-invalid");
    stage.upstream.assert_arrivals(0);
    stage.gateway.send(&payment).assert_stored(201);
}

#[test]
fn the_upstream_sees_the_effect_id_and_the_attempt_and_never_the_clients_key() {
    let stage = Stage::new();
    let key = fresh_key();
    let payment = Request::payment(&key)
        .header("hapax-attempt", "41")
        .header("hapax-outcome", "applied")
        .header("hapax-anything", "internal")
        .header("idempotent-replayed", "true")
        .header("x-account", "7");
    stage.gateway.send(&payment).assert_stored(201);
    let arrival = stage.upstream.only_arrival();
    assert_ne!(arrival.effect_id().to_string(), key);
    assert_eq!(arrival.attempt(), 1);
    assert!(!format!("{arrival:?}").contains(&key), "{arrival:?}");
    assert_eq!(arrival.all("hapax-outcome"), [""; 0]);
    assert_eq!(arrival.all("hapax-anything"), [""; 0]);
    assert_eq!(arrival.all("x-account"), ["7"], "everything else goes through");
    assert_eq!(arrival.text.as_deref(), Some(r#"{"amount":1200,"currency":"EUR"}"#));
}

#[test]
fn p18_what_connection_names_cannot_take_the_key_or_the_attempt_away() {
    let stage = Stage::new();
    let key = fresh_key();
    let naming = |named: &str| {
        raw(&format!("Idempotency-Key: \"{key}\"\r\nX-Hop: 1\r\n"))
            .replace("\r\nConnection: close\r\n", &format!("\r\nConnection: close, {named}\r\n"))
    };
    // The key is for this hop in any case: the next one gets the effect id in its place.
    let first = stage.gateway.send_raw(&naming("idempotency-key, hapax-attempt, x-hop"));
    assert_eq!(first.status, 201, "{first:?}");
    let arrival = stage.upstream.only_arrival();
    assert_eq!(arrival.attempt(), 1);
    arrival.effect_id();
    assert_eq!(arrival.all("x-hop"), [""; 0]);
    stage.gateway.send_raw(&naming("hapax-attempt")).assert_replays(&first);
    stage.upstream.assert_arrivals(1);
}

#[test]
fn a_patch_is_protected_like_a_post() {
    let stage = Stage::new();
    let patch = Request::payment(&fresh_key()).method("PATCH");
    let first = stage.gateway.send(&patch);
    first.assert_stored(201);
    stage.gateway.send(&patch).assert_replays(&first);
    stage.upstream.assert_arrivals(1);
}

#[test]
fn an_event_id_can_be_the_key() {
    let stage = Stage::operations(
        UpstreamKind::Plain,
        r#"
        [[operation]]
        name = "events"
        routes = ["POST /hooks"]
        key = { from = "header:webhook-id", min_length = 1, min_bits = 0 }
        fingerprint = { body = "none" }
        "#,
    );
    let event =
        Request::post("/hooks", r#"{"delivery":1}"#).header("webhook-id", "evt_0000000000042");
    let first = stage.gateway.send(&event);
    first.assert_stored(201);
    // A provider changes fields between deliveries of one event.
    stage.gateway.send(&event.json(r#"{"delivery":2}"#)).assert_replays(&first);
    stage.upstream.only_arrival().effect_id();
}
