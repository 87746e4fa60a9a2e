//! TLS for callers.

use std::{fs, time::Duration};

use hapax_testkit::{Authority, Request, Serve, TlsClient, eventually, fresh_key, hapax, until};

use super::{Secure, TLS};
use crate::SOON;

#[test]
fn callers_speak_tls_in_the_version_that_they_prefer() {
    let secure = Secure::with("");
    let client = TlsClient::new(&secure.authority, None);
    let payment = Request::payment(&fresh_key());
    let first = secure.gateway.send_tls(&client, &payment).expect("HTTP/1.1 without ALPN");
    first.assert_stored(201);
    for offered in [&["http/1.1"][..], &["h2", "http/1.1"], &["h2"]] {
        let again = secure.gateway.send_tls(&client.clone().offering(offered), &payment);
        again.expect("an answer").assert_replays(&first);
    }
    secure.upstream.assert_arrivals(1);
    assert!(secure.gateway.stdout().iter().any(|line| line.starts_with("listening on https://")));
}

#[test]
fn hapax_call_speaks_tls_and_gives_up_at_once_where_it_trusts_nobody() {
    let secure = Secure::with("");
    let url = format!("https://{}/payments", secure.gateway.address());
    let authority = secure.dir.path().join("ca.pem");
    let authority = authority.to_str().expect("a path");
    let payment = ["call", "--json", "{\"amount\":1200}", &url];
    let trusted = hapax(payment.iter().chain(&["--include", "--cacert", authority]));
    assert_eq!(trusted.code, Some(0), "{trusted:?}");
    assert!(trusted.stdout.starts_with("HTTP/2.0 201 Created"), "{trusted:?}");
    // The system's authorities do not know the gateway, and will not in a minute.
    let untrusted = hapax(payment);
    assert_eq!(untrusted.code, Some(3), "{untrusted:?}");
    assert!(untrusted.stderr.contains("invalid peer certificate"), "{untrusted:?}");
    assert!(!untrusted.stderr.contains("again in"), "it does not try again: {untrusted:?}");
    secure.upstream.assert_arrivals(1);
}

#[test]
fn plain_http_on_the_tls_port_is_told_so_and_others_are_unharmed() {
    let secure = Secure::with("");
    let plain = secure.gateway.send(&Request::get("/x"));
    assert_eq!(plain.status, 400, "{plain:?}");
    assert!(plain.text().contains("https://"), "{plain:?}");
    let mut noise = secure.gateway.connect();
    noise.write("\x16\x03\x01\x00\x04nope");
    noise.read_to_end();
    let failures = |reason: &str| {
        let label = format!("reason=\"{reason}\"");
        secure.gateway.metric("hapax_tls_handshake_failures_total", &[&label])
    };
    eventually("both are counted", SOON, || {
        (failures("plain_http"), failures("failed")) == (1.0, 1.0)
    });
    let client = TlsClient::new(&secure.authority, None);
    assert_eq!(secure.gateway.send_tls(&client, &Request::get("/x")).expect("TLS").status, 200);
}

#[test]
fn a_handshake_that_does_not_go_on_ends_within_its_bound() {
    let secure = Secure::with("");
    let silent = secure.gateway.connect();
    let begun = std::time::Instant::now();
    // Ended by the gateway, whose bound is 10 s.
    silent.read_to_end();
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    let timed_out = ["reason=\"timed_out\""];
    eventually("it is counted", SOON, || {
        secure.gateway.metric("hapax_tls_handshake_failures_total", &timed_out) == 1.0
    });
}

#[test]
fn callers_show_certificates_where_they_must_and_strangers_ones_never_do() {
    let stranger = Authority::new();
    for (required, demanded) in [(true, ""), (false, "client_certificates = \"optional\"\n")] {
        let secure = Secure::with(&format!("client_ca = \"{{dir}}/ca.pem\"\n{demanded}"));
        let known = secure.authority.issue(secure.dir.path(), "billing", &["billing.test"]);
        let forged = stranger.issue(secure.dir.path(), "forged", &["billing.test"]);
        let send = |shows| {
            let client = TlsClient::new(&secure.authority, shows);
            secure.gateway.send_tls(&client, &Request::get("/x"))
        };
        assert_eq!(send(Some(&known)).expect("known").status, 200);
        assert!(send(Some(&forged)).is_err(), "signed by a stranger");
        assert_eq!(send(None).is_err(), required);
    }
}

