use std::{fs, path::Path};

use rcgen::{CertificateParams, KeyPair};

use super::*;

/// A certificate for this name, in two files.
fn issue(dir: &Path, name: &str) -> ServerTlsConfig {
    let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
    let key = KeyPair::generate().expect("a key");
    let certificate = params.self_signed(&key).expect("a certificate");
    fs::write(dir.join("tls.pem"), certificate.pem()).expect("written");
    fs::write(dir.join("tls.key"), key.serialize_pem()).expect("written");
    ServerTlsConfig {
        certificate: PemSource::File(dir.join("tls.pem")),
        key: PemSource::File(dir.join("tls.key")),
        clients: None,
    }
}

#[test]
fn early_data_is_off_on_both_sides() {
    let dir = tempfile::tempdir().expect("a directory");
    let config = issue(dir.path(), "a.test");
    let upstream =
        UpstreamTlsConfig { ca: Some(config.certificate.clone()), ..UpstreamTlsConfig::default() };
    let server = ServerTls::load("callers", config).expect("right");
    assert_eq!(server.config().max_early_data_size, 0);
    let upstream = UpstreamTls::load("a.test", upstream).expect("right");
    assert!(!upstream.config().enable_early_data && !upstream.http_1().enable_early_data);
}

#[test]
fn what_changes_is_taken_over_whole_or_not_at_all() {
    let dir = tempfile::tempdir().expect("a directory");
    let config = issue(dir.path(), "a.test");
    let tls = ServerTls::load("callers", config).expect("right");
    let certificates = Certificates::new([tls.clone()], Vec::new);
    let first = tls.config();
    let is_first = || Arc::ptr_eq(&first, &tls.config());

    assert!(certificates.reload() && is_first(), "nothing has changed");
    // The certificate is there before its key is.
    let old_key = fs::read(dir.path().join("tls.key")).expect("readable");
    issue(dir.path(), "b.test");
    let new_key = fs::read(dir.path().join("tls.key")).expect("readable");
    fs::write(dir.path().join("tls.key"), old_key).expect("written");
    assert!(!certificates.reload() && is_first());
    assert!(!certificates.reload(), "it is still wrong");
    fs::write(dir.path().join("tls.key"), new_key).expect("written");
    assert!(certificates.reload() && !is_first());

    let second = tls.config();
    fs::remove_file(dir.path().join("tls.pem")).expect("removed");
    assert!(!certificates.reload() && Arc::ptr_eq(&second, &tls.config()));
}

#[test]
fn a_name_that_no_certificate_is_for_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let ca = Some(issue(dir.path(), "a.test").certificate);
    let server_name = Some("a b".to_owned());
    let error = UpstreamTls::load("a.test", UpstreamTlsConfig { ca, client: None, server_name });
    assert!(matches!(error, Err(TlsError::ServerName { name }) if name == "a b"));
}
