"""One request and its complete answer: what a transport does."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Awaitable, Protocol, Tuple, Union

from .observation import Lost, NeverSent
from .response import Response


@dataclass(frozen=True)
class Exchange:
    """A request to send once."""

    method: str
    url: str
    headers: Tuple[Tuple[str, str], ...] = field(repr=False)
    body: bytes = field(repr=False)
    timeout: float
    """How long it may take to its complete answer, in seconds."""
    longest_content: int
    """Content behind so many bytes is left."""
    retried: bool
    """Whether it is sent again from here or above when it fails."""


@dataclass(frozen=True)
class Failure:
    """Why there is no complete answer."""

    seen: Union[NeverSent, Lost]
    """``NeverSent`` only where that is sure."""
    why: str
    """For a person."""


Result = Union[Response, Failure]
"""What came of it."""


class Transport(Protocol):
    """What sends a request once: it follows no redirect, and never sends anything again."""

    def exchange(self, request: Exchange) -> Result:
        """Sends a request and reads its whole answer, within its time."""


class AsyncTransport(Protocol):
    """As :class:`Transport`, without blocking."""

    def exchange(self, request: Exchange) -> Awaitable[Result]:
        """Sends a request and reads its whole answer, within its time."""


def reasons(error: BaseException) -> str:
    """What a person reads: the error, and what is behind it."""
    text, cause = f"{type(error).__name__}: {error}", error.__cause__ or error.__context__
    while cause is not None:
        if str(cause) not in text:
            text = f"{text}: {cause}"
        cause = cause.__cause__ or cause.__context__
    return text
