"""What a client may do, and for how long: plain data."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import FrozenSet, Optional

from .backoff import Backoff


@dataclass(frozen=True)
class Policy:
    """When an intent is sent again, and when not. Times are in seconds.

    Attempts count against ``attempts`` when the service may have worked on them. Those that never
    left, and waiting for an operation that is under way, are bounded by the ``deadline`` alone.
    """

    attempts: int = 3
    """How often the service may be asked to work, the first attempt included (AWS SDKs; Google SRE,
    "Handling Overload")."""
    deadline: float = 60.0
    """How long all of it may take, from the first attempt on."""
    backoff: Backoff = Backoff()
    """The pause after a failure."""
    throttled_base: float = 1.0
    """The first window after an answer that says that there is too much to do (429, and 503 with
    ``Retry-After``)."""
    waiting: Backoff = Backoff(base=0.25, cap=5.0)
    """The pause while an operation is under way or its outcome unknown."""
    longest_retry_after: float = 60.0
    """The longest time that a ``Retry-After`` makes the client wait. What is longer counts as this:
    coming early is harmless with a key."""
    key_lifetime: Optional[float] = None
    """How long the service remembers a key, from its first attempt on, where that is known
    beforehand. An answer's ``Idempotency-Expires`` counts where it is earlier."""
    lifetime_margin: float = 60.0
    """How long before a key's end it is not sent any more: a request can be under way for a
    while."""
    attempt_timeout: float = 30.0
    """How long an attempt may take to its complete answer; never longer than what is left of the
    ``deadline``."""
    in_flight_statuses: FrozenSet[int] = field(default_factory=frozenset)
    """Statuses that say that a request with this key is under way, of services that say it without
    a problem of hapax; ``409`` is right for Stripe."""
    problem_base: str = "urn:hapax:problem:"
    """What problems of hapax begin with, where the service configured it."""

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError("attempts: at least the first one is made; write 1 to send once")
        for name in ("deadline", "attempt_timeout"):
            time = getattr(self, name)
            if not (math.isfinite(time) and time > 0):
                raise ValueError(f"{name}: give a time in seconds; there is no waiting for ever")
        object.__setattr__(self, "in_flight_statuses", frozenset(self.in_flight_statuses))

    @classmethod
    def once(cls) -> Policy:
        """Sends once, and tells what came of it."""
        return cls(attempts=1)
