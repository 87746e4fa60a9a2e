//! Promises of the whole gateway, on a store in memory and byte for byte on the wire, named after
//! the promise.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot go on stops"
)]

mod support;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use hapax::{Hapax, Options, Secrets};
use hapax_core::EffectSecret;
use hapax_gateway::{
    Gateway,
    config::{Config, Environment, Flags},
    server::{ServerLimits, serve},
};
use hapax_store::{ManualClock, MemoryStore, Observations};
use support::{End, RawUpstream, exchange};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

const MADE: &str = "HTTP/1.1 201 Created\r\ncontent-length: 4\r\n\r\nmade";
const KEY: &str = "Idempotency-Key: \"8e03978e-40d5-43e8-bc93-6894a57f9324\"\r\n";
const PAY: &str = "[[operation]]\nname = \"pay\"\nroutes = [\"POST /*\"]\n";
const SINGLE: &str = "scope = { single_tenant = true }\n";

#[tokio::test]
async fn t12_a_deploy_that_drops_a_fingerprinted_header_still_compares_it_for_old_records() {
    let (raw, store) = world().await;
    let with_header = format!("{SINGLE}{PAY}fingerprint = {{ headers = [\"x-amount\"] }}\n");
    let without = format!("{SINGLE}{PAY}fingerprint = {{ headers = [] }}\n");
    let old = gateway(&store, raw.address, &with_header).await;
    let new = gateway(&store.node(), raw.address, &without).await;
    let first = post(old, "/pay", &format!("{KEY}X-Amount: 1\r\n"), "{}").await;
    assert_eq!(status(&first), 201);
    let same = post(new, "/pay", &format!("{KEY}X-Amount: 1\r\n"), "{}").await;
    assert_eq!(status(&same), 201, "the same request is the same intent: {same}");
    let changed = post(new, "/pay", &format!("{KEY}X-Amount: 2\r\n"), "{}").await;
    assert_eq!(status(&changed), 422, "{changed}");
    assert_eq!(raw.connections(), 1);
}

#[tokio::test]
async fn t12_a_deploy_that_adds_a_fingerprinted_header_does_not_hide_what_changed() {
    let (raw, store) = world().await;
    let with_header = format!("{SINGLE}{PAY}fingerprint = {{ headers = [\"x-amount\"] }}\n");
    let without = format!("{SINGLE}{PAY}fingerprint = {{ headers = [] }}\n");
    let old = gateway(&store, raw.address, &with_header).await;
    let new = gateway(&store.node(), raw.address, &without).await;
    // The first had no amount; under the rules it was stored with, one with an amount is another.
    let first = post(old, "/pay", KEY, "{}").await;
    assert_eq!(status(&first), 201);
    let other = post(new, "/pay", &format!("{KEY}X-Amount: 2\r\n"), "{}").await;
    assert_eq!(status(&other), 422, "{other}");
}

#[tokio::test]
async fn t12_a_deploy_that_rewrites_a_route_still_knows_the_retries_of_before() {
    let (raw, store) = world().await;
    let old = format!("{SINGLE}[[operation]]\nname = \"pay\"\nroutes = [\"POST /v1/*\"]\n");
    let new = format!("{SINGLE}[[operation]]\nname = \"pay\"\nroutes = [\"POST /v1/payments\"]\n");
    let old = gateway(&store, raw.address, &old).await;
    let new = gateway(&store.node(), raw.address, &new).await;
    assert_eq!(status(&post(old, "/v1/payments", KEY, "{}").await), 201);
    let retry = post(new, "/v1/payments", KEY, "{}").await;
    assert_eq!(status(&retry), 201, "{retry}");
}

#[tokio::test]
async fn the_service_sees_the_tenant_that_the_record_belongs_to() {
    let (mut raw, store) = world().await;
    let config = format!("scope = {{ header = \"X-Account\" }}\n{PAY}");
    let gateway = gateway(&store, raw.address, &config).await;
    let tricked = format!("{KEY}X-Account: acme\r\nConnection: x-account, close\r\n");
    let answer = post(gateway, "/pay", &tricked, "{}").await;
    if status(&answer) == 201 {
        let arrived = raw.request().await.to_ascii_lowercase();
        assert!(arrived.contains("x-account: acme"), "{arrived}");
    }
}

#[tokio::test]
async fn what_is_compared_is_what_the_service_gets() {
    let (mut raw, store) = world().await;
    let gateway = gateway(&store, raw.address, &format!("{SINGLE}{PAY}")).await;
    let tricked =
        format!("{KEY}Content-Type: application/json\r\nConnection: content-type, close\r\n");
    let answer = post(gateway, "/pay", &tricked, "{}").await;
    if status(&answer) == 201 {
        let arrived = raw.request().await.to_ascii_lowercase();
        assert!(arrived.contains("content-type: application/json"), "{arrived}");
    }
}

