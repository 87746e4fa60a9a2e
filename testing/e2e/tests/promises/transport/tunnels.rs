//! Upgrades.

use std::time::Duration;

use hapax_testkit::{Gateway, Request, Stage, TlsClient, UpstreamKind, eventually, fresh_key};

use super::Secure;
use crate::SOON;

fn handshake(more: &str) -> String {
    format!(
        "GET /socket HTTP/1.1\r\nHost: gateway\r\nConnection: keep-alive, Upgrade\r\n\
         Upgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Sec-WebSocket-Version: 13\r\nX-Do: upgrade\r\n{more}\r\n"
    )
}

#[test]
fn a_websocket_is_a_tunnel_both_ways_until_one_end_closes_it() {
    let stage = Stage::new();
    let mut client = stage.gateway.connect();
    // The first bytes of the tunnel may come with the request for it.
    client.write(handshake("Hapax-Attempt: 7\r\n") + "early ");
    let head = client.read_until("early ").to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 101 "), "{head}");
    for field in ["connection: upgrade", "upgrade: websocket", "x-served-by: ledger"] {
        assert!(head.contains(field), "{field}: {head}");
    }
    for part in ["one", "two", "three"] {
        client.write(part);
        client.read_until(part);
    }
    assert_eq!(stage.gateway.metric("hapax_tunnels", &[]), 1.0);
    let arrival = stage.upstream.only_arrival();
    assert_eq!(arrival.field("upgrade"), "websocket");
    assert_eq!(arrival.field("sec-websocket-version"), "13");
    assert_eq!(arrival.all("hapax-attempt"), [""; 0]);
    assert_eq!(arrival.field("x-forwarded-for"), "127.0.0.1");
    client.finish_writing();
    client.read_to_end();
    eventually("it is closed", SOON, || stage.gateway.metric("hapax_tunnels", &[]) == 0.0);
}

#[test]
fn a_websocket_over_tls_outlives_a_reload_and_is_cut_at_the_end_of_the_drain() {
    let mut secure = Secure::with("[limits]\ndrain = \"1s\"\n");
    let client = TlsClient::new(&secure.authority, None);
    let mut socket = secure.gateway.connect_tls(&client);
    socket.write(handshake("") + "early ");
    assert!(socket.read_until("early ").to_ascii_lowercase().starts_with("http/1.1 101 "));
    let reloads = |gateway: &Gateway| gateway.metric("hapax_config_reloads_total", &["applied"]);
    secure.gateway.hang_up();
    eventually("the configuration is read again", SOON, || reloads(&secure.gateway) == 1.0);
    let large = "x".repeat(100_000);
    socket.write(large.clone() + " end");
    assert!(socket.read_until(" end").contains(&large));
    secure.gateway.terminate();
    // The drain is bounded, and nothing ends a tunnel before.
    socket.read_to_end();
    assert!(secure.gateway.ended(SOON).success());
}

#[test]
fn an_upgrade_that_the_service_declines_is_an_ordinary_answer() {
    let stage = Stage::new();
    let mut client = stage.gateway.connect();
    client.write(handshake("Connection: close\r\n").replace("X-Do: upgrade", "X-Do: status 426"));
    assert_eq!(client.answer().status, 426);
    assert_eq!(stage.gateway.metric("hapax_tunnels", &[]), 0.0);
}

#[test]
fn an_upgrade_on_a_keyed_operation_is_refused_before_anything_is_claimed() {
    let stage = Stage::new();
    let key = fresh_key();
    let upgrade = Request::payment(&key).header("connection", "upgrade").header("upgrade", "x");
    stage.gateway.send(&upgrade).assert_problem(400, "upgrade-refused");
    stage.upstream.assert_arrivals(0);
    // Nothing was claimed: the key is free for another intent.
    let other = Request::payment(&key).json(r#"{"amount":7}"#);
    stage.gateway.send(&other).assert_stored(201);
    // `h2c` is about the connection, and some clients ask for it with every request.
    let h2c = Request::payment(&fresh_key())
        .header("connection", "Upgrade, HTTP2-Settings")
        .header("upgrade", "h2c")
        .header("http2-settings", "AAMAAABkAAQAAP__");
    stage.gateway.send(&h2c).assert_stored(201);
    let arrival = stage.upstream.arrivals().pop().expect("one");
    assert_eq!((arrival.all("upgrade"), arrival.all("http2-settings")), (vec![], vec![]));
}

#[test]
fn a_service_in_http_2_takes_no_tunnels_and_says_so() {
    let text = "scope = { single_tenant = true }\nstore = \"sqlite:{dir}/hapax.db\"\n\
                [[service]]\nupstream = \"{upstream}\"\nprotocol = \"h2c\"\n";
    let stage = Stage::configured(UpstreamKind::Plain, text);
    let mut client = stage.gateway.connect();
    client.write(handshake("Connection: close\r\n"));
    client.answer().assert_problem(400, "upgrade-refused");
    stage.upstream.assert_arrivals(0);
}

#[test]
fn the_drain_waits_for_tunnels_within_its_bound() {
    let text = "scope = { single_tenant = true }\nstore = \"sqlite:{dir}/hapax.db\"\n\
                [limits]\ndrain = \"1s\"\n[[service]]\nupstream = \"{upstream}\"\n";
    let mut stage = Stage::configured(UpstreamKind::Plain, text);
    let mut client = stage.gateway.connect();
    client.write(handshake("") + "ping");
    client.read_until("ping");
    stage.gateway.terminate();
    // It still works, and is cut at the end.
    client.write("pong");
    client.read_until("pong");
    client.read_to_end();
    assert!(stage.gateway.ended(Duration::from_secs(20)).success());
    let logged = stage.gateway.stderr().join("\n");
    assert!(logged.contains("tunnels (Upgrade) were cut"), "{logged}");
}

#[test]
fn connect_is_refused() {
    let stage = Stage::new();
    let tunnel = "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nConnection: close\r\n\r\n";
    assert_eq!(stage.gateway.send_raw(tunnel).status, 501);
    stage.upstream.assert_arrivals(0);
}
