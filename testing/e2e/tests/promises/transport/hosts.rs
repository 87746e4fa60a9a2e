//! Services by host.

use hapax_testkit::{Request, Serve, Upstream, UpstreamKind, fresh_key};

#[test]
fn services_and_operations_are_chosen_by_host_and_prefix() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let first = Upstream::start(one.path(), UpstreamKind::Plain);
    let second = Upstream::start(two.path(), UpstreamKind::Plain);
    let text = format!(
        "scope = {{ single_tenant = true }}\nstore = \"sqlite:{{dir}}/hapax.db\"\n\
         [[service]]\nupstream = \"{{upstream}}\"\nhost = \"api.one.test\"\n\
         [[service]]\nupstream = \"{}\"\nhost = \"*.two.test\"\n\
         [[operation]]\nname = \"one.create\"\nroutes = [\"POST api.one.test/v1/orders\"]\n\
         [[operation]]\nname = \"two.create\"\nroutes = [\"POST *.two.test/v1/orders\"]\n\
         key = {{ required = true }}\n",
        second.url()
    );
    let gateway = Serve::configured(one.path(), &first, &text).start();
    let key = fresh_key();
    let order = Request::payment(&key).to("/v1/orders");

    // In any case, with any port, and over HTTP/2.
    let at_one = gateway.send(&order.clone().host("API.one.test:8443"));
    at_one.assert_stored(201);
    gateway.send_http_2(&order.clone().host("api.one.test")).assert_replays(&at_one);
    // One key under two operations is two records.
    let at_two = gateway.send(&order.clone().host("eu.two.test"));
    at_two.assert_stored(201);
    assert_eq!((first.arrivals().len(), second.arrivals().len()), (1, 1));
    let missing = order.clone().without("idempotency-key").host("eu.two.test");
    gateway.send(&missing).assert_problem(400, "key-missing");
    assert_eq!(gateway.send(&missing.host("api.one.test")).status, 201);

    for host in ["two.test", "other.test", "api.one.test.evil"] {
        let nowhere = gateway.send(&order.clone().host(host));
        assert_eq!(nowhere.status, 404, "{host}: {nowhere:?}");
    }
    for host in ["a b", "me@api.one.test", "api.one.test/x"] {
        assert_eq!(gateway.send(&order.clone().host(host)).status, 400, "{host}");
    }
    assert_eq!((first.arrivals().len(), second.arrivals().len()), (2, 1));
    // Services see the host that callers asked for.
    assert_eq!(first.arrivals()[0].field("host"), "API.one.test:8443");
}

#[test]
fn another_host_of_the_same_service_is_no_way_around_the_protection() {
    let dir = tempfile::tempdir().unwrap();
    let upstream = Upstream::start(dir.path(), UpstreamKind::Plain);
    let text = "scope = { single_tenant = true }\nstore = \"sqlite:{dir}/hapax.db\"\n\
                [[service]]\nupstream = \"{upstream}\"\n\
                [[operation]]\nname = \"pay\"\nroutes = [\"POST api.test/payments\"]\n";
    let gateway = Serve::configured(dir.path(), &upstream, text).start();
    let payment = Request::payment(&fresh_key());
    gateway.send(&payment.clone().host("127.0.0.1")).assert_problem(400, "path-unclear");
    upstream.assert_arrivals(0);
    gateway.send(&payment.host("api.test")).assert_stored(201);
}
