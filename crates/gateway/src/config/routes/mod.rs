//! Which operation a request belongs to.

use std::{borrow::Cow, collections::HashMap, fmt, sync::Arc};

use hapax_core::{PathPattern, PathSegment as Segment};
use http::Method;

use super::Operation;

mod near;
mod parse;
mod path;

pub(super) use near::NearMisses;

pub(super) use path::{contains, normalised, overlap};

/// A method and the paths it goes with: `POST /v1/payments/{id}/capture`.
///
/// A segment is literal or `{name}`, which is any one segment that is not empty. `*` at the end is
/// the rest of the path, which may be empty: `/v1/*` goes with `/v1/` and `/v1/a/b`, not with
/// `/v1`. A slash at the end is part of the path. Percent-encoded letters, digits, `-`, `.`, `_`
/// and `~` are the characters themselves (RFC 3986, section 6.2.2.2).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RoutePattern {
    method: Method,
    pattern: PathPattern,
}

impl RoutePattern {
    /// The method.
    pub const fn method(&self) -> &Method {
        &self.method
    }

    /// The path's pattern.
    pub const fn pattern(&self) -> &PathPattern {
        &self.pattern
    }

    pub(super) fn segments(&self) -> &[Segment] {
        self.pattern.segments()
    }

    /// Whether exactly the same requests are on both routes.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let (one, two) = (self.segments(), other.segments());
        self.method == other.method && contains(one, two) && contains(two, one)
    }

    /// Whether a request could be on both routes with neither being a special case of the other.
    pub(super) fn ambiguous_with(&self, other: &Self) -> bool {
        let (one, other_way) = (self.segments(), other.segments());
        self.method == other.method
            && overlap(one, other_way)
            && contains(one, other_way) == contains(other_way, one)
    }
}

impl fmt::Display for RoutePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.pattern)
    }
}

/// The operations of one service by method and path.
///
/// The most special route wins: literal before `{name}` before `*`, from the first segment on.
/// Routes of two operations that meet with neither being the more special one are refused by the
/// configuration, so the order in the file never matters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Routes {
    methods: HashMap<Method, OfMethod>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct OfMethod {
    exact: HashMap<Box<str>, Arc<Operation>>,
    /// The more special first.
    patterns: Vec<(RoutePattern, Arc<Operation>)>,
}

impl Routes {
    /// The operation of a request, by its method and the path of its target as it came.
    pub fn find(&self, method: &Method, path: &str) -> Option<&Arc<Operation>> {
        self.find_spelled(method, &normalised(path))
    }

    /// The same for a path in its one spelling.
    pub(super) fn find_spelled(&self, method: &Method, path: &str) -> Option<&Arc<Operation>> {
        let routes = self.methods.get(method)?;
        routes.exact.get(path).or_else(|| {
            let mut patterns = routes.patterns.iter();
            patterns
                .find(|(pattern, _)| pattern.pattern.matches(path))
                .map(|(_, operation)| operation)
        })
    }

    pub(super) fn insert(&mut self, route: &RoutePattern, operation: &Arc<Operation>) {
        let routes = self.methods.entry(route.method.clone()).or_default();
        if route.pattern.is_exact() {
            routes.exact.insert(route.pattern.as_str().into(), Arc::clone(operation));
            return;
        }
        let less_special =
            |(other, _): &(RoutePattern, _)| other.pattern.by_specificity(&route.pattern).is_le();
        let at = routes.patterns.partition_point(less_special);
        routes.patterns.insert(at, (route.clone(), Arc::clone(operation)));
    }
}

#[cfg(test)]
mod tests;
