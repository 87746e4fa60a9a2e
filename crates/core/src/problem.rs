//! What a caller is told when it does not get the service's answer (RFC 9457).

use std::{borrow::Cow, time::Duration};

/// The kinds of problem, a closed set. The type is the contract; the status is only its usual
/// companion.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum ProblemKind {
    /// The operation requires a key and there is none.
    KeyMissing,
    /// The key is malformed, twice there, too short or too predictable.
    KeyInvalid,
    /// The path is not quite that of a protected route, and the service may take it for it.
    PathUnclear,
    /// The request came as early data, which others can send again.
    EarlyData,
    /// The request asks to turn its connection into a tunnel, which cannot be done once.
    UpgradeRefused,
    /// The key was used for another intent.
    KeyReused,
    /// The first attempt is still under way.
    InFlight,
    /// The effect may exist; nobody knows yet.
    OutcomeUnknown,
    /// It took effect, but its answer was not kept.
    OutcomeNotKept,
    /// It took effect or failed so long ago that the answer is gone.
    KeyExpired,
    /// The body cannot be read as its media type says, or it is not clear how: it has trailers,
    /// repeated fields, or `Connection` takes away what it is compared by.
    BodyInvalid,
    /// The body is over the limit.
    BodyTooLarge,
    /// The body did not arrive in time.
    BodyTimeout,
    /// The store cannot be reached; nothing was executed, and what was claimed is given back.
    StoreUnavailable,
    /// The store has lost history, or the record of an execution; nothing is claimed until that is
    /// resolved.
    StoreRegressed,
    /// The record was made under a policy this node does not know.
    PolicyUnknown,
    /// The request never left: the service cannot be reached.
    UpstreamUnreachable,
    /// The connection broke after a request without protection went out.
    UpstreamFailed,
    /// The service's handler failed, and what it had done is undone.
    HandlerFailed,
    /// The caller may not see the outcome any more.
    ReplayForbidden,
    /// Whether the caller may see the outcome cannot be found out.
    AuthorizationUnavailable,
    /// There is no room to buffer another body.
    Overloaded,
    /// The gateway is shutting down.
    Draining,
    /// The request carries no scope.
    ScopeMissing,
    /// No such operation is known to the caller's scope.
    OperationUnknown,
    /// Whose the request is cannot be found out now.
    ScopeUnavailable,
}

impl ProblemKind {
    /// Every kind, for documentation and tests.
    pub const ALL: [Self; 26] = [
        Self::KeyMissing,
        Self::KeyInvalid,
        Self::PathUnclear,
        Self::EarlyData,
        Self::UpgradeRefused,
        Self::KeyReused,
        Self::InFlight,
        Self::OutcomeUnknown,
        Self::OutcomeNotKept,
        Self::KeyExpired,
        Self::BodyInvalid,
        Self::BodyTooLarge,
        Self::BodyTimeout,
        Self::StoreUnavailable,
        Self::StoreRegressed,
        Self::PolicyUnknown,
        Self::UpstreamUnreachable,
        Self::UpstreamFailed,
        Self::HandlerFailed,
        Self::ReplayForbidden,
        Self::AuthorizationUnavailable,
        Self::Overloaded,
        Self::Draining,
        Self::ScopeMissing,
        Self::OperationUnknown,
        Self::ScopeUnavailable,
    ];

