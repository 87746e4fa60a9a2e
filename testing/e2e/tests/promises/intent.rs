//! What is the same intent, and what gets one that is not.

use hapax_testkit::{Answer, Request, Serve, Stage, UpstreamKind, fresh_key};

const PAYMENT: &str = r#"{"amount":1200,"currency":"EUR","to":"DE89","items":[{"sku":"a","count":1}],"options":{"instant":true}}"#;

/// The same payment with one thing changed: amount, destination, item, option.
const CHANGED: [(&str, &str); 8] = [
    (
        "amount",
        r#"{"amount":1201,"currency":"EUR","to":"DE89","items":[{"sku":"a","count":1}],"options":{"instant":true}}"#,
    ),
    (
        "currency",
        r#"{"amount":1200,"currency":"USD","to":"DE89","items":[{"sku":"a","count":1}],"options":{"instant":true}}"#,
    ),
    (
        "destination",
        r#"{"amount":1200,"currency":"EUR","to":"DE90","items":[{"sku":"a","count":1}],"options":{"instant":true}}"#,
    ),
    (
        "item",
        r#"{"amount":1200,"currency":"EUR","to":"DE89","items":[{"sku":"b","count":1}],"options":{"instant":true}}"#,
    ),
    (
        "one more item",
        r#"{"amount":1200,"currency":"EUR","to":"DE89","items":[{"sku":"a","count":1},{"sku":"a","count":1}],"options":{"instant":true}}"#,
    ),
    (
        "option",
        r#"{"amount":1200,"currency":"EUR","to":"DE89","items":[{"sku":"a","count":1}],"options":{"instant":false}}"#,
    ),
    (
        "no option",
        r#"{"amount":1200,"currency":"EUR","to":"DE89","items":[{"sku":"a","count":1}]}"#,
    ),
    (
        "null option",
        r#"{"amount":1200,"currency":"EUR","to":"DE89","items":[{"sku":"a","count":1}],"options":null}"#,
    ),
];

/// Every changed payment is refused, with one and the same answer.
#[track_caller]
fn assert_changes_refused(stage: &Stage, payment: &Request) -> Answer {
    let answers = CHANGED.map(|(what, changed)| {
        let answer = stage.gateway.send(&payment.clone().json(changed));
        assert_eq!(answer.status, 422, "{what}: {answer:?}");
        answer.assert_problem(422, "key-reused");
        for secret in ["1200", "DE89", "pay_", "EUR", "session"] {
            let shown = format!("{answer:?}");
            assert!(!shown.contains(secret), "{what}: reveals {secret}: {shown}");
        }
        answer
    });
    let [first, rest @ ..] = answers;
    for other in rest {
        assert_eq!(other.body, first.body);
    }
    first
}

#[test]
fn t02_a_changed_intent_is_refused_in_every_state_and_learns_nothing_of_it() {
    let stage = Stage::new();
    let payment = || Request::post("/payments", PAYMENT).key(&fresh_key());

    let executing = payment().act("gate answer");
    let first = stage.gateway.start(&executing);
    stage.upstream.arrived(1);
    let in_flight = assert_changes_refused(&stage, &executing);
    stage.upstream.open("answer");
    let first = first.answer();
    first.assert_stored(201);
    let succeeded = assert_changes_refused(&stage, &executing);

    let failed_terminal = payment().act("status 402; body text no funds");
    stage.gateway.send(&failed_terminal).assert_stored(402);
    let failed = assert_changes_refused(&stage, &failed_terminal);

    let uncertain = payment().act("effect; cut");
    stage.gateway.send(&uncertain).assert_problem(409, "outcome-unknown");
    let unknown = assert_changes_refused(&stage, &uncertain);

    let observed = payment().act("status 500; body text broken");
    stage.gateway.send(&observed).assert_unresolved(500);
    let shown = assert_changes_refused(&stage, &observed);

    stage.upstream.assert_arrivals(4);
    for other in [succeeded, failed, unknown, shown] {
        assert_eq!(other.body, in_flight.body, "the state shows");
    }
    // The first intent is answered as before.
    stage.gateway.send(&executing).assert_replays(&first);
}

