//! The services behind the gateway.

use http::Uri;

use super::{
    At, Fault, RoutePattern, Routes, address, draft::ServiceDraft, routes, section::Section,
    suggest::shown,
};
use hapax_core::PathSegment as Segment;
use routes::{contains, normalised, overlap};

/// A service behind the gateway, and the operations that happen there.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// Where it listens: `http://host:port`, and nothing more.
    pub upstream: Uri,
    /// The paths that are its: this one and all below. Starts with a slash, and ends with one only
    /// where it is `/`, every path. It stays in the path when a request is passed on.
    pub prefix: String,
    /// Its operations. A request on none of these routes passes through unprotected.
    pub routes: Routes,
}

impl Service {
    /// The upstream as records remember it: `http://host:port`.
    pub fn origin(&self) -> String {
        address::origin(&self.upstream)
    }

    /// Whether a path, in its one spelling, is below the prefix.
    pub(super) fn takes(&self, path: &str) -> bool {
        let rest = path.strip_prefix(self.prefix.trim_end_matches('/'));
        rest.is_some_and(|rest| self.prefix == "/" || rest.is_empty() || rest.starts_with('/'))
    }
}

/// Reads one `[[service]]` table.
pub(super) fn read(mut section: Section<'_>) -> ServiceDraft {
    section.refuse_later(&["authorize", "cors", "host", "tls"]);
    let upstream = section.take("upstream");
    if upstream.is_none() {
        section.wrong("it has no upstream", "add upstream = \"http://127.0.0.1:3000\"");
    }
    let upstream = upstream.and_then(|value| -> Option<At<Uri>> {
        value.parse("a URL", "http://127.0.0.1:3000", address::upstream)
    });
    let prefix = match section.take("prefix") {
        Some(value) => value.parse("a path", "/v1", prefix),
        None => Some(At { place: section.place().clone(), value: String::new() }),
    };
    section.finish();
    ServiceDraft { upstream, prefix }
}

/// Reads a prefix; without the slash at its end, so that `""` is every path.
pub(super) fn prefix(text: &str) -> Result<String, Fault> {
    const EXAMPLE: &str = "write a path that starts with a slash, such as \"/v1\"";
    if !text.starts_with('/') {
        return Err(Fault::new(format!("{} does not start with a slash", shown(text)), EXAMPLE));
    }
    let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'?' | b'#' | b'*' | b'{');
    if !text.bytes().all(plain) || text.contains("//") {
        return Err(Fault::new(format!("{} is not a plain path", shown(text)), EXAMPLE));
    }
    Ok(normalised(text).trim_end_matches('/').to_owned())
}

/// Which of the prefixes some request on a route is under, by the longest that it has.
pub(super) fn reached(prefixes: &[&str], route: &RoutePattern) -> Vec<usize> {
    let route = route.segments();
    let reaches = |at: &usize| {
        let prefix = prefixes.get(*at).copied().unwrap_or_default();
        let longer = prefixes.iter().filter(|other| is_below(other, prefix));
        under(prefix).iter().any(|own| overlap(own, route))
            && !longer.into_iter().any(|other| under(other).iter().any(|own| contains(own, route)))
    };
    (0..prefixes.len()).filter(reaches).collect()
}

fn is_below(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'))
}

/// The patterns that are exactly the paths of a prefix.
fn under(prefix: &str) -> Vec<Vec<Segment>> {
    let own: Vec<Segment> =
        prefix.split('/').skip(1).map(|part| Segment::Literal(part.into())).collect();
    let below = own.iter().cloned().chain([Segment::Rest]).collect();
    if own.is_empty() { vec![below] } else { vec![own, below] }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Otherwise a request that looks protected would pass through unprotected.
        #[test]
        fn every_service_that_gets_a_request_of_a_route_is_reached(
            prefixes in prop::collection::hash_set("(/[ab]){0,2}", 1..4),
            route in "/(a|b|\\{x\\}|)(/(a|b|\\{y\\}|))?(/(a|b|\\{z\\}|))?(/\\*)?",
            path in "(/[ab]{0,1}){1,4}",
        ) {
            let prefixes: Vec<&str> = prefixes.iter().map(String::as_str).collect();
            let route = RoutePattern::parse(&format!("POST {route}")).expect("a route");
            let under = |prefix: &&&str| path == **prefix || is_below(&path, prefix);
            let taker = prefixes.iter().filter(under).max_by_key(|prefix| prefix.len());
            if let Some(taker) = taker.filter(|_| route.pattern().matches(&path)) {
                let reached = reached(&prefixes, &route);
                prop_assert!(reached.iter().any(|at| prefixes.get(*at) == Some(taker)));
            }
        }
    }
}
