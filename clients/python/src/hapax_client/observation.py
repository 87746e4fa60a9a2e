"""What a client sees of an attempt: facts, before anything is decided."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Optional, Union

from .problem import Problem


class Said(Enum):
    """``Hapax-Outcome``: what the service says of the effect."""

    APPLIED = "applied"
    NOT_APPLIED = "not-applied"
    UNKNOWN = "unknown"


class OperationState(Enum):
    """What an operation's status says."""

    ENDED = "ended"
    """It has an outcome, which the same request with the same key gets."""
    NOT_APPLIED = "not-applied"
    """Nothing happened; the same request with the same key executes."""
    GOES_ON = "goes-on"
    """It is under way, or nobody knows yet."""
    NOT_TOLD = "not-told"
    """There was no status to be had."""


@dataclass(frozen=True)
class NeverSent:
    """Not one byte of it reached the service: there was no connection."""

    lasting: bool = False
    """Whether trying again is in vain, as with a certificate that is not trusted."""


@dataclass(frozen=True)
class Lost:
    """It may have reached the service, and there is no complete answer."""


@dataclass(frozen=True)
class Answer:
    """The facts of a complete answer. Times are in seconds from now on."""

    status: int
    problem: Optional[Problem] = None
    """The problem of hapax that it is."""
    kept: bool = False
    """Whether it is kept for the key: a replay (``Idempotent-Replayed: true``), or a first answer
    that says until when it is replayed (``Idempotency-Expires``)."""
    said: Optional[Said] = None
    retry_after: Optional[float] = None
    expires_in: Optional[float] = None
    names_status: bool = False
    """Whether it names the operation's status (``Link`` with ``rel="status"``, RFC 8631)."""


@dataclass(frozen=True)
class Status:
    """What the status of the operation says."""

    state: OperationState
    retry_after: Optional[float] = None


Observation = Union[NeverSent, Lost, Answer, Status]
"""What came of sending a request, or of asking for its status."""
