//! Why it is not known whose a request is, and what its caller is told: nothing that would help
//! somebody who makes credentials up.

use std::time::Duration;

use hapax_core::{Problem, ProblemKind};
use metrics::counter;

use crate::metric_definitions::SCOPE_REFUSED;

/// Why a request has no scope.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Refused {
    /// It carries nothing to find it out by.
    Missing,
    /// What it carries cannot be read: several lines, not text, no token.
    Malformed,
    /// An algorithm that is not accepted, or is not one of the key's.
    Algorithm,
    /// A key that is not known.
    UnknownKey,
    /// It was not made with the key.
    Signature,
    /// It is over.
    Expired,
    /// It is not valid yet.
    NotYetValid,
    /// Another issuer.
    Issuer,
    /// For somebody else.
    Audience,
    /// A claim that is needed is not there, or is no name.
    Claim,
    /// There are no keys to verify anything by.
    Unavailable,
}

impl Refused {
    /// As it is in metrics.
    pub(super) const fn reason(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Malformed => "malformed",
            Self::Algorithm => "algorithm",
            Self::UnknownKey => "unknown_key",
            Self::Signature => "signature",
            Self::Expired => "expired",
            Self::NotYetValid => "not_yet_valid",
            Self::Issuer => "issuer",
            Self::Audience => "audience",
            Self::Claim => "claim",
            Self::Unavailable => "unavailable",
        }
    }

    pub(super) fn count(self, source: &'static str) {
        counter!(SCOPE_REFUSED, "source" => source, "reason" => self.reason()).increment(1);
    }

    /// The problem where the request needs what the text says.
    pub(super) fn problem(self, wanted: String) -> Problem {
        match self {
            Self::Unavailable => unavailable(),
            _ => Problem::new(ProblemKind::ScopeMissing, wanted),
        }
    }

    /// The problem where the request needs a token (RFC 6750, section 3: who sent none is told no
    /// error).
    pub(super) fn problem_of_bearer(self) -> Problem {
        let missing = |detail: &'static str, challenge: &'static str| {
            Problem::new(ProblemKind::ScopeMissing, detail).challenging(challenge)
        };
        match self {
            Self::Unavailable => unavailable(),
            Self::Missing => missing("The request needs a token saying whose it is.", "Bearer"),
            _ => missing(
                "The request's token is not valid. Get a new one, and send the same request with \
                 the same key again.",
                "Bearer error=\"invalid_token\"",
            ),
        }
    }
}

fn unavailable() -> Problem {
    Problem::new(
        ProblemKind::ScopeUnavailable,
        "Whose the request is cannot be verified now. Nothing was executed. Send the same request \
         with the same key again.",
    )
    .retry_after(Duration::from_secs(1))
}
