//! The `scope` table: whose a request is.

mod api_key;
mod client_certificate;
mod jwt;

use std::fmt;

use http::HeaderName;

pub use api_key::ApiKeySource;
pub use client_certificate::CertificateField;
pub use jwt::{Claim, JwtKeySource, JwtSource};

use super::{At, Fault, header, section::Value};

/// Where the scope of a request comes from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ScopeSource {
    /// All callers are one tenant.
    SingleTenant,
    /// This header, which a trusted proxy sets.
    Header(HeaderName),
    /// Claims of a token that is verified.
    Jwt(Box<JwtSource>),
    /// The name of the API key that the request carries.
    ApiKey(ApiKeySource),
    /// This part of the certificate that the caller has proved to hold the key of.
    ClientCertificate(CertificateField),
}

/// In the words of the start.
impl fmt::Display for ScopeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SingleTenant => f.write_str("single tenant"),
            Self::Header(name) => write!(f, "from the header {name}"),
            Self::Jwt(jwt) => write!(f, "from the token in {jwt}"),
            Self::ApiKey(keys) => write!(
                f,
                "from the API key in {}, known by {}",
                keys.header,
                keys.keys_file.display()
            ),
            Self::ClientCertificate(field) => {
                write!(f, "from the {field} of the client's certificate")
            }
        }
    }
}

const REMEDY: &str = "write { header = \"X-Account\" }, set by your authenticating proxy, or \
                      { single_tenant = true } if all callers are one tenant";

/// The keys of the table, one of which is there, and what each names.
const SOURCES: [(&str, &str); 5] = [
    ("header", "a header"),
    ("jwt", "a token"),
    ("api_key", "API keys"),
    ("client_certificate", "client certificates"),
    ("single_tenant", "a single tenant"),
];

/// Reads the table; `None` where it is wrong, which is reported.
pub(super) fn read(value: Value<'_>) -> Option<At<ScopeSource>> {
    let mut section = value.section("{ header = \"X-Account\" }")?;
    let given: Vec<_> = SOURCES
        .into_iter()
        .filter_map(|(key, names)| Some((key, names, section.take(key)?)))
        .collect();
    match &given[..] {
        [] => section.wrong("it is empty", REMEDY),
        [_] => {}
        [(_, one, _), (_, other, _), ..] => {
            section.wrong(format!("it names {one} and {other}"), REMEDY);
        }
    }
    let is_one = given.len() == 1;
    let source = given.into_iter().next().filter(|_| is_one);
    section.finish();
    let (key, _, value) = source?;
    let place = value.place().clone();
    let source = match key {
        "header" => {
            let name = value.parse("a header name", "X-Account", header::scope)?;
            ScopeSource::Header(name.value)
        }
        "jwt" => ScopeSource::Jwt(Box::new(jwt::read(value)?)),
        "api_key" => ScopeSource::ApiKey(api_key::read(value)?),
        "client_certificate" => ScopeSource::ClientCertificate(client_certificate::read(value)?),
        _ => {
            let report = value.report();
            if !value.boolean()?.value {
                let what = "without a scope every request would be refused";
                report.add(&place, Fault::new(what, REMEDY));
                return None;
            }
            ScopeSource::SingleTenant
        }
    };
    Some(At { place, value: source })
}
