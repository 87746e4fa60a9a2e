"""An answer, whichever library brought it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Iterable, Iterator, Optional, Tuple


@dataclass(frozen=True)
class Headers:
    """The fields of an answer, in order."""

    lines: Tuple[Tuple[str, str], ...] = ()

    @classmethod
    def of(cls, lines: Iterable[Tuple[str, str]]) -> Headers:
        """Fields from pairs of name and value."""
        return cls(tuple((name, value) for name, value in lines))

    def get(self, name: str) -> Optional[str]:
        """The first value of a field, whatever the case of its name."""
        return next(self.all(name), None)

    def all(self, name: str) -> Iterator[str]:
        """Each value of a field."""
        wanted = name.lower()
        return (value.strip() for found, value in self.lines if found.lower() == wanted)


@dataclass(frozen=True)
class Response:
    """A complete answer."""

    status: int
    headers: Headers = Headers()
    body: bytes = field(default=b"", repr=False)
    """The content, without its content coding."""
    cut: bool = False
    """Whether the content was longer than the client keeps, and is cut."""

    @property
    def text(self) -> str:
        """The content as UTF-8."""
        return self.body.decode("utf-8", "replace")

    def json(self) -> Any:
        """The content as JSON; ``ValueError`` where it is none."""
        return json.loads(self.body)
