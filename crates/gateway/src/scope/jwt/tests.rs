//! Tokens that are right, and every way in which they are not.

use std::path::Path;

use http::HeaderValue;
use jsonwebtoken::{EncodingKey, Header, encode, get_current_timestamp, jwk::Jwk};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::config::{Config, Environment, Flags, ScopeSource};

const RSA: &[u8] = include_bytes!("../../../../../testing/keys/rsa.pkcs1.der");
const RSA_OTHER: &[u8] = include_bytes!("../../../../../testing/keys/rsa-other.pkcs1.der");
const RSA_1024: &[u8] = include_bytes!("../../../../../testing/keys/rsa-1024.pkcs1.der");
const P256: &[u8] = include_bytes!("../../../../../testing/keys/p256.pkcs8.der");
const P384: &[u8] = include_bytes!("../../../../../testing/keys/p384.pkcs8.der");
const ED25519: &[u8] = include_bytes!("../../../../../testing/keys/ed25519.pkcs8.der");
const SECRET: &[u8] = b"b1946ac92492d2347c6235b4d2611184b1946ac92492d2347c6235b4d2611184";

/// A key pair of an algorithm.
fn signing(algorithm: Algorithm) -> EncodingKey {
    match algorithm {
        Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512 => {
            EncodingKey::from_secret(SECRET).unwrap()
        }
        Algorithm::ES256 => EncodingKey::from_ec_der(P256),
        Algorithm::ES384 => EncodingKey::from_ec_der(P384),
        Algorithm::EdDSA => EncodingKey::from_ed_der(ED25519),
        _ => EncodingKey::from_rsa_der(RSA),
    }
}

/// The public half in a set, with what else it says of itself.
fn public(key: &EncodingKey, algorithm: Algorithm, says: Value) -> Value {
    let jwk = Jwk::from_encoding_key(key, algorithm).unwrap();
    let mut jwk = serde_json::to_value(&jwk).unwrap();
    let members = jwk.as_object_mut().unwrap();
    members.remove("alg");
    members.extend(says.as_object().unwrap().clone());
    jwk
}

fn set(keys: &[Value]) -> String {
    json!({ "keys": keys }).to_string()
}

/// A set of one RSA key without an id.
fn rsa_set() -> String {
    set(&[public(&signing(Algorithm::RS256), Algorithm::RS256, json!({}))])
}

fn now() -> u64 {
    get_current_timestamp()
}

/// Claims that are right, changed by these; `null` takes one away.
fn claims(changes: Value) -> Value {
    let mut claims = json!({ "sub": "anna", "exp": now() + 300 });
    let members = claims.as_object_mut().unwrap();
    for (name, value) in changes.as_object().unwrap() {
        if value.is_null() {
            members.remove(name);
        } else {
            members.insert(name.clone(), value.clone());
        }
    }
    claims
}

fn token(algorithm: Algorithm, id: Option<&str>, claims: &Value) -> String {
    signed(&signing(algorithm), algorithm, id, claims)
}

fn signed(key: &EncodingKey, algorithm: Algorithm, id: Option<&str>, claims: &Value) -> String {
    let mut header = Header::new(algorithm);
    header.kid = id.map(str::to_owned);
    encode(&header, claims, key).unwrap()
}

/// A verifier of a configuration `jwt = { … }` in a directory with this key set, and the secret.
async fn verifier(set: &str, settings: &str) -> Result<Jwt, JwtKeysError> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("jwks.json"), set).unwrap();
    std::fs::write(dir.path().join("jwt.key"), SECRET).unwrap();
    let settings = settings.replace("{dir}", &dir.path().display().to_string());
    let text =
        format!("scope = {{ jwt = {{ {settings} }} }}\n[[service]]\nupstream = \"http://a\"");
    let file = dir.path().join("f.toml");
    std::fs::write(&file, text).unwrap();
    let config = Config::from_file(Path::new(&file), &Flags::default(), Environment::default());
    let config = config.unwrap_or_else(|error| panic!("{error}"));
    let ScopeSource::Jwt(source) = config.scope else { panic!("{:?}", config.scope) };
    Jwt::new(&source, Duration::from_secs(2)).await
}

async fn by_set(set: &str, settings: &str) -> Jwt {
    let settings = format!("jwks_file = \"{{dir}}/jwks.json\", {settings}");
    verifier(set, settings.trim_end_matches(", ")).await.unwrap_or_else(|error| panic!("{error}"))
}

async fn by_secret(settings: &str) -> Result<Jwt, JwtKeysError> {
    let settings = format!("secret = {{ file = \"{{dir}}/jwt.key\" }}, {settings}");
    verifier("", settings.trim_end_matches(", ")).await
}

