//! Header fields that decide something: each has one meaning.

use hapax_core::KeySource;
use http::HeaderName;

use super::{
    At, Fault, Report, ScopeSource,
    draft::{Draft, OperationDraft},
};

/// The field of requests' ids where the file does not name one.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Holds the fields of a configuration against each other.
///
/// A request's id is made where there is none, and made anew where it does not belong into a log: a
/// key or a scope in its field would be invented or replaced, and be in every log.
pub(super) fn check(draft: &Draft, report: &Report) {
    let request_id = draft.request_id.clone().unwrap_or(Some(REQUEST_ID));
    let scope = draft.scope.iter().flatten();
    let scope = scope.filter_map(|At { place, value }| Some((place, carrier(value)?))).next();
    if let Some((place, scope)) = &scope
        && Some(*scope) == request_id.as_ref()
    {
        report.add(place, is_request_id(scope));
    }
    for operation in draft.operations.iter().filter(|operation| operation.enforces()) {
        let key = match &operation.policy.key.from {
            KeySource::Header(name) => Some(name.as_str()),
            KeySource::Body(_) => None,
        };
        let is =
            |field: Option<&HeaderName>| field.is_some_and(|field| key == Some(field.as_str()));
        if let Some(field) = request_id.as_ref().filter(|_| is(request_id.as_ref())) {
            report.add(operation.place_of(&["key.from"]), is_request_id(field));
        }
        if let Some((_, field)) = scope.filter(|(_, field)| is(Some(field))) {
            let what = format!("{field} says whose a request is, and cannot be its key as well");
            let help = "name the field in which callers send a value for each intent";
            report.add(operation.place_of(&["key.from"]), Fault::new(what, help));
        }
        check_compared(operation, request_id.as_ref(), report);
    }
}

fn check_compared(operation: &OperationDraft, id: Option<&HeaderName>, report: &Report) {
    let compared = &operation.policy.fingerprint.headers;
    if let Some(field) = id.filter(|id| compared.iter().any(|name| name == id.as_str())) {
        report.add(operation.place_of(&["fingerprint"]), is_request_id(field));
    }
}

fn is_request_id(field: &HeaderName) -> Fault {
    Fault::new(
        format!("{field} is the field of the request's id, which is made where there is none"),
        "write request_id = \"off\" at the top of the file, or another field there",
    )
}

/// The field that says whose a request is.
fn carrier(scope: &ScopeSource) -> Option<&HeaderName> {
    match scope {
        ScopeSource::Header(name) => Some(name),
        ScopeSource::Jwt(jwt) => Some(&jwt.header),
        ScopeSource::ApiKey(keys) => Some(&keys.header),
        ScopeSource::SingleTenant | ScopeSource::ClientCertificate(_) => None,
    }
}