#[tokio::test]
async fn two_content_types_never_hide_a_difference() {
    let (raw, store) = world().await;
    let gateway = gateway(&store, raw.address, &format!("{SINGLE}{PAY}")).await;
    let typed =
        |second: &str| format!("{KEY}Content-Type: application/json\r\nContent-Type: {second}\r\n");
    let first = post(gateway, "/pay", &typed("text/plain"), "{}").await;
    let second = post(gateway, "/pay", &typed("application/xml"), "{}").await;
    let statuses = (status(&first), status(&second));
    assert!(matches!(statuses, (201, 422) | (400 | 415, 400 | 415)), "{statuses:?}");
}

#[tokio::test]
async fn the_same_bytes_under_another_coding_are_another_intent() {
    let (raw, store) = world().await;
    let gateway = gateway(&store, raw.address, &format!("{SINGLE}{PAY}")).await;
    let plain = format!("{KEY}Content-Type: text/plain\r\n");
    let coded = format!("{plain}Content-Encoding: gzip\r\n");
    assert_eq!(status(&post(gateway, "/pay", &plain, "abc").await), 201);
    let answer = post(gateway, "/pay", &coded, "abc").await;
    assert_ne!(status(&answer), 201, "replayed to another intent");
}

#[tokio::test]
async fn a_keyed_request_with_trailer_fields_is_refused() {
    let (_raw, store) = world().await;
    // Nobody listens at the discard port: a request that was passed on would be a 503.
    let gateway =
        gateway(&store, SocketAddr::from(([127, 0, 0, 1], 9)), &format!("{SINGLE}{PAY}")).await;
    let request = format!(
        "POST /pay HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{KEY}\
         trailer: hapax-attempt, idempotency-key\r\ntransfer-encoding: chunked\r\n\r\n\
         2\r\n{{}}\r\n0\r\nhapax-attempt: 7\r\nidempotency-key: \"mine\"\r\n\r\n"
    );
    assert_eq!(status(&exchange(gateway, request).await), 400);
}

#[tokio::test]
async fn a_field_that_many_servers_read_as_ours_is_stripped_too() {
    let (mut raw, store) = world().await;
    let gateway = gateway(&store, raw.address, &format!("{SINGLE}{PAY}")).await;
    // CGI, WSGI, Rack and PHP read `_` and `-` in a name as one: HTTP_IDEMPOTENCY_KEY.
    let spoofed = format!("{KEY}Idempotency_Key: mine\r\nHapax_Attempt: 7\r\n");
    assert_eq!(status(&post(gateway, "/pay", &spoofed, "{}").await), 201);
    let arrived = raw.request().await.to_ascii_lowercase();
    assert!(!arrived.contains("idempotency_key"), "{arrived}");
    assert!(!arrived.contains("hapax_attempt"), "{arrived}");
}

#[tokio::test]
async fn p51_a_passed_request_that_was_not_sent_says_nothing_of_its_effect_id() {
    let store = MemoryStore::new(Arc::new(ManualClock::new()));
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let other = "[[operation]]\nname = \"other\"\nroutes = [\"POST /other\"]\n";
    for config in [format!("{SINGLE}{other}"), format!("{SINGLE}{PAY}mode = \"observe\"\n")] {
        let gateway = gateway(&store, nobody, &config).await;
        let answer = post(gateway, "/pay", KEY, "{}").await;
        assert_eq!(status(&answer), 503);
        // An earlier attempt under this key may have gone through and taken effect.
        assert!(!answer.contains("hapax-outcome"), "{answer}");
    }
}

#[tokio::test]
async fn a_waiting_copy_gets_the_retry_after_of_the_refusal_that_it_shares() {
    let busy = "HTTP/1.1 429 Too Many Requests\r\nretry-after: 17\r\ncontent-length: 0\r\n\r\n";
    let raw = RawUpstream::answering(busy, End::Keep).await;
    let store = MemoryStore::new(Arc::new(ManualClock::new()));
    let gateway = gateway(&store, raw.address, &format!("{SINGLE}{PAY}")).await;
    let copies =
        (0..8).map(|_| tokio::spawn(async move { post(gateway, "/pay", KEY, "{}").await }));
    for copy in copies.collect::<Vec<_>>() {
        let answer = copy.await.unwrap();
        if status(&answer) == 429 {
            assert!(answer.contains("retry-after: 17"), "{answer}");
        }
    }
}

