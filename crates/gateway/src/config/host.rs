//! Hosts, and what a pattern of them goes with.

use std::{borrow::Cow, fmt, net::Ipv6Addr};

use http::{header::HOST, request::Parts, uri::Authority};

use super::{Fault, suggest::shown};

/// The hosts that a service or a route is for: one (`api.example.com`), or all below one
/// (`*.example.com`, by one label or more). In lower case, without a port: hosts are compared in any
/// case, and the port of a request's `Host` takes no part.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum HostPattern {
    /// Every host below this one, but not this one.
    Below(Box<str>),
    /// This host.
    Exact(Box<str>),
}

impl HostPattern {
    /// Reads a host or `*.host`.
    ///
    /// # Errors
    /// Any other text, with the right way to write it.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        const EXAMPLE: &str =
            "write a host such as \"api.example.com\", or \"*.example.com\" for all below one";
        let wrong = |what: &str| Err(Fault::new(format!("{} {what}", shown(text)), EXAMPLE));
        if text.contains("://") || text.contains('/') {
            return wrong("is more than a host");
        }
        let (below, host) = match text.strip_prefix("*.") {
            Some(host) => (true, host),
            None => (false, text),
        };
        let without_port = host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok());
        if without_port.is_some() && !host.ends_with(']') {
            return wrong("has a port, which takes no part in the choice");
        }
        if !host.is_ascii() {
            return wrong("has letters that a Host field writes in another form (xn--…)");
        }
        let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        if !is_name(&host) && (below || !is_ipv6(&host)) {
            return wrong("is not the name of a host");
        }
        let host = host.into_boxed_str();
        Ok(if below { Self::Below(host) } else { Self::Exact(host) })
    }

    /// Whether a host, in its one spelling, is one of these.
    pub fn matches(&self, host: &str) -> bool {
        match self {
            Self::Exact(own) => **own == *host,
            Self::Below(parent) => is_below(host, parent),
        }
    }

    /// Whether every host of the other is one of these.
    fn contains(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Exact(one), Self::Exact(other)) => one == other,
            (Self::Exact(_), Self::Below(_)) => false,
            (Self::Below(_), Self::Exact(other)) => self.matches(other),
            (Self::Below(one), Self::Below(other)) => one == other || is_below(other, one),
        }
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(host) => f.write_str(host),
            Self::Below(parent) => write!(f, "*.{parent}"),
        }
    }
}

/// Whether some host is one of both; `None` is every host.
pub(super) fn meet(one: Option<&HostPattern>, other: Option<&HostPattern>) -> bool {
    // Of two that meet one always contains the other.
    covers(one, other) || covers(other, one)
}

/// Whether every host of `inner` is one of `outer`; `None` is every host.
pub(super) fn covers(outer: Option<&HostPattern>, inner: Option<&HostPattern>) -> bool {
    match (outer, inner) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(outer), Some(inner)) => outer.contains(inner),
    }
}

/// How special a pattern is: a host before all below one, the longer before the shorter, every host
/// last.
pub(super) fn rank(host: Option<&HostPattern>) -> (u8, usize) {
    match host {
        None => (0, 0),
        Some(HostPattern::Below(parent)) => (1, parent.len()),
        Some(HostPattern::Exact(_)) => (2, 0),
    }
}

/// The host that a request is for, in its one spelling; empty where it names none. `None` where
/// what it names is no host (RFC 9112, section 3.2).
pub(crate) fn of_request(head: &Parts) -> Option<Cow<'_, str>> {
    if let Some(authority) = head.uri.authority() {
        return has_right_port(authority).then(|| spelled(authority.host()));
    }
    let field = head.headers.get(HOST).map_or(&b""[..], |value| value.as_bytes());
    if field.is_empty() {
        return Some(Cow::Borrowed(""));
    }
    let text = std::str::from_utf8(field).ok()?;
    let authority = Authority::try_from(text).ok()?;
    if text.contains('@') || authority.host().is_empty() || !has_right_port(&authority) {
        return None;
    }
    text.get(..authority.host().len()).map(spelled)
}

/// Whether what stands behind the host is a port, or nothing (RFC 3986, section 3.2.3).
fn has_right_port(authority: &Authority) -> bool {
    let whole = authority.as_str();
    let rest = whole.rsplit_once('@').map_or(whole, |(_, host)| host);
    let rest = rest.get(authority.host().len()..).unwrap_or_default();
    match rest.strip_prefix(':') {
        None => rest.is_empty(),
        Some(port) => {
            port.bytes().all(|byte| byte.is_ascii_digit())
                && (port.is_empty() || port.parse::<u16>().is_ok())
        }
    }
}

