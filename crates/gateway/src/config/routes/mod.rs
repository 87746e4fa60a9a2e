//! Which operation a request belongs to.

use std::{borrow::Cow, cmp::Ordering, collections::HashMap, fmt, sync::Arc};

use http::Method;

use super::Operation;

mod parse;
mod path;

pub(super) use path::{Segment, contains, matches, normalised, overlap};

/// A method and the paths it goes with: `POST /v1/payments/{id}/capture`.
///
/// A segment is literal or `{name}`, which is any one segment that is not empty. `*` at the end is
/// the rest of the path, which may be empty: `/v1/*` goes with `/v1/` and `/v1/a/b`, not with
/// `/v1`. A slash at the end is part of the path. Percent-encoded letters, digits, `-`, `.`, `_`
/// and `~` are the characters themselves (RFC 3986, section 6.2.2.2).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RoutePattern {
    method: Method,
    path: String,
    segments: Vec<Segment>,
}

impl RoutePattern {
    /// The method.
    pub const fn method(&self) -> &Method {
        &self.method
    }

    /// The path's pattern.
    pub fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Whether exactly the same requests are on both routes.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let (one, two) = (&*self.segments, &*other.segments);
        self.method == other.method && contains(one, two) && contains(two, one)
    }

    /// Whether a request could be on both routes with neither being a special case of the other.
    pub(super) fn ambiguous_with(&self, other: &Self) -> bool {
        let (one, other_way) = (&*self.segments, &*other.segments);
        self.method == other.method
            && overlap(one, other_way)
            && contains(one, other_way) == contains(other_way, one)
    }

    fn is_exact(&self) -> bool {
        self.segments.iter().all(|segment| matches!(segment, Segment::Literal(_)))
    }

    /// The more special first.
    fn by_specificity(&self, other: &Self) -> Ordering {
        self.segments.iter().map(Segment::rank).cmp(other.segments.iter().map(Segment::rank))
    }
}

impl fmt::Display for RoutePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}

/// What of a request's path is part of its intent: what the most special of the operation's routes
/// leaves open, so that routes of one operation share one set of keys.
///
/// `POST /v1/payments` and `POST /v2/payments` leave nothing open and are the same intent;
/// `/v1/accounts/{account}` and `/v2/{account}` are for the same account. A `*` leaves the rest
/// open. Names and values are told apart by NUL, which no path has.
pub(super) fn open_part(routes: &[RoutePattern], method: &Method, path: &str) -> String {
    let path = normalised(path);
    let fits =
        |route: &&RoutePattern| route.method == *method && matches(&route.segments, &path);
    let Some(route) = routes.iter().filter(fits).min_by(|a, b| a.by_specificity(b)) else {
        return path.into_owned();
    };
    let mut open = path::parameters(&route.segments, &path);
    open.sort_unstable();
    open.iter().flat_map(|(name, value)| [name, "\0", value, "\0"]).collect()
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
                .find(|(pattern, _)| matches(&pattern.segments, path))
                .map(|(_, operation)| operation)
        })
    }

    pub(super) fn insert(&mut self, route: &RoutePattern, operation: &Arc<Operation>) {
        let routes = self.methods.entry(route.method.clone()).or_default();
        if route.is_exact() {
            routes.exact.insert(route.path.as_str().into(), Arc::clone(operation));
            return;
        }
        let less_special = |(other, _): &(RoutePattern, _)| other.by_specificity(route).is_le();
        let at = routes.patterns.partition_point(less_special);
        routes.patterns.insert(at, (route.clone(), Arc::clone(operation)));
    }
}

#[cfg(test)]
mod tests;
