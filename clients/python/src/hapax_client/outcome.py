"""What became of an intent: one of three things, and it is always known which."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Optional, Union
from urllib.parse import urlsplit

from .intent import Intent
from .problem import Problem
from .response import Response


@dataclass(frozen=True)
class Done:
    """The service answered, and the answer stands. Its status may be any."""

    response: Response
    replayed: bool
    """Whether it is the first answer, replayed: an earlier attempt had taken effect."""
    sent: int
    """How often it was sent."""


class Refusal(Enum):
    """Why an intent was refused, where it was no problem of hapax."""

    NEVER_SENT = "it was never sent"
    NOT_APPLIED = "nothing of it happened, and it was not sent again"
    KEY_ENDS = "its key is about to be forgotten by the service"


@dataclass(frozen=True)
class Refused:
    """It was refused or never arrived: nothing of it happened here."""

    why: Union[Problem, Refusal]
    """A problem of hapax, or another reason. ``Problem.OUTCOME_NOT_KEPT`` and
    ``Problem.KEY_EXPIRED`` say that an operation with this key ended before; what it came to is not
    there any more."""
    response: Optional[Response]
    """The answer that refused it, if there was one."""
    detail: str
    """What was seen last, for a person."""
    sent: int
    """How often it was sent."""


@dataclass(frozen=True)
class Operation:
    """An operation whose outcome is not known."""

    intent: Intent
    """The intent, with its key: sent again, it never takes effect twice."""
    status: Optional[str] = None
    """Where its status can be asked for, if the service named that."""
    evidence: Optional[Response] = None
    """The last answer, such as a 500 that the service observed."""
    why: str = "it may have been sent before"
    """What was seen last, for a person."""
    sent: int = 0
    """How often it was sent."""

    @classmethod
    def of(cls, intent: Intent) -> Operation:
        """An operation of which only the intent is known, as after a restart."""
        return cls(intent)

    @property
    def effect_id(self) -> Optional[str]:
        """The effect id, as the address of the status has it."""
        _, found, effect_id = urlsplit(self.status or "").path.rpartition("/operations/")
        return effect_id if found else None


@dataclass(frozen=True)
class Unknown:
    """It may have taken effect. Keep the operation, and find out later: ``Client.find_out``."""

    operation: Operation


Outcome = Union[Done, Refused, Unknown]
"""What became of an intent."""
