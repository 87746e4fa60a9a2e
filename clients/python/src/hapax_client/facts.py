"""Reading an answer's facts from its fields and content."""

from __future__ import annotations

import json
from typing import Any, Iterator, Optional, Tuple

from .observation import Answer, Said
from .policy import Policy
from .problem import Problem
from .response import Headers, Response
from .times import retry_after, until

# No problem of hapax is longer.
_LONGEST_PROBLEM = 64 * 1024


def facts(policy: Policy, response: Response, now: float) -> Answer:
    """The facts of an answer at ``now``, on the clock of the wall (seconds since 1970)."""
    headers = response.headers
    expires = headers.get("idempotency-expires")
    expires_in = None if expires is None else until(expires, now)
    wait = headers.get("retry-after")
    return Answer(
        status=response.status,
        problem=_problem(policy, response),
        kept=is_replayed(headers) or expires_in is not None,
        said=_said(headers.get("hapax-outcome")),
        retry_after=None if wait is None else retry_after(wait, now),
        expires_in=expires_in,
        names_status=status_link(headers) is not None,
    )


def is_replayed(headers: Headers) -> bool:
    """Whether an answer is the first one, replayed."""
    return (headers.get("idempotent-replayed") or "").lower() == "true"


def status_link(headers: Headers) -> Optional[str]:
    """The address of an operation's status: the first ``Link`` with ``rel="status"``, as it stands
    there (RFC 8288, section 3; RFC 8631, section 4.4)."""
    links = (link for line in headers.all("link") for link in _links(line))
    return next((target for target, parameters in links if _is_status(parameters)), None)


def read_json(body: bytes) -> Any:
    """Content as JSON, or ``None`` where it is none."""
    try:
        return json.loads(body)
    # A document may also be nested too deeply.
    except (ValueError, RecursionError):
        return None


def member(document: Any, name: str) -> Optional[str]:
    """A text in an object."""
    value = document.get(name) if isinstance(document, dict) else None
    return value if isinstance(value, str) else None


def _links(line: str) -> Iterator[Tuple[str, str]]:
    """The links of a line: what is between ``<`` and ``>``, and the parameters up to the next."""
    for link in line.split("<")[1:]:
        target, end, parameters = link.partition(">")
        if end:
            yield target, parameters


def _is_status(parameters: str) -> bool:
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        relations = value.strip().rstrip(",").rstrip().strip('"').lower().split()
        if name.strip().lower() == "rel" and "status" in relations:
            return True
    return False


def _said(word: Optional[str]) -> Optional[Said]:
    """Anything but the three words is as if it were not there."""
    return next((said for said in Said if said.value == word), None)


def _problem(policy: Policy, response: Response) -> Optional[Problem]:
    media_type = (response.headers.get("content-type") or "").split(";")[0].strip().lower()
    if media_type != "application/problem+json" or len(response.body) > _LONGEST_PROBLEM:
        return None
    kind = member(read_json(response.body), "type")
    if kind is None or not kind.startswith(policy.problem_base):
        return None
    name = kind[len(policy.problem_base) :]
    return next((problem for problem in Problem if problem.value == name), None)
