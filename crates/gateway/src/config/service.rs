//! The services behind the gateway.

use http::Uri;

use super::{
    At, Fault, HostPattern, RoutePattern, Routes, address,
    draft::ServiceDraft,
    host::{covers, meet, rank},
    operation, routes,
    section::Section,
    suggest::{choice, shown},
    tls,
};
use crate::{tls::UpstreamTlsConfig, upstream::Protocol};
use hapax_core::{OperationName, PathSegment as Segment};
use routes::{contains, normalised, overlap};

/// A service behind the gateway, and the operations that happen there.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// What records know it by; without one it is where it listens.
    pub name: Option<OperationName>,
    /// Where it listens: `http://host:port` or `https://host:port`, and nothing more.
    pub upstream: Uri,
    /// The hosts that are its; `None` is every host.
    pub host: Option<HostPattern>,
    /// The paths that are its: this one and all below. Starts with a slash, and ends with one only
    /// where it is `/`, every path. It stays in the path when a request is passed on.
    pub prefix: String,
    /// Which version of HTTP it is spoken to in. Default: it is negotiated over TLS, HTTP/1.1
    /// otherwise.
    pub protocol: Protocol,
    /// How it is checked where it is `https`, and what it is shown.
    pub tls: UpstreamTlsConfig,
    /// Its operations. A request on none of these routes passes through unprotected.
    pub routes: Routes,
}

impl Service {
    /// What records know it by: one that is the same is the same service.
    pub fn identity(&self) -> String {
        self.name.as_ref().map_or_else(|| self.origin(), ToString::to_string)
    }

    /// Where it listens: `http://host:port` or `https://host:port`.
    pub fn origin(&self) -> String {
        address::origin(&self.upstream)
    }

    /// Whether a host and a path, each in its one spelling, are its.
    pub(super) fn takes(&self, host: &str, path: &str) -> bool {
        if self.host.as_ref().is_some_and(|own| !own.matches(host)) {
            return false;
        }
        let rest = path.strip_prefix(self.prefix.trim_end_matches('/'));
        rest.is_some_and(|rest| self.prefix == "/" || rest.is_empty() || rest.starts_with('/'))
    }
}

/// Reads one `[[service]]` table.
pub(super) fn read(mut section: Section<'_>) -> ServiceDraft {
    section.refuse_later(&["cors"]);
    let name = section.take("name").and_then(|value| value.parse("a name", "payments", name));
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
    let host = section.take("host");
    let host = host.map(|value| value.parse("a host", "api.example.com", HostPattern::parse));
    let protocol = section.take("protocol").and_then(|value| {
        const WORDS: [(&str, Protocol); 3] =
            [("auto", Protocol::Negotiated), ("http1", Protocol::Http1), ("h2c", Protocol::Http2)];
        value.parse("a word", "auto", |text| choice(text, &WORDS))
    });
    let tls = section.take("tls").and_then(tls::read_upstream);
    let authorize = section.take("authorize").and_then(operation::read_authorize);
    let place = section.place().clone();
    section.finish();
    let name = name.map(|at| at.value);
    ServiceDraft { place, name, upstream, prefix, host, protocol, tls, authorize }
}

fn name(text: &str) -> Result<OperationName, Fault> {
    OperationName::new(text).map_err(|error| {
        Fault::new(format!("{} is not a name: {error}", shown(text)), "write it as in \"payments\"")
    })
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

/// The requests that a service takes, unless another is more special.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area<'a> {
    /// `None` is every host.
    pub(super) host: Option<&'a HostPattern>,
    /// Without the slash at its end: `""` is every path.
    pub(super) prefix: &'a str,
}

/// Which of the areas some request on a route is in, by the most special host and then the longest
/// prefix that it has. One too many is possible where areas overlap in both ways, never one too few.
pub(super) fn reached(areas: &[Area<'_>], route: &RoutePattern) -> Vec<usize> {
    let path = route.segments();
    let takes = |area: &Area<'_>| {
        meet(area.host, route.host()) && under(area.prefix).iter().any(|own| overlap(own, path))
    };
    let reaches = |at: &usize| {
        let Some(area) = areas.get(*at) else { return false };
        // All of the route's requests that are in the area, and another takes before it.
        let hosts = if covers(area.host, route.host()) { route.host() } else { area.host };
        let takes_all_before = |other: &Area<'_>| {
            covers(other.host, hosts)
                && other.goes_before(area)
                && under(other.prefix).iter().any(|own| contains(own, path))
        };
        takes(area) && !areas.iter().any(takes_all_before)
    };
    (0..areas.len()).filter(reaches).collect()
}

impl Area<'_> {
    fn goes_before(&self, other: &Self) -> bool {
        let order = |area: &Self| (rank(area.host), area.prefix.len());
        order(self) > order(other)
    }
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

    fn is_below(path: &str, prefix: &str) -> bool {
        path.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'))
    }

    proptest! {
        /// Otherwise a request that looks protected would pass through unprotected.
        #[test]
        fn every_service_that_gets_a_request_of_a_route_is_reached(
            areas in prop::collection::hash_set(("(|x\\.a|\\*\\.a|\\*\\.x\\.a)", "(/[ab]){0,2}"), 1..5),
            route_host in "(|x\\.a|\\*\\.a|y\\.x\\.a)",
            route in "/(a|b|\\{x\\}|)(/(a|b|\\{y\\}|))?(/(a|b|\\{z\\}|))?(/\\*)?",
            host in "(a|x\\.a|y\\.x\\.a|z\\.a)",
            path in "(/[ab]{0,1}){1,4}",
        ) {
            let hosts: Vec<_> =
                areas.iter().map(|(host, _)| HostPattern::parse(host).ok()).collect();
            let areas: Vec<_> = areas
                .iter()
                .zip(&hosts)
                .map(|((_, prefix), host)| Area { host: host.as_ref(), prefix })
                .collect();
            let route = RoutePattern::parse(&format!("POST {route_host}{route}")).expect("a route");
            let takes = |at: &usize| {
                let Area { host: own, prefix } = areas[*at];
                own.is_none_or(|own| own.matches(&host))
                    && (path == prefix || is_below(&path, prefix))
            };
            let taker = (0..areas.len())
                .filter(takes)
                .max_by_key(|at| (rank(areas[*at].host), areas[*at].prefix.len()));
            let is_on = route.is_of(&host) && route.pattern().matches(&path);
            if let Some(taker) = taker.filter(|_| is_on) {
                prop_assert!(reached(&areas, &route).contains(&taker));
            }
        }
    }
}
