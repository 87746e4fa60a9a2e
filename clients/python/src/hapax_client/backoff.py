"""How long to wait between two attempts.

The formulas are those of the AWS Architecture Blog's "Exponential Backoff And Jitter": without
jitter, callers that failed together come back together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

# A longer pause is not a pause.
_LONGEST = 366 * 24 * 60 * 60.0


class Jitter(Enum):
    """How a pause is drawn from its window ``t = min(cap, base * 2**n)``."""

    FULL = "full"
    """Evenly from ``0`` to ``t``: the least load."""
    EQUAL = "equal"
    """``t / 2`` and evenly up to as much again: never at once."""
    DECORRELATED = "decorrelated"
    """Evenly from ``base`` to three times the last pause, at most ``cap``."""


@dataclass(frozen=True)
class Backoff:
    """A growing pause with jitter, in seconds."""

    base: float = 0.05
    """The first window (AWS SDKs, 2026 retry mode)."""
    cap: float = 20.0
    """No window is longer. It is applied before the jitter (the same)."""
    jitter: Jitter = Jitter.FULL
    """How the pause is drawn from its window."""

    def pause(self, failures: int, last: float, random: float) -> float:
        """The pause before the resend that follows ``failures`` failures (at least 1).

        ``last`` is the pause before, ``random`` even in ``0.0..1.0``.
        """
        random = min(max(random, 0.0), 1.0) if math.isfinite(random) else 0.0
        window = self._window(failures)
        if self.jitter is Jitter.FULL:
            return window * random
        if self.jitter is Jitter.EQUAL:
            return window / 2 + window / 2 * random
        cap = min(self.cap, _LONGEST)
        base = min(self.base, cap)
        most = min(max(last, base), cap) * 3
        return min(base + (most - base) * random, cap)

    def _window(self, failures: int) -> float:
        """``min(cap, base * 2**(failures - 1))``."""
        doublings = min(max(failures - 1, 0), 32)
        return min(self.base * 2.0**doublings, self.cap, _LONGEST)