#[tokio::test]
async fn the_scope_is_one_nonempty_line_or_nothing_is_executed() {
    let (raw, store) = world().await;
    let config = format!("scope = {{ header = \"X-Account\" }}\n{PAY}");
    let gateway = gateway(&store, raw.address, &config).await;
    for scope in [
        "",
        "X-Account:\r\n",
        "X-Account:  \t \r\n",
        "X-Account: a\r\nX-Account: a\r\n",
        "X-Account: a\r\nX-Account: b\r\n",
    ] {
        let answer = post(gateway, "/pay", &format!("{KEY}{scope}"), "{}").await;
        assert_eq!(status(&answer), 401, "{scope:?}: {answer}");
    }
    assert_eq!(raw.connections(), 0);
}

#[tokio::test]
async fn a_request_that_no_connection_was_there_for_frees_its_key() {
    // A port that does not answer: its queue of connections is full.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let silent = socket.listen(1).unwrap();
    let address = silent.local_addr().unwrap();
    let mut queued = Vec::new();
    while let Ok(Ok(stream)) =
        tokio::time::timeout(Duration::from_millis(200), TcpStream::connect(address)).await
    {
        queued.push(stream);
    }
    let store = MemoryStore::new(Arc::new(ManualClock::new()));
    let config = format!("{SINGLE}{PAY}timeout = \"500ms\"\n");
    let gateway = gateway(&store, address, &config).await;
    let answer = post(gateway, "/pay", KEY, "{}").await;
    assert!(answer.contains("upstream-unreachable"), "not a byte went out: {answer}");
}

#[tokio::test]
async fn observing_knows_that_a_request_that_was_not_sent_had_no_effect() {
    let store = MemoryStore::new(Arc::new(ManualClock::new()));
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let gateway = gateway(&store, nobody, &format!("{SINGLE}{PAY}mode = \"observe\"\n")).await;
    for _ in 0..2 {
        assert_eq!(status(&post(gateway, "/pay", KEY, "").await), 503);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let observed = store.observed(9).await.unwrap();
    // Enforcing would have freed the key and executed the second.
    assert_eq!(observed.iter().map(|seen| seen.duplicates()).sum::<u32>(), 0, "{observed:?}");
}

#[tokio::test]
async fn an_answer_that_nobody_asked_for_never_becomes_somebody_elses() {
    let both = format!("{MADE}HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nothers");
    let raw = RawUpstream::answering(both, End::Keep).await;
    let store = MemoryStore::new(Arc::new(ManualClock::new()));
    let gateway = gateway(&store, raw.address, &format!("{SINGLE}{PAY}")).await;
    for at in 0..50 {
        let key = format!("Idempotency-Key: \"8e03978e-40d5-43e8-bc93-6894a57f{at:04}\"\r\n");
        let answer = post(gateway, "/pay", &key, "{}").await;
        assert!(!answer.contains("others"), "{at}: {answer}");
    }
}

async fn world() -> (RawUpstream, MemoryStore) {
    let store = MemoryStore::new(Arc::new(ManualClock::new()));
    (RawUpstream::answering(MADE, End::Keep).await, store)
}

/// A gateway on a node of the store, and where it listens.
async fn gateway(store: &MemoryStore, upstream: SocketAddr, config: &str) -> SocketAddr {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("hapax.toml");
    // Top-level settings come first; a service is a table like the operations behind it.
    let text = config.replacen(
        "[[operation]]",
        &format!("[[service]]\nupstream = \"http://{upstream}\"\n\n[[operation]]"),
        1,
    );
    std::fs::write(&file, text).unwrap();
    let config = Config::from_file(&file, &Flags::default(), Environment::default());
    let config = config.unwrap_or_else(|error| panic!("{error}"));
    let secrets = Secrets::single(EffectSecret::from_bytes([7; 32]));
    let hapax = Hapax::new(Arc::new(store.clone()), secrets, Options::default());
    let gateway = Gateway::new(config, hapax).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = move |request| {
        let gateway = gateway.clone();
        async move { gateway.answer(request).await }
    };
    tokio::spawn(serve(listener, service, ServerLimits::default(), CancellationToken::new()));
    address
}

async fn post(gateway: SocketAddr, path: &str, fields: &str, body: &str) -> String {
    let close = if fields.contains("Connection:") { "" } else { "connection: close\r\n" };
    let length = body.len();
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: a\r\n{close}{fields}content-length: {length}\r\n\r\n{body}"
    );
    exchange(gateway, request).await
}

fn status(answer: &str) -> u16 {
    answer
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .unwrap_or_else(|| panic!("{answer}"))
}
