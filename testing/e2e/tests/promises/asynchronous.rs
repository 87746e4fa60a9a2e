//! Callers that do not wait: 202, and the status of an operation.

use hapax_testkit::{Answer, Request, Stage, UpstreamKind, eventually, fresh_key};
use serde_json::Value;

use crate::SOON;

const ACCEPTS: &str = r#"
[[operation]]
name = "pay"
routes = ["POST /payments"]
in_flight = "accept"
prefer = { respond_async = true, wait = "5s" }
"#;

/// Asserts that an operation goes on, and returns where its status is.
#[track_caller]
fn accepted(answer: &Answer) -> String {
    assert_eq!(answer.status, 202, "{answer:?}");
    answer.assert_retry_after(1).assert_outcome("unknown");
    assert_eq!(answer.field("cache-control").as_deref(), Some("no-store"), "{answer:?}");
    assert_eq!(json(answer)["state"], "executing");
    let location = answer.field("location").expect("a Location");
    let link = format!("<{location}>; rel=\"status\"");
    assert!(answer.all("link").contains(&link), "{answer:?}");
    location
}

fn json(answer: &Answer) -> Value {
    serde_json::from_slice(&answer.body).unwrap_or_else(|_| panic!("JSON: {answer:?}"))
}

#[test]
fn f6_copies_of_an_operation_under_way_share_one_status() {
    let stage = Stage::operations(UpstreamKind::Plain, ACCEPTS);
    let payment = Request::payment(&fresh_key()).act("gate answer");
    let first = stage.gateway.start(&payment);
    let arrival = stage.upstream.arrived(1).remove(0);
    let address = accepted(&stage.gateway.send(&payment));
    assert_eq!(accepted(&stage.gateway.send(&payment)), address);
    assert!(address.contains(&arrival.effect_id().to_string()), "{address}");
    let status = json(&stage.gateway.send(&Request::get(&address)));
    assert_eq!((&status["state"], &status["operation"]), (&"executing".into(), &"pay".into()));
    assert_eq!(status["outcome"], Value::Null);

    stage.upstream.open("answer");
    let first = first.answer();
    first.assert_stored(201);
    let answer = stage.gateway.send(&Request::get(&address));
    let status = json(&answer);
    assert_eq!(status["state"], "succeeded", "{status}");
    assert_eq!(status["outcome"]["status"], 201);
    assert_eq!(status["outcome"]["replayable"], true);
    assert_eq!(status["outcome"]["replayed_until"], first.field("idempotency-expires").unwrap());
    // It tells nothing of the answer itself.
    assert!(!answer.text().contains("payment"), "{answer:?}");
    stage.gateway.send(&payment).assert_replays(&first);
    stage.upstream.assert_arrivals(1);
}

#[test]
fn a_caller_that_prefers_not_to_wait_gets_202_and_the_operation_goes_on() {
    let stage = Stage::operations(UpstreamKind::Plain, ACCEPTS);
    let payment = Request::payment(&fresh_key()).act("gate answer");
    let hurried = payment.clone().header("prefer", "respond-async");
    let answer = stage.gateway.send(&hurried);
    let address = accepted(&answer);
    assert_eq!(answer.all("preference-applied"), ["respond-async"]);
    stage.upstream.arrived(1);
    stage.upstream.open("answer");
    eventually("the operation ends", SOON, || {
        json(&stage.gateway.send(&Request::get(&address)))["state"] == "succeeded"
    });
    // The same intent, whatever is preferred; and what is known already is told at once.
    let replay = stage.gateway.send(&payment);
    assert!(replay.is_replay() && replay.status == 201, "{replay:?}");
    assert!(stage.gateway.send(&hurried).is_replay());
    stage.upstream.assert_arrivals(1);
    stage.upstream.assert_effects(1);
}