    const fn row(self) -> (&'static str, u16, &'static str) {
        match self {
            Self::KeyMissing => ("key-missing", 400, "The Idempotency-Key is missing"),
            Self::KeyInvalid => ("key-invalid", 400, "The Idempotency-Key is not acceptable"),
            Self::PathUnclear => ("path-unclear", 400, "The path is not quite a protected one"),
            Self::EarlyData => ("early-data", 425, "The request came as early data"),
            Self::UpgradeRefused => ("upgrade-refused", 400, "The connection is not upgraded"),
            Self::KeyReused => {
                ("key-reused", 422, "The Idempotency-Key was used for another request")
            }
            Self::InFlight => {
                ("in-flight", 409, "A request with this Idempotency-Key is under way")
            }
            Self::OutcomeUnknown => ("outcome-unknown", 409, "The outcome is not known"),
            Self::OutcomeNotKept => {
                ("outcome-not-kept", 409, "It took effect, but its answer was not kept")
            }
            Self::KeyExpired => ("key-expired", 410, "The Idempotency-Key has expired"),
            Self::BodyInvalid => ("body-invalid", 400, "The body cannot be read"),
            Self::BodyTooLarge => ("body-too-large", 413, "The body is too large"),
            Self::BodyTimeout => ("body-timeout", 408, "The body did not arrive in time"),
            Self::StoreUnavailable => {
                ("store-unavailable", 503, "Nothing was executed: the store is not available")
            }
            Self::StoreRegressed => {
                ("store-regressed", 503, "Nothing was executed: the store has lost history")
            }
            Self::PolicyUnknown => {
                ("policy-unknown", 503, "Nothing was executed: the policy is not known here")
            }
            Self::UpstreamUnreachable => {
                ("upstream-unreachable", 503, "Nothing was executed: the service is not reachable")
            }
            Self::UpstreamFailed => ("upstream-failed", 502, "The service did not answer"),
            Self::HandlerFailed => ("handler-failed", 500, "The service failed"),
            Self::ReplayForbidden => {
                ("replay-forbidden", 403, "The outcome is not shown to this caller")
            }
            Self::AuthorizationUnavailable => {
                ("authorization-unavailable", 503, "The caller's permission is not known now")
            }
            Self::Overloaded => ("overloaded", 503, "Nothing was executed: no room for the body"),
            Self::Draining => ("draining", 503, "Nothing was executed: shutting down"),
            Self::ScopeMissing => ("scope-missing", 401, "The request does not say whose it is"),
            Self::OperationUnknown => ("operation-unknown", 404, "No such operation is known here"),
            Self::ScopeUnavailable => {
                ("scope-unavailable", 503, "Whose the request is cannot be found out now")
            }
        }
    }

    /// The name, as in `urn:hapax:problem:<name>`.
    pub const fn name(self) -> &'static str {
        self.row().0
    }

    /// The usual status.
    pub const fn status(self) -> u16 {
        self.row().1
    }

    /// The title.
    pub const fn title(self) -> &'static str {
        self.row().2
    }

    /// The stable type.
    pub fn type_uri(self) -> String {
        format!("urn:hapax:problem:{}", self.name())
    }

    /// What a caller may do next.
    pub const fn retry(self) -> Retry {
        match self {
            Self::InFlight
            | Self::OutcomeUnknown
            | Self::BodyTimeout
            | Self::EarlyData
            | Self::StoreUnavailable
            | Self::StoreRegressed
            | Self::PolicyUnknown
            | Self::UpstreamUnreachable
            | Self::HandlerFailed
            | Self::AuthorizationUnavailable
            | Self::ScopeUnavailable
            | Self::Overloaded
            | Self::Draining => Retry::Same,
            Self::KeyMissing
            | Self::KeyInvalid
            | Self::PathUnclear
            | Self::UpgradeRefused
            | Self::BodyInvalid
            | Self::BodyTooLarge
            | Self::ReplayForbidden
            | Self::ScopeMissing => Retry::Corrected,
            Self::KeyReused | Self::OutcomeNotKept | Self::KeyExpired | Self::OperationUnknown => {
                Retry::Never
            }
            Self::UpstreamFailed => Retry::IfIdempotent,
        }
    }

    /// What the problem says of the effect id in `Hapax-Outcome`, so that nested layers do not
    /// misread each other (`protocol.md` 9). `None` says nothing: this attempt was refused, and
    /// an earlier one may have taken effect.
    ///
    /// `store-unavailable` says nothing: without the store an earlier attempt's effect cannot be
    /// excluded (`docs/decisions/0003`).
    const fn says(self) -> Option<&'static str> {
        match self {
            Self::InFlight | Self::OutcomeUnknown | Self::KeyExpired => Some("unknown"),
            _ => None,
        }
    }
}