fn scope(jwt: &Jwt, token: &str) -> Result<Scope, Refused> {
    let mut headers = HeaderMap::new();
    headers.insert("authorization", HeaderValue::try_from(format!("Bearer {token}")).unwrap());
    jwt.scope(&headers)
}

fn anna() -> Result<Scope, Refused> {
    Ok(Scope::principal(b"anna").unwrap())
}

const PUBLIC: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

#[tokio::test]
async fn a_token_of_every_algorithm_is_verified_by_its_key() {
    for algorithm in PUBLIC {
        let key = public(&signing(algorithm), algorithm, json!({}));
        let jwt = by_set(&set(&[key]), "").await;
        let right = token(algorithm, None, &claims(json!({})));
        assert_eq!(scope(&jwt, &right), anna(), "{algorithm:?}");
        let (body, signature) = right.rsplit_once('.').unwrap();
        let first = if signature.starts_with('A') { "B" } else { "A" };
        let changed = format!("{body}.{first}{}", signature.split_at(1).1);
        assert_eq!(scope(&jwt, &changed), Err(Refused::UnknownKey), "{algorithm:?}");
    }
    for (algorithm, name) in
        [(Algorithm::HS256, "HS256"), (Algorithm::HS384, "HS384"), (Algorithm::HS512, "HS512")]
    {
        let jwt = by_secret(&format!("algorithms = [\"{name}\"]")).await.unwrap();
        assert_eq!(scope(&jwt, &token(algorithm, None, &claims(json!({})))), anna(), "{name}");
    }
}

#[tokio::test]
async fn a_token_made_with_a_public_key_as_its_secret_is_refused() {
    let jwt = by_set(&rsa_set(), "").await;
    let key: Value = serde_json::from_str(&rsa_set()).unwrap();
    let n = key["keys"][0]["n"].as_str().unwrap();
    for secret in [n.as_bytes(), rsa_set().as_bytes(), RSA] {
        let secret = EncodingKey::from_secret(secret).unwrap();
        let forged = signed(&secret, Algorithm::HS256, None, &claims(json!({})));
        assert_eq!(scope(&jwt, &forged), Err(Refused::Algorithm));
    }
}

#[tokio::test]
async fn a_token_that_is_not_signed_is_refused() {
    let (by_set, by_secret) = (by_set(&rsa_set(), "").await, by_secret("").await.unwrap());
    let right = token(Algorithm::RS256, None, &claims(json!({})));
    let body = right.split('.').nth(1).unwrap();
    // {"alg":"none"}, {"alg":"None"}, {"alg":"NONE"}
    for header in ["eyJhbGciOiJub25lIn0", "eyJhbGciOiJOb25lIn0", "eyJhbGciOiJOT05FIn0"] {
        for signature in ["", "x", "AAAA"] {
            let unsigned = format!("{header}.{body}.{signature}");
            for jwt in [&by_set, &by_secret] {
                assert_eq!(scope(jwt, &unsigned), Err(Refused::Malformed), "{unsigned}");
            }
        }
    }
}

#[tokio::test]
async fn a_key_verifies_what_it_says_it_is_for_and_only_what_is_accepted() {
    let rsa = |says| public(&signing(Algorithm::RS256), Algorithm::RS256, says);
    let [rs256, ps256] = [Algorithm::RS256, Algorithm::PS256];
    let right = |algorithm| token(algorithm, None, &claims(json!({})));
    let jwt = by_set(&set(&[rsa(json!({ "alg": "PS256" }))]), "").await;
    assert_eq!(scope(&jwt, &right(ps256)), anna());
    assert_eq!(scope(&jwt, &right(rs256)), Err(Refused::Algorithm));
    let jwt = by_set(&rsa_set(), "algorithms = [\"RS256\"]").await;
    assert_eq!(scope(&jwt, &right(rs256)), anna());
    assert_eq!(scope(&jwt, &right(ps256)), Err(Refused::Algorithm));
    // RFC 7518, section 3.4: the curve is the algorithm's.
    let p256 = public(&signing(Algorithm::ES256), Algorithm::ES256, json!({}));
    let jwt = by_set(&set(&[p256]), "").await;
    assert_eq!(scope(&jwt, &right(Algorithm::ES384)), Err(Refused::Algorithm));
}

