//! Mistakes in one operation, each on line 7 unless it says otherwise.

use hapax_core::{
    BodyForm, InFlight, Json, KeyPolicy, KeySource, KeySyntax, Kind, Mode, OnUnknown, OutcomeRule,
    OutcomeRules, Pointer, Told,
};

use super::*;

const LATER: &str = "belongs to a later version of hapax\n  help: remove it";
const KEYED_ONLY: &str = "it has a meaning for keyed operations only\n  help: remove it, or write \
                          kind = \"keyed\"";
const FROM: &str = "\n  help: write from = \"header:idempotency-key\"";

#[test]
fn each_mistake_in_an_operation_names_line_and_remedy() {
    for (settings, expected) in [
        (
            "kind = \"keyd\"",
            "kind: \"keyd\" is not \"keyed\" or \"natural\" or \"unprotected\"\n  help: did you \
             mean \"keyed\"?",
        ),
        (
            "kind = \"unprotected\"",
            "kind: an unprotected operation says why it is\n  help: add reason = \"…\"; it is \
             printed at every start",
        ),
        (
            "reason = \"because\"",
            "reason: a keyed operation needs no reason\n  help: remove it, or write kind = \
             \"unprotected\"",
        ),
        (
            "key = 3",
            "key: a whole number stands where a table belongs\n  help: write it as in key = \
             { required = true }",
        ),
        (
            "key = { reqired = true }",
            "key.reqired: there is no such key in key\n  help: did you mean \"required\"?",
        ),
        (
            "key = { required = 1 }",
            "key.required: a whole number stands where true or false belongs\n  help: write it as \
             in required = true",
        ),
        (
            "key = { syntax = \"stict\" }",
            "key.syntax: \"stict\" is not \"lenient\" or \"strict\"\n  help: did you mean \
             \"strict\"?",
        ),
        (
            "key = { min_length = 256 }",
            "key.min_length: 256 is not between 1 and 255\n  help: write a number in that range, \
             such as 16",
        ),
        (
            "key = { min_bits = 513 }",
            "key.min_bits: 513 is not between 0 and 512\n  help: write a number in that range, \
             such as 64",
        ),
        (
            "fingerprint = { body = \"jsn\" }",
            "fingerprint.body: \"jsn\" is not \"json\" or \"jcs\" or \"form\" or \"multipart\" or \
             \"raw\" or \"none\"\n  help: did you mean \"json\"?",
        ),
        (
            "fingerprint = { include = \"/a\" }",
            "fingerprint.include: a text stands where a list of JSON Pointers belongs\n  help: \
             write it as in include = [\"/amount\"]",
        ),
        (
            "fingerprint = { exclude = [3] }",
            "fingerprint.exclude: a whole number stands where a JSON Pointer belongs\n  help: \
             write it as in \"/amount\"",
        ),
        (
            "fingerprint = { exclude = [\"amount\"] }",
            "fingerprint.exclude: a JSON Pointer starts with \"/\", as in \"/amount\"\n  help: \
             write it as in \"/amount\"",
        ),
        (
            "fingerprint = { exclude = [\"/a\", \"/a/b\"] }",
            "fingerprint: /a/b in exclude is already covered by /a\n  help: leave it out",
        ),
        (
            "fingerprint = { body = \"form\", exclude = [\"/a\"] }",
            "fingerprint: include, exclude, defaults and unordered point into JSON\n  help: set \
             body = \"json\" or leave them out",
        ),
        (
            "fingerprint = { defaults = { amount = 1 } }",
            "fingerprint.defaults.amount: a JSON Pointer starts with \"/\", as in \"/amount\"\n  \
             help: write it as in \"/amount\"",
        ),
        (
            "fingerprint = { defaults = { \"/a\" = [inf] } }",
            "fingerprint.defaults.\"/a\": a date, inf or nan is no JSON value\n  help: write what \
             the request would hold, a date as a text in quotes",
        ),
        (
            "fingerprint = { headers = [\"Cookie\"] }",
            "fingerprint.headers: cookie is no part of an intent: it may differ when the same \
             request is retried\n  help: remove it",
        ),
        (
            "fingerprint = { unordered = \"/a\" }",
            "fingerprint.unordered: a text stands where a list of JSON Pointers belongs\n  help: \
             write it as in unordered = [\"/amount\"]",
        ),
        (
            "fingerprint = { unordered = [\"/a\"], exclude = [\"/a/0\"] }",
            "fingerprint: /a/0 in exclude is an element of /a, whose order does not count\n  help: \
             leave it out",
        ),
        (
            "fingerprint = { body = \"jcs\", defaults = { \"/a\" = 1e999 } }",
            "fingerprint: the default for /a is outside of the range of a double\n  help: compare \
             as \"json\"",
        ),
        (
            "outcome = \"applied\"",
            "outcome: a text stands where a table belongs\n  help: write it as in outcome = { at = \
             \"/errors\", absent = \"applied\" }",
        ),
        (
            "outcome = { absent = \"applied\" }",
            "outcome: it does not say where to look\n  help: write it as in { at = \"/errors\", \
             absent = \"applied\" }",
        ),
        (
            "outcome = { at = \"errors\", absent = \"applied\" }",
            "outcome.at: a JSON Pointer starts with \"/\", as in \"/amount\"\n  help: write it as \
             in \"/amount\"",
        ),
        (
            "outcome = { at = \"/errors\", absent = \"aplied\" }",
            "outcome.absent: \"aplied\" is not \"applied\" or \"not_applied\" or \"failed\" or \
             \"unknown\"\n  help: did you mean \"applied\"?",
        ),
        (
            "outcome = { at = \"/status\", applied = \"OK\" }",
            "outcome.applied: a text stands where a list of values belongs\n  help: write it as in \
             applied = [\"OK\"]",
        ),
        (
            "outcome = { at = \"/status\", applied = [\"OK\"], failed = [\"OK\"] }",
            "outcome.failed: it is listed twice\n  help: list each value once",
        ),
        (
            "outcome = { at = \"/status\", applied = [nan] }",
            "outcome.applied: a date, inf or nan is no JSON value\n  help: write what the answer \
             would hold, a date as a text in quotes",
        ),
        (
            "outcome = { at = \"/status\" }",
            "outcome: it says nothing about any answer\n  help: write it as in { at = \
             \"/errors\", absent = \"applied\" }",
        ),
        (
            "outcome = { at = \"/status\", aplied = [\"OK\"] }",
            "outcome.aplied: there is no such key in outcome\n  help: did you mean \"applied\"?",
        ),
        (
            "outcome = { at = \"/status\", failed = [\"NO\"] }",
            "outcome: no answer would be read as applied, and every outcome be unknown\n  help: \
             name the values that say so, or write absent = \"applied\" or present = \"applied\"",
        ),
        (
            "in_flight = \"acept\"",
            "in_flight: \"acept\" is not \"conflict\" or \"accept\"\n  help: did you mean \
             \"accept\"?",
        ),
        (
            "in_flight = { wait = \"2s\", then = 3 }",
            "in_flight.then: a whole number stands where a word belongs\n  help: write it as in \
             then = \"accept\"",
        ),
        (
            "prefer = { wait = \"0s\" }",
            "prefer.wait: it cannot be zero\n  help: write a longer one, such as \"30s\"",
        ),
        (
            "status_codes = { key-reuse = 409 }",
            "status_codes.key-reuse: \"key-reuse\" is no kind of problem\n  help: did you mean \
             \"key-reused\"?",
        ),
        (
            "status_codes = { in-flight = 200 }",
            "status_codes.in-flight: a problem's status is one of a failure\n  help: write a \
             number from 400 to 599, such as 409",
        ),
        (
            "in_flight = \"wait\"",
            "in_flight: it does not say how long\n  help: write { wait = \"2s\" }",
        ),
        (
            "in_flight = {}",
            "in_flight: it says nothing\n  help: write { wait = \"2s\" }, \"conflict\" \
             or \"accept\"",
        ),
        (
            "in_flight = { wait = \"0s\" }",
            "in_flight.wait: it cannot be zero\n  help: write a longer one, such as \"2s\"",
        ),
        (
            "in_flight = 3",
            "in_flight: a whole number stands where \"conflict\", \"accept\" or { wait = … } \
             belongs\n  help: write it as in in_flight = \"conflict\"",
        ),
        (
            "on_unknown = \"probe\"",
            "on_unknown: it does not say how the service is asked what became of an effect\n  \
             help: add probe = { get = \"/v1/payments/by-operation/{effect_id}\" }",
        ),
        (
            "lease = \"30\"",
            "lease: \"30\" has no unit of time\n  help: write a number and a unit (ms, s, m, h, \
             d), such as \"30s\"",
        ),
        (
            "lease = 30",
            "lease: a whole number stands where a duration belongs\n  help: write it as in lease \
             = \"30s\"",
        ),
        (
            "lease = \"500ms\"",
            "lease: a lease of 500ms is renewed too often to be kept\n  help: write at least \
             \"1s\"; \"30s\" suits most",
        ),
        ("lease = \"0s\"", "lease: it cannot be zero\n  help: write a longer one, such as \"30s\""),
        (
            "timeout = \"0s\"",
            "timeout: it cannot be zero\n  help: write a longer one, such as \"20s\"",
        ),
        (
            "retention = \"1d\"",
            "retention: a text stands where a table belongs\n  help: write it as in retention = \
             { outcome = \"24h\", tombstone = \"30d\" }",
        ),
        (
            "retention = { outcome = \"1 fortnight\" }",
            "retention.outcome: \"fortnight\" is not a unit of time\n  help: write a number and a \
             unit (ms, s, m, h, d), such as \"24h\"",
        ),
        (
            "retried_by = { relay = 3 }",
            "retried_by.relay: a whole number stands where a duration belongs\n  help: write it \
             as in relay = \"24h\"",
        ),
        (
            "admission = \"separate\"",
            "admission: a separate admission comes with a later version of hapax\n  help: write \
             \"claim\", or remove it",
        ),
        (
            "store_refusals = \"yes\"",
            "store_refusals: a text stands where true or false belongs\n  help: write it as in \
             store_refusals = true",
        ),
        (
            "response_cap = \"1GiB\"",
            "response_cap: no row of the store holds a response of more than 512MiB\n  help: \
             write a smaller cap, such as \"1MiB\"",
        ),
        (
            "replay_headers = [\"Set-Cookie\"]",
            "replay_headers: set-cookie is never replayed: it belongs to one exchange or one \
             receiver\n  help: remove it",
        ),
        (
            "mode = \"observ\"",
            "mode: \"observ\" is not \"enforce\" or \"observe\"\n  help: did you mean \
             \"observe\"?",
        ),
        (
            "contract = { effect = 1 }",
            "contract.effect: a whole number stands where a text belongs\n  help: write it as in \
             effect = \"captures the amount\"",
        ),
        (
            "retension = {}",
            "retension: there is no such key in [[operation]]\n  help: did you mean \
             \"retention\"?",
        ),
        (
            "key = { from = \"x\" }",
            &format!(
                "key.from: \"x\" is neither a header nor a place of the body{FROM} or from = \
                      \"body:/request_id\""
            ),
        ),
        (
            "key = { from = \"body:id\" }",
            "key.from: a JSON Pointer starts with \"/\", as in \"/amount\"\n  help: write it as in \
             from = \"body:/request_id\"",
        ),
        (
            "key = { from = \"body:\" }",
            "key.from: the whole body is no key\n  help: name the part of it that is, as in from = \
             \"body:/request_id\"",
        ),
        (
            "key = { from = \"body:/id\", syntax = \"strict\" }",
            "key.syntax: a key in the body has no syntax of a header\n  help: remove it",
        ),
        (
            "key = { from = \"header:Authorization\" }",
            &format!("key.from: authorization cannot carry a key{FROM}"),
        ),
    ] {
        assert_eq!(errors(&operation(settings)), format!("f.toml:7: {expected}"), "{settings}");
    }
}

