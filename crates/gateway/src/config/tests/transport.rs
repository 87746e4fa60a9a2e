//! TLS, hosts, protocols, and proxies before us.

use super::*;
use crate::{
    forwarded::{Fields, TrustedProxies},
    tls::{Clients, PemSource, UpstreamTlsConfig},
    upstream::Protocol,
};

fn pem(path: &str) -> PemSource {
    PemSource::File(path.into())
}

#[test]
fn tls_of_both_listeners_is_read() {
    let text = file(
        "trusted_proxies = [\"10.0.0.0/8\", \"::1\"]\nforwarded = \"both\"\n",
        "[tls]\ncertificate = \"a.pem\"\nkey = { env = \"TLS_KEY\" }\nclient_ca = \"ca.pem\"\n\
         client_certificates = \"optional\"\n\
         [operator.tls]\ncertificate = \"o.pem\"\nkey = { file = \"o.key\" }\n",
    );
    let config = load(&text, &Flags::default()).unwrap_or_else(|error| panic!("{error}"));
    let clients = Clients { ca: pem("ca.pem"), required: false };
    let tls = ServerTlsConfig {
        certificate: pem("a.pem"),
        key: PemSource::Env("TLS_KEY".to_owned()),
        clients: Some(clients),
    };
    assert_eq!(config.tls, Some(tls));
    let operator = ServerTlsConfig { certificate: pem("o.pem"), key: pem("o.key"), clients: None };
    assert_eq!(config.operator_tls, Some(operator));
    let trusted = ["10.0.0.0/8", "::1/128"].map(|network| network.parse().expect("a network"));
    let trusted = Some(TrustedProxies::new(trusted));
    assert_eq!(config.forwarding, Forwarding { trusted, fields: Fields::Both });
}

#[test]
fn who_names_authorities_for_callers_wants_their_certificates() {
    let text = "[tls]\ncertificate = \"a\"\nkey = \"b\"\nclient_ca = \"c\"\n";
    let config = load(&file("", text), &Flags::default()).expect("right");
    assert!(config.tls.and_then(|tls| tls.clients).is_some_and(|clients| clients.required));
}

#[test]
fn how_a_service_is_reached_is_read() {
    let text = file("", "").replace("http://a:1", "https://a:1")
        + "tls = { ca = \"ca.pem\", client_certificate = \"c.pem\", client_key = \"c.key\", \
           server_name = \"pay.internal\" }\nprotocol = \"http1\"\n\
           [[service]]\nupstream = \"http://b\"\nhost = \"*.B.com\"\nprotocol = \"h2c\"\n\
           [[operation]]\nname = \"pay\"\nroutes = [\"POST x.b.com/pay\"]\n";
    let config = load(&text, &Flags::default()).unwrap_or_else(|error| panic!("{error}"));
    let [b, a] = &*config.services else { panic!("two services") };
    let expected = UpstreamTlsConfig {
        ca: Some(pem("ca.pem")),
        client: Some((pem("c.pem"), pem("c.key"))),
        server_name: Some("pay.internal".to_owned()),
    };
    assert_eq!((&a.tls, a.protocol), (&expected, Protocol::Http1));
    assert_eq!(a.origin(), "https://a:1");
    assert_eq!(
        (b.protocol, b.host.as_ref().map(ToString::to_string)),
        (Protocol::Http2, Some("*.b.com".into()))
    );
}

