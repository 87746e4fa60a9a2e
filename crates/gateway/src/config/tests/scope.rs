//! `scope = { … }`, where callers prove who they are.

use std::time::Duration;

use jsonwebtoken::Algorithm;

use super::*;

fn source(scope: &str) -> ScopeSource {
    let text = format!("scope = {scope}\n[[service]]\nupstream = \"http://a\"");
    load(&text, &Flags::default()).unwrap_or_else(|error| panic!("{error}")).scope
}

/// What is wrong with a scope, without the place that all have in common.
fn wrong(scope: &str) -> String {
    let text = format!("scope = {scope}\n[[service]]\nupstream = \"http://a\"");
    errors(&text).replace("f.toml:1: scope", "").replace("\n  help: ", " -> ")
}

fn jwt(settings: &str) -> JwtSource {
    match source(&format!("{{ jwt = {{ {settings} }} }}")) {
        ScopeSource::Jwt(jwt) => *jwt,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_token_needs_a_key_set_and_the_rest_is_said_by_defaults() {
    let plain = jwt("jwks_file = \"jwks.json\"");
    assert_eq!(plain.header, "authorization");
    assert_eq!(plain.keys, JwtKeySource::File("jwks.json".into()));
    assert_eq!(plain.claims.iter().map(Claim::as_str).collect::<Vec<_>>(), ["sub"]);
    assert_eq!((plain.issuer, plain.audience.len()), (None, 0));
    assert_eq!(plain.clock_skew, Duration::from_secs(60));
    assert!(!plain.algorithms.contains(&Algorithm::HS256) && plain.algorithms.len() == 9);
    let full = jwt("jwks_url = \"http://127.0.0.1:1/k\", algorithms = [\"RS256\", \"EdDSA\"], \
         claim = [\"tenant\", \"/user/id\"], issuer = \"https://id\", audience = \"pay\", \
         clock_skew = \"5s\", header = \"X-Token\", refresh = \"1m\", keep_stale = \"1h\"");
    assert_eq!(full.algorithms, [Algorithm::RS256, Algorithm::EdDSA]);
    assert_eq!(full.header, "x-token");
    assert_eq!(
        (full.issuer.as_deref(), &full.audience[..]),
        (Some("https://id"), &["pay".to_owned()][..])
    );
    let JwtKeySource::Url { url, refresh, keep_stale } = full.keys else { panic!("{full:?}") };
    assert_eq!(url.to_string(), "http://127.0.0.1:1/k");
    assert_eq!([refresh, keep_stale].map(|time| time.as_secs()), [60, 3600]);
    let secret = jwt("secret = { env = \"JWT_SECRET\" }, audience = [\"a\", \"b\"]");
    assert_eq!(secret.keys, JwtKeySource::Secret(SecretSource::Env("JWT_SECRET".to_owned())));
    assert_eq!((secret.algorithms, secret.audience.len()), (vec![Algorithm::HS256], 2));
}

#[test]
fn api_keys_need_their_file() {
    let ScopeSource::ApiKey(keys) = source("{ api_key = { keys_file = \"api-keys\" } }") else {
        panic!("API keys")
    };
    assert_eq!((keys.header.as_str(), keys.keys_file), ("x-api-key", "api-keys".into()));
    let own = "{ api_key = { header = \"Authorization\", keys_file = \"api-keys\" } }";
    assert!(matches!(source(own), ScopeSource::ApiKey(keys) if keys.header == "authorization"));
}

#[test]
fn the_start_says_what_a_token_is_held_against() {
    let source = |settings: &str| source(&format!("{{ jwt = {{ {settings} }} }}")).to_string();
    assert_eq!(
        source("jwks_file = \"jwks.json\", claim = [\"tenant\", \"sub\"], issuer = \"https://id\""),
        "from the token in authorization: tenant and sub, verified by jwks.json, issuer \
         https://id, no audience"
    );
    assert_eq!(
        source("secret = { file = \"s\" }, audience = [\"pay\", \"refund\"]"),
        "from the token in authorization: sub, verified by a shared secret, any issuer, audience \
         pay or refund"
    );
}

#[test]
fn whatever_is_wrong_with_a_token_is_said_with_its_remedy() {
    const KEYS: &str = "write one of jwks_file = \"jwks.json\", jwks_url = \"https://…\" and secret \
                        = { file = \"/etc/hapax/jwt.key\" }";
    const CLAIM: &str = "write the name of a claim, such as \"sub\", or a JSON Pointer, such as \
                         \"/realm/tenant\"";
    for (settings, expected) in [
        ("", format!(".jwt: nothing says by which keys a token is verified -> {KEYS}")),
        (
            "jwks_file = \"a\", secret = { env = \"A\" }",
            format!(".jwt: it names more than one place for the keys of tokens -> {KEYS}"),
        ),
        (
            "jwks_file = \"\"",
            ".jwt.jwks_file: the path is empty -> name a file, such as \"jwks.json\"".to_owned(),
        ),
        ("jwks_url = \"https://id.example/jwks.json\"", "nothing".to_owned()),
        (
            "jwks_url = \"https://id.example/k\", tls = { ca = \"/etc/id.pem\" }",
            "nothing".to_owned(),
        ),
        (
            "jwks_url = \"http://localhost/k\", tls = { ca = \"/etc/id.pem\" }",
            ".jwt.tls: it says how TLS is checked, and the URL has none -> write https://, or \
             remove it"
                .to_owned(),
        ),
        (
            "jwks_url = \"http://id.example/jwks.json\"",
            ".jwt.jwks_url: whoever is on the way could put keys of its own into a key set that \
             comes without TLS -> write https://; on a network you trust, add allow_http = true"
                .to_owned(),
        ),
        ("jwks_url = \"http://id.example/jwks.json\", allow_http = true", "nothing".to_owned()),
        (
            "secret = \"hunter2\"",
            ".jwt.secret: a secret does not stand in the configuration itself -> write { file = \
             \"/etc/hapax/jwt.key\" } or { env = \"JWT_SECRET\" }"
                .to_owned(),
        ),
        (
            "jwks_file = \"a\", algorithms = [\"HS256\"]",
            ".jwt.algorithms: HS256 is verified by a shared secret, and public keys are no secret \
             -> remove it; with a shared secret write secret = { file = … }, and no key set"
                .to_owned(),
        ),
        (
            "secret = { env = \"A\" }, algorithms = [\"RS256\"]",
            ".jwt.algorithms: RS256 is verified by a public key, and a secret is none -> remove \
             it; with public keys write jwks_file or jwks_url, and no secret"
                .to_owned(),
        ),
        (
            "jwks_file = \"a\", algorithms = [\"none\"]",
            ".jwt.algorithms: \"none\" is no algorithm that is verified -> write HS256, HS384, \
             HS512, RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384 or EdDSA"
                .to_owned(),
        ),
        (
            "jwks_file = \"a\", algorithms = []",
            ".jwt.algorithms: without an algorithm no token is right -> write those of your \
             issuer, as in [\"RS256\"]"
                .to_owned(),
        ),
        ("jwks_file = \"a\", claim = \"\"", format!(".jwt.claim: \"\" names no claim -> {CLAIM}")),
        (
            "jwks_file = \"a\", claim = \"/a~2\"",
            format!(".jwt.claim: \"/a~2\" names no claim -> {CLAIM}"),
        ),
        (
            "jwks_file = \"a\", claim = [\"sub\", \"jti\"]",
            format!(".jwt.claim: jti says nothing of who the caller is -> {CLAIM}"),
        ),
        (
            "jwks_file = \"a\", claim = []",
            ".jwt.claim: the list is empty -> write one, as in claim = \"sub\"".to_owned(),
        ),
        (
            "jwks_file = \"a\", claim = [\"sub\", \"sub\"]",
            ".jwt.claim: a claim is there twice -> leave one of them out".to_owned(),
        ),
        (
            "jwks_file = \"a\", claim = 7",
            ".jwt.claim: a whole number stands where a claim, or a list of them, belongs -> write \
             it as in claim = \"sub\""
                .to_owned(),
        ),
        (
            "jwks_file = \"a\", issuer = \" \"",
            ".jwt.issuer: it is empty -> write it as in issuer = \"https://issuer.example/\""
                .to_owned(),
        ),
        (
            "jwks_file = \"a\", audience = \"\"",
            ".jwt.audience: it is empty -> write it as in audience = \"payments\"".to_owned(),
        ),
        (
            "jwks_file = \"a\", clock_skew = \"11m\"",
            ".jwt.clock_skew: so long after its end a token would still be accepted -> write at \
             most \"10m\", such as \"60s\""
                .to_owned(),
        ),
        (
            "jwks_file = \"a\", refresh = \"1m\"",
            ".jwt.refresh: it has a meaning only where the keys are behind a jwks_url -> remove it"
                .to_owned(),
        ),
        (
            "jwks_url = \"http://localhost/k\", refresh = \"1s\"",
            ".jwt.refresh: the keys would be fetched again and again -> write at least \"10s\", \
             such as \"5m\"; an unknown key is fetched at once"
                .to_owned(),
        ),
        (
            "jwks_url = \"http://localhost/k\", keep_stale = \"1m\"",
            ".jwt.keep_stale: the keys would be given up before they are fetched again -> make it \
             at least as long as refresh, such as \"24h\""
                .to_owned(),
        ),
        (
            "jwks_file = \"a\", header = \"Cookie\"",
            ".jwt.header: cookie carries no credential that is verified here -> name its header, \
             such as authorization or x-api-key"
                .to_owned(),
        ),
        (
            "jwks_file = \"a\", isuer = \"x\"",
            ".jwt.isuer: there is no such key in scope.jwt -> did you mean \"issuer\"?".to_owned(),
        ),
    ] {
        let message = wrong(&format!("{{ jwt = {{ {settings} }} }}"));
        assert_eq!(message, expected, "{settings}");
        assert!(!message.contains("hunter2"));
    }
}

#[test]
fn whatever_is_wrong_with_another_source_is_said_with_its_remedy() {
    for (scope, expected) in [
        (
            "{ api_key = {} }",
            ".api_key: it has no keys_file -> write it as in { header = \"x-api-key\", keys_file = \
             \"api-keys\" }",
        ),
        (
            "{ api_key = { keys_file = \"a\", header = \"Host\" } }",
            ".api_key.header: host carries no credential that is verified here -> name its \
             header, such as authorization or x-api-key",
        ),
        (
            "{ client_certificate = {} }",
            ".client_certificate: it has no field -> write { field = \"subject\" }",
        ),
        (
            "{ client_certificate = { field = \"san_url\" } }",
            ".client_certificate.field: \"san_url\" is not \"subject\" or \"san_uri\" or \
             \"san_dns\" or \"fingerprint\" -> did you mean \"san_uri\"?",
        ),
        (
            "{ client_certificate = { field = \"subject\" } }",
            ".client_certificate: callers are not asked for certificates, so every request would \
             be refused -> add a [tls] table with certificate, key and client_ca, the authorities \
             that vouch for callers",
        ),
        (
            "{ jwt = {}, api_key = {} }",
            ": it names a token and API keys -> write { header = \"X-Account\" }, set by your \
             authenticating proxy, or { single_tenant = true } if all callers are one tenant",
        ),
    ] {
        assert_eq!(wrong(scope), expected, "{scope}");
    }
}

#[test]
fn a_client_certificate_is_the_scope_where_callers_are_asked_for_one() {
    let text = "scope = { client_certificate = { field = \"san_uri\" } }\n\
                [[service]]\nupstream = \"http://a\"\n\
                [tls]\ncertificate = \"a.pem\"\nkey = \"a.key\"\n";
    assert!(errors(text).contains("callers are not asked for certificates"));
    let config = load(&format!("{text}client_ca = \"callers.pem\"\n"), &Flags::default());
    let scope = config.unwrap_or_else(|error| panic!("{error}")).scope;
    assert_eq!(scope, ScopeSource::ClientCertificate(CertificateField::SanUri));
}