#[test]
fn settings_of_later_versions_are_refused_by_name() {
    for key in ["cors", "reference"] {
        let expected = format!("f.toml:7: {key}: {LATER}");
        assert_eq!(errors(&operation(&format!("{key} = {{}}"))), expected);
    }
}

#[test]
fn only_keyed_operations_have_settings_of_keys() {
    for kind in ["kind = \"natural\"", "kind = \"unprotected\"\nreason = \"reads\""] {
        let text = operation(&format!("lease = \"3s\"\nmode = \"observe\"\nkey = {{}}\n{kind}"));
        let expected = format!("f.toml:7: lease: {KEYED_ONLY}\nf.toml:9: key: {KEYED_ONLY}");
        assert_eq!(errors(&text), expected);
    }
}

#[test]
fn a_name_and_routes_have_to_be_there() {
    let missing = |settings: &str| errors(&file("", &format!("[[operation]]\n{settings}")));
    assert_eq!(
        missing(""),
        "f.toml:4: [[operation]]: it has no name, which is part of the identity of its records\n  \
         help: add one that stays, such as name = \"payments.create\"\n\
         f.toml:4: [[operation]]: it has no routes\n  help: add the routes that produce this \
         effect, as in routes = [\"POST /v1/payments\"]"
    );
    assert_eq!(
        missing("name = \"a b\"\nroutes = []"),
        "f.toml:5: name: a name is 1 to 128 letters, digits, dots, underscores and hyphens\n  \
         help: write it as in \"payments.create\"\n\
         f.toml:6: routes: it has no routes\n  help: add the routes that produce this effect, as \
         in routes = [\"POST /v1/payments\"]"
    );
    assert_eq!(
        missing("name = \"a\"\nroutes = [\"POST /a\",\n  \"post /b\"]"),
        "f.toml:7: routes: \"post\" is not a method\n  help: did you mean \"POST\"?"
    );
}

