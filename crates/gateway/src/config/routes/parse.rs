//! Reading a route.

use http::Method;

use hapax_core::PathPattern;

use super::{RoutePattern, normalised, path::u8_from_hex};
use crate::config::{
    Fault, HostPattern,
    suggest::{nearest, shown},
};

const METHODS: [&str; 9] =
    ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "QUERY", "TRACE"];

impl RoutePattern {
    /// Reads a method, a space and a path, before which a host may stand.
    ///
    /// # Errors
    /// Any other text, with the right way to write it.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        let Some((method, path)) = text.split_once(' ') else {
            return Err(Fault::new(
                format!("{} is not a method and a path", shown(text)),
                "write both, such as \"POST /v1/payments\"",
            ));
        };
        let method = read_method(method)?;
        let (host, path) = split_host(path.trim_start_matches(' '))?;
        let path = normalised(path).into_owned();
        check_path(&path)?;
        Ok(Self { method, host, pattern: PathPattern::new(&path) })
    }
}

/// A host stands before the first slash, and has a dot or brackets: `v1/payments` is a path whose
/// slash was forgotten.
fn split_host(text: &str) -> Result<(Option<HostPattern>, &str), Fault> {
    let at = text.find('/').unwrap_or(text.len());
    let (host, path) = text.split_at(at);
    let is_host = host == "localhost" || host.contains(['.', '[']);
    if path.is_empty() || text.contains("://") || !is_host {
        return Ok((None, text));
    }
    Ok((Some(HostPattern::parse(host)?), path))
}

fn read_method(text: &str) -> Result<Method, Fault> {
    let upper = text.to_ascii_uppercase();
    let did_you_mean = |word: &str| {
        let what = format!("{} is not a method", shown(text));
        Err(Fault::new(what, format!("did you mean {word:?}?")))
    };
    if METHODS.contains(&text) {
        return Method::from_bytes(text.as_bytes()).or_else(|_| did_you_mean("POST"));
    }
    if upper == "CONNECT" {
        return Err(Fault::new("a tunnel is not forwarded", "remove the route"));
    }
    // Methods are case-sensitive, and a slip would leave the route without its requests.
    match nearest(&upper, METHODS) {
        Some(word) => did_you_mean(word),
        None if text != upper => did_you_mean(&upper),
        None => Method::from_bytes(text.as_bytes()).or_else(|_| did_you_mean("POST")),
    }
}

fn check_path(path: &str) -> Result<(), Fault> {
    let wrong = |what: String, help: &str| Err(Fault::new(what, help));
    if path.contains("://") {
        let what = format!("{} is a URL, not a path", shown(path));
        return wrong(what, "write the path alone, such as \"POST /v1/payments\"");
    }
    let Some(rest) = path.strip_prefix('/') else {
        let what = format!("the path {} does not start with a slash", shown(path));
        return wrong(what, "write it whole, such as \"POST /v1/payments\"");
    };
    if path.contains(['?', '#']) {
        let what = format!("the path {} has a query or a fragment", shown(path));
        return wrong(what, "end it before them; a route goes with every query");
    }
    if !path.bytes().all(|byte| byte.is_ascii_graphic()) || has_bad_escape(path) {
        let what = format!("the path {} has a character that no request has", shown(path));
        return wrong(what, "percent-encode it, as in \"POST /caf%C3%A9\"");
    }
    let mut names = Vec::new();
    let count = rest.split('/').count();
    for (at, part) in rest.split('/').enumerate() {
        if is_parameter(part, at + 1 == count)? {
            if names.contains(&part) {
                return wrong(format!("{part} is in the path twice"), "give each its own name");
            }
            names.push(part);
        }
    }
    Ok(())
}

/// Whether a part that is written right is a parameter.
fn is_parameter(part: &str, last: bool) -> Result<bool, Fault> {
    const BRACES: &str = "write {name} for any one segment and * at the end for any rest";
    if part == "*" && last {
        return Ok(false);
    }
    if part.contains('*') {
        let what = format!("{} has a * that is not the last segment by itself", shown(part));
        return Err(Fault::new(what, BRACES));
    }
    if part.starts_with(':') {
        let what = format!("{} would be taken for itself", shown(part));
        return Err(Fault::new(what, BRACES));
    }
    let named = part.strip_prefix('{').and_then(|part| part.strip_suffix('}'));
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    match named {
        Some(name) if is_name(name) => Ok(true),
        None if !part.contains(['{', '}']) => Ok(false),
        _ => Err(Fault::new(format!("{} is not a whole {{name}}", shown(part)), BRACES)),
    }
}

fn has_bad_escape(path: &str) -> bool {
    path.split('%').skip(1).any(|part| part.get(..2).and_then(u8_from_hex).is_none())
}
