//! What callers can look up: the policy, in every form, and how problems are presented.

use hapax_testkit::{Answer, Request, Stage, UpstreamKind, fresh_key};
use serde_json::Value;

const SHOP: &str = r#"
[[operation]]
name = "payments.create"
routes = ["POST /payments", "POST /v2/payments/{account}"]
key = { required = true }
fingerprint = { body = "json", exclude = ["/client_time"] }
in_flight = "accept"
retention = { outcome = "1h", tombstone = "2d" }
retried_by = { client = "24h" }
status_codes = { key-reused = 409 }
contract = { effect = "captures <the> amount" }

[[operation]]
name = "search"
kind = "unprotected"
reason = "it only reads"
routes = ["POST /search/*"]

[problems]
base = "https://api.example/problems/"
status_codes = { key-missing = 428 }
"#;

fn json(answer: &Answer) -> Value {
    serde_json::from_slice(&answer.body).unwrap_or_else(|_| panic!("JSON: {answer:?}"))
}

#[test]
fn k8_the_policy_is_published_for_programs() {
    let stage = Stage::operations(UpstreamKind::Plain, SHOP);
    let answer = stage.gateway.send(&Request::get("/.well-known/idempotency"));
    assert_eq!(answer.status, 200);
    assert_eq!(answer.field("content-type").as_deref(), Some("application/json"));
    let policy = json(&answer);
    let pay = &policy["operations"][0];
    assert_eq!(pay["name"], "payments.create");
    assert_eq!(pay["routes"][1]["path"], "/v2/payments/{account}");
    let keyed = &pay["keyed"];
    assert_eq!(keyed["key"]["required"], true);
    assert_eq!(keyed["key"]["min_length"], 16);
    assert_eq!(keyed["intent"]["exclude"][0], "/client_time");
    assert_eq!((&keyed["outcome_seconds"], &keyed["key_seconds"]), (&3600.into(), &172_800.into()));
    assert_eq!(keyed["retried_by_seconds"]["client"], 86_400);
    assert_eq!(keyed["in_flight"]["then"], "accept");
    assert_eq!(keyed["problem_statuses"]["key-reused"], 409);
    assert_eq!(pay["contract"]["effect"], "captures <the> amount");
    assert_eq!(policy["operations"][1]["reason"], "it only reads");
    let problems = policy["problems"].as_array().expect("a list");
    let missing = "https://api.example/problems/key-missing";
    let missing = problems.iter().find(|problem| problem["type"] == missing).expect("there");
    assert_eq!((&missing["status"], &missing["retry"]), (&428.into(), &"corrected-request".into()));
    // Where a service is, is nobody's business.
    assert!(!answer.text().contains("127.0.0.1"), "{answer:?}");
    stage.upstream.assert_arrivals(0);

    // It is not sent again to whoever has it.
    let etag = answer.field("etag").expect("an ETag");
    let known = Request::get("/.well-known/idempotency").header("if-none-match", &etag);
    let known = stage.gateway.send(&known);
    assert_eq!((known.status, known.body.len()), (304, 0));
    let posted = stage.gateway.send(&Request::post("/.well-known/idempotency", "{}"));
    assert_eq!((posted.status, posted.field("allow").as_deref()), (405, Some("GET, HEAD")));
}

#[test]
fn k8_the_policy_is_published_for_people() {
    let stage = Stage::operations(UpstreamKind::Plain, SHOP);
    let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    let page = Request::get("/.well-known/idempotency").header("accept", browser);
    let page = stage.gateway.send(&page);
    assert_eq!(page.field("content-type").as_deref(), Some("text/html; charset=utf-8"));
    let text = page.text();
    for said in [
        "payments.create",
        "POST /v2/payments/{account}",
        "captures &#60;the&#62; amount",
        "without /client_time",
        "it only reads",
        "1h",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert!(!text.contains("<the>"), "{text}");
}

#[test]
fn k8_the_policy_is_published_as_a_fragment_of_openapi() {
    let stage = Stage::operations(UpstreamKind::Plain, SHOP);
    let fragment =
        json(&stage.gateway.send(&Request::get("/.well-known/idempotency/openapi.json")));
    assert_eq!(fragment["openapi"], "3.1.0");
    let pay = &fragment["paths"]["/v2/payments/{account}"]["post"];
    let parameters = pay["parameters"].as_array().expect("a list");
    assert_eq!(parameters[0]["name"], "account");
    assert_eq!(
        (&parameters[1]["in"], &parameters[1]["required"]),
        (&"header".into(), &true.into())
    );
    let responses = pay["responses"].as_object().expect("an object");
    for status in ["202", "409", "410", "428", "503", "default"] {
        assert!(responses.contains_key(status), "{status}: {responses:?}");
    }
    assert!(responses["409"]["description"].as_str().unwrap().contains("key-reused"));
    assert!(fragment["paths"]["/search/{rest}"]["post"]["responses"]["default"].is_object());
}

#[test]
fn statuses_of_problems_are_configured_and_their_types_say_what_they_are() {
    let stage = Stage::operations(UpstreamKind::Plain, SHOP);
    let payment = Request::payment(&fresh_key());
    stage.gateway.send(&payment).assert_stored(201);
    let reused = stage.gateway.send(&payment.clone().json("{}"));
    let missing = stage.gateway.send(&payment.without("idempotency-key"));
    for (answer, status, name) in [(reused, 409, "key-reused"), (missing, 428, "key-missing")] {
        let problem = json(&answer);
        assert_eq!((answer.status, &problem["status"]), (status, &status.into()), "{answer:?}");
        assert_eq!(problem["type"], format!("https://api.example/problems/{name}"));
        let described = "</.well-known/idempotency>; rel=\"describedby\"";
        assert!(answer.all("link").contains(&described.to_owned()), "{answer:?}");
    }
    stage.upstream.assert_arrivals(1);
}

#[test]
fn a_policy_document_that_is_switched_off_leaves_its_place_to_the_service() {
    let off = "policy_document = false\nstore = \"sqlite:{dir}/hapax.db\"\n\
               scope = { single_tenant = true }\n[[service]]\nupstream = \"{upstream}\"\n\
               [[operation]]\nname = \"pay\"\nroutes = [\"POST /payments\"]\n";
    let stage = Stage::configured(UpstreamKind::Plain, off);
    stage.gateway.send(&Request::get("/.well-known/idempotency"));
    stage.upstream.assert_arrivals(1);
    let refused = stage.gateway.send(&Request::payment("short"));
    refused.assert_problem(400, "key-invalid");
    assert_eq!(refused.field("link"), None);
}