#[test]
fn every_setting_of_an_operation_arrives() {
    let policy = only_operation(
        r#"
        key = { from = "header:Webhook-Id", required = true, syntax = "strict", min_length = 1, min_bits = 0 }
        fingerprint = { body = "json", include = ["/a", "/b"], exclude = ["/a/t"], unordered = ["/b"], headers = ["If-Match"] }
        in_flight = "conflict"
        on_unknown = "resend"
        collapse_for = "24h"
        late_arrival = "0s"
        admission = "claim"
        lease = "10s"
        timeout = "5s"
        retention = { outcome = "1h", tombstone = "2d" }
        retried_by = { client = "24h" }
        store_refusals = true
        replay_headers = ["X-Payment-Id"]
        response_cap = "64KiB"
        mode = "observe"
        contract = { effect = "pays" }
        "#,
    );
    let seconds = Duration::from_secs;
    assert_eq!(policy.kind, Kind::Keyed);
    assert_eq!(policy.key.from, KeySource::Header("webhook-id".to_owned()));
    assert!(policy.key.required);
    assert_eq!(policy.key.policy.syntax, KeySyntax::Strict);
    assert_eq!((policy.key.policy.min_length, policy.key.policy.min_bits), (1, 0));
    assert_eq!(policy.fingerprint.body, Some(BodyForm::Json));
    assert_eq!(policy.fingerprint.include.len(), 2);
    assert_eq!(policy.fingerprint.exclude, [Pointer::parse("/a/t").expect("a pointer")]);
    assert_eq!(policy.fingerprint.unordered, [Pointer::parse("/b").expect("a pointer")]);
    assert_eq!(policy.fingerprint.headers, ["if-match"]);
    assert_eq!(policy.in_flight, InFlight::Conflict);
    assert_eq!(
        (policy.on_unknown, policy.collapse_for),
        (OnUnknown::Resend, Some(seconds(86_400)))
    );
    assert_eq!((policy.late_arrival, policy.lease), (seconds(0), seconds(10)));
    assert_eq!(policy.timeout, seconds(5));
    assert_eq!(
        (policy.retention.outcome, policy.retention.tombstone),
        (seconds(3600), seconds(172_800))
    );
    assert_eq!(policy.retried_by, [("client".to_owned(), seconds(86_400))]);
    assert!(policy.store_refusals);
    assert_eq!(policy.replay_headers, ["x-payment-id"]);
    assert_eq!((policy.response_cap, policy.mode), (64 << 10, Mode::Observe));
    assert_eq!(policy.target, "http://a:1");
}

