//! Names of header fields, and what each is fit for.

use hapax::http::headers::never_replayed;
use http::{HeaderName, header};

use super::{Fault, suggest::shown};

/// Fields of the connection and of the message's frame: they are not the caller's to choose.
const FRAMING: [&str; 10] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Fields that mean something to hapax themselves, or to whoever reads the message.
const SPOKEN_FOR: [&str; 20] = [
    "accept",
    "accept-encoding",
    "content-encoding",
    "content-type",
    "early-data",
    "forwarded",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-unmodified-since",
    "origin",
    "prefer",
    "range",
    "set-cookie",
    "traceparent",
    "tracestate",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
];

/// Fields that prove who somebody is.
const CREDENTIALS: [HeaderName; 3] =
    [header::AUTHORIZATION, header::COOKIE, header::PROXY_AUTHORIZATION];

/// The field a caller's identity is in.
pub(super) fn scope(text: &str) -> Result<HeaderName, Fault> {
    let name = parse(text)?;
    if CREDENTIALS.contains(&name) {
        return Err(Fault::new(
            format!("{name} changes when a credential is renewed, and the retry would be new"),
            "name a header in which your authenticating proxy puts a stable identity, \
             such as X-Account",
        ));
    }
    if name == "idempotency-key" || unfit(&name) || spoken_for(&name) {
        return Err(Fault::new(
            format!("{name} does not say who the caller is"),
            "name the header in which your authenticating proxy puts the caller's identity, \
             such as X-Account",
        ));
    }
    Ok(name)
}

/// The field a credential is in that is verified here.
pub(super) fn credential(text: &str) -> Result<HeaderName, Fault> {
    let name = parse(text)?;
    let is_other = name == header::COOKIE || name == header::PROXY_AUTHORIZATION;
    if is_other || name == "idempotency-key" || unfit(&name) {
        let what = format!("{name} carries no credential that is verified here");
        return Err(Fault::new(what, "name its header, such as authorization or x-api-key"));
    }
    Ok(name)
}

/// A field of the request that is repeated in the question whether a caller may see an outcome.
pub(super) fn asked_with(text: &str) -> Result<HeaderName, Fault> {
    let name = parse(text)?;
    if unfit(&name) || name.as_str().starts_with("x-original-") {
        let what = format!("{name} is set by hapax where it asks");
        return Err(Fault::new(what, "remove it"));
    }
    Ok(name)
}

/// The field a key is in, written behind `header:`.
pub(super) fn key(text: &str) -> Result<String, Fault> {
    let name = parse(text)?;
    if CREDENTIALS.contains(&name) || unfit(&name) || spoken_for(&name) {
        let help = "write from = \"header:idempotency-key\"";
        return Err(Fault::new(format!("{name} cannot carry a key"), help));
    }
    Ok(name.as_str().to_owned())
}

/// A field of the answer that is replayed beside the standard ones.
pub(super) fn replayed(text: &str) -> Result<String, Fault> {
    let name = parse(text)?;
    if never_replayed(&name) {
        return Err(Fault::new(
            format!("{name} is never replayed: it belongs to one exchange or one receiver"),
            "remove it",
        ));
    }
    Ok(name.as_str().to_owned())
}

/// A field of the request that is part of the intent.
pub(super) fn fingerprinted(text: &str) -> Result<String, Fault> {
    let name = parse(text)?;
    if CREDENTIALS.contains(&name) || name == "idempotency-key" || unfit(&name) {
        return Err(Fault::new(
            format!(
                "{name} is no part of an intent: it may differ when the same request is retried"
            ),
            "remove it",
        ));
    }
    Ok(name.as_str().to_owned())
}

/// The field that carries a request's id, or `off`.
pub(super) fn request_id(text: &str) -> Result<Option<HeaderName>, Fault> {
    if text == "off" {
        return Ok(None);
    }
    let name = parse(text)?;
    let is_taken = name == "idempotency-key" || unfit(&name) || spoken_for(&name);
    if CREDENTIALS.contains(&name) || is_taken {
        let what = format!("{name} is not for a request's id");
        return Err(Fault::new(what, "write \"x-request-id\", or \"off\""));
    }
    Ok(Some(name))
}

/// Reads a name, in lower case.
pub(super) fn parse(text: &str) -> Result<HeaderName, Fault> {
    HeaderName::from_bytes(text.as_bytes()).map_err(|_| {
        let what = format!("{} is not the name of a header", shown(text));
        Fault::new(what, "write the name alone, such as X-Account")
    })
}

fn unfit(name: &HeaderName) -> bool {
    FRAMING.contains(&name.as_str()) || name.as_str().starts_with("hapax-")
}

fn spoken_for(name: &HeaderName) -> bool {
    SPOKEN_FOR.contains(&name.as_str())
}