#[test]
fn a_renewed_certificate_is_shown_without_a_restart_and_a_broken_one_is_not() {
    let secure = Secure::with("");
    let client = TlsClient::new(&secure.authority, None);
    let shown = || secure.gateway.shown_certificate(&client).expect("a handshake");
    let first = shown();
    // A request that is under way over the old one goes on.
    let held = Request::post("/payments", "{}").act("gate renewed");
    let held = secure.gateway.start_tls(&client, &held);
    secure.upstream.arrived(1);

    secure.authority.reissue(&secure.pair, "gateway", &["gateway.test"]);
    let second = until("the new one is shown", SOON, || Some(shown()).filter(|now| *now != first));
    let reloads = |result: &str| {
        secure.gateway.metric("hapax_tls_reloads_total", &[&format!("result=\"{result}\"")])
    };
    eventually("it is counted", SOON, || reloads("taken") >= 1.0);

    fs::write(&secure.pair.certificate, "-----BEGIN CERTIFICATE-----\nhalf").expect("written");
    eventually("the broken one is noticed", SOON, || reloads("refused") >= 1.0);
    assert_eq!(shown(), second, "the old one stays");
    assert!(secure.gateway.stderr().iter().any(|line| line.contains("old ones stay")));
    secure.upstream.open("renewed");
    assert_eq!(held.answer().status, 201);

    let expiry = ["of=\"callers\""];
    let left = secure.gateway.metric("hapax_tls_certificate_expiry_seconds", &expiry);
    assert!(left > 24.0 * 3600.0, "{left}");
}

#[test]
fn the_operators_listener_speaks_tls_too() {
    let operator = "[operator.tls]\ncertificate = \"{dir}/gateway.pem\"\n\
                    key = { env = \"OPERATOR_KEY\" }\n[[service]]\nupstream = \"{upstream}\"\n";
    let dir = tempfile::tempdir().expect("a directory");
    let authority = Authority::new();
    let pair = authority.issue(dir.path(), "gateway", &["gateway.test"]);
    let upstream = hapax_testkit::Upstream::start(dir.path(), hapax_testkit::UpstreamKind::Plain);
    let key = fs::read_to_string(&pair.key).expect("readable");
    let text = format!("{TLS}{operator}");
    let gateway = Serve::configured(dir.path(), &upstream, &text).env("OPERATOR_KEY", &key).start();
    assert!(gateway.stdout().iter().any(|line| line.starts_with("operator on https://")));
    assert_eq!(gateway.operator("/healthz").status, 400, "plain HTTP is told so");
}

#[test]
fn certificates_that_cannot_be_used_are_refused_at_start_with_a_remedy() {
    let dir = tempfile::tempdir().expect("a directory");
    let authority = Authority::new();
    let one = authority.issue(dir.path(), "one", &["gateway.test"]);
    let other = authority.issue(dir.path(), "other", &["gateway.test"]);
    fs::write(dir.path().join("empty.pem"), "").expect("written");
    let path = |name: &str| dir.path().join(name).display().to_string();
    let upstream = hapax_testkit::Upstream::start(dir.path(), hapax_testkit::UpstreamKind::Plain);
    for (certificate, key, expected) in [
        (path("missing.pem"), one.key.display().to_string(), "check the path"),
        (path("empty.pem"), one.key.display().to_string(), "BEGIN CERTIFICATE"),
        (one.certificate.display().to_string(), path("empty.pem"), "BEGIN PRIVATE KEY"),
        (
            one.certificate.display().to_string(),
            other.key.display().to_string(),
            "name the key that the certificate was made for",
        ),
    ] {
        let text = format!(
            "scope = {{ single_tenant = true }}\nstore = \"sqlite:{{dir}}/hapax.db\"\n[tls]\n\
             certificate = \"{certificate}\"\nkey = \"{key}\"\n[[service]]\nupstream = \"{{upstream}}\"\n"
        );
        let ran = Serve::configured(dir.path(), &upstream, &text).run();
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains("[tls]") && ran.stderr.contains(expected), "{ran:?}");
        assert!(!dir.path().join("hapax.db").exists(), "nothing is left behind");
    }
}