#[tokio::test]
async fn keys_that_verify_nothing_are_left_out_and_a_set_of_them_is_said_to_be_of_no_use() {
    let rsa = |says| public(&signing(Algorithm::RS256), Algorithm::RS256, says);
    let short = public(&EncodingKey::from_rsa_der(RSA_1024), Algorithm::RS256, json!({}));
    let useless = [
        rsa(json!({ "use": "enc" })),
        rsa(json!({ "key_ops": ["encrypt"] })),
        rsa(json!({ "alg": "RSA-OAEP" })),
        short,
        json!({ "kty": "oct", "k": "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0" }),
        json!({ "kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA" }),
        json!({ "kty": "OKP", "crv": "X25519", "x": "AA" }),
        json!({ "kty": "PQ" }),
        json!(7),
    ];
    for key in &useless {
        let parsed = KeySet::parse(set(std::slice::from_ref(key)).as_bytes(), &PUBLIC);
        let error = parsed.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.starts_with("none of its 1 keys verifies a token"), "{key}: {error}");
    }
    let mut with_one: Vec<_> = useless.into();
    with_one.push(rsa(json!({ "use": "sig", "key_ops": ["verify"] })));
    let jwt = by_set(&set(&with_one), "").await;
    assert_eq!(scope(&jwt, &token(Algorithm::RS256, None, &claims(json!({})))), anna());
    for (text, expected) in [
        ("", "it is not JSON"),
        ("[]", "it has no list of keys"),
        ("{}", "it has no list of keys"),
        ("{\"keys\": 1}", "it has no list of keys"),
        ("{\"keys\": []}", "none of its 0 keys"),
        (&set(&vec![json!({}); 101]), "it has more than 100 keys"),
    ] {
        let parsed = KeySet::parse(text.as_bytes(), &PUBLIC);
        let error = parsed.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[tokio::test]
async fn a_token_is_right_within_its_time_and_the_skew_of_clocks() {
    let jwt = by_set(&rsa_set(), "clock_skew = \"30s\"").await;
    for (changes, expected) in [
        (json!({ "exp": now() - 10 }), anna()),
        (json!({ "exp": now() - 60 }), Err(Refused::Expired)),
        (json!({ "exp": 0 }), Err(Refused::Expired)),
        (json!({ "exp": null }), Err(Refused::Claim)),
        (json!({ "exp": "tomorrow" }), Err(Refused::Claim)),
        (json!({ "exp": -1 }), Err(Refused::Claim)),
        (json!({ "nbf": now() + 10 }), anna()),
        (json!({ "nbf": now() + 60 }), Err(Refused::NotYetValid)),
        (json!({ "nbf": "tomorrow" }), Err(Refused::Claim)),
    ] {
        let token = token(Algorithm::RS256, None, &claims(changes.clone()));
        assert_eq!(scope(&jwt, &token), expected, "{changes}");
    }
}

#[tokio::test]
async fn a_token_for_somebody_else_or_of_somebody_else_is_refused() {
    let settings = "issuer = \"https://id.example\", audience = [\"payments\", \"refunds\"]";
    let jwt = by_set(&rsa_set(), settings).await;
    let right = json!({ "iss": "https://id.example", "aud": "payments" });
    for (changes, expected) in [
        (json!({}), anna()),
        (json!({ "aud": ["other", "refunds"] }), anna()),
        (json!({ "aud": "other" }), Err(Refused::Audience)),
        (json!({ "aud": ["other"] }), Err(Refused::Audience)),
        (json!({ "aud": [] }), Err(Refused::Audience)),
        (json!({ "aud": null }), Err(Refused::Claim)),
        (json!({ "aud": 7 }), Err(Refused::Claim)),
        (json!({ "iss": "https://id.example/" }), Err(Refused::Issuer)),
        (json!({ "iss": ["https://id.example", "https://evil.example"] }), Err(Refused::Issuer)),
        (json!({ "iss": null }), Err(Refused::Claim)),
        (json!({ "iss": 7 }), Err(Refused::Claim)),
    ] {
        let mut all = right.clone();
        all.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        let token = token(Algorithm::RS256, None, &claims(all));
        assert_eq!(scope(&jwt, &token), expected, "{changes}");
    }
    // RFC 7519, section 4.1.3: whoever is not named by an audience refuses the token.
    let jwt = by_set(&rsa_set(), "").await;
    let for_another = token(Algorithm::RS256, None, &claims(json!({ "aud": "other" })));
    assert_eq!(scope(&jwt, &for_another), Err(Refused::Audience));
}

#[tokio::test]
async fn the_scope_is_what_the_claims_say_and_nothing_where_one_says_none() {
    let jwt = by_set(&rsa_set(), "claim = [\"tenant\", \"/user/id\"]").await;
    let of = |changes| scope(&jwt, &token(Algorithm::RS256, None, &claims(changes)));
    let names = |names: &[&str]| Ok(Scope::names(names).unwrap());
    let acme = of(json!({ "tenant": "acme", "user": { "id": 42 } }));
    assert_eq!(acme, names(&["acme", "42"]));
    let divided = of(json!({ "tenant": "acme4", "user": { "id": "2" } }));
    assert_eq!(divided, names(&["acme4", "2"]));
    assert_ne!(divided, acme);
    for changes in [
        json!({}),
        json!({ "tenant": "acme" }),
        json!({ "tenant": "", "user": { "id": 42 } }),
        json!({ "tenant": true, "user": { "id": 42 } }),
        json!({ "tenant": "acme", "user": { "id": 4.5 } }),
        json!({ "tenant": "acme", "user": { "id": ["42"] } }),
        json!({ "tenant": "x".repeat(1025), "user": { "id": 42 } }),
    ] {
        assert_eq!(of(changes.clone()), Err(Refused::Claim), "{changes}");
    }
    let url = by_set(&rsa_set(), "claim = \"https://acme.example/tenant\"").await;
    let named = claims(json!({ "https://acme.example/tenant": "anna" }));
    assert_eq!(scope(&url, &token(Algorithm::RS256, None, &named)), anna());
}

#[tokio::test]
async fn the_key_that_a_token_names_verifies_it_and_one_that_is_not_there_is_unknown() {
    let other = EncodingKey::from_rsa_der(RSA_OTHER);
    let jwks = set(&[
        public(&signing(Algorithm::RS256), Algorithm::RS256, json!({ "kid": "a" })),
        public(&other, Algorithm::RS256, json!({ "kid": "b" })),
    ]);
    let jwt = by_set(&jwks, "").await;
    let rs256 = Algorithm::RS256;
    let by_first = |id| token(rs256, id, &claims(json!({})));
    let by_other = |id| signed(&other, rs256, id, &claims(json!({})));
    assert_eq!(scope(&jwt, &by_first(Some("a"))), anna());
    assert_eq!(scope(&jwt, &by_other(Some("b"))), anna());
    assert_eq!(scope(&jwt, &by_other(Some("a"))), Err(Refused::Signature));
    assert_eq!(scope(&jwt, &by_other(Some("c"))), Err(Refused::UnknownKey));
    // Without an id, any may be the one.
    assert_eq!(scope(&jwt, &by_first(None)), anna());
    assert_eq!(scope(&jwt, &by_other(None)), anna());
    // A key without an id may be any.
    assert_eq!(scope(&by_set(&rsa_set(), "").await, &by_first(Some("a"))), anna());
}

#[tokio::test]
async fn a_known_token_is_over_when_its_time_is() {
    let jwt = by_set(&rsa_set(), "clock_skew = \"0s\"").await;
    let short = token(Algorithm::RS256, None, &claims(json!({ "exp": now() + 1 })));
    assert_eq!(scope(&jwt, &short), anna());
    let over = async {
        while scope(&jwt, &short).is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), over).await.unwrap();
    assert_eq!(scope(&jwt, &short), Err(Refused::Expired));
}

