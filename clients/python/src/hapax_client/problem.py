"""The problems of hapax: what each is called, and whether the same request may be sent again."""

from __future__ import annotations

from enum import Enum


class Problem(Enum):
    """A problem of hapax, by the name at the end of its type (``urn:hapax:problem:<name>``)."""

    KEY_MISSING = "key-missing"
    KEY_INVALID = "key-invalid"
    PATH_UNCLEAR = "path-unclear"
    EARLY_DATA = "early-data"
    UPGRADE_REFUSED = "upgrade-refused"
    KEY_REUSED = "key-reused"
    IN_FLIGHT = "in-flight"
    OUTCOME_UNKNOWN = "outcome-unknown"
    OUTCOME_NOT_KEPT = "outcome-not-kept"
    KEY_EXPIRED = "key-expired"
    BODY_INVALID = "body-invalid"
    BODY_TOO_LARGE = "body-too-large"
    BODY_TIMEOUT = "body-timeout"
    STORE_UNAVAILABLE = "store-unavailable"
    STORE_REGRESSED = "store-regressed"
    POLICY_UNKNOWN = "policy-unknown"
    UPSTREAM_UNREACHABLE = "upstream-unreachable"
    UPSTREAM_FAILED = "upstream-failed"
    HANDLER_FAILED = "handler-failed"
    REPLAY_FORBIDDEN = "replay-forbidden"
    AUTHORIZATION_UNAVAILABLE = "authorization-unavailable"
    OVERLOADED = "overloaded"
    DRAINING = "draining"
    SCOPE_MISSING = "scope-missing"
    OPERATION_UNKNOWN = "operation-unknown"
    SCOPE_UNAVAILABLE = "scope-unavailable"

    @property
    def may_be_repeated(self) -> bool:
        """Whether the same request with the same key may be sent again."""
        return self not in _FINAL


# Until the request is corrected, or for good.
_FINAL = frozenset(
    {
        Problem.KEY_MISSING,
        Problem.KEY_INVALID,
        Problem.PATH_UNCLEAR,
        Problem.UPGRADE_REFUSED,
        Problem.BODY_INVALID,
        Problem.BODY_TOO_LARGE,
        Problem.REPLAY_FORBIDDEN,
        Problem.SCOPE_MISSING,
        Problem.KEY_REUSED,
        Problem.OUTCOME_NOT_KEPT,
        Problem.KEY_EXPIRED,
        Problem.OPERATION_UNKNOWN,
    }
)