#[test]
fn t02_a_changed_intent_is_refused_by_the_other_gateway_too() {
    let stage = Stage::new();
    let other = stage.gateway.twin();
    let payment = Request::payment(&fresh_key()).act("gate answer");
    let first = stage.gateway.start(&payment);
    stage.upstream.arrived(1);
    let changed = payment.clone().json(r#"{"amount":1,"currency":"EUR"}"#);
    other.send(&changed).assert_problem(422, "key-reused");
    stage.upstream.open("answer");
    first.answer().assert_stored(201);
    other.send(&changed).assert_problem(422, "key-reused");
    stage.upstream.assert_arrivals(1);
}

#[test]
fn another_path_query_method_media_type_or_precondition_is_another_intent() {
    let stage = Stage::new();
    let payment = Request::payment(&fresh_key());
    stage.gateway.send(&payment).assert_stored(201);
    let others = [
        payment.clone().to("/refunds"),
        payment.clone().to("/payments?dry_run=true"),
        payment.clone().to("/payments/"),
        payment.clone().method("PATCH"),
        payment
            .clone()
            .without("content-type")
            .header("content-type", "application/merge-patch+json"),
        payment.clone().without("content-type"),
        payment.clone().header("if-match", "\"7\""),
    ];
    for other in others {
        stage.gateway.send(&other).assert_problem(422, "key-reused");
    }
    stage.upstream.assert_arrivals(1);
}

#[test]
fn the_same_intent_in_other_bytes_is_replayed() {
    let stage = Stage::new();
    let payment = Request::post("/payments", PAYMENT).key(&fresh_key());
    let first = stage.gateway.send(&payment);
    first.assert_stored(201);
    let same = [
        (
            "reordered",
            r#"{"options":{"instant":true},"items":[{"count":1,"sku":"a"}],"to":"DE89","currency":"EUR","amount":1200}"#,
        ),
        (
            "white space",
            "\n{ \"amount\" : 1200,\t\"currency\":\"EUR\",\r\n\"to\":\"DE89\",\"items\":[ {\"sku\":\"a\",\"count\":1} ],\"options\":{\"instant\":true} }\n",
        ),
        (
            "1200.0",
            r#"{"amount":1200.0,"currency":"EUR","to":"DE89","items":[{"sku":"a","count":1.00}],"options":{"instant":true}}"#,
        ),
        (
            "12e2",
            r#"{"amount":12e2,"currency":"EUR","to":"DE89","items":[{"sku":"a","count":10E-1}],"options":{"instant":true}}"#,
        ),
        (
            "escapes",
            r#"{"am\u006funt":1200,"currency":"\u0045UR","to":"DE\u0038\u0039","items":[{"sku":"\u0061","count":1}],"options":{"instant":true}}"#,
        ),
    ];
    for (what, json) in same {
        let answer = stage.gateway.send(&payment.clone().json(json));
        assert_eq!(answer.status, 201, "{what}: {answer:?}");
        answer.assert_replays(&first);
    }
    let charset = payment
        .clone()
        .without("content-type")
        .header("content-type", "Application/JSON; charset=utf-8");
    stage.gateway.send(&charset).assert_replays(&first);
    // Fields that say nothing of the intent.
    let traced = payment.header("user-agent", "retry/2").header("traceparent", "00-1-2-01");
    stage.gateway.send(&traced).assert_replays(&first);
    stage.upstream.assert_arrivals(1);
}

#[test]
fn p15_numbers_and_arrays_that_only_look_alike_are_different_intents() {
    let stage = Stage::new();
    let pairs = [
        (r#"{"account":9007199254740993}"#, r#"{"account":9007199254740992}"#),
        (r#"{"n":0.1}"#, r#"{"n":0.10000000000000001}"#),
        (r#"{"n":1e400}"#, r#"{"n":1e401}"#),
        (r#"{"n":1}"#, r#"{"n":"1"}"#),
        (r#"{"n":0}"#, r#"{"n":false}"#),
        (r#"{"n":null}"#, r"{}"),
        (r#"{"n":[1,2]}"#, r#"{"n":[2,1]}"#),
        (r#"{"n":[]}"#, r#"{"n":{}}"#),
        (r#"{"n":"caf\u00e9"}"#, r#"{"n":"cafe\u0301"}"#),
        (r#"{"n":"a"}"#, r#"{"n":"A"}"#),
        (r#"{"n":"a"}"#, r#"{"n":"a "}"#),
    ];
    for (count, (one, other)) in pairs.into_iter().enumerate() {
        let request = Request::post("/payments", one).key(&fresh_key());
        let first = stage.gateway.send(&request);
        first.assert_stored(201);
        let answer = stage.gateway.send(&request.clone().json(other));
        assert_eq!(answer.status, 422, "{one} and {other}: {answer:?}");
        answer.assert_problem(422, "key-reused");
        stage.gateway.send(&request).assert_replays(&first);
        stage.upstream.assert_arrivals(count + 1);
    }
}

#[test]
fn a_body_that_is_no_json_or_says_a_member_twice_is_refused_and_claims_nothing() {
    let stage = Stage::new();
    let payment = Request::payment(&fresh_key());
    let invalid = [
        r#"{"amount":1,"amount":2}"#,
        r#"{"a":{"b":1,"\u0062":1}}"#,
        r#"{"amount":1"#,
        r#"{"amount":01}"#,
        r#"{"amount":1} {}"#,
        "{'amount':1}",
        "[NaN]",
        " ",
    ];
    for json in invalid {
        let answer = stage.gateway.send(&payment.clone().json(json));
        assert_eq!(answer.problem().as_deref(), Some("body-invalid"), "{json}: {answer:?}");
        answer.assert_problem(400, "body-invalid");
    }
    let first = stage.gateway.send(&payment);
    first.assert_stored(201);
    assert_eq!(stage.upstream.only_arrival().attempt(), 1);
}

#[test]
fn forms_are_compared_by_their_pairs_and_other_bodies_by_their_bytes() {
    let stage = Stage::new();
    let form = Request::new("POST", "/payments")
        .body("application/x-www-form-urlencoded", "amount=1200&to=M%C3%BCller+AG")
        .key(&fresh_key());
    let first = stage.gateway.send(&form);
    first.assert_stored(201);
    // No server tells apart how characters are spelled, or the order of fields of other names.
    for same in ["amount=1200&to=M%c3%bcller%20AG", "to=M%C3%BCller+AG&amount=1200"] {
        stage.gateway.send(&form.clone().json(same)).assert_replays(&first);
    }
    for changed in [
        "amount=1201&to=M%C3%BCller+AG",
        "amount=1200",
        "amount=1200&to=M%C3%BCller+AG&to=",
        "amount=1200&to=M%FCller+AG",
    ] {
        stage.gateway.send(&form.clone().json(changed)).assert_problem(422, "key-reused");
    }
    let raw =
        Request::new("POST", "/upload").body("image/png", vec![0, 159, 146, 150]).key(&fresh_key());
    let first = stage.gateway.send(&raw);
    first.assert_stored(201);
    stage.gateway.send(&raw).assert_replays(&first);
    let changed = raw.without("content-type").body("image/png", vec![0, 159, 146, 151]);
    stage.gateway.send(&changed).assert_problem(422, "key-reused");
    stage.upstream.assert_arrivals(2);
}

#[test]
fn a_key_that_is_free_takes_the_corrected_intent() {
    let stage = Stage::new();
    let payment = Request::payment(&fresh_key());
    let refused = payment.clone().json(r#"{"amount":-1}"#).act("status 400; body text negative");
    let answer = stage.gateway.send(&refused);
    assert_eq!((answer.status, answer.text().as_str()), (400, "negative"), "{answer:?}");
    let first = stage.gateway.send(&payment);
    first.assert_stored(201);
    stage.gateway.send(&refused).assert_problem(422, "key-reused");
    let attempts: Vec<_> = stage.upstream.arrivals().iter().map(|a| a.attempt()).collect();
    assert_eq!(attempts, [1, 2]);
}

#[test]
fn t13_what_is_excluded_or_declared_as_default_does_not_make_another_intent() {
    let stage = Stage::operations(
        UpstreamKind::Plain,
        r#"
        [[operation]]
        name = "payments.create"
        routes = ["POST /v1/payments", "POST /v2/payments"]
        fingerprint = { exclude = ["/client_time"], defaults = { "/currency" = "EUR" } }
        "#,
    );
    let payment =
        Request::post("/v1/payments", r#"{"amount":1,"client_time":"10:00"}"#).key(&fresh_key());
    let first = stage.gateway.send(&payment);
    first.assert_stored(201);
    for same in [
        r#"{"amount":1,"client_time":"10:01"}"#,
        r#"{"amount":1}"#,
        r#"{"amount":1,"currency":"EUR"}"#,
    ] {
        stage.gateway.send(&payment.clone().json(same)).assert_replays(&first);
    }
    for other in
        [r#"{"amount":1,"currency":"USD"}"#, r#"{"amount":1,"currency":null}"#, r#"{"amount":2}"#]
    {
        stage.gateway.send(&payment.clone().json(other)).assert_problem(422, "key-reused");
    }
    stage.upstream.assert_arrivals(1);
}

#[test]
fn two_routes_of_one_operation_share_one_set_of_keys() {
    let stage = Stage::operations(
        UpstreamKind::Plain,
        r#"
        [[operation]]
        name = "payments.create"
        routes = ["POST /v1/payments", "POST /v2/payments"]
        [[operation]]
        name = "refunds.create"
        routes = ["POST /v1/refunds"]
        "#,
    );
    let key = fresh_key();
    let payment = Request::post("/v1/payments", r#"{"amount":1}"#).key(&key);
    let first = stage.gateway.send(&payment);
    first.assert_stored(201);
    // The same key by the other route is the same operation and the same intent.
    stage.gateway.send(&payment.clone().to("/v2/payments")).assert_replays(&first);
    stage.upstream.assert_arrivals(1);
    // Under another operation it is another record.
    stage.gateway.send(&payment.clone().to("/v1/refunds")).assert_stored(201);
    let arrivals = stage.upstream.arrivals();
    assert_ne!(arrivals[0].effect_id(), arrivals[1].effect_id());
    // What belongs to no operation is passed on, key and all.
    stage.gateway.send(&payment.to("/v1/other"));
    assert_eq!(stage.upstream.arrivals()[2].field("idempotency-key"), format!("\"{key}\""));
}

#[test]
fn a_path_that_is_spelled_in_another_way_is_the_same_route() {
    let stage = Stage::operations(UpstreamKind::Plain, RULES);
    let payment = Request::payment(&fresh_key());
    let first = stage.gateway.send(&payment.clone().to("/%70aym%65nts"));
    first.assert_stored(201);
    stage.gateway.send(&payment).assert_replays(&first);
    // The service sees what was sent.
    assert_eq!(stage.upstream.only_arrival().target, "/%70aym%65nts");
}

/// A configuration whose last line is about what makes an intent.
const RULES: &str = r#"
    [[operation]]
    name = "payments.create"
    routes = ["POST /payments"]
"#;

#[test]
fn t12_a_record_is_compared_under_the_rules_it_was_made_with_when_those_change() {
    let mut stage = Stage::operations(
        UpstreamKind::Plain,
        &format!("{RULES}fingerprint = {{ exclude = [\"/client_time\"] }}"),
    );
    let at = |key: &str, time: u8| {
        Request::post("/payments", &format!(r#"{{"amount":1,"client_time":{time}}}"#)).key(key)
    };
    let (excluded, included) = (fresh_key(), fresh_key());
    let first = stage.gateway.send(&at(&excluded, 1));
    first.assert_stored(201);
    stage.gateway.kill();
    let plain = Serve::operations(stage.dir(), &stage.upstream, RULES).start();
    // Made when the client's time did not count; it still does not.
    plain.send(&at(&excluded, 2)).assert_replays(&first);
    plain.send(&at(&excluded, 1).json(r#"{"amount":2}"#)).assert_problem(422, "key-reused");
    let second = plain.send(&at(&included, 1));
    second.assert_stored(201);
    drop(plain);
    stage.gateway.restart();
    // Made when it counted; it still does.
    stage.gateway.send(&at(&included, 1)).assert_replays(&second);
    stage.gateway.send(&at(&included, 2)).assert_problem(422, "key-reused");
    stage.upstream.assert_arrivals(2);
}

#[test]
fn t12_a_record_made_under_rules_that_are_not_known_here_is_neither_replayed_nor_refused() {
    let mut stage = Stage::resending(&[]);
    let payment = Request::payment(&fresh_key());
    let first = stage.gateway.send(&payment);
    first.assert_stored(201);
    stage.gateway.kill();
    let change = |from: &str, to: &str| {
        let database = rusqlite::Connection::open(stage.database()).expect("the database opens");
        let replaced = database
            .execute("UPDATE hapax_policy SET text = replace(text, ?1, ?2)", (from, to))
            .expect("the policies change");
        assert_ne!(replaced, 0);
    };
    // As a newer hapax would have written it.
    change("\"version\":1", "\"version\":99");
    let other = Serve::new(stage.dir(), &stage.upstream).start();
    for request in [payment.clone(), payment.clone().json("{}")] {
        let answer = other.send(&request);
        answer.assert_problem(503, "policy-unknown");
        assert!(answer.field("retry-after").is_some(), "{answer:?}");
    }
    drop(other);
    change("\"version\":99", "\"version\":1");
    stage.gateway.restart();
    stage.gateway.send(&payment).assert_replays(&first);
    stage.upstream.assert_arrivals(1);
}