#[tokio::test]
async fn a_token_may_be_in_a_field_of_its_own() {
    let jwt = by_set(&rsa_set(), "header = \"x-id-token\"").await;
    let right = token(Algorithm::RS256, None, &claims(json!({})));
    let mut headers = HeaderMap::new();
    assert_eq!(jwt.scope(&headers), Err(Refused::Missing));
    headers.insert("authorization", HeaderValue::try_from(format!("Bearer {right}")).unwrap());
    assert_eq!(jwt.scope(&headers), Err(Refused::Missing));
    headers.insert("x-id-token", HeaderValue::try_from(right).unwrap());
    assert_eq!(jwt.scope(&headers), anna());
}

#[tokio::test]
async fn a_secret_that_is_too_short_or_not_there_does_not_start() {
    let refused = |result: Result<Jwt, JwtKeysError>| result.err().unwrap().to_string();
    let dir = "secret = { file = \"{dir}/nothing\" }";
    assert!(refused(verifier("", dir).await).contains("cannot be read"));
    let unset = "secret = { env = \"HAPAX_TEST_NO_SUCH_SECRET\" }";
    assert!(refused(verifier("", unset).await).contains("is not set"));
    let short = "secret = { file = \"{dir}/jwks.json\" }, algorithms = [\"HS256\", \"HS512\"]";
    let error = refused(verifier("  forty characters are less than 64 bytes.\n", short).await);
    assert!(error.starts_with("the secret has 40 bytes, and its algorithm needs 64"), "{error}");
    assert!(!error.contains("forty"));
}

proptest! {
    /// Whatever a caller sends is refused, and nothing of it stops the gateway.
    #[test]
    fn no_field_is_taken_for_a_token_that_was_not_signed(
        field in "(Bearer )?[\\x21-\\x7e]{0,200}(\\.[\\x21-\\x7e]{0,50}){0,4}",
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let jwt = runtime.block_on(by_set(&rsa_set(), ""));
        let mut headers = HeaderMap::new();
        headers.insert("authorization", HeaderValue::try_from(field).unwrap());
        prop_assert!(jwt.scope(&headers).is_err());
    }
}
