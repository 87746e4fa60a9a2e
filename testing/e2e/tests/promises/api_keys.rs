//! Scopes from API keys.

use std::{fs, path::Path};

use hapax_testkit::{
    Gateway, Request, Serve, Upstream, UpstreamKind, eventually, fresh_key, hapax_reading,
};
use tempfile::TempDir;

use crate::SOON;

const ANNAS: &str = "sk_live_51NqT8gK2eZvKYlo2CkR7wXu";
const ANNAS_NEW: &str = "sk_live_0Jm4Hs9dQ6tPzVbYcE3nWa8f";
const BERTS: &str = "4f7c2a9be01d86f35c7790ab12ce84d6f0a35b19c8e27d44";

/// The entry of a key, as the command makes it.
#[track_caller]
fn entry(name: &str, key: &str) -> String {
    let ran = hapax_reading(&format!("{key}\n"), ["keys", "hash", name]);
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert!(!format!("{ran:?}").contains(key), "the key itself is printed: {ran:#?}");
    ran.stdout
}

fn write(dir: &Path, entries: &[String]) {
    fs::write(dir.join("api-keys"), entries.concat()).expect("the file is written");
}

fn scene(entries: &[String]) -> (Gateway, Upstream, TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    let upstream = Upstream::start(dir.path(), UpstreamKind::Plain);
    write(dir.path(), entries);
    let text = "store = \"sqlite:{dir}/hapax.db\"\n\
                scope = { api_key = { header = \"X-Api-Key\", keys_file = \"{dir}/api-keys\" } }\n\
                [[service]]\nupstream = \"{upstream}\"\n";
    let gateway = Serve::configured(dir.path(), &upstream, text).start();
    (gateway, upstream, dir)
}

fn with_key(request: &Request, key: &str) -> Request {
    request.clone().without("x-api-key").header("x-api-key", key)
}

#[test]
fn a_caller_is_whose_the_key_is_and_a_rotated_key_is_the_same_caller() {
    let annas = entry("anna", ANNAS);
    let (gateway, upstream, dir) = scene(&[annas.clone(), entry("bert", BERTS)]);
    let payment = Request::payment(&fresh_key());
    let first = gateway.send(&with_key(&payment, ANNAS));
    first.assert_stored(201);
    gateway.send(&with_key(&payment, BERTS)).assert_stored(201);
    let arrivals = upstream.arrivals();
    assert_eq!(arrivals[0].field("x-api-key"), ANNAS, "the service gets it as it is");
    // A second key of the same name, then the first one no more.
    let new = || gateway.send(&with_key(&payment, ANNAS_NEW));
    new().assert_problem(401, "scope-missing");
    write(dir.path(), &[annas, entry("anna", ANNAS_NEW)]);
    eventually("the new key is known", SOON, || new().status == 201);
    new().assert_replays(&first);
    gateway.send(&with_key(&payment, ANNAS)).assert_replays(&first);
    write(dir.path(), &[entry("anna", ANNAS_NEW)]);
    let old = || gateway.send(&with_key(&payment, ANNAS));
    eventually("the old key is refused", SOON, || old().status == 401);
    new().assert_replays(&first);
    upstream.assert_arrivals(2);
}

#[test]
fn a_keyed_request_without_a_known_api_key_is_refused_and_claims_nothing() {
    let (gateway, upstream, dir) = scene(&[entry("anna", ANNAS)]);
    let payment = Request::payment(&fresh_key());
    let digest = fs::read_to_string(dir.path().join("api-keys")).expect("the file is there");
    let digest = digest.trim().rsplit(':').next().unwrap_or_default().to_owned();
    for request in [
        payment.clone(),
        with_key(&payment, ""),
        with_key(&payment, "anna"),
        with_key(&payment, &digest),
        with_key(&payment, &ANNAS.to_lowercase()),
        with_key(&payment, ANNAS).header("x-api-key", ANNAS),
        with_key(&payment, ANNAS).header("connection", "x-api-key"),
    ] {
        let answer = gateway.send(&request);
        answer.assert_problem(401, "scope-missing");
        assert_eq!(answer.all("www-authenticate").len(), 1, "{answer:?}");
    }
    upstream.assert_arrivals(0);
    assert_eq!(gateway.send(&payment.clone().without("idempotency-key")).status, 201);
    gateway.send(&with_key(&payment, ANNAS)).assert_stored(201);
}

#[test]
fn a_broken_file_of_keys_does_not_start_and_changes_nothing_while_it_runs() {
    let (gateway, _upstream, dir) = scene(&[entry("anna", ANNAS)]);
    write(dir.path(), &["anna = hunter2\n".to_owned()]);
    let failed = || gateway.metric("hapax_scope_keys_loaded_total", &["result=\"failed\""]);
    eventually("it is reported", SOON, || failed() == 1.0);
    let payment = Request::payment(&fresh_key());
    gateway.send(&with_key(&payment, ANNAS)).assert_stored(201);
    let logged = gateway.stderr().join("\n");
    assert!(logged.contains("line 1") && !logged.contains("hunter2"), "{logged}");
    drop(gateway);
    let upstream = Upstream::start(dir.path(), UpstreamKind::Plain);
    let text = "scope = { api_key = { keys_file = \"{dir}/api-keys\" } }\n\
                [[service]]\nupstream = \"{upstream}\"\n";
    let ran = Serve::configured(dir.path(), &upstream, text).run();
    assert_eq!(ran.code, Some(2), "{ran:#?}");
    for word in ["api-keys", "line 1", "hapax keys hash"] {
        assert!(ran.stderr.contains(word), "{word}: {ran:#?}");
    }
}

#[test]
fn no_entry_is_made_of_a_key_that_could_be_guessed() {
    for (name, key, word) in [
        ("anna", "hunter2", "too short or too predictable"),
        ("anna", "", "too short or too predictable"),
        ("anna", "0000000000000000000000000000000000", "too short or too predictable"),
        ("an na", ANNAS, "a name is"),
    ] {
        let ran = hapax_reading(&format!("{key}\n"), ["keys", "hash", name]);
        assert_eq!((ran.code, &*ran.stdout), (Some(2), ""), "{ran:#?}");
        assert!(ran.stderr.contains(word), "{ran:#?}");
        assert!(key.is_empty() || !ran.stderr.contains(key), "{ran:#?}");
    }
}
