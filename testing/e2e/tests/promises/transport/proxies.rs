//! Proxies before us, and what services are told of callers.

use hapax_testkit::{Request, Stage, UpstreamKind, fresh_key};

fn stage(settings: &str) -> Stage {
    let text = format!(
        "store = \"sqlite:{{dir}}/hapax.db\"\n{settings}[[service]]\nupstream = \"{{upstream}}\"\n"
    );
    Stage::configured(UpstreamKind::Plain, &text)
}

const SINGLE: &str = "scope = { single_tenant = true }\n";

fn forged(request: Request) -> Request {
    request
        .header("x-forwarded-for", "1.1.1.1")
        .header("x-forwarded-proto", "https")
        .header("x-forwarded-host", "www.test")
        .header("x_forwarded_for", "2.2.2.2")
        .header("forwarded", "for=3.3.3.3")
}

#[test]
fn what_a_stranger_says_of_where_it_comes_from_is_replaced() {
    let stage = stage(SINGLE);
    let keyed = Request::payment(&fresh_key());
    for request in [keyed.clone(), keyed.without("idempotency-key"), Request::get("/x")] {
        assert!(stage.gateway.send(&forged(request)).status < 300);
        let arrival = stage.upstream.arrivals().pop().expect("one");
        assert_eq!(arrival.field("x-forwarded-for"), "127.0.0.1");
        assert_eq!(arrival.field("x-forwarded-proto"), "http");
        assert_eq!(arrival.field("x-forwarded-host"), "gateway");
        assert_eq!((arrival.all("forwarded"), arrival.all("x_forwarded_for")), (vec![], vec![]));
    }
}

#[test]
fn what_a_trusted_proxy_says_is_kept_and_appended_to() {
    let stage =
        stage(&format!("{SINGLE}trusted_proxies = [\"127.0.0.0/8\"]\nforwarded = \"both\"\n"));
    for request in [Request::payment(&fresh_key()), Request::get("/x")] {
        stage.gateway.send(&forged(request));
        let arrival = stage.upstream.arrivals().pop().expect("one");
        assert_eq!(arrival.field("x-forwarded-for"), "1.1.1.1, 127.0.0.1");
        assert_eq!(arrival.field("x-forwarded-host"), "www.test");
        let element = "for=3.3.3.3, for=127.0.0.1;host=gateway;proto=http";
        assert_eq!(arrival.field("forwarded"), element);
    }
}

#[test]
fn services_are_told_in_the_fields_that_are_named_or_in_none() {
    let only = stage(&format!("{SINGLE}forwarded = \"forwarded\"\n"));
    only.gateway.send(&forged(Request::get("/x")));
    let arrival = only.upstream.only_arrival();
    assert_eq!(arrival.field("forwarded"), "for=127.0.0.1;host=gateway;proto=http");
    assert_eq!(arrival.all("x-forwarded-for"), [""; 0]);
    let off = stage(&format!("{SINGLE}forwarded = \"off\"\n"));
    off.gateway.send(&forged(Request::get("/x")));
    let arrival = off.upstream.only_arrival();
    assert_eq!(arrival.field("x-forwarded-for"), "1.1.1.1");
    assert_eq!(arrival.field("forwarded"), "for=3.3.3.3");
}

#[test]
fn the_scope_header_counts_from_trusted_proxies_only() {
    const HEADER: &str = "scope = { header = \"X-Account\" }\n";
    let payment = Request::payment(&fresh_key()).header("x-account", "acme");
    let strangers = stage(&format!("{HEADER}trusted_proxies = [\"10.0.0.0/8\"]\n"));
    strangers.gateway.send(&payment).assert_problem(401, "scope-missing");
    strangers.upstream.assert_arrivals(0);
    // Nor does a service see it.
    let unkeyed = payment.clone().without("idempotency-key").header("x_account", "acme");
    assert_eq!(strangers.gateway.send(&unkeyed).status, 201);
    let arrival = strangers.upstream.only_arrival();
    assert_eq!((arrival.all("x-account"), arrival.all("x_account")), (vec![], vec![]));

    for trusted in ["trusted_proxies = [\"127.0.0.1\"]\n", ""] {
        let stage = stage(&format!("{HEADER}{trusted}"));
        stage.gateway.send(&payment).assert_stored(201);
        assert_eq!(stage.upstream.only_arrival().field("x-account"), "acme");
    }
}
