//! Which operation a request belongs to.

use std::{borrow::Cow, collections::HashMap, fmt, sync::Arc};

use hapax_core::{PathPattern, PathSegment as Segment};
use http::Method;

use super::{HostPattern, Operation, host::rank};

mod near;
mod parse;
mod path;

pub(super) use near::NearMisses;

pub(super) use path::{contains, normalised, overlap};

/// A method and the paths it goes with, on every host or on some: `POST /v1/payments/{id}/capture`,
/// `POST api.example.com/v1/payments`.
///
/// A segment is literal or `{name}`, which is any one segment that is not empty. `*` at the end is
/// the rest of the path, which may be empty: `/v1/*` goes with `/v1/` and `/v1/a/b`, not with
/// `/v1`. A slash at the end is part of the path. Percent-encoded letters, digits, `-`, `.`, `_`
/// and `~` are the characters themselves (RFC 3986, section 6.2.2.2).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RoutePattern {
    method: Method,
    host: Option<HostPattern>,
    pattern: PathPattern,
}

impl RoutePattern {
    /// The method.
    pub const fn method(&self) -> &Method {
        &self.method
    }

    /// The hosts it is for; `None` is every host.
    pub const fn host(&self) -> Option<&HostPattern> {
        self.host.as_ref()
    }

    /// The path's pattern.
    pub const fn pattern(&self) -> &PathPattern {
        &self.pattern
    }

    pub(super) fn segments(&self) -> &[Segment] {
        self.pattern.segments()
    }

    /// Whether it is for a host, in its one spelling.
    pub(super) fn is_of(&self, host: &str) -> bool {
        self.host.as_ref().is_none_or(|own| own.matches(host))
    }

    /// Whether every path of the other one is a path of this one.
    pub(super) fn contains_paths_of(&self, other: &Self) -> bool {
        contains(self.segments(), other.segments())
    }

    /// Whether exactly the same requests are on both routes.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let (one, two) = (self.segments(), other.segments());
        let same_hosts = self.host == other.host;
        self.method == other.method && same_hosts && contains(one, two) && contains(two, one)
    }

    /// Whether a request could be on both routes with neither being a special case of the other. Of
    /// two hosts that meet one is always the more special.
    pub(super) fn ambiguous_with(&self, other: &Self) -> bool {
        let (one, other_way) = (self.segments(), other.segments());
        self.method == other.method
            && self.host == other.host
            && overlap(one, other_way)
            && contains(one, other_way) == contains(other_way, one)
    }
}

impl fmt::Display for RoutePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            None => write!(f, "{} {}", self.method, self.pattern),
            Some(host) => write!(f, "{} {host}{}", self.method, self.pattern),
        }
    }
}

/// The operations of one service by host, method and path.
///
/// The most special route wins, by its host and then by its path: one host before all below one
/// before every host; literal before `{name}` before `*`, from the first segment on.
/// Routes of two operations that meet with neither being the more special one are refused by the
/// configuration, so the order in the file never matters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Routes {
    /// The more special first.
    hosts: Vec<OfHost>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct OfHost {
    host: Option<HostPattern>,
    methods: HashMap<Method, OfMethod>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct OfMethod {
    exact: HashMap<Box<str>, Arc<Operation>>,
    /// The more special first.
    patterns: Vec<(RoutePattern, Arc<Operation>)>,
}

impl Routes {
    /// The operation of a request, by its method, its host in lower case without a port, and the
    /// path of its target as it came.
    pub fn find(&self, method: &Method, host: &str, path: &str) -> Option<&Arc<Operation>> {
        self.find_spelled(method, host, &normalised(path)).map(|(operation, _)| operation)
    }

    /// The same for a path in its one spelling, with the route where that is a pattern of many
    /// paths.
    pub(super) fn find_spelled(
        &self,
        method: &Method,
        host: &str,
        path: &str,
    ) -> Option<(&Arc<Operation>, Option<&RoutePattern>)> {
        let of_host = |of: &&OfHost| of.host.as_ref().is_none_or(|own| own.matches(host));
        let mut methods = self.hosts.iter().filter(of_host).filter_map(|of| of.methods.get(method));
        methods.find_map(|routes| routes.find(path))
    }

    pub(super) fn insert(&mut self, route: &RoutePattern, operation: &Arc<Operation>) {
        let host = route.host();
        let at = match self.hosts.iter().position(|of| of.host.as_ref() == host) {
            Some(at) => at,
            None => {
                let before = |of: &OfHost| rank(of.host.as_ref()) >= rank(host);
                let at = self.hosts.partition_point(before);
                let new = OfHost { host: host.cloned(), methods: HashMap::new() };
                self.hosts.insert(at, new);
                at
            }
        };
        if let Some(of) = self.hosts.get_mut(at) {
            of.methods.entry(route.method.clone()).or_default().insert(route, operation);
        }
    }
}

impl OfMethod {
    fn find(&self, path: &str) -> Option<(&Arc<Operation>, Option<&RoutePattern>)> {
        if let Some(operation) = self.exact.get(path) {
            return Some((operation, None));
        }
        let found = self.patterns.iter().find(|(route, _)| route.pattern.matches(path));
        found.map(|(route, operation)| (operation, Some(route)))
    }

    fn insert(&mut self, route: &RoutePattern, operation: &Arc<Operation>) {
        if route.pattern.is_exact() {
            self.exact.insert(route.pattern.as_str().into(), Arc::clone(operation));
            return;
        }
        let less_special =
            |(other, _): &(RoutePattern, _)| other.pattern.by_specificity(&route.pattern).is_le();
        let at = self.patterns.partition_point(less_special);
        self.patterns.insert(at, (route.clone(), Arc::clone(operation)));
    }
}

#[cfg(test)]
mod tests;
