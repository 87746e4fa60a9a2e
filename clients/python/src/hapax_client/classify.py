"""What a service's own answer amounts to, as the gateway reads it too."""

from __future__ import annotations

from enum import Enum

from .observation import Answer, Said


class Classified(Enum):
    """What an answer proves."""

    OUTCOME = "outcome"
    """It took effect, or failed for good."""
    NOT_APPLIED = "not-applied"
    """Nothing happened."""
    UNCERTAIN = "uncertain"
    """The effect may exist."""


_NOT_APPLIED = frozenset(
    {307, 308, 400, 401, 405, 411, 413, 414, 415, 417, 421, 422, 425, 426, 428, 429, 431}
)
_TERMINAL = frozenset({402, 403, 404, 409, 410, 412, 451})


def classify(answer: Answer, *, clean: bool) -> Classified:
    """Classifies a complete answer. ``clean`` is whether nothing was in doubt before.

    A refusal proves nothing about earlier attempts: unless it is clean, only success or the
    service's own word settles it.
    """
    if answer.said is Said.APPLIED:
        return Classified.OUTCOME
    if answer.said is Said.NOT_APPLIED:
        return Classified.NOT_APPLIED
    if answer.said is Said.UNKNOWN:
        return Classified.UNCERTAIN
    if 200 <= answer.status < 300 or answer.status in (301, 302, 303):
        return Classified.OUTCOME
    if not clean:
        return Classified.UNCERTAIN
    if answer.status in _NOT_APPLIED:
        return Classified.NOT_APPLIED
    if answer.status in _TERMINAL:
        return Classified.OUTCOME
    return Classified.UNCERTAIN
