//! Keys that are members of the body.

use hapax_testkit::{Request, Serve, Stage, UpstreamKind, fresh_key};

use crate::SOON;

/// A configuration of one operation whose key is in the body, and what more is said of it.
fn stage(key: &str) -> Stage {
    Stage::operations(UpstreamKind::Plain, &operation(key))
}

fn operation(key: &str) -> String {
    format!(
        "[[operation]]\nname = \"payments.create\"\nroutes = [\"POST /payments\"]\n\
         key = {{ from = \"body:/request_id\"{key} }}\n"
    )
}

fn payment(id: &str) -> Request {
    Request::post("/payments", &format!(r#"{{"request_id":{id},"amount":1200}}"#))
}

const FORM: &str = "application/x-www-form-urlencoded";

#[test]
fn a_member_of_the_body_is_the_key() {
    let stage = stage("");
    let body = r#"{"request_id":"r-1","amount":1200}"#;
    let first = stage.gateway.send(&payment("\"r-1\""));
    first.assert_stored(201);
    let arrival = stage.upstream.only_arrival();
    assert_eq!(arrival.text.as_deref(), Some(body), "the service gets what was sent");
    arrival.effect_id();
    assert_eq!(arrival.attempt(), 1);
    for same in [
        payment("\"r-1\""),
        payment("\"\\u0072-1\""),
        payment("\"r-1\"").json(r#"{ "amount": 12e2, "request_id": "r-1" }"#).chunked(),
    ] {
        stage.gateway.send(&same).assert_replays(&first);
    }
    let changed = payment("\"r-1\"").json(r#"{"request_id":"r-1","amount":1201}"#);
    stage.gateway.send(&changed).assert_problem(422, "key-reused");
    // The header is none of this operation's, and does not reach the service in the key's place.
    stage.gateway.send(&payment("\"r-1\"").key(&fresh_key())).assert_replays(&first);
    stage.upstream.assert_arrivals(1);
    stage.gateway.send(&payment("\"r-2\"").key(&fresh_key())).assert_stored(201);
    let arrivals = stage.upstream.arrivals();
    assert_ne!(arrivals[0].effect_id(), arrivals[1].effect_id());
}

#[test]
fn a_whole_number_is_a_key_by_its_digits_and_exact() {
    let stage = stage("");
    let first = stage.gateway.send(&payment("9007199254740993"));
    first.assert_stored(201);
    stage.gateway.send(&payment("9007199254740993.0")).assert_replays(&first);
    stage.gateway.send(&payment("9007199254740992")).assert_stored(201);
    // The same key, spelled as another intent.
    stage.gateway.send(&payment("\"9007199254740993\"")).assert_problem(422, "key-reused");
    stage.upstream.assert_arrivals(2);
}

#[test]
fn a_field_of_a_form_and_a_part_of_a_multipart_body_are_keys_too() {
    let stage = stage("");
    let form = |body: &str| Request::new("POST", "/payments").body(FORM, body.to_owned());
    let first = stage.gateway.send(&form("request_id=r+1&amount=1"));
    first.assert_stored(201);
    stage.gateway.send(&form("amount=1&request%5Fid=r%201")).assert_replays(&first);
    stage.gateway.send(&form("request_id=r+1&amount=2")).assert_problem(422, "key-reused");
    stage.gateway.send(&form("request_id=1&request_id=2")).assert_problem(400, "key-invalid");
    let parts = |boundary: &str| {
        let part = "Content-Disposition: form-data; name=\"request_id\"\r\n\r\np-1";
        let body = format!("--{boundary}\r\n{part}\r\n--{boundary}--\r\n");
        let media_type = format!("multipart/form-data; boundary={boundary}");
        Request::new("POST", "/payments").body(&media_type, body)
    };
    let first = stage.gateway.send(&parts("one"));
    first.assert_stored(201);
    stage.gateway.send(&parts("two")).assert_replays(&first);
    stage.upstream.assert_arrivals(2);
}

#[test]
fn p19_what_is_at_the_place_and_no_key_is_refused_and_nothing_arrives() {
    let stage = stage("");
    let long = format!("\"{}\"", "x".repeat(256));
    for id in ["null", "true", "[]", "{}", "1.5", "1e30", "\"\"", &long] {
        let answer = stage.gateway.send(&payment(id));
        answer.assert_problem(400, "key-invalid");
        assert!(!answer.text().contains("xxx"), "the key is shown: {answer:?}");
    }
    for (what, request) in [
        ("no JSON", payment("\"r-1\"").json("{")),
        ("twice", payment("\"r-1\"").json(r#"{"request_id":"r-1","request_id":"r-2"}"#)),
        ("another charset", {
            let body = r#"{"request_id":"r-1"}"#.to_owned();
            Request::new("POST", "/payments").body("application/json; charset=utf-16", body)
        }),
        ("another coding", payment("\"r-1\"").header("content-encoding", "own")),
        ("no gzip", payment("\"r-1\"").header("content-encoding", "gzip")),
    ] {
        let answer = stage.gateway.send(&request);
        assert_eq!(answer.problem().as_deref(), Some("body-invalid"), "{what}: {answer:?}");
        answer.assert_problem(400, "body-invalid");
    }
    stage.upstream.assert_arrivals(0);
}

#[test]
fn k3_without_a_key_it_is_refused_where_one_is_required_and_passes_whole_where_none_is() {
    let required = stage(", required = true");
    for body in [r#"{"amount":1}"#, "", r#"{"request_ids":"r-1"}"#] {
        let request = Request::post("/payments", body).key(&fresh_key());
        let answer = required.gateway.send(&request);
        answer.assert_problem(400, "key-missing");
        assert!(answer.text().contains("/request_id"), "{answer:?}");
    }
    required.upstream.assert_arrivals(0);

    let optional = stage("");
    let key = fresh_key();
    let large = format!(r#"{{"note":"{}"}}"#, "x".repeat(500_000));
    let requests = [
        Request::post("/payments", r#"{"amount":1}"#).key(&key),
        Request::post("/payments", &large),
        Request::post("/payments", &large).chunked(),
        Request::new("POST", "/payments"),
        Request::new("POST", "/payments").body("text/plain", "request_id=1"),
        Request::new("POST", "/payments").body(FORM, "amount=1"),
    ];
    let sent = requests.each_ref().map(Request::to_bytes);
    for request in &requests {
        for _ in 0..2 {
            let answer = optional.gateway.send(request);
            assert_eq!((answer.status, answer.problem()), (201, None), "{answer:?}");
            assert_eq!(answer.field("idempotency-expires"), None);
        }
    }
    let arrivals = optional.upstream.arrivals();
    assert_eq!(arrivals.len(), 2 * requests.len());
    for (pair, sent) in arrivals.chunks(2).zip(sent) {
        assert_eq!(pair[0].sha256, pair[1].sha256);
        assert!(pair[0].complete);
        assert!(sent.len() as u64 >= pair[0].length);
        assert_eq!(pair[0].all("hapax-attempt"), [""; 0]);
    }
    assert_eq!(arrivals[2].length, large.len() as u64);
    assert_eq!(arrivals[4].length, large.len() as u64, "chunked");
    assert_eq!(arrivals[0].field("idempotency-key"), format!("\"{key}\""), "it is the client's");
    let way = ["way=\"keyed_without_key\""];
    let passed = optional.gateway.metric("hapax_requests_total", &way);
    assert_eq!(passed, 2.0 * requests.len() as f64);
}

#[test]
fn p42_the_key_is_looked_for_within_the_limits_of_bodies() {
    let stage = stage("");
    let large = format!(r#"{{"note":"{}"}}"#, "x".repeat(1 << 20));
    let answer = stage.gateway.send(&Request::post("/payments", &large));
    answer.assert_problem(413, "body-too-large");
    stage.upstream.assert_arrivals(0);
    assert_eq!(stage.gateway.metric("hapax_buffered_bytes", &[]), 0.0);
}

#[test]
fn t01_copies_at_once_with_one_key_in_their_bodies_make_one_effect() {
    let stage = stage("");
    let request = payment("\"r-1\"").act("gate answer");
    let copies: Vec<_> = (0..8).map(|_| stage.gateway.start(&request)).collect();
    stage.upstream.arrived(1);
    stage.upstream.open("answer");
    let answers: Vec<_> = copies.into_iter().map(hapax_testkit::Pending::answer).collect();
    let first = answers.iter().find(|answer| !answer.is_replay()).expect("a first answer");
    first.assert_stored(201);
    for answer in answers.iter().filter(|answer| answer.is_replay()) {
        answer.assert_replays(first);
    }
    stage.upstream.assert_arrivals(1);
}

#[test]
fn t03_a_key_in_the_body_belongs_to_its_caller_and_only_with_a_key_is_one_needed() {
    let text = "store = \"sqlite:{dir}/hapax.db\"\nscope = { header = \"X-Account\" }\n\
                [[service]]\nupstream = \"{upstream}\"\n\n";
    let stage = Stage::configured(UpstreamKind::Plain, &format!("{text}{}", operation("")));
    let [anna, bert] = ["anna", "bert"].map(|name| payment("7").header("x-account", name));
    let annas = stage.gateway.send(&anna);
    annas.assert_stored(201);
    let berts = stage.gateway.send(&bert);
    berts.assert_stored(201);
    assert_ne!(annas.body, berts.body);
    stage.gateway.send(&anna).assert_replays(&annas);
    stage.gateway.send(&payment("7")).assert_problem(401, "scope-missing");
    stage.upstream.assert_arrivals(2);
    let unkeyed = Request::post("/payments", r#"{"amount":1}"#);
    assert_eq!(stage.gateway.send(&unkeyed).status, 201);
    stage.upstream.assert_arrivals(3);

    let required = format!("{text}{}", operation(", required = true"));
    let stage = Stage::configured(UpstreamKind::Plain, &required);
    stage.gateway.send(&payment("7")).assert_problem(401, "scope-missing");
    stage.gateway.send(&unkeyed).assert_problem(401, "scope-missing");
    stage.upstream.assert_arrivals(0);
}

#[test]
fn a_path_that_is_nearly_the_operations_is_refused_since_its_body_may_have_a_key() {
    let stage = stage("");
    stage.gateway.send(&payment("7").to("/payments/")).assert_problem(400, "path-unclear");
    stage.upstream.assert_arrivals(0);
}

#[test]
fn observe_mode_knows_keys_in_bodies() {
    let operation = format!("{}mode = \"observe\"\n", operation(", required = true"));
    let stage = Stage::operations(UpstreamKind::Plain, &operation);
    let would = |word: &str, keyed: &str, count: f64| {
        let labels = [format!("would=\"{word}\""), format!("keyed=\"{keyed}\"")];
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        let value = || stage.gateway.metric("hapax_observed_total", &labels);
        hapax_testkit::eventually(&format!("{count} would {word}"), SOON, || value() >= count);
        assert_eq!(value(), count, "would {word}");
    };
    assert_eq!(stage.gateway.send(&payment("7")).status, 201);
    would("execute", "yes", 1.0);
    hapax_testkit::eventually("the first is finished", SOON, || {
        assert_eq!(stage.gateway.send(&payment("7")).status, 201);
        stage.gateway.metric("hapax_observed_total", &["would=\"replay\""]) >= 1.0
    });
    let changed = payment("7").json(r#"{"request_id":7,"amount":1}"#);
    assert_eq!(stage.gateway.send(&changed).status, 201);
    would("refuse", "yes", 1.0);
    assert_eq!(stage.gateway.send(&payment("null")).status, 201);
    would("refuse_key", "yes", 1.0);
    assert_eq!(stage.gateway.send(&payment("7").json("{")).status, 201);
    would("refuse_body", "yes", 1.0);
    assert_eq!(stage.gateway.send(&payment("7").json(r#"{"amount":1}"#)).status, 201);
    would("refuse_key_missing", "no", 1.0);
    let arrivals = stage.upstream.arrivals();
    assert!(arrivals.iter().all(|arrival| arrival.all("hapax-attempt").is_empty()));
}

#[test]
fn the_start_says_where_the_key_is() {
    let stage = stage("");
    let line = "POST /payments with a key from the body at /request_id";
    let printed = stage.gateway.stdout();
    assert!(printed.iter().any(|printed| printed.contains(line)), "{printed:#?}");
}

#[test]
fn k8_the_published_policy_says_where_the_key_is() {
    let stage = stage("");
    let json = |path: &str| -> serde_json::Value {
        let answer = stage.gateway.send(&Request::get(path).header("accept", "application/json"));
        serde_json::from_slice(&answer.body).expect("JSON")
    };
    let policy = json("/.well-known/idempotency");
    let key = &policy["operations"][0]["keyed"]["key"];
    assert_eq!((&key["body"], key.get("header")), (&"/request_id".into(), None), "{policy}");
    let fragment = json("/.well-known/idempotency/openapi.json");
    let parameters = &fragment["paths"]["/payments"]["post"]["parameters"];
    assert_eq!(parameters, &serde_json::json!([]), "{fragment}");
    let page = Request::get("/.well-known/idempotency").header("accept", "text/html");
    let page = stage.gateway.send(&page).text();
    assert!(page.contains("<code>/request_id</code> in the body"), "{page}");
}

#[test]
fn an_event_id_in_another_header_needs_no_least_length() {
    let stage = Stage::operations(
        UpstreamKind::Plain,
        "[[operation]]\nname = \"events\"\nroutes = [\"POST /hooks\"]\n\
         key = { from = \"header:webhook-id\" }\nfingerprint = { body = \"none\" }\n",
    );
    let event = Request::post("/hooks", r#"{"delivery":1}"#).header("webhook-id", "evt_42");
    let first = stage.gateway.send(&event);
    first.assert_stored(201);
    stage.gateway.send(&event.json(r#"{"delivery":2}"#)).assert_replays(&first);
    stage.upstream.assert_arrivals(1);
}

#[test]
fn a_key_in_the_body_survives_a_crash_between_answer_and_retry() {
    let mut stage = stage("");
    let first = stage.gateway.send(&payment("\"r-1\""));
    first.assert_stored(201);
    stage.gateway.kill();
    let other = Serve::operations(stage.dir(), &stage.upstream, &operation("")).start();
    other.send(&payment("\"r-1\"")).assert_replays(&first);
    stage.upstream.assert_arrivals(1);
}