#[test]
fn each_mistake_names_line_and_remedy() {
    for (lines, expected) in [
        (
            "[tls]\n",
            "f.toml:4: tls: it has no certificate\n  help: add certificate = \
             \"/etc/hapax/tls.pem\"\n\
             f.toml:4: tls: it has no key\n  help: add key = \"/etc/hapax/tls.key\"",
        ),
        (
            "[tls]\ncertificate = \"a\"\nkey = \"-----BEGIN PRIVATE KEY-----\"\n",
            "f.toml:6: tls.key: it is the text of a certificate or key, not a path\n  help: put \
             it into a file and name that, such as \"/etc/hapax/tls.key\"",
        ),
        (
            "[tls]\ncertificate = \"a\"\nkey = { file = \"b\", env = \"B\" }\n",
            "f.toml:6: tls.key: it names a file and a variable\n  help: write \
             \"/etc/hapax/tls.key\", or { env = \"TLS_KEY\" }",
        ),
        (
            "[tls]\ncertificate = \"a\"\nkey = \"b\"\nclient_certificates = \"required\"\n",
            "f.toml:7: tls.client_certificates: nothing says which authorities vouch for callers\n  \
             help: add client_ca = \"/etc/hapax/clients.pem\", or remove it",
        ),
        (
            "[tls]\ncertificate = \"a\"\nkey = \"b\"\nclient_ca = \"c\"\nclient_certificates = \"require\"\n",
            "f.toml:8: tls.client_certificates: \"require\" is not \"required\" or \"optional\"\n  \
             help: did you mean \"required\"?",
        ),
        (
            "[tls]\ncertificate = \"a\"\nkey = \"b\"\nclient_cert = \"c\"\n",
            "f.toml:7: tls.client_cert: there is no such key in [tls]\n  help: did you mean \
             \"client_ca\"?",
        ),
        (
            "[operator]\ntls = { certificate = \"\", key = \"k\" }\n",
            "f.toml:5: operator.tls.certificate: the path is empty\n  help: name a file, such as \
             \"/etc/hapax/tls.pem\"",
        ),
        (
            "tls = { ca = \"ca.pem\" }\n",
            "f.toml:4: tls: the upstream is http://, which has no TLS\n  help: write https:// in \
             its upstream, or remove it",
        ),
        (
            "[[service]]\nprefix = \"/b\"\nupstream = \"https://b\"\nprotocol = \"h2c\"\n\
             tls = { client_key = \"k\" }\n",
            "f.toml:7: protocol: h2c is HTTP/2 without TLS, and the upstream is https://\n  help: \
             remove it: over TLS the service says itself whether it speaks HTTP/2\n\
             f.toml:8: tls: its key has no certificate\n  help: add client_certificate = \
             \"client.pem\"",
        ),
        (
            "host = \"a.b:80\"\n",
            "f.toml:4: host: \"a.b:80\" has a port, which takes no part in the choice\n  help: \
             write a host such as \"api.example.com\", or \"*.example.com\" for all below one",
        ),
        (
            "host = \"a.b\"\n[[service]]\nupstream = \"http://b\"\nhost = \"A.B\"\n",
            "f.toml:5: [[service]]: \"/\" is the prefix of two services for a.b (the other on line \
             2)\n  help: give each service its own prefix, such as prefix = \"/v1\", or its own \
             host, such as host = \"api.example.com\"",
        ),
        (
            "host = \"a.b\"\n[[operation]]\nname = \"pay\"\nroutes = [\"POST c.d/pay\"]\n",
            "f.toml:7: routes: \"POST c.d/pay\" is under the host and prefix of no service\n  \
             help: correct it, or add a [[service]] with this host and prefix",
        ),
    ] {
        assert_eq!(errors(&file("", lines)), expected, "{lines}");
    }
    for (lines, expected) in [
        (
            "trusted_proxies = \"10.0.0.0/8\"\n",
            "f.toml:1: trusted_proxies: a text stands where a list of networks belongs\n  help: \
             write it as in trusted_proxies = [\"10.0.0.0/8\"]",
        ),
        (
            "trusted_proxies = [\"10.0.0.1/8\", \"all\"]\n",
            "f.toml:1: trusted_proxies: \"10.0.0.1/8\" has bits behind its prefix\n  help: write \
             \"10.0.0.0/8\", or the one address\n\
             f.toml:1: trusted_proxies: \"all\" is not a network\n  help: write an address or a \
             network, such as \"10.0.0.0/8\" or \"fd00::/8\"",
        ),
        (
            "forwarded = \"x_forwarded\"\n",
            "f.toml:1: forwarded: \"x_forwarded\" is not \"x-forwarded\" or \"forwarded\" or \
             \"both\" or \"off\"\n  help: did you mean \"x-forwarded\"?",
        ),
    ] {
        assert_eq!(errors(&file(lines, "")), expected, "{lines}");
    }
}
