//! Where requests go.

use super::*;

/// The upstream and the operation of a request, as `upstream operation`. A host may stand before
/// the path.
fn way(config: &Config, request: &str) -> String {
    let (method, path) = request.split_once(' ').expect("a method and a path");
    let method = Method::from_bytes(method.as_bytes()).expect("a method");
    let (host, path) = match path.find('/') {
        Some(at) => path.split_at(at),
        None => ("", path),
    };
    let Some(route) = config.route(&method, host, path) else { return "nowhere".to_owned() };
    let operation = route.operation.map_or("passes", |operation| operation.policy.name.as_str());
    assert!(route.operation.is_none_or(|found| found.policy.target == route.service.identity()));
    format!("{} {operation}", route.service.origin())
}

#[test]
fn the_more_special_route_wins_in_whatever_order() {
    let routes = [
        ("all", "POST /*"),
        ("below", "POST /v1/*"),
        ("of-payment", "POST /v1/payments/{id}/{act}"),
        ("capture", "POST /v1/payments/{id}/capture"),
        ("payment", "POST /v1/payments/{id}"),
        ("search", "POST /v1/payments/search"),
    ];
    let table = |(name, route): &(&str, &str)| {
        format!("[[operation]]\nname = \"{name}\"\nroutes = [\"{route}\"]\n")
    };
    let forward: String = routes.iter().map(table).collect();
    let backward: String = routes.iter().rev().map(table).collect();
    for tables in [forward, backward] {
        let config = load(&file("", &tables), &Flags::default()).expect("right");
        for (request, expected) in [
            ("POST /v1/payments/search", "search"),
            ("POST /v1/payments/s%65arch", "search"),
            ("POST /v1/payments/42", "payment"),
            ("POST /v1/payments/a%2Fb", "payment"),
            ("POST /v1/payments/", "below"),
            ("POST /v1/payments/42/capture", "capture"),
            ("POST /v1/payments/42/refund", "of-payment"),
            ("POST /v1/payments/42/refund/1", "below"),
            ("POST /v1/", "below"),
            ("POST /v1", "all"),
            ("POST /", "all"),
            ("POST //v1/payments/search", "all"),
            ("POST /V1/payments/search", "all"),
            ("POST /%", "all"),
            ("POST /%%34%31", "all"),
            ("PATCH /v1/payments/42", "passes"),
        ] {
            assert_eq!(way(&config, request), format!("http://a:1 {expected}"), "{request}");
        }
    }
}

#[test]
fn the_longest_prefix_that_ends_at_a_segment_takes_the_request() {
    let services = "scope = { single_tenant = true }\n\
        service = [{ name = \"root\", upstream = \"http://root\" }, \
        { name = \"v1\", upstream = \"http://v1\", prefix = \"/v1\" }, \
        { name = \"deep\", upstream = \"http://deep\", prefix = \"/v1/deep/\" }]\n";
    let config = load(services, &Flags::default()).expect("right");
    for (request, expected) in [
        ("POST /", "http://root default.root"),
        ("POST /v1", "http://v1 default.v1"),
        ("POST /%761", "http://v1 default.v1"),
        ("PATCH /v1/x", "http://v1 default.v1"),
        ("GET /v1/x", "http://v1 passes"),
        ("POST /v10", "http://root default.root"),
        ("POST /v1/deep", "http://deep default.deep"),
        ("POST /v1/deep/er", "http://deep default.deep"),
        ("POST /v1/deeper", "http://v1 default.v1"),
        ("OPTIONS *", "http://root passes"),
    ] {
        assert_eq!(way(&config, request), expected, "{request}");
    }
    assert_eq!(config.operations.len(), 3);
    assert_eq!(config.describe().len(), 3);
}

#[test]
fn one_key_is_one_effect_at_one_service() {
    let services = |first: &str, second: &str, rest: &str| {
        format!(
            "scope = {{ single_tenant = true }}\n\
             [[service]]\nupstream = \"http://a\"\nhost = \"a.b\"\n{first}\n\
             [[service]]\nupstream = \"http://b\"\n{second}\n{rest}"
        )
    };
    let operation = |settings: &str| {
        format!("[[operation]]\nname = \"pay\"\nroutes = [\"POST /pay\"]\n{settings}")
    };
    assert_eq!(
        errors(&services("", "", "")),
        "f.toml:2: [[service]]: there are several services and no operation, and one key would be \
         one effect at all of them\n  help: give each service a name, such as name = \"payments\", \
         so that each has an operation of its own; or add operations"
    );
    assert_eq!(
        errors(&services("", "", &operation(""))),
        "f.toml:9: [[operation]]: requests on its routes go to several services (http://a and \
         http://b), and one key would be one effect at all of them\n  help: write an operation for \
         each service, with the host in its routes where the paths are the same, as in \"POST \
         api.example.com/v1/payments\"; or give services that are one the same name"
    );
    let shared = ("name = \"pay\"", "name = \"pay\"");
    for right in [
        services(shared.0, shared.1, &operation("")),
        services(shared.0, shared.1, ""),
        services("name = \"a\"", "name = \"b\"", ""),
        services("", "", &operation("mode = \"observe\"")),
        services("", "", &operation("kind = \"natural\"")),
        services("", "", &operation("").replace("POST /", "POST a.b/")),
    ] {
        assert_eq!(errors(&right), "nothing", "{right}");
    }
}

