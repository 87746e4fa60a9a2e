//! The `scope` table: whose a request is.

use http::HeaderName;

use super::{At, Fault, header, section::Value};

/// Where the scope of a request comes from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ScopeSource {
    /// All callers are one tenant.
    SingleTenant,
    /// This header, which a trusted proxy sets.
    Header(HeaderName),
}

/// Reads the table; `None` where it is wrong, which is reported.
pub(super) fn read(value: Value<'_>) -> Option<At<ScopeSource>> {
    const REMEDY: &str = "write { header = \"X-Account\" }, set by your authenticating proxy, \
                          or { single_tenant = true } if all callers are one tenant";
    let place = value.place().clone();
    let mut section = value.section("{ header = \"X-Account\" }")?;
    for key in ["jwt", "api_key"] {
        if let Some(value) = section.take(key) {
            value.wrong(Fault::new("it comes with a later version of hapax", REMEDY));
            return None;
        }
    }
    let scope = match (section.take("header"), section.take("single_tenant")) {
        (Some(name), None) => {
            let name = name.parse("a header name", "X-Account", header::scope);
            name.map(|At { place, value }| At { place, value: ScopeSource::Header(value) })
        }
        (None, Some(single)) => match single.boolean() {
            Some(At { value: false, place }) => {
                let what = "without a scope every request would be refused";
                section.report().add(&place, Fault::new(what, REMEDY));
                None
            }
            single => single.map(|_| At { place, value: ScopeSource::SingleTenant }),
        },
        (Some(_), Some(_)) => {
            section.wrong("it names a header and a single tenant", REMEDY);
            None
        }
        (None, None) => {
            section.wrong("it is empty", REMEDY);
            None
        }
    };
    section.finish();
    scope
}
