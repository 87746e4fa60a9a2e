"""How many resends a destination is asked to bear, over all intents.

Retries multiply an outage: with three attempts each, a service that fails everything gets three
times its load when it can bear it least. A budget lets resends through as long as they are the
exception.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Callable, Dict, Optional

from .course import Cost


@dataclass(frozen=True)
class TokenBucket:
    """What a budget holds and asks, as AWS's SDKs have it (their retry behaviour of 2026)."""

    tokens: int = 500
    """How many tokens it holds, and begins with."""
    transient: int = 14
    """What a resend after a failure takes."""
    throttled: int = 5
    """What a resend after an answer of too much to do takes."""
    success: int = 1
    """What an intent gives back that needed no resend. One that did gives back what its last resend
    took."""


class Budget:
    """A bucket of tokens, to be shared by everything that sends to one destination, from any
    thread."""

    def __init__(self, rule: TokenBucket = TokenBucket()) -> None:
        self._rule = rule
        self._left = rule.tokens
        self._lock = threading.Lock()

    @property
    def left(self) -> int:
        """How many tokens are left."""
        with self._lock:
            return self._left

    def take(self, cost: Cost) -> Optional[int]:
        """Takes a resend out of the budget, and tells what it took; ``None`` where there is none
        left."""
        tokens = self._rule.throttled if cost is Cost.THROTTLED else self._rule.transient
        with self._lock:
            if self._left < tokens:
                return None
            self._left -= tokens
            return tokens

    def succeed(self, last: Optional[int]) -> None:
        """The service answered an intent and works. ``last`` is what its last resend took."""
        back = self._rule.success if last is None else last
        with self._lock:
            self._left = min(self._left + back, self._rule.tokens)


class Budgets:
    """Budgets by destination: one for each, made when it is first asked for."""

    def __init__(self, new: Callable[[], Budget] = Budget) -> None:
        self._new = new
        self._known: Dict[str, Budget] = {}
        self._lock = threading.Lock()

    def of(self, destination: str) -> Budget:
        """The budget of a destination, such as ``https://api.example``."""
        with self._lock:
            budget = self._known.get(destination)
            if budget is None:
                budget = self._known[destination] = self._new()
            return budget
