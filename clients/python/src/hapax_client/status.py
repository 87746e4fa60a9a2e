"""Asking for the status of an operation."""

from __future__ import annotations

from typing import List, Optional, Tuple
from urllib.parse import urlsplit, urlunsplit

from .facts import member, read_json, status_link
from .intent import Intent
from .observation import Answer, Observation, OperationState, Status
from .response import Headers, Response

_STATES = {
    "succeeded": OperationState.ENDED,
    "failed": OperationState.ENDED,
    "not-applied": OperationState.NOT_APPLIED,
    "executing": OperationState.GOES_ON,
    "unknown": OperationState.GOES_ON,
}


def address(of: str, headers: Headers) -> Optional[str]:
    """Where an answer says that the status is. The question carries the caller's credentials, so it
    goes to nobody else than the request did."""
    link = status_link(headers)
    if link is None:
        return None
    try:
        named, asked = urlsplit(link), urlsplit(of)
    except ValueError:
        return None
    place = (asked.scheme.lower(), asked.netloc.lower())
    if named.scheme or named.netloc:
        is_same = (named.scheme.lower(), named.netloc.lower()) == place
    else:
        is_same = named.path.startswith("/")
    if not is_same:
        return None
    return urlunsplit((asked.scheme, asked.netloc, named.path, named.query, ""))


def question(intent: Intent) -> Tuple[Tuple[str, str], ...]:
    """The fields of the question: those of the intent, which say whose it is and what its key
    is."""
    left_out = ("content-type", "content-encoding", "accept")
    fields: List[Tuple[str, str]] = [
        field for field in intent.headers if field[0].lower() not in left_out
    ]
    return (*fields, ("Accept", "application/json"))


def read(seen: Observation, response: Optional[Response]) -> Status:
    """What the answer says. It is no evidence of the operation's own answer."""
    if not isinstance(seen, Answer):
        return Status(OperationState.GOES_ON)
    if seen.status == 200 and response is not None:
        state = _STATES.get(member(read_json(response.body), "state") or "")
        return Status(state or OperationState.NOT_TOLD, seen.retry_after)
    # Not there, or not for this caller.
    is_told = seen.status >= 500 or seen.status == 429
    state = OperationState.GOES_ON if is_told else OperationState.NOT_TOLD
    return Status(state, seen.retry_after)