#[test]
fn a_caller_waits_as_long_as_it_prefers() {
    let stage = Stage::operations(UpstreamKind::Plain, ACCEPTS);
    let patient = Request::payment(&fresh_key()).header("prefer", "respond-async, wait=5");
    let answer = stage.gateway.send(&patient.clone().act("sleep 200"));
    answer.assert_stored(201);
    assert_eq!(answer.all("preference-applied"), ["wait=5"]);
    // Whoever executes and wants the answer itself waits for it, however long.
    let executes = Request::payment(&fresh_key()).header("prefer", "wait=0");
    let answer = stage.gateway.send(&executes.act("sleep 200"));
    answer.assert_stored(201);
    assert_eq!(answer.field("preference-applied"), None);

    let slow = Request::payment(&fresh_key()).act("gate answer");
    let first = stage.gateway.start(&slow);
    stage.upstream.arrived(3);
    let copy = stage.gateway.start(&slow.clone().header("prefer", "wait=5"));
    eventually("the copy waits", SOON, || stage.gateway.metric("hapax_waiting", &[]) == 1.0);
    stage.upstream.open("answer");
    copy.answer().assert_replays(&first.answer());
    stage.upstream.assert_arrivals(3);
}

#[test]
fn preferences_are_honoured_only_where_the_operation_does() {
    let stage = Stage::operations(
        UpstreamKind::Plain,
        "[[operation]]\nname = \"pay\"\nroutes = [\"POST /payments\"]\n",
    );
    let payment = Request::payment(&fresh_key()).header("prefer", "respond-async, wait=0");
    let answer = stage.gateway.send(&payment.act("sleep 100"));
    answer.assert_stored(201);
    assert_eq!(answer.field("preference-applied"), None);
}

#[test]
fn a_refusal_is_no_202_whatever_is_preferred() {
    let stage = Stage::operations(UpstreamKind::Plain, ACCEPTS);
    let payment = Request::payment(&fresh_key()).header("prefer", "respond-async, wait=5");
    stage.gateway.send(&payment).assert_stored(201);
    let changed = payment.json(r#"{"amount":1}"#);
    stage.gateway.send(&changed).assert_problem(422, "key-reused");
    stage
        .gateway
        .send(&changed.without("idempotency-key").key("short"))
        .assert_problem(400, "key-invalid");
    stage.upstream.assert_arrivals(1);
}

const OF_TENANTS: &str = r#"
store = "sqlite:{dir}/hapax.db"
scope = { header = "X-Account" }
[[service]]
upstream = "{upstream}"
[[operation]]
name = "pay"
routes = ["POST /payments"]
timeout = "1s"
"#;

#[test]
fn b10_an_unknown_outcome_names_the_status_to_its_own_scope_alone() {
    let stage = Stage::configured(UpstreamKind::Plain, OF_TENANTS);
    let key = fresh_key();
    let payment = Request::payment(&key).header("x-account", "acme").act("gate never");
    let unknown = stage.gateway.send(&payment);
    unknown.assert_problem(409, "outcome-unknown");
    let links = unknown.all("link");
    let address = links.iter().find_map(|link| {
        let (address, rest) = link.strip_prefix('<')?.split_once('>')?;
        rest.contains("\"status\"").then(|| address.to_owned())
    });
    let address = address.unwrap_or_else(|| panic!("{unknown:?}"));
    let ask =
        |account: &str| stage.gateway.send(&Request::get(&address).header("x-account", account));
    let status = json(&ask("acme"));
    assert_eq!(status["state"], "unknown", "{status}");
    ask("mallory").assert_problem(404, "operation-unknown");
    stage.gateway.send(&Request::get(&address)).assert_problem(401, "scope-missing");

    // By its key, too, which only its caller has.
    let (bare, _) = address.split_once('?').expect("a query");
    let by_key = |account: &str, key: &str| {
        stage.gateway.send(&Request::get(bare).header("x-account", account).key(key))
    };
    assert_eq!(json(&by_key("acme", &key)), status);
    by_key("mallory", &key).assert_problem(404, "operation-unknown");
    by_key("acme", &fresh_key()).assert_problem(404, "operation-unknown");
    for odd in ["x", "?of=", "00000000-0000-8000-8000-000000000000", "../../openapi.json"] {
        let path = format!("/.well-known/idempotency/operations/{odd}");
        let asked = Request::get(&path).header("x-account", "acme");
        stage.gateway.send(&asked).assert_problem(404, "operation-unknown");
    }
    stage.upstream.assert_arrivals(1);
}
