//! The scope in claims of a token that is verified (RFC 7519).

use std::{borrow::Cow, time::Duration};

use hapax_core::Scope;
use http::{HeaderMap, HeaderName};
use jsonwebtoken::{
    Algorithm, Validation, decode, decode_header, errors::ErrorKind, get_current_timestamp,
};
use serde_json::Value;

use super::{
    credential::credential,
    jwks::KeySet,
    jwt_keys::{JwtKeys, JwtKeysError},
    refused::Refused,
    verified::Verified,
};
use crate::{
    config::{Claim, JwtSource},
    upstream::Upstream,
};

/// Verifies tokens.
pub(crate) struct Jwt {
    header: HeaderName,
    keys: JwtKeys,
    /// What a token of each accepted algorithm has to say.
    validations: Vec<(Algorithm, Validation)>,
    claims: Vec<Claim>,
    verified: Verified,
}

impl Jwt {
    pub(super) async fn new(
        source: &JwtSource,
        connect_timeout: Duration,
    ) -> Result<Self, JwtKeysError> {
        let keys = JwtKeys::new(&source.keys, &source.algorithms, connect_timeout).await?;
        let validation = |algorithm: &Algorithm| (*algorithm, validation(source, *algorithm));
        Ok(Self {
            header: source.header.clone(),
            keys,
            validations: source.algorithms.iter().map(validation).collect(),
            claims: source.claims.clone(),
            verified: Verified::default(),
        })
    }

    pub(super) const fn header(&self) -> &HeaderName {
        &self.header
    }

    pub(super) const fn is_kept_up_to_date(&self) -> bool {
        !matches!(self.keys, JwtKeys::Shared(_))
    }

    /// The connections to where its keys are fetched.
    pub(super) fn upstream(&self) -> Option<&Upstream> {
        self.keys.upstream()
    }

    /// Whether there was ever a key to verify by.
    pub(super) fn has_begun(&self) -> bool {
        self.keys.has_begun()
    }

    /// Has the keys fetched again, if that may help. Whether they were.
    pub(super) async fn refreshed(&self) -> bool {
        self.keys.refreshed().await
    }

    pub(super) fn scope(&self, headers: &HeaderMap) -> Result<Scope, Refused> {
        let token = credential(headers, &self.header)?;
        let keys = self.keys.current().ok_or(Refused::Unavailable)?;
        if let Some(known) = self.verified.find(token, &keys, get_current_timestamp()) {
            return Ok(known);
        }
        let (claims, leeway) = self.verify(token, &keys)?;
        let scope = self.scope_of(&claims)?;
        // An end that is no whole number is not worth the trouble.
        if let Some(end) = claims.get("exp").and_then(Value::as_u64) {
            self.verified.remember(token, &keys, end.saturating_add(leeway), scope.clone());
        }
        Ok(scope)
    }

    fn scope_of(&self, claims: &Value) -> Result<Scope, Refused> {
        let names = self.claims.iter().map(|claim| name(claims, claim));
        let names = names.collect::<Option<Vec<_>>>().ok_or(Refused::Claim)?;
        let names: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
        Scope::names(&names).map_err(|_| Refused::Claim)
    }

    /// The claims of a token that is right, and for how many seconds after its end it still is.
    fn verify(&self, token: &[u8], keys: &KeySet) -> Result<(Value, u64), Refused> {
        // Nothing of it is believed: it only chooses among what is accepted.
        let header = decode_header(token).map_err(|_| Refused::Malformed)?;
        let accepted = self.validations.iter().find(|(accepted, _)| *accepted == header.alg);
        let (algorithm, validation) = accepted.ok_or(Refused::Algorithm)?;
        let id = header.kid.as_deref();
        if !keys.knows(id) {
            return Err(Refused::UnknownKey);
        }
        let mut refused = Refused::Algorithm;
        for key in keys.candidates(id, *algorithm) {
            match decode::<Value>(token, key, validation) {
                // One issuer makes a token (RFC 7519, section 4.1.1); a list names several.
                Ok(token) if validation.iss.is_some() && token.claims["iss"].is_array() => {
                    return Err(Refused::Issuer);
                }
                Ok(token) => return Ok((token.claims, validation.leeway)),
                Err(error) => refused = reason(error.kind()),
            }
            // Only another key may say something else.
            if refused != Refused::Signature {
                break;
            }
        }
        // The issuer may have made a new key, which others without an id stood in for.
        let may_be_new = refused == Refused::Signature && !keys.names(id);
        Err(if may_be_new { Refused::UnknownKey } else { refused })
    }
}

fn validation(source: &JwtSource, algorithm: Algorithm) -> Validation {
    let mut validation = Validation::new(algorithm);
    validation.leeway = source.clock_skew.as_secs();
    validation.validate_nbf = true;
    let mut required = vec!["exp"];
    if let Some(issuer) = &source.issuer {
        validation.set_issuer(&[issuer]);
        required.push("iss");
    }
    if !source.audience.is_empty() {
        validation.set_audience(&source.audience);
        required.push("aud");
    }
    validation.set_required_spec_claims(&required);
    validation
}

fn reason(error: &ErrorKind) -> Refused {
    match error {
        ErrorKind::InvalidSignature
        | ErrorKind::InvalidKeyFormat
        | ErrorKind::InvalidEcdsaKey
        | ErrorKind::InvalidEddsaKey
        | ErrorKind::InvalidRsaKey(_) => Refused::Signature,
        ErrorKind::ExpiredSignature => Refused::Expired,
        ErrorKind::ImmatureSignature => Refused::NotYetValid,
        ErrorKind::InvalidIssuer => Refused::Issuer,
        ErrorKind::InvalidAudience => Refused::Audience,
        ErrorKind::MissingRequiredClaim(_) | ErrorKind::InvalidClaimFormat(_) => Refused::Claim,
        _ => Refused::Malformed,
    }
}

/// What a claim says: a text, or a whole number as its digits.
fn name<'a>(claims: &'a Value, claim: &Claim) -> Option<Cow<'a, str>> {
    let claim = claim.as_str();
    let value = if claim.starts_with('/') { claims.pointer(claim) } else { claims.get(claim) };
    match value? {
        Value::String(text) => Some(Cow::Borrowed(text)),
        Value::Number(number) if !number.is_f64() => Some(Cow::Owned(number.to_string())),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
