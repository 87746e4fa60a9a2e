//! Requests that are on no route, and that a service may take for one all the same.

use std::sync::Arc;

use hapax_core::PathPattern;
use http::Method;
use percent_encoding::percent_decode_str;

use super::RoutePattern;
use crate::config::Operation;

/// The routes of protected operations, loosely spelled.
///
/// Many services answer `/v1/payments/`, `//v1/payments` or `/V1/Payments` like `/v1/payments`. Such
/// a request is on no route and would pass without protection.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::config) struct NearMisses(Vec<Near>);

#[derive(Clone, Debug, PartialEq)]
struct Near {
    loose: PathPattern,
    route: RoutePattern,
    operation: Arc<Operation>,
}

impl NearMisses {
    pub(in crate::config) fn insert(&mut self, operation: &Arc<Operation>) {
        self.0.extend(operation.routes.iter().map(|route| Near {
            loose: PathPattern::new(&loosen(route.pattern().as_str())),
            route: route.clone(),
            operation: Arc::clone(operation),
        }));
    }

    /// A route that a service may take this request for, where it and its operation `concern` it.
    pub(in crate::config) fn find(
        &self,
        method: &Method,
        path: &str,
        concern: impl Fn(&RoutePattern, &Operation) -> bool,
    ) -> Option<&RoutePattern> {
        let same_method =
            |near: &&Near| near.route.method().as_str().eq_ignore_ascii_case(method.as_str());
        let near = self.0.iter().filter(same_method);
        let mut near = near.filter(|near| concern(&near.route, &near.operation)).peekable();
        // Most requests end here, before their path is looked at again.
        near.peek()?;
        let path = loosen(path);
        let below = format!("{path}/");
        near.find(|near| near.loose.matches(&path) || near.loose.matches(&below))
            .map(|near| &near.route)
    }
}

/// A path as a forgiving service reads it: decoded, in lower case, without parameters behind `;`,
/// empty and dot segments resolved.
fn loosen(path: &str) -> String {
    let decoded = percent_decode_str(path).decode_utf8_lossy().to_lowercase().replace('\\', "/");
    let mut segments = Vec::new();
    for segment in decoded.split('/') {
        let segment = segment.split(';').next().unwrap_or_default().trim();
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            other => segments.push(other),
        }
    }
    format!("/{}", segments.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_forgiving_service_takes_for_one_path_is_loosely_one() {
        for path in [
            "/v1/payments",
            "/v1/payments/",
            "//v1/payments",
            "/v1//payments",
            "/v1/./payments",
            "/v1/x/../payments",
            "/V1/Payments",
            "/v1%2Fpayments",
            "/v1/%70ayments",
            "/v1/payments;jsessionid=1",
            "/v1\\payments",
            "/v1/payments%20",
            "v1/payments",
        ] {
            assert_eq!(loosen(path), "/v1/payments", "{path}");
        }
        assert_ne!(loosen("/v1/payments.json"), "/v1/payments");
        assert_ne!(loosen("/v1/payments/7"), "/v1/payments");
        assert_eq!(loosen("/../.."), "/");
    }
}
