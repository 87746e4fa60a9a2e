//! The keys that tokens are verified by (RFC 7517).

use jsonwebtoken::{
    Algorithm, DecodingKey,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse},
};
use serde_json::Value;
use thiserror::Error;

/// The keys that tokens are verified by, and what each is for.
pub(super) struct KeySet {
    keys: Vec<VerifyingKey>,
}

struct VerifyingKey {
    id: Option<String>,
    /// Of its own type, and what it is said to be for.
    algorithms: Vec<Algorithm>,
    key: DecodingKey,
}

/// More keys than any issuer has: a token without a key id is tried with each.
const MOST: usize = 100;

/// The shortest RSA key, in bytes (RFC 7518, section 3.3).
const LEAST_RSA: usize = 2048 / 8;

impl KeySet {
    /// The one key of a secret that is shared with the issuer.
    pub(super) fn shared(key: DecodingKey, algorithms: Vec<Algorithm>) -> Self {
        Self { keys: vec![VerifyingKey { id: None, algorithms, key }] }
    }

    /// The public keys of a JSON Web Key Set that verify one of these algorithms.
    ///
    /// What else is in it is left out, as RFC 7517, section 5, has it: keys for encryption, of
    /// unknown types and curves, too short ones, and secrets, which are shared in another way.
    pub(super) fn parse(content: &[u8], accepted: &[Algorithm]) -> Result<Self, JwksError> {
        let set: Value = serde_json::from_slice(content).map_err(|_| JwksError::NotJson)?;
        let keys = set.get("keys").and_then(Value::as_array).ok_or(JwksError::NotASet)?;
        if keys.len() > MOST {
            return Err(JwksError::TooMany);
        }
        let there = keys.len();
        let keys: Vec<_> =
            keys.iter().filter_map(|key| VerifyingKey::parse(key, accepted)).collect();
        if keys.is_empty() {
            return Err(JwksError::NoneUsable { there });
        }
        Ok(Self { keys })
    }

    /// The keys that a token with this key id and algorithm may have been made with.
    pub(super) fn candidates(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
    ) -> impl Iterator<Item = &DecodingKey> {
        self.named(id).filter(move |key| key.algorithms.contains(&algorithm)).map(|key| &key.key)
    }

    /// Whether any key may be the one that a token names.
    pub(super) fn knows(&self, id: Option<&str>) -> bool {
        self.named(id).next().is_some()
    }

    /// Whether there is the very key that a token names.
    pub(super) fn names(&self, id: Option<&str>) -> bool {
        id.is_some() && self.keys.iter().any(|key| key.id.as_deref() == id)
    }

    /// A key without an id may be any, and a token without one may have been made with any.
    fn named(&self, id: Option<&str>) -> impl Iterator<Item = &VerifyingKey> {
        self.keys.iter().filter(move |key| match (&key.id, id) {
            (Some(key), Some(id)) => key == id,
            _ => true,
        })
    }
}

impl VerifyingKey {
    fn parse(value: &Value, accepted: &[Algorithm]) -> Option<Self> {
        let jwk: Jwk = serde_json::from_value(value.clone()).ok()?;
        let common = &jwk.common;
        let signs = matches!(common.public_key_use, None | Some(PublicKeyUse::Signature));
        let operations = common.key_operations.as_ref();
        let verifies = operations.is_none_or(|all| all.contains(&KeyOperations::Verify));
        if !signs || !verifies {
            return None;
        }
        let said = common.key_algorithm;
        let of_type = algorithms_of(&jwk.algorithm).iter().copied();
        let algorithms: Vec<_> = of_type
            .filter(|algorithm| said.is_none_or(|said| said == (*algorithm).into()))
            .filter(|algorithm| accepted.contains(algorithm))
            .collect();
        if algorithms.is_empty() {
            return None;
        }
        let key = DecodingKey::from_jwk(&jwk).ok()?;
        if let jsonwebtoken::DecodingKeyKind::RsaModulusExponent { n, .. } = key.kind()
            && n.iter().skip_while(|byte| **byte == 0).count() < LEAST_RSA
        {
            return None;
        }
        Some(Self { id: common.key_id.clone(), algorithms, key })
    }
}

/// What a public key of this type and curve verifies (RFC 7518, section 3; RFC 8037). A secret is
/// no public key.
const fn algorithms_of(parameters: &AlgorithmParameters) -> &'static [Algorithm] {
    match parameters {
        AlgorithmParameters::RSA(_) => &[
            Algorithm::RS256,
            Algorithm::RS384,
            Algorithm::RS512,
            Algorithm::PS256,
            Algorithm::PS384,
            Algorithm::PS512,
        ],
        AlgorithmParameters::EllipticCurve(key) => match key.curve {
            EllipticCurve::P256 => &[Algorithm::ES256],
            EllipticCurve::P384 => &[Algorithm::ES384],
            _ => &[],
        },
        AlgorithmParameters::OctetKeyPair(key) => match key.curve {
            EllipticCurve::Ed25519 => &[Algorithm::EdDSA],
            _ => &[],
        },
        _ => &[],
    }
}

/// What is wrong with a JSON Web Key Set. Nothing of it is repeated.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum JwksError {
    /// Not JSON.
    #[error("it is not JSON; a JSON Web Key Set is {{\"keys\": […]}}")]
    NotJson,
    /// Not a set.
    #[error("it has no list of keys; a JSON Web Key Set is {{\"keys\": […]}}")]
    NotASet,
    /// Too many.
    #[error("it has more than {MOST} keys; leave those out that sign no tokens any more")]
    TooMany,
    /// No key that verifies anything.
    #[error(
        "none of its {there} keys verifies a token; it takes public keys (RSA from 2048 bits, \
         P-256, P-384, Ed25519) for signing, of an algorithm in `algorithms`"
    )]
    NoneUsable {
        /// How many there are.
        there: usize,
    },
}
