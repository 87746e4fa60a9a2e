//! The kinds of operations.

use hapax_testkit::{Request, Stage, UpstreamKind, fresh_key};

/// An operation of each kind on one service.
const KINDS: &str = r#"
    [[operation]]
    name = "payments.create"
    routes = ["POST /v1/payments", "POST /v2/accounts/{account}/payments"]
    key = { required = true }
    [[operation]]
    name = "payments.put"
    kind = "natural"
    routes = ["PUT /v1/payments/{id}", "DELETE /v1/payments/{id}"]
    [[operation]]
    name = "payments.search"
    kind = "unprotected"
    reason = "a search: it changes nothing"
    routes = ["POST /v1/payments/search"]
"#;

#[test]
fn k1_each_kind_of_operation_is_protected_as_its_kind_says() {
    let stage = Stage::operations(UpstreamKind::Plain, KINDS);
    let keyed = Request::post("/v1/payments", r#"{"amount":1}"#);
    stage.gateway.send(&keyed).assert_problem(400, "key-missing");
    stage.upstream.assert_arrivals(0);
    let keyed = keyed.key(&fresh_key());
    let first = stage.gateway.send(&keyed);
    first.assert_stored(201);
    stage.gateway.send(&keyed).assert_replays(&first);
    stage.upstream.assert_arrivals(1);

    // Neither of the others needs a key, is recorded, or is answered here.
    let mut arrivals = 1;
    for request in [
        Request::post("/v1/payments/7", "{}").method("PUT"),
        Request::new("DELETE", "/v1/payments/7"),
        Request::post("/v1/payments/search", "{}"),
    ] {
        let key = fresh_key();
        for request in [request.clone(), request.clone(), request.key(&key)] {
            let answer = stage.gateway.send(&request);
            assert_eq!((answer.status, answer.problem()), (201, None), "{answer:?}");
            for ours in ["idempotent-replayed", "idempotency-expires", "hapax-outcome"] {
                assert_eq!(answer.field(ours), None, "{answer:?}");
            }
            arrivals += 1;
        }
        let last = stage.upstream.arrivals().pop().expect("an arrival");
        assert_eq!(last.field("idempotency-key"), format!("\"{key}\""), "it is the client's");
        assert_eq!(last.all("hapax-attempt"), [""; 0]);
    }
    stage.upstream.assert_arrivals(arrivals);
    let listed = stage.records(&["list", "--json"]);
    assert_eq!(listed.stdout.lines().count(), 1, "{listed:?}");
}

#[test]
fn f02_routes_of_one_operation_share_its_keys_and_what_they_leave_open_is_compared() {
    let stage = Stage::operations(UpstreamKind::Plain, KINDS);
    let of = |account: &str| format!("/v2/accounts/{account}/payments");
    let payment = Request::post(&of("7"), r#"{"amount":1}"#).key(&fresh_key());
    let first = stage.gateway.send(&payment);
    first.assert_stored(201);
    stage.gateway.send(&payment).assert_replays(&first);
    stage.gateway.send(&payment.clone().to(&of("%37"))).assert_replays(&first);
    for other in [of("8"), "/v1/payments".to_owned(), of("7") + "?dry_run=1"] {
        stage.gateway.send(&payment.clone().to(&other)).assert_problem(422, "key-reused");
    }
    stage.upstream.assert_arrivals(1);
}