/// A host in lower case, without the dot that may end it.
fn spelled(host: &str) -> Cow<'_, str> {
    let host = host.strip_suffix('.').unwrap_or(host);
    if host.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(host.to_ascii_lowercase())
    } else {
        Cow::Borrowed(host)
    }
}

fn is_below(host: &str, parent: &str) -> bool {
    host.strip_suffix(parent)
        .and_then(|label| label.strip_suffix('.'))
        .is_some_and(|l| !l.is_empty())
}

fn is_name(host: &str) -> bool {
    let is_label = |label: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        (1..=63).contains(&label.len()) && label.bytes().all(plain)
    };
    host.len() <= 253 && host.split('.').all(is_label)
}

fn is_ipv6(host: &str) -> bool {
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    inner.is_some_and(|address| address.parse::<Ipv6Addr>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Option<HostPattern> {
        (!text.is_empty()).then(|| HostPattern::parse(text).expect(text))
    }

    #[test]
    fn a_pattern_goes_with_its_hosts_and_no_others() {
        for (text, host, expected) in [
            ("api.example.com", "api.example.com", true),
            ("API.Example.com.", "api.example.com", true),
            ("api.example.com", "example.com", false),
            ("*.example.com", "api.example.com", true),
            ("*.example.com", "a.b.example.com", true),
            ("*.example.com", "example.com", false),
            ("*.example.com", ".example.com", false),
            ("*.example.com", "badexample.com", false),
            ("[::1]", "[::1]", true),
            ("localhost", "localhost", true),
        ] {
            assert_eq!(pattern(text).expect("one").matches(host), expected, "{text} {host}");
        }
    }

    #[test]
    fn of_two_patterns_that_meet_one_covers_the_other() {
        let all = ["", "a.b", "x.a.b", "y.x.a.b", "*.a.b", "*.x.a.b", "*.b", "c"];
        let hosts = ["a.b", "x.a.b", "y.x.a.b", "z.y.x.a.b", "b", "c", ""];
        let is_of = |pattern: &Option<HostPattern>, host: &str| {
            pattern.as_ref().is_none_or(|pattern| pattern.matches(host))
        };
        for (one, other) in
            all.iter().flat_map(|one| all.map(|other| (pattern(one), pattern(other))))
        {
            let common = hosts.iter().any(|host| is_of(&one, host) && is_of(&other, host));
            let (a, b) = (one.as_ref(), other.as_ref());
            assert_eq!(meet(a, b), common, "{one:?} {other:?}");
            if common && !covers(a, b) {
                assert!(rank(a) > rank(b), "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn what_is_no_host_is_refused_with_a_remedy() {
        for (text, what) in [
            ("https://a.b", "is more than a host"),
            ("a.b/v1", "is more than a host"),
            ("a.b:8443", "has a port, which takes no part in the choice"),
            ("bücher.de", "has letters that a Host field writes in another form (xn--…)"),
            ("", "is not the name of a host"),
            ("*", "is not the name of a host"),
            ("a.*.b", "is not the name of a host"),
            ("*.[::1]", "is not the name of a host"),
            ("a b", "is not the name of a host"),
        ] {
            let fault = HostPattern::parse(text).expect_err(text);
            assert_eq!(fault.what, format!("{text:?} {what}"));
        }
    }

    #[test]
    fn a_request_names_its_host_in_its_target_or_its_field() {
        for (target, field, expected) in [
            ("/x", Some("API.example.com:8080"), Some("api.example.com")),
            ("/x", Some("api.example.com."), Some("api.example.com")),
            ("/x", Some("[::1]:80"), Some("[::1]")),
            ("/x", Some(""), Some("")),
            ("/x", None, Some("")),
            ("/x", Some("a b"), None),
            ("/x", Some("me@a"), None),
            ("/x", Some("a.b:"), Some("a.b")),
            ("/x", Some("a.b:abc"), None),
            ("/x", Some("a.b:99999"), None),
            ("/x", Some("a.b:+80"), None),
            ("/x", Some("[::1]:x"), None),
            ("http://A.b:x/x", Some("other"), None),
            ("http://me@A.b:1/x", Some("other"), Some("a.b")),
            ("http://A.b:1/x", Some("other"), Some("a.b")),
        ] {
            let mut request = http::Request::builder().uri(target);
            if let Some(field) = field {
                request = request.header(HOST, field);
            }
            let (head, ()) = request.body(()).expect("a request").into_parts();
            assert_eq!(of_request(&head).as_deref(), expected, "{target} {field:?}");
        }
    }
}
