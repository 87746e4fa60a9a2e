use super::*;

const PROXY: &str = "10.0.0.1";

fn forwarding(trusted: &[&str], fields: Fields) -> Forwarding {
    let networks = trusted.iter().map(|network| network.parse().expect("a network"));
    let trusted = (!trusted.is_empty()).then(|| TrustedProxies::new(networks));
    Forwarding { trusted, fields }
}

/// What a service is told of a request with these fields, and what is known of its caller.
fn passed(forwarding: &Forwarding, peer: &str, fields: &[(&str, &str)]) -> (HeaderMap, Caller) {
    let mut request = http::Request::builder().uri("/x").header("host", "api.example.com:8080");
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    let (mut head, ()) = request.body(()).expect("a request").into_parts();
    let address = std::net::SocketAddr::new(peer.parse().expect("an address"), 40_000);
    head.extensions.insert(Peer { address, over_tls: true });
    forwarding.receive(&mut head, false);
    crate::headers::to_upstream(&mut head.headers, head.version);
    tell(&mut head);
    let caller = *head.extensions.get::<Caller>().expect("known");
    (head.headers, caller)
}

fn all(headers: &HeaderMap, name: &str) -> Vec<String> {
    let values = headers.get_all(name).into_iter();
    values.map(|value| value.to_str().expect("text").to_owned()).collect()
}

#[test]
fn from_a_stranger_everything_is_replaced() {
    let forged = [
        ("x-forwarded-for", "1.1.1.1"),
        ("x-forwarded-proto", "http"),
        ("x-forwarded-host", "evil.example"),
        ("x-forwarded-port", "1"),
        ("x_forwarded_for", "2.2.2.2"),
        ("forwarded", "for=3.3.3.3"),
        ("connection", "x-forwarded-for"),
    ];
    for trusted in [&[][..], &["10.0.0.0/8"]] {
        let (headers, caller) =
            passed(&forwarding(trusted, Fields::XForwarded), "9.9.9.9", &forged);
        assert_eq!(all(&headers, "x-forwarded-for"), ["9.9.9.9"]);
        assert_eq!(all(&headers, "x-forwarded-proto"), ["https"]);
        assert_eq!(all(&headers, "x-forwarded-host"), ["api.example.com:8080"]);
        for gone in ["x-forwarded-port", "x_forwarded_for", "forwarded"] {
            assert_eq!(all(&headers, gone), [""; 0], "{gone}");
        }
        assert_eq!(caller.address.to_string(), "9.9.9.9");
        assert!(!caller.by_trusted_proxy && caller.over_tls);
        assert_eq!(caller.may_say_scope, trusted.is_empty());
    }
}

#[test]
fn from_a_trusted_proxy_the_chain_is_kept_and_appended_to() {
    let chain = [
        ("x-forwarded-for", "1.1.1.1, 2.2.2.2"),
        ("x-forwarded-for", "10.7.7.7"),
        ("x-forwarded-proto", "http"),
        ("x-forwarded-host", "www.example.com"),
        ("forwarded", "for=\"[2001:db8::1]:4711\";proto=http, for=2.2.2.2"),
    ];
    let (headers, caller) = passed(&forwarding(&["10.0.0.0/8"], Fields::Both), PROXY, &chain);
    assert_eq!(all(&headers, "x-forwarded-for"), ["1.1.1.1, 2.2.2.2, 10.7.7.7, 10.0.0.1"]);
    assert_eq!(all(&headers, "x-forwarded-proto"), ["http"]);
    assert_eq!(all(&headers, "x-forwarded-host"), ["www.example.com"]);
    let element = "for=10.0.0.1;host=\"api.example.com:8080\";proto=http";
    let expected = format!("for=\"[2001:db8::1]:4711\";proto=http, for=2.2.2.2, {element}");
    assert_eq!(all(&headers, "forwarded"), [expected]);
    assert!(caller.by_trusted_proxy && caller.may_say_scope && !caller.over_tls);
}

#[test]
fn what_a_proxy_passes_on_unseen_does_not_count() {
    for (line, kept) in [
        ("for=\"x;", false),
        ("for=\"x\\\"", false),
        ("for=\"x\\\"\"", true),
        ("for=1.1.1.1", true),
    ] {
        let fields =
            [("x_forwarded_for", "6.6.6.6"), ("x-forwarded_port", "1"), ("forwarded", line)];
        let (headers, _) = passed(&forwarding(&["10.0.0.0/8"], Fields::Both), PROXY, &fields);
        assert_eq!(all(&headers, "x-forwarded-for"), [PROXY]);
        assert_eq!(all(&headers, "x_forwarded_for"), [""; 0]);
        assert_eq!(all(&headers, "x-forwarded_port"), [""; 0]);
        let element = "for=10.0.0.1;host=\"api.example.com:8080\";proto=https";
        let expected = if kept { format!("{line}, {element}") } else { element.to_owned() };
        assert_eq!(all(&headers, "forwarded"), [expected]);
    }
}

#[test]
fn the_client_is_the_first_from_the_right_that_is_not_trusted() {
    for (fields, name, chain, expected) in [
        (Fields::XForwarded, "x-forwarded-for", "6.6.6.6, 1.1.1.1, 10.2.2.2", "1.1.1.1"),
        (Fields::XForwarded, "x-forwarded-for", "10.3.3.3, 10.2.2.2", "10.3.3.3"),
        (Fields::XForwarded, "x-forwarded-for", "1.1.1.1, unknown, 10.2.2.2", "10.2.2.2"),
        (Fields::XForwarded, "x-forwarded-for", "1.1.1.1:4711", "1.1.1.1"),
        (Fields::XForwarded, "x-forwarded-for", "[2001:db8::1]:4711", "2001:db8::1"),
        (Fields::XForwarded, "x-forwarded-for", "::ffff:1.1.1.1", "1.1.1.1"),
        (Fields::XForwarded, "x-forwarded-for", "", PROXY),
        (Fields::XForwarded, "forwarded", "for=1.1.1.1", PROXY),
        (Fields::Forwarded, "forwarded", "for=6.6.6.6, For=1.1.1.1;by=x, for=10.2.2.2", "1.1.1.1"),
        (Fields::Forwarded, "forwarded", "for=\"[2001:db8::1]\"", "2001:db8::1"),
        (Fields::Forwarded, "forwarded", "for=\"a,b\\\";for=6.6.6.6\", for=10.2.2.2", "10.2.2.2"),
        (Fields::Forwarded, "forwarded", "for=_hidden", PROXY),
        (Fields::Both, "forwarded", "for=1.1.1.1", "1.1.1.1"),
    ] {
        let forwarding = forwarding(&["10.0.0.0/8"], fields);
        let (_, caller) = passed(&forwarding, PROXY, &[(name, chain)]);
        assert_eq!(caller.address.to_string(), expected, "{name}: {chain}");
    }
}

#[test]
fn off_leaves_the_fields_as_they_are() {
    let (headers, caller) =
        passed(&forwarding(&[], Fields::Off), "9.9.9.9", &[("x-forwarded-for", "1.1.1.1")]);
    assert_eq!(all(&headers, "x-forwarded-for"), ["1.1.1.1"]);
    assert_eq!(all(&headers, "x-forwarded-host"), [""; 0]);
    assert_eq!(caller.address.to_string(), "9.9.9.9");
}
