//! Services behind TLS, and in HTTP/2.

use hapax_testkit::{
    Authority, Request, Stage, Upstream, UpstreamKind, copies, eventually, fresh_key,
};

use super::Secure;
use crate::SOON;

const ONE: &str = "scope = { single_tenant = true }\nstore = \"sqlite:{dir}/hapax.db\"\n\
    [[service]]\nupstream = \"{upstream}\"\n";

/// A service that speaks TLS.
fn tls_service(dir: &std::path::Path, authority: &Authority, client_ca: bool) -> Upstream {
    let pair = authority.issue(dir, "service", &["service.test", "127.0.0.1"]);
    let ca = dir.join("ca.pem");
    Upstream::start_tls(dir, &pair, client_ca.then_some(&*ca))
}

#[test]
fn a_service_behind_tls_gets_what_it_prefers_and_keyed_requests_take_effect_once() {
    for (protocol, version) in [("", "HTTP/2.0"), ("protocol = \"http1\"\n", "HTTP/1.1")] {
        let text = format!("{ONE}tls = {{ ca = \"{{dir}}/ca.pem\" }}\n{protocol}");
        let secure = Secure::start(&text, |dir, authority| tls_service(dir, authority, false));
        let payment = Request::payment(&fresh_key());
        let first = secure.gateway.send(&payment);
        first.assert_stored(201);
        secure.gateway.send(&payment).assert_replays(&first);
        let arrival = secure.upstream.only_arrival();
        assert_eq!((arrival.version.as_str(), arrival.certificate.clone()), (version, None));
        assert_eq!(arrival.effect_id(), secure.upstream.arrivals()[0].effect_id());
        assert_eq!(arrival.attempt() & 0xffff_ffff, 1);
        let unkeyed = Request::post("/x", r#"{"amount":1}"#).act("status 200; body echo");
        assert_eq!(secure.gateway.send(&unkeyed).text(), r#"{"amount":1}"#);
    }
}

#[test]
fn a_service_that_is_not_vouched_for_gets_nothing() {
    for tls in [
        "",
        "tls = { ca = \"{dir}/other.pem\" }\n",
        "tls = { ca = \"{dir}/ca.pem\", server_name = \"other.test\" }\n",
    ] {
        // What the system trusts is not what signed it.
        let text = format!("{ONE}{tls}");
        let secure = Secure::start(&text, |dir, authority| {
            Authority::new().write(&dir.join("other.pem"));
            tls_service(dir, authority, false)
        });
        let payment = Request::payment(&fresh_key());
        for request in [&payment, &payment.clone().without("idempotency-key")] {
            let refused = secure.gateway.send(request);
            refused.assert_problem(503, "upstream-unreachable").assert_retry_after(1);
        }
        secure.upstream.assert_arrivals(0);
        let logged = secure.gateway.stderr().join("\n");
        assert!(logged.contains("certificate"), "the log says why: {logged}");
    }
}

#[test]
fn a_service_that_wants_a_certificate_is_shown_one() {
    let text = format!(
        "{ONE}tls = {{ ca = \"{{dir}}/ca.pem\", client_certificate = \"{{dir}}/gateway.pem\", \
         client_key = \"{{dir}}/gateway.key\", server_name = \"service.test\" }}\n"
    );
    let mut secure = Secure::start(&text, |dir, authority| tls_service(dir, authority, true));
    let shown = |secure: &Secure| {
        secure.gateway.send(&Request::payment(&fresh_key())).assert_stored(201);
        secure.upstream.arrivals().pop().expect("it arrived").certificate.expect("a certificate")
    };
    let first = shown(&secure);
    secure.authority.reissue(&secure.pair, "gateway", &["gateway.test"]);
    let taken = ["result=\"taken\""];
    eventually("a renewed one is noticed", SOON, || {
        secure.gateway.metric("hapax_tls_reloads_total", &taken) >= 1.0
    });
    // New connections show it.
    secure.upstream.restart();
    assert_ne!(shown(&secure), first);
}

#[test]
fn with_prior_knowledge_a_service_is_spoken_to_in_http_2() {
    let stage = Stage::configured(UpstreamKind::Collapsing, &format!("{ONE}protocol = \"h2c\"\n"));
    let payment = Request::payment(&fresh_key());
    let answers = copies(16, &[&stage.gateway], &payment);
    for answer in &answers {
        assert_eq!((answer.status, &answer.body), (201, &answers[0].body));
    }
    let arrival = stage.upstream.only_arrival();
    assert_eq!(arrival.version, "HTTP/2.0");
    assert_eq!(arrival.text.as_deref(), Some(r#"{"amount":1200,"currency":"EUR"}"#));
    stage.upstream.assert_effects(1);
    // Every way in and the one way out.
    for answer in
        [stage.gateway.send(&Request::get("/x")), stage.gateway.send_http_2(&Request::get("/x"))]
    {
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let trailers = Request::post("/x", "{}")
        .header("te", "trailers")
        .trailer("x-checksum", "7")
        .act("status 200; body trailers");
    for answer in [stage.gateway.send(&trailers), stage.gateway.send_http_2(&trailers)] {
        assert_eq!(answer.trailers, [("x-sum".to_owned(), b"42".to_vec())], "{answer:?}");
        let arrivals = stage.upstream.arrivals();
        let arrival = arrivals.last().expect("one");
        assert_eq!(arrival.trailers, [("x-checksum".to_owned(), "7".to_owned())], "{arrival:?}");
    }
}

#[test]
fn a_service_that_does_not_speak_http_2_gets_nothing() {
    let text = format!("{ONE}protocol = \"h2c\"\n");
    let dir = tempfile::tempdir().expect("a directory");
    let upstream = Upstream::start(dir.path(), UpstreamKind::Plain);
    // The gateway's own operator listener is asked for, which answers; something that does not is a
    // plain listener of the test.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        while let Ok((mut stream, _)) = listener.accept() {
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
        }
    });
    let text = text.replace("{upstream}", &format!("http://{address}"));
    let gateway = hapax_testkit::Serve::configured(dir.path(), &upstream, &text).start();
    gateway
        .send(&Request::payment(&fresh_key()))
        .assert_problem(503, "upstream-unreachable")
        .assert_retry_after(1);
}

#[test]
fn a_keyed_grpc_call_is_refused_as_grpc_does_and_others_pass_with_their_trailers() {
    let stage = Stage::configured(UpstreamKind::Plain, &format!("{ONE}protocol = \"h2c\"\n"));
    let call = Request::new("POST", "/pay.Payments/Create")
        .header("te", "trailers")
        .body("application/grpc+proto", &b"\0\0\0\0\x02{}"[..]);
    let refused = stage.gateway.send_http_2(&call.clone().key(&fresh_key()));
    assert_eq!(refused.status, 200, "{refused:?}");
    assert_eq!(refused.field("grpc-status").as_deref(), Some("12"));
    assert_eq!(refused.field("content-type").as_deref(), Some("application/grpc+proto"));
    let message = refused.field("grpc-message").expect("a message");
    assert!(message.contains("Idempotency-Key"), "{message}");
    assert_eq!(refused.body.len(), 0);
    stage.upstream.assert_arrivals(0);
    assert_eq!(stage.records(&["list", "--json"]).stdout, "", "nothing is claimed");

    let passed = stage.gateway.send_http_2(&call.act("status 200; body trailers"));
    assert_eq!(passed.trailers, [("x-sum".to_owned(), b"42".to_vec())], "{passed:?}");
    let arrival = stage.upstream.only_arrival();
    assert_eq!((arrival.version.as_str(), arrival.field("te")), ("HTTP/2.0", "trailers"));
}

#[test]
fn early_data_is_refused_where_a_key_is_and_passes_elsewhere() {
    let stage = Stage::new();
    let early = Request::payment(&fresh_key()).header("early-data", "1");
    stage.gateway.send(&early).assert_problem(425, "early-data");
    stage.upstream.assert_arrivals(0);
    stage.gateway.send(&early.clone().without("early-data")).assert_stored(201);
    let unkeyed = stage.gateway.send(&early.without("idempotency-key"));
    assert_eq!(unkeyed.status, 201, "{unkeyed:?}");
    assert_eq!(stage.upstream.arrivals()[1].field("early-data"), "1");
}

#[test]
fn how_a_service_is_reached_can_change_without_a_restart_and_how_callers_connect_cannot() {
    let text = ONE.replace("{dir}", "DIR").replace("{upstream}", "UPSTREAM");
    let stage = Stage::configured(UpstreamKind::Plain, ONE);
    let put = |more: &str, result: &str| {
        let reloads = || {
            let label = format!("result=\"{result}\"");
            stage.gateway.metric("hapax_config_reloads_total", &[&label])
        };
        let before = reloads();
        let text = text
            .replace("DIR", &stage.dir().display().to_string())
            .replace("UPSTREAM", &stage.upstream.url());
        std::fs::write(stage.dir().join("hapax.toml"), text + more).expect("written");
        stage.gateway.hang_up();
        eventually("it is read", SOON, || reloads() > before);
    };
    let version = || {
        assert_eq!(stage.gateway.send(&Request::get("/x")).status, 200);
        stage.upstream.arrivals().pop().expect("one").version
    };
    assert_eq!(version(), "HTTP/1.1");
    put("protocol = \"h2c\"\n", "applied");
    assert_eq!(version(), "HTTP/2.0");
    put("[tls]\ncertificate = \"a\"\nkey = \"b\"\n", "refused");
    assert_eq!(version(), "HTTP/2.0");
    let logged = stage.gateway.stderr().join("\n");
    assert!(logged.contains("tls: a change of it needs a restart"), "{logged}");
}
