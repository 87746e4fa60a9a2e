//! Patterns of paths, and what they leave open.

use std::{cmp::Ordering, convert::Infallible, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A pattern of paths: `/v1/accounts/{account}/payments`.
///
/// A segment is literal, or `{name}`, which is any one segment that is not empty, or at the end
/// `*`, which is the rest of the path and may be empty: `/v1/*` goes with `/v1/` and `/v1/a/b`,
/// not with `/v1`. Paths are compared as they are spelled; bring them into one spelling before.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(from = "String", into = "String")]
pub struct PathPattern {
    text: Box<str>,
    segments: Vec<PathSegment>,
}

/// One part of a [`PathPattern`].
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum PathSegment {
    /// Exactly this.
    Literal(Box<str>),
    /// Any one segment that is not empty, under this name.
    Parameter(Box<str>),
    /// One or more segments, whatever they are. Always the last.
    Rest,
}

impl PathPattern {
    /// Reads a pattern. Every text is one; what is neither `{name}` nor a final `*` is literal.
    pub fn new(text: &str) -> Self {
        let parts: Vec<&str> = text.strip_prefix('/').unwrap_or(text).split('/').collect();
        let last = parts.len().saturating_sub(1);
        let segment = |(at, part): (usize, &&str)| {
            let name = part.strip_prefix('{').and_then(|part| part.strip_suffix('}'));
            match (*part, name) {
                ("*", _) if at == last => PathSegment::Rest,
                (_, Some(name)) if !name.is_empty() => PathSegment::Parameter(name.into()),
                (part, _) => PathSegment::Literal(part.into()),
            }
        };
        Self { text: text.into(), segments: parts.iter().enumerate().map(segment).collect() }
    }

    /// The pattern's text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The pattern's parts.
    pub fn segments(&self) -> &[PathSegment] {
        &self.segments
    }

    /// Whether the pattern goes with one path only.
    pub fn is_exact(&self) -> bool {
        self.segments.iter().all(|segment| matches!(segment, PathSegment::Literal(_)))
    }

    /// Whether a path is one of the pattern's.
    pub fn matches(&self, path: &str) -> bool {
        let Some(path) = path.strip_prefix('/') else { return false };
        let mut pattern = self.segments.as_slice();
        for part in path.split('/') {
            let Some((segment, rest)) = pattern.split_first() else { return false };
            let fits = match segment {
                PathSegment::Rest => return true,
                PathSegment::Parameter(_) => !part.is_empty(),
                PathSegment::Literal(literal) => **literal == *part,
            };
            if !fits {
                return false;
            }
            pattern = rest;
        }
        pattern.is_empty()
    }

    /// The more special first: literal before `{name}` before `*`, from the first segment on.
    pub fn by_specificity(&self, other: &Self) -> Ordering {
        self.segments.iter().map(rank).cmp(other.segments.iter().map(rank))
    }

    /// What the pattern leaves open of a path of its, by name; the rest is under `*`.
    fn open_parts<'p>(&'p self, path: &'p str) -> Vec<(&'p str, &'p str)> {
        let mut left = path.strip_prefix('/').unwrap_or(path);
        let mut open = Vec::new();
        for segment in &self.segments {
            if *segment == PathSegment::Rest {
                open.push(("*", left));
                break;
            }
            let (part, rest) = left.split_once('/').unwrap_or((left, ""));
            if let PathSegment::Parameter(name) = segment {
                open.push((name, part));
            }
            left = rest;
        }
        open
    }
}

/// Appends what of a path is part of an intent: what the most special of the operation's patterns
/// leaves open, so that routes of one operation share one set of keys; all of a path that is on
/// none of them.
///
/// `/v1/payments` and `/v2/payments` leave nothing open and are the same; `/v1/of/{account}` and
/// `/v2/{account}` are for the same account. Names and values are told apart by NUL, which no path
/// has, and which a path on no pattern therefore cannot pass for.
pub(crate) fn open_part(patterns: &[PathPattern], path: &str, out: &mut Vec<u8>) {
    let fitting = patterns.iter().filter(|pattern| pattern.matches(path));
    let Some(pattern) = fitting.min_by(|a, b| a.by_specificity(b)) else {
        return out.extend_from_slice(path.as_bytes());
    };
    let mut open = pattern.open_parts(path);
    open.sort_unstable();
    out.push(0);
    for part in open.iter().flat_map(|(name, value)| [name, value]) {
        out.extend_from_slice(part.as_bytes());
        out.push(0);
    }
}

const fn rank(segment: &PathSegment) -> u8 {
    match segment {
        PathSegment::Literal(_) => 0,
        PathSegment::Parameter(_) => 1,
        PathSegment::Rest => 2,
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for PathPattern {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self::new(text))
    }
}

impl From<String> for PathPattern {
    fn from(text: String) -> Self {
        Self::new(&text)
    }
}

impl From<PathPattern> for String {
    fn from(pattern: PathPattern) -> Self {
        pattern.text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(patterns: &[&str], path: &str) -> Vec<u8> {
        let patterns: Vec<_> = patterns.iter().map(|text| PathPattern::new(text)).collect();
        let mut out = Vec::new();
        open_part(&patterns, path, &mut out);
        out
    }

    #[test]
    fn a_pattern_matches_whole_segments() {
        for (pattern, path, expected) in [
            ("/a/{x}", "/a/b", true),
            ("/a/{x}", "/a/", false),
            ("/a/{x}", "/a/b/", false),
            ("/a/*", "/a/", true),
            ("/a/*", "/a/b/c", true),
            ("/a/*", "/a", false),
            ("/*", "/", true),
            ("/*", "*", false),
        ] {
            assert_eq!(PathPattern::new(pattern).matches(path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn f02_routes_of_one_operation_share_what_they_leave_open() {
        let versions = ["/v1/payments", "/v2/payments"];
        assert_eq!(open(&versions, "/v1/payments"), open(&versions, "/v2/payments"));
        let accounts = ["/v1/a/{account}/p/{id}", "/v2/{id}/of/{account}"];
        assert_eq!(open(&accounts, "/v1/a/7/p/9"), open(&accounts, "/v2/9/of/7"));
        assert_ne!(open(&accounts, "/v1/a/7/p/9"), open(&accounts, "/v2/7/of/9"));
        // Everything under one operation, as without a file: the path tells intents apart.
        let all = ["/*"];
        assert_ne!(open(&all, "/a/b"), open(&all, "/a%2Fb"));
        assert_ne!(open(&all, "/a"), open(&all, "/a/"));
        // The most special pattern is the one that counts.
        let mixed = ["/p/*", "/p/{id}"];
        assert_eq!(open(&mixed, "/p/7"), b"\0id\x007\0");
        assert_eq!(open(&mixed, "/p/7/x"), b"\0*\x007/x\0");
    }

    #[test]
    fn a_path_on_no_pattern_passes_for_none() {
        assert_eq!(open(&[], "/a"), b"/a");
        assert_eq!(open(&["/b"], "/a"), b"/a");
        assert_eq!(open(&["/a"], "/a"), b"\0");
    }
}
