//! An issuer of tokens.

use std::time::{Duration, SystemTime};

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, jwk::Jwk};
use serde_json::{Value, json};

/// Signs tokens with one key, which has an id.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Issuer {
    /// With RSA (RS256).
    First,
    /// With an elliptic curve (ES256).
    Second,
    /// With EdDSA.
    Third,
}

impl Issuer {
    /// A key set with the public keys of these issuers.
    pub fn key_set(issuers: &[Self]) -> String {
        let public = |issuer: &Self| {
            let (algorithm, id, key) = issuer.key();
            let mut jwk = Jwk::from_encoding_key(&key, algorithm).expect("a key pair");
            jwk.common.key_id = Some(id.to_owned());
            serde_json::to_value(jwk).expect("JSON")
        };
        json!({ "keys": issuers.iter().map(public).collect::<Vec<_>>() }).to_string()
    }

    /// A token that is right for five minutes.
    pub fn token(self, subject: &str) -> String {
        self.token_of(&json!({ "sub": subject, "exp": in_seconds(300) }))
    }

    /// A token with these claims.
    pub fn token_of(self, claims: &Value) -> String {
        let (algorithm, id, key) = self.key();
        let mut header = Header::new(algorithm);
        header.kid = Some(id.to_owned());
        encode(&header, claims, &key).expect("a token")
    }

    fn key(self) -> (Algorithm, &'static str, EncodingKey) {
        match self {
            Self::First => {
                let der = include_bytes!("../../keys/rsa.pkcs1.der");
                (Algorithm::RS256, "first", EncodingKey::from_rsa_der(der))
            }
            Self::Second => {
                let der = include_bytes!("../../keys/p256.pkcs8.der");
                (Algorithm::ES256, "second", EncodingKey::from_ec_der(der))
            }
            Self::Third => {
                let der = include_bytes!("../../keys/ed25519.pkcs8.der");
                (Algorithm::EdDSA, "third", EncodingKey::from_ed_der(der))
            }
        }
    }
}

/// So many seconds from now, as tokens say it.
fn in_seconds(seconds: u64) -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    now.as_secs() + seconds
}