#[test]
fn a_service_is_known_by_its_name_wherever_it_listens() {
    let target = |service: &str| {
        let text = format!("scope = {{ single_tenant = true }}\n[[service]]\n{service}");
        let config = load(&text, &Flags::default()).expect("right");
        config.operations.first().expect("one").policy.target.clone()
    };
    assert_eq!(target("upstream = \"http://a:80\""), "http://a");
    assert_eq!(target("name = \"pay\"\nupstream = \"http://a\""), "pay");
    assert_eq!(target("name = \"pay\"\nupstream = \"https://b:8443\""), "pay");
}

#[test]
fn the_most_special_host_takes_the_request_then_the_longest_prefix() {
    let services = "scope = { single_tenant = true }\n\
        service = [{ name = \"any\", upstream = \"http://any\" }, \
        { name = \"deep\", upstream = \"http://deep\", prefix = \"/v1\" }, \
        { name = \"api\", upstream = \"http://api\", host = \"API.example.com\" }, \
        { name = \"api1\", upstream = \"http://api1\", host = \"api.example.com\", prefix = \"/v1\" }, \
        { name = \"below\", upstream = \"http://below\", host = \"*.example.com\" }, \
        { name = \"eu\", upstream = \"http://eu\", host = \"*.eu.example.com\", prefix = \"/v1\" }]\n";
    let config = load(services, &Flags::default()).expect("right");
    for (request, expected) in [
        ("POST /v1/x", "http://deep default.deep"),
        ("POST other.org/", "http://any default.any"),
        ("POST example.com/v1", "http://deep default.deep"),
        ("POST api.example.com/", "http://api default.api"),
        ("POST api.example.com/v1", "http://api1 default.api1"),
        ("POST www.example.com/v1", "http://below default.below"),
        ("POST a.eu.example.com/v1", "http://eu default.eu"),
        // Not its prefix: the next host that fits.
        ("POST a.eu.example.com/v2", "http://below default.below"),
    ] {
        assert_eq!(way(&config, request), expected, "{request}");
    }
}

#[test]
fn forty_services_use_one_path_for_operations_of_their_own() {
    let mut text = "scope = { single_tenant = true }\n".to_owned();
    for n in 0..40 {
        let host = format!("s{n}.example.com");
        text += &format!("[[service]]\nupstream = \"http://s{n}\"\nhost = \"{host}\"\n");
        text += &format!(
            "[[operation]]\nname = \"s{n}.create\"\nroutes = [\"POST {host}/v1/orders\"]\n"
        );
    }
    let config = load(&text, &Flags::default()).expect("right");
    for n in 0..40 {
        let request = format!("POST s{n}.example.com/v1/orders");
        assert_eq!(way(&config, &request), format!("http://s{n} s{n}.create"));
    }
    assert_eq!(way(&config, "POST s1.example.com/v1/other"), "http://s1 passes");
    assert_eq!(way(&config, "POST other.example.com/v1/orders"), "nowhere");
}

#[test]
fn a_route_with_a_host_goes_before_one_without() {
    let operations = "[[operation]]\nname = \"every\"\nroutes = [\"POST /v1/orders\"]\n\
        [[operation]]\nname = \"below\"\nroutes = [\"POST *.b.com/v1/*\"]\n\
        [[operation]]\nname = \"one\"\nroutes = [\"POST a.b.com/v1/{kind}\"]\n";
    let config = load(&file("", operations), &Flags::default()).expect("right");
    for (request, expected) in [
        ("POST /v1/orders", "every"),
        ("POST c.com/v1/orders", "every"),
        ("POST x.b.com/v1/orders", "below"),
        ("POST a.b.com/v1/orders", "one"),
        ("POST a.b.com/v1/orders/1", "below"),
        ("POST a.b.com/v2", "passes"),
    ] {
        assert_eq!(way(&config, request), format!("http://a:1 {expected}"), "{request}");
    }
}

#[test]
fn another_host_is_a_near_miss_where_the_same_upstream_gets_it() {
    let services = "scope = { single_tenant = true }\n\
        service = [{ upstream = \"http://one\" }, { upstream = \"http://two\", host = \"two.com\" }]\n\
        [[operation]]\nname = \"pay\"\nroutes = [\"POST one.com/pay\"]\n";
    let config = load(services, &Flags::default()).expect("right");
    let near = |host: &str, path: &str| {
        let route = config.route(&Method::POST, host, path).expect("a service");
        let near = config.near_miss(&Method::POST, host, path, &route, |_| true);
        near.map(ToString::to_string)
    };
    let route = Some("POST one.com/pay".to_owned());
    assert_eq!(near("one.com", "/pay/"), route);
    assert_eq!(near("127.0.0.1", "/pay"), route);
    assert_eq!(near("", "/PAY"), route);
    assert_eq!(near("two.com", "/pay"), None);
    assert_eq!(near("one.com", "/other"), None);
}