#[test]
fn what_callers_get_beside_the_services_answers_arrives() {
    let answers = |settings: &str| {
        let config = load(&operation(settings), &Flags::default()).expect("right");
        let only = config.operations.first().expect("one");
        (only.policy.in_flight, only.answers.clone())
    };
    let seconds = |seconds| InFlight::Wait(Duration::from_secs(seconds));
    for (settings, in_flight, accept) in [
        ("", seconds(2), false),
        ("in_flight = \"accept\"", InFlight::Conflict, true),
        ("in_flight = \"conflict\"", InFlight::Conflict, false),
        ("in_flight = { wait = \"3s\", then = \"accept\" }", seconds(3), true),
        ("in_flight = { wait = \"3s\", then = \"conflict\" }", seconds(3), false),
    ] {
        let (found, answers) = answers(settings);
        assert_eq!((found, answers.accept), (in_flight, accept), "{settings}");
    }
    let (_, answers) = answers(
        "prefer = { respond_async = true, wait = \"30s\" }\nstatus_codes = { in-flight = 423 }",
    );
    let wait = Some(Duration::from_secs(30));
    assert_eq!(answers.prefer, Prefer { respond_async: true, wait });
    assert_eq!(answers.status_codes, [(hapax_core::ProblemKind::InFlight, 423)].into());
}