/// What a caller that got a problem may do next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Retry {
    /// The same request with the same key again, after `Retry-After`: it never takes effect twice.
    Same,
    /// The request, once it is corrected, with the same key.
    Corrected,
    /// Nothing: the answer stays the same.
    Never,
    /// The same request again, if repeating it changes nothing: there was no key to protect it.
    IfIdempotent,
}

impl Retry {
    /// Its word in documents.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Same => "same-request-and-key",
            Self::Corrected => "corrected-request",
            Self::Never => "never",
            Self::IfIdempotent => "if-idempotent",
        }
    }
}

/// A problem as it is answered. It reveals nothing of a stored request or response.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// What kind.
    pub kind: ProblemKind,
    /// The status; [`ProblemKind::status`] unless the situation asks for another.
    pub status: u16,
    /// What happened and what to do, for a person.
    pub detail: Cow<'static, str>,
    /// When to try again.
    pub retry_after: Option<Duration>,
    /// What it says of the effect id, for `Hapax-Outcome`.
    pub says: Option<&'static str>,
    /// How a caller is asked to prove who it is, for `WWW-Authenticate` (RFC 9110, section 11.6.1).
    pub challenge: Option<Cow<'static, str>>,
}

impl Problem {
    /// A problem with its usual status.
    pub fn new(kind: ProblemKind, detail: impl Into<Cow<'static, str>>) -> Self {
        let (status, says) = (kind.status(), kind.says());
        Self { kind, status, detail: detail.into(), retry_after: None, says, challenge: None }
    }

    /// With a `Retry-After`, in whole seconds, at least one.
    #[must_use]
    pub fn retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }

    /// Saying that nothing by any attempt happened or will: for a clean record alone.
    #[must_use]
    pub const fn not_applied(mut self) -> Self {
        self.says = Some("not-applied");
        self
    }

    /// Asking the caller to prove who it is.
    #[must_use]
    pub fn challenging(mut self, challenge: impl Into<Cow<'static, str>>) -> Self {
        self.challenge = Some(challenge.into());
        self
    }

    /// With another status than the usual.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// The seconds of `Retry-After`.
    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.retry_after.map(retry_after_seconds)
    }

    /// The `application/problem+json` body (RFC 9457 3).
    pub fn to_json(&self) -> String {
        self.to_json_as(&self.kind.type_uri())
    }

    /// The body with another type, which ends with the kind's name.
    pub fn to_json_as(&self, type_uri: &str) -> String {
        serde_json::json!({
            "type": type_uri,
            "title": self.kind.title(),
            "status": self.status,
            "detail": self.detail,
        })
        .to_string()
    }
}

/// A wait as `Retry-After` says it: whole seconds, rounded up so that nobody comes too early, at
/// least one (RFC 9110, section 10.2.3).
pub fn retry_after_seconds(wait: Duration) -> u64 {
    wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_the_body_is_the_standards() {
        let names: std::collections::BTreeSet<_> =
            ProblemKind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!(names.len(), ProblemKind::ALL.len());
        let problem = Problem::new(ProblemKind::KeyReused, "a \"quoted\" detail");
        let json: serde_json::Value = serde_json::from_str(&problem.to_json()).expect("json");
        assert_eq!(json["type"], "urn:hapax:problem:key-reused");
        assert_eq!(json["status"], 422);
        assert_eq!(json["detail"], "a \"quoted\" detail");
    }

    #[test]
    fn every_kind_has_its_page() {
        for kind in ProblemKind::ALL {
            let page =
                format!("{}/../../docs/problems/{}.md", env!("CARGO_MANIFEST_DIR"), kind.name());
            let text = std::fs::read_to_string(&page).unwrap_or_default();
            assert!(text.contains(&kind.type_uri()), "docs/problems/{}.md", kind.name());
            assert!(text.contains(&kind.status().to_string()), "{}: status", kind.name());
        }
    }

    #[test]
    fn retry_after_is_whole_seconds_and_never_zero() {
        let after =
            |d| Problem::new(ProblemKind::InFlight, "").retry_after(d).retry_after_seconds();
        assert_eq!(after(Duration::ZERO), Some(1));
        assert_eq!(after(Duration::from_millis(1001)), Some(2));
        assert_eq!(after(Duration::MAX), Some(u64::MAX));
    }
}
