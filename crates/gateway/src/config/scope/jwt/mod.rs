//! `scope = { jwt = … }`: claims of a token that is verified.

mod keys;

use std::{fmt, time::Duration};

use hapax_core::Pointer;
use http::{HeaderName, header::AUTHORIZATION};
use jsonwebtoken::Algorithm;

pub use keys::JwtKeySource;

use crate::config::{At, Fault, header, section::Value, suggest::shown};

/// Tokens: by which keys they are verified, what they have to say, and which of their claims are
/// the scope.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct JwtSource {
    /// The field the token is in. Default: `authorization`, behind `Bearer`.
    pub header: HeaderName,
    /// Where the keys are.
    pub keys: JwtKeySource,
    /// The algorithms that are accepted. Default: `HS256` with a secret, else every one of RSA,
    /// elliptic curves and EdDSA that a key is for.
    pub algorithms: Vec<Algorithm>,
    /// The claims that are the scope together. Default: `sub`.
    pub claims: Vec<Claim>,
    /// The only issuer (`iss`) that is accepted. Default: any.
    pub issuer: Option<String>,
    /// The audiences (`aud`), one of which the token has to name. Default: none; a token that names
    /// any is refused then (RFC 7519, section 4.1.3).
    pub audience: Vec<String>,
    /// How far the clocks of issuer and gateway may be apart. Default: 60 s.
    pub clock_skew: Duration,
}

/// In the words of the start: what a token that is refused may lack.
impl fmt::Display for JwtSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let claims: Vec<_> = self.claims.iter().map(Claim::as_str).collect();
        write!(f, "{}: {}, verified by {}", self.header, claims.join(" and "), self.keys)?;
        match &self.issuer {
            Some(issuer) => write!(f, ", issuer {issuer}")?,
            None => f.write_str(", any issuer")?,
        }
        match &self.audience[..] {
            [] => f.write_str(", no audience"),
            audience => write!(f, ", audience {}", audience.join(" or ")),
        }
    }
}

/// The name of a claim, or with a slash at its beginning a JSON Pointer to a nested one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Claim(String);

impl Claim {
    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn parse(text: &str) -> Result<Self, Fault> {
        const HELP: &str = "write the name of a claim, such as \"sub\", or a JSON Pointer, such as \
                            \"/realm/tenant\"";
        let is_right = match text {
            "" => false,
            _ if text.starts_with('/') => Pointer::parse(text).is_ok(),
            _ => true,
        };
        if !is_right {
            return Err(Fault::new(format!("{} names no claim", shown(text)), HELP));
        }
        // Times and the token's own id differ from token to token: each retry would be new.
        if ["exp", "nbf", "iat", "jti", "aud"].contains(&text) {
            let what = format!("{text} says nothing of who the caller is");
            return Err(Fault::new(what, HELP));
        }
        Ok(Self(text.to_owned()))
    }
}

const ISSUER: &str = "https://issuer.example/";

const EXAMPLE: &str = "{ jwks_file = \"jwks.json\", claim = \"sub\" }";

/// More than this and an expired token is as good as a fresh one.
const MOST_SKEW: Duration = Duration::from_secs(600);

pub(super) fn read(value: Value<'_>) -> Option<JwtSource> {
    let mut section = value.section(EXAMPLE)?;
    let keys = keys::read(&mut section);
    let algorithms = keys::read_algorithms(&mut section, keys.as_ref());
    let claims = match section.take("claim") {
        Some(claims) => read_claims(claims),
        None => vec![Claim("sub".to_owned())],
    };
    let issuer = section.take("issuer").and_then(|issuer| {
        let parse = not_empty("issuer", ISSUER);
        issuer.parse("a text", ISSUER, parse).map(|issuer| issuer.value)
    });
    let audience = section.take("audience").map(|audience| {
        let audience = audience.one_or_more("text", "payments", not_empty("audience", "payments"));
        audience.into_iter().map(|audience| audience.value).collect()
    });
    let audience = audience.unwrap_or_default();
    let clock_skew = section.take("clock_skew").map_or(Duration::from_secs(60), read_skew);
    let header = match section.take("header") {
        Some(name) => name.parse("a header name", "authorization", header::credential),
        None => Some(At { place: section.place().clone(), value: AUTHORIZATION }),
    };
    section.finish();
    let (keys, header) = (keys?, header?.value);
    Some(JwtSource { header, keys, algorithms, claims, issuer, audience, clock_skew })
}

fn read_claims(value: Value<'_>) -> Vec<Claim> {
    let (place, report) = (value.place().clone(), value.report());
    let claims = value.one_or_more("claim", "sub", Claim::parse);
    let claims: Vec<_> = claims.into_iter().map(|claim| claim.value).collect();
    let mut behind = claims.iter().skip(1).enumerate();
    if behind.any(|(before, claim)| claims.iter().take(before + 1).any(|other| other == claim)) {
        report.add(&place, Fault::new("a claim is there twice", "leave one of them out"));
    }
    claims
}

fn read_skew(value: Value<'_>) -> Duration {
    let (place, report) = (value.place().clone(), value.report());
    let skew = value.duration("60s").map(|skew| skew.value).unwrap_or_default();
    if skew > MOST_SKEW {
        let what = "so long after its end a token would still be accepted";
        report.add(&place, Fault::new(what, "write at most \"10m\", such as \"60s\""));
    }
    skew
}

fn not_empty(key: &str, example: &str) -> impl Fn(&str) -> Result<String, Fault> {
    let help = format!("write it as in {key} = {example:?}");
    move |text| match text.trim() {
        "" => Err(Fault::new("it is empty", &*help)),
        _ => Ok(text.to_owned()),
    }
}