#[test]
fn a_key_may_be_anywhere_and_only_one_that_was_made_to_be_one_has_floors() {
    for (from, source, policy) in [
        ("header:Idempotency-Key", KeySource::default(), KeyPolicy::default()),
        ("header:Webhook-Id", KeySource::Header("webhook-id".to_owned()), KeyPolicy::NO_FLOOR),
        (
            "body:/a~1b/0",
            KeySource::Body(Pointer::parse("/a~1b/0").expect("a pointer")),
            KeyPolicy::NO_FLOOR,
        ),
    ] {
        let key = only_operation(&format!("key = {{ from = \"{from}\" }}")).key;
        assert_eq!((key.from, key.policy), (source, policy), "{from}");
    }
    let key = only_operation("key = { from = \"body:/id\", min_length = 20, min_bits = 80 }").key;
    assert_eq!((key.policy.min_length, key.policy.min_bits), (20, 80));
}

#[test]
fn an_outcome_is_one_rule_or_several_in_order() {
    let rule = |at: &str| {
        let at = Pointer::parse(at).expect("a pointer");
        OutcomeRule { at, absent: None, values: Vec::new(), present: None }
    };
    let text = |text: &str| Json::String(text.to_owned().into());
    let one = "outcome = { at = \"/errors\", absent = \"applied\", present = \"unknown\" }";
    let expected = OutcomeRule {
        absent: Some(Told::Applied),
        present: Some(Told::Unknown),
        ..rule("/errors")
    };
    assert_eq!(only_operation(one).outcome, Some(OutcomeRules::new(vec![expected])));
    let several = r#"
        outcome = [
            { at = "/errors/0/code", not_applied = ["INVALID", 7], failed = ["DECLINED"] },
            { at = "/data/pay/status", applied = ["OK"], unknown = ["LATER"], present = "failed" },
        ]"#;
    let expected = vec![
        OutcomeRule {
            values: vec![
                (text("INVALID"), Told::NotApplied),
                (Json::parse(b"7").expect("JSON"), Told::NotApplied),
                (text("DECLINED"), Told::Failed),
            ],
            ..rule("/errors/0/code")
        },
        OutcomeRule {
            values: vec![(text("OK"), Told::Applied), (text("LATER"), Told::Unknown)],
            present: Some(Told::Failed),
            ..rule("/data/pay/status")
        },
    ];
    assert_eq!(only_operation(several).outcome, Some(OutcomeRules::new(expected)));
    assert_eq!(only_operation("").outcome, None);
}

#[test]
fn a_default_is_the_json_value_that_toml_spells() {
    for (toml, json) in [
        ("\"EUR\"", "\"EUR\""),
        ("true", "true"),
        ("1_000", "1000"),
        ("-0x1", "nothing"),
        ("0xff", "255"),
        ("9007199254740993", "9007199254740993"),
        ("1.50", "1.5"),
        ("+1e3", "1000"),
        ("[1, [\"a\"]]", "[1,[\"a\"]]"),
        ("{ b = 1, a = {} }", "{\"a\":{},\"b\":1}"),
    ] {
        let settings = format!("fingerprint = {{ defaults = {{ \"/a\" = {toml} }} }}");
        let Ok(config) = load(&operation(&settings), &Flags::default()) else {
            assert_eq!(json, "nothing", "{toml}");
            continue;
        };
        let defaults = &config.operations.first().expect("one").policy.fingerprint.defaults;
        let expected = Json::parse(json.as_bytes()).expect("JSON");
        assert_eq!(*defaults, [(Pointer::parse("/a").expect("a pointer"), expected)], "{toml}");
    }
}
