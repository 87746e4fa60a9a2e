//! Requests that are on no route, and that a service would take for a protected one.

use hapax_testkit::{Request, Stage, UpstreamKind, fresh_key};

fn stage(required: bool) -> Stage {
    let text = r#"
        [[operation]]
        name = "payments.create"
        routes = ["POST /v1/payments", "POST /v2/*"]
        key = { required = REQUIRED }
        [[operation]]
        name = "payments.list"
        kind = "unprotected"
        reason = "an endpoint of its own"
        routes = ["POST /v1/payments/search/"]
    "#;
    Stage::operations(UpstreamKind::Plain, &text.replace("REQUIRED", &required.to_string()))
}

const NEAR: [&str; 9] = [
    "/v1/payments/",
    "//v1/payments",
    "/v1//payments",
    "/v1/./payments",
    "/v1/x/../payments",
    "/V1/Payments",
    "/v1%2Fpayments",
    "/v1/payments;jsessionid=1",
    "/v2",
];

#[test]
fn p19_a_key_on_a_path_that_is_not_quite_protected_is_refused_not_ignored() {
    let stage = stage(false);
    for path in NEAR {
        let request = Request::post(path, r#"{"amount":1}"#).key(&fresh_key());
        let refused = stage.gateway.send(&request);
        refused.assert_problem(400, "path-unclear");
        assert!(refused.text().contains("POST /v"), "it names the route: {refused:?}");
    }
    stage.upstream.assert_arrivals(0);
    // Without a key nobody asked for protection.
    assert_eq!(stage.gateway.send(&Request::post(NEAR[0], "{}")).status, 201);
    // What is a path of its own passes, and so does what has been given a route of its own.
    for path in ["/v1/payments.json", "/v1/payments/7", "/v1/payments/search/"] {
        assert_eq!(stage.gateway.send(&Request::post(path, "{}").key(&fresh_key())).status, 201);
    }
    stage.upstream.assert_arrivals(4);
}

#[test]
fn where_a_key_is_required_a_path_that_is_not_quite_protected_is_refused_without_one_too() {
    let stage = stage(true);
    for path in NEAR {
        let request = Request::post(path, r#"{"amount":1}"#);
        stage.gateway.send(&request).assert_problem(400, "path-unclear");
    }
    stage.upstream.assert_arrivals(0);
}