#[test]
fn a_route_for_the_rest_does_not_take_what_a_service_may_take_for_a_protected_one() {
    let rest = |kind: &str| {
        let text = operation("[[operation]]\nname = \"rest\"\nroutes = [\"POST /*\"]\n");
        load(&(text + kind), &Flags::default()).expect("right")
    };
    for kind in ["", "kind = \"natural\"", "kind = \"unprotected\"\nreason = \"the rest\""] {
        let config = rest(kind);
        let near = |path: &str| {
            let route = config.route(&Method::POST, "a", path).expect("a service");
            config.near_miss(&Method::POST, "a", path, &route, |_| true).is_some()
        };
        for path in ["/pay/", "//pay", "/Pay", "/x/../pay", "/%2e/pay", "/pay;a", "/pay%20"] {
            assert!(near(path), "{path} {kind}");
        }
        for path in ["/pay", "/pay/1", "/", "/other", "/pays"] {
            assert!(!near(path), "{path} {kind}");
        }
    }
}

#[test]
fn a_path_under_no_prefix_goes_nowhere() {
    let text = file("", "prefix = \"/v1\"");
    let config = load(&text, &Flags::default()).expect("right");
    assert_eq!(way(&config, "POST /v2"), "nowhere");
    assert_eq!(way(&config, "OPTIONS *"), "nowhere");
    assert_eq!(way(&config, "POST /v1/x"), "http://a:1 default");
}

#[test]
fn an_operation_at_one_upstream_is_one() {
    let text = "scope = { single_tenant = true }\n\
        service = [{ upstream = \"http://a\", prefix = \"/a\" }, \
        { upstream = \"http://a\", prefix = \"/b\" }]\n";
    assert_eq!(load(text, &Flags::default()).expect("right").operations.len(), 1);
}

#[test]
fn each_wrong_route_says_why() {
    const BRACES: &str = "write {name} for any one segment and * at the end for any rest";
    for (route, what, help) in [
        (
            "POST",
            "\"POST\" is not a method and a path",
            "write both, such as \"POST /v1/payments\"",
        ),
        ("psot /a", "\"psot\" is not a method", "did you mean \"POST\"?"),
        ("Post /a", "\"Post\" is not a method", "did you mean \"POST\"?"),
        ("copy /a", "\"copy\" is not a method", "did you mean \"COPY\"?"),
        ("CONNECT /a", "a tunnel is not forwarded", "remove the route"),
        (
            "POST a",
            "the path \"a\" does not start with a slash",
            "write it whole, such as \"POST /v1/payments\"",
        ),
        (
            "POST http://a/b",
            "\"http://a/b\" is a URL, not a path",
            "write the path alone, such as \"POST /v1/payments\"",
        ),
        (
            "POST /a?b",
            "the path \"/a?b\" has a query or a fragment",
            "end it before them; a route goes with every query",
        ),
        (
            "POST /é",
            "the path \"/é\" has a character that no request has",
            "percent-encode it, as in \"POST /caf%C3%A9\"",
        ),
        (
            "POST /%4",
            "the path \"/%4\" has a character that no request has",
            "percent-encode it, as in \"POST /caf%C3%A9\"",
        ),
        ("POST /a*", "\"a*\" has a * that is not the last segment by itself", BRACES),
        ("POST /*/a", "\"*\" has a * that is not the last segment by itself", BRACES),
        (
            "POST api.example.com:8443/a",
            "\"api.example.com:8443\" has a port, which takes no part in the choice",
            "write a host such as \"api.example.com\", or \"*.example.com\" for all below one",
        ),
        (
            "POST v1/payments",
            "the path \"v1/payments\" does not start with a slash",
            "write it whole, such as \"POST /v1/payments\"",
        ),
        ("POST /:id", "\":id\" would be taken for itself", BRACES),
        ("POST /{id", "\"{id\" is not a whole {name}", BRACES),
        ("POST /{}", "\"{}\" is not a whole {name}", BRACES),
        ("POST /{a}b", "\"{a}b\" is not a whole {name}", BRACES),
        ("POST /{a}/{a}", "{a} is in the path twice", "give each its own name"),
    ] {
        assert_eq!(RoutePattern::parse(route), Err(Fault::new(what, help)), "{route}");
    }
    let right = ["POST /a", "COPY /a", "QUERY /{a}/*", "PUT /caf%C3%A9/", "POST *.b.com/a/{b}"];
    for route in right {
        assert_eq!(RoutePattern::parse(route).map(|route| route.to_string()).as_deref(), Ok(route));
    }
}
