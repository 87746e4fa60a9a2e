//! Scopes from client certificates, and questions that hapax asks over TLS.

use std::path::Path;

use hapax_testkit::{
    Authority, Gateway, Issuer, Request, Serve, TlsClient, Upstream, UpstreamKind, fresh_key,
};
use tempfile::TempDir;

/// A gateway that knows callers by a field of their certificate.
fn scene(authority: &Authority, scope: &str) -> (Gateway, Upstream, TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    let upstream = Upstream::start(dir.path(), UpstreamKind::Plain);
    authority.issue(dir.path(), "gateway", &["gateway.test"]);
    authority.write(&dir.path().join("callers.pem"));
    let text = format!(
        "store = \"sqlite:{{dir}}/hapax.db\"\nscope = {{ client_certificate = {{ {scope} }} }}\n\
         [tls]\ncertificate = \"{{dir}}/gateway.pem\"\nkey = \"{{dir}}/gateway.key\"\n\
         client_ca = \"{{dir}}/callers.pem\"\nclient_certificates = \"optional\"\n\
         [[service]]\nupstream = \"{{upstream}}\"\n"
    );
    let gateway = Serve::configured(dir.path(), &upstream, &text).start();
    (gateway, upstream, dir)
}

fn caller(authority: &Authority, dir: &Path, name: &str, names: &[&str]) -> TlsClient {
    TlsClient::new(authority, Some(&authority.issue(dir, name, names)))
}

#[test]
fn a_caller_is_whose_certificate_it_shows_and_a_renewed_one_is_the_same_caller() {
    let authority = Authority::new();
    let (gateway, upstream, dir) = scene(&authority, "field = \"san_uri\"");
    let issue = |file: &str, names: &[&str]| caller(&authority, dir.path(), file, names);
    let payment = Request::payment(&fresh_key());
    let send = |client: &TlsClient| gateway.send_tls(client, &payment).expect("an answer");
    let first = send(&issue("first", &["spiffe://acme/billing"]));
    first.assert_stored(201);
    send(&issue("renewed", &["spiffe://acme/billing", "billing.acme"])).assert_replays(&first);
    send(&issue("other", &["spiffe://acme/refunds"])).assert_stored(201);
    upstream.assert_effects(2);
    // Who shows none, or one that says it twice, is nobody.
    let two = issue("two", &["spiffe://acme/billing", "spiffe://acme/refunds"]);
    for nobody in [&TlsClient::new(&authority, None), &two, &issue("none", &["billing.acme"])] {
        send(nobody).assert_problem(401, "scope-missing");
        let unkeyed = payment.clone().without("idempotency-key");
        assert_eq!(gateway.send_tls(nobody, &unkeyed).expect("an answer").status, 201);
    }
    upstream.assert_arrivals(5);
}

#[test]
fn the_subject_is_the_scope_as_it_is_written() {
    let authority = Authority::new();
    let (gateway, _upstream, dir) = scene(&authority, "field = \"subject\"");
    let key = fresh_key();
    let payment = Request::payment(&key);
    let client = caller(&authority, dir.path(), "billing", &[]);
    gateway.send_tls(&client, &payment).expect("an answer").assert_stored(201);
    let config = dir.path().join("hapax.toml").display().to_string();
    let shown = hapax_testkit::hapax([
        "records",
        "show",
        "--config",
        &config,
        "--key",
        &key,
        "--scope",
        "CN=billing",
    ]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
}

#[test]
fn keys_of_tokens_and_permissions_are_asked_for_over_tls() {
    let dir = tempfile::tempdir().expect("a directory");
    let (ours, theirs) = (Authority::new(), Authority::new());
    let pair = ours.issue(dir.path(), "id", &["127.0.0.1"]);
    ours.write(&dir.path().join("ours.pem"));
    theirs.write(&dir.path().join("theirs.pem"));
    let asked = Upstream::start_tls(dir.path(), &pair, None);
    let key_set = Issuer::key_set(&[Issuer::First]);
    asked.script("jwks.json", &format!("status 200; body text {key_set}"));
    asked.script("may", "status 403; body empty");
    let services = tempfile::tempdir().expect("a directory");
    let upstream = Upstream::start(services.path(), UpstreamKind::Plain);
    let start = |ca: &str| {
        let ca = dir.path().join(ca).display().to_string();
        let text = format!(
            "store = \"sqlite:{{dir}}/{}.db\"\n\
             scope = {{ jwt = {{ jwks_url = \"{url}/jwks.json\", tls = {{ ca = \"{ca}\" }} }} }}\n\
             [[service]]\nupstream = \"{{upstream}}\"\n\
             authorize = {{ url = \"{url}/may\", tls = {{ ca = \"{ca}\" }} }}\n",
            fresh_key(),
            url = asked.url(),
        );
        Serve::configured(services.path(), &upstream, &text).start()
    };
    let token = format!("Bearer {}", Issuer::First.token("anna"));
    let payment = Request::payment(&fresh_key()).header("authorization", &token);
    let gateway = start("ours.pem");
    gateway.send(&payment).assert_stored(201);
    gateway.send(&payment).assert_problem(403, "replay-forbidden");
    asked.script("may", "status 204; body empty");
    assert!(gateway.send(&payment).is_replay());
    drop(gateway);
    // Keys of somebody that nobody vouches for are no keys.
    let deceived = start("theirs.pem");
    deceived.send(&payment).assert_problem(503, "scope-unavailable");
    upstream.assert_arrivals(1);
}
