"""Whether somebody above already sends again what fails.

Retries multiply: where each of five layers makes three attempts, one request of a user becomes 243
at the bottom ("Timeouts, retries, and backoff with jitter", Amazon Builders' Library). So one layer
retries, the one that has the whole deadline in view, and tells those below that it does: within a
process by a context variable, from process to process by a field of the request.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import Iterator, Optional

FIELD = "Hapax-Retries"
"""The field of a request whose sender sends it again when it fails: ``Hapax-Retries: above``."""

ABOVE = "above"

_RETRIES: ContextVar[bool] = ContextVar("hapax_retries", default=False)


def retries() -> bool:
    """Whether somebody above retries. A thread that was started anew does not know; run it in
    ``contextvars.copy_context()``."""
    return _RETRIES.get()


@contextmanager
def retrying(retried: bool = True) -> Iterator[None]:
    """Runs a block under somebody who retries: clients in it send once."""
    before = _RETRIES.set(retried or _RETRIES.get())
    try:
        yield
    finally:
        _RETRIES.reset(before)


def says(value: Optional[str]) -> bool:
    """Whether the field of a request that came in says that somebody above retries."""
    return (value or "").strip().lower() == ABOVE
