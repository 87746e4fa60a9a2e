//! Pages of other origins, in a browser (pitfall 55).

use hapax_testkit::{Answer, Request, Stage, UpstreamKind, fresh_key};

const CONFIGURED: &str = r#"
[[operation]]
name = "pay"
routes = ["POST /payments"]

[cors]
origins = ["https://shop.example"]
headers = ["authorization"]
expose = ["x-payment-id"]
"#;

const PLAIN: &str = "[[operation]]\nname = \"pay\"\nroutes = [\"POST /payments\"]\n";

fn preflight(path: &str, origin: &str) -> Request {
    Request::new("OPTIONS", path)
        .header("origin", origin)
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "content-type,idempotency-key")
}

fn of_page(request: Request, origin: &str) -> Request {
    request.header("origin", origin)
}

/// Whether a page may read an answer, and these fields of it.
#[track_caller]
fn assert_readable(answer: &Answer, origin: &str, fields: &[&str]) {
    let allowed = answer.field("access-control-allow-origin");
    assert!(allowed.as_deref() == Some(origin) || allowed.as_deref() == Some("*"), "{answer:?}");
    let exposed = answer.all("access-control-expose-headers").join(",").to_lowercase();
    let exposed: Vec<_> = exposed.split(',').map(str::trim).collect();
    for field in fields {
        assert!(exposed.contains(field), "{field}: {answer:?}");
    }
}

#[test]
fn p55_a_configured_page_sends_a_key_and_reads_replays_and_problems() {
    let stage = Stage::operations(UpstreamKind::Plain, CONFIGURED);
    let shop = "https://shop.example";
    let allowed = stage.gateway.send(&preflight("/payments", shop));
    assert_eq!(allowed.status, 204);
    let headers = allowed.field("access-control-allow-headers").expect("allowed headers");
    for needed in ["idempotency-key", "content-type", "authorization"] {
        assert!(headers.contains(needed), "{headers}");
    }
    stage.upstream.assert_arrivals(0);

    let payment = of_page(Request::payment(&fresh_key()), shop);
    let first = stage.gateway.send(&payment);
    first.assert_stored(201);
    assert_readable(&first, shop, &["idempotency-expires", "x-payment-id"]);
    let replay = stage.gateway.send(&payment);
    assert_readable(&replay, shop, &["idempotent-replayed", "idempotency-expires"]);
    let problem = stage.gateway.send(&payment.clone().json("{}"));
    problem.assert_problem(422, "key-reused");
    assert_readable(&problem, shop, &["link"]);
    assert_eq!(problem.field("vary").as_deref(), Some("origin"));

    let evil = "https://evil.example";
    let refused = stage.gateway.send(&preflight("/payments", evil));
    assert_eq!(refused.field("access-control-allow-origin"), None);
    // Who it is does not change what is stored; it only cannot be read there.
    let other = payment.without("origin");
    for answer in [stage.gateway.send(&of_page(other.clone(), evil)), stage.gateway.send(&other)] {
        assert!(answer.is_replay(), "{answer:?}");
        assert_eq!(answer.field("access-control-allow-origin"), None);
    }
    stage.upstream.assert_arrivals(1);
}

#[test]
fn p55_what_the_service_allows_a_page_holds_for_answers_of_our_own() {
    let stage = Stage::operations(UpstreamKind::Plain, PLAIN);
    let shop = "https://shop.example";
    let allows = "status 204; body empty; header access-control-allow-origin: https://shop.example; \
                  header access-control-allow-headers: content-type";
    let allowed = stage.gateway.send(&preflight("/payments", shop).act(allows));
    let headers = allowed.all("access-control-allow-headers").join(", ");
    assert!(headers.contains("idempotency-key") && headers.contains("content-type"), "{headers}");
    stage.upstream.assert_arrivals(1);

    // Before the service has answered anything else.
    let payment = of_page(Request::payment(&fresh_key()), shop);
    let problem = stage.gateway.send(&payment.clone().key("short"));
    problem.assert_problem(400, "key-invalid");
    assert_readable(&problem, shop, &["link"]);
    let first = "status 201; header access-control-allow-origin: https://shop.example";
    let first = stage.gateway.send(&payment.clone().act(first));
    assert_readable(&first, shop, &["idempotency-expires"]);
    let replay = stage.gateway.send(&payment);
    assert!(replay.is_replay(), "{replay:?}");
    assert_readable(&replay, shop, &["idempotent-replayed"]);
    // Nobody else is let in by that.
    let evil = of_page(payment.without("origin"), "https://evil.example");
    assert_eq!(stage.gateway.send(&evil).field("access-control-allow-origin"), None);
}

#[test]
fn preflights_of_other_paths_are_the_services_own() {
    let stage = Stage::operations(UpstreamKind::Plain, CONFIGURED);
    let answer = "status 204; body empty; header access-control-allow-origin: *";
    let other = preflight("/search", "https://evil.example").act(answer);
    let answer = stage.gateway.send(&other);
    assert_eq!(answer.field("access-control-allow-origin").as_deref(), Some("*"));
    assert_eq!(answer.field("access-control-allow-headers"), None);
    stage.upstream.assert_arrivals(1);
}
