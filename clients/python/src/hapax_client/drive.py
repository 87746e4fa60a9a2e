"""The way of an intent to its outcome: attempts, pauses and questions, as the course decides.

It says what to send and how long to wait, and sends and waits for nothing by itself.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import Generator, Optional, Tuple, Union

from . import above, status
from .budget import Budgets
from .course import Ask, Cost, Course, End, Next, Resend
from .exchange import Exchange, Failure, Result
from .facts import facts, is_replayed
from .intent import Intent
from .observation import Answer, NeverSent, Observation, OperationState, Status
from .outcome import Done, Operation, Outcome, Refusal, Refused, Unknown
from .policy import Policy
from .problem import Problem
from .response import Response


@dataclass(frozen=True)
class Pause:
    """To wait for so many seconds."""

    seconds: float


Steps = Generator[Union[Exchange, Pause], Optional[Result], Outcome]
"""What is to be done, one after the other, up to an outcome. An exchange is answered by its
result."""


@dataclass(frozen=True)
class _Seen:
    """What was seen of an attempt."""

    observation: Observation
    response: Optional[Response]
    why: str


class Drive:
    """An intent under way."""

    def __init__(
        self,
        policy: Policy,
        budgets: Budgets,
        longest_content: int,
        intent: Intent,
        operation: Optional[Operation] = None,
    ) -> None:
        """An intent before its first attempt, or one whose outcome was not known."""
        retried_above = above.retries()
        self._policy = policy
        self._budget = budgets.of(intent.destination)
        self._longest_content = longest_content
        self._intent = intent
        self._status = None if operation is None else operation.status
        request = intent.request_facts(
            retried_above=retried_above, in_doubt=operation is not None, now=time.time()
        )
        self._course = Course(policy, request, status_known=self._status is not None)
        # Whether whoever is below is told that it is sent again from here or above.
        self._tells_below = retried_above or (request.repeatable and policy.attempts > 1)
        self._repeatable = request.repeatable
        self._began = time.monotonic()
        self._last_taken: Optional[int] = None
        # The last answer that did not stand.
        self._evidence: Optional[Response] = None
        self._sent = 0

    def run(self) -> Steps:
        """Goes on until there is no more to do."""
        asks = self._status is not None
        if not asks and not self._repeatable and self._course.in_doubt:
            # It may have been sent, and no key makes the two one.
            return self._unknown_for("it has no key, so it is not sent again")
        while True:
            if asks:
                seen = yield from self._ask()
            elif self._course.may_begin(self._policy, self._elapsed()):
                seen = yield from self._send()
            else:
                return self._too_late()
            step = self._decide(seen)
            if step is End.DONE:
                return self._done(seen)
            if step is End.REFUSED:
                return self._refused(seen)
            if not isinstance(step, (Resend, Ask)):
                return self._unknown(seen)
            self._evidence = seen.response or self._evidence
            if step.pause > 0:
                yield Pause(step.pause)
            asks = isinstance(step, Ask)

    def _send(self) -> Generator[Exchange, Optional[Result], _Seen]:
        self._sent += 1
        intent, headers = self._intent, self._intent.headers
        if self._tells_below:
            others = (field for field in headers if field[0].lower() != above.FIELD.lower())
            headers = (*others, (above.FIELD, above.ABOVE))
        request = self._exchange(intent.method, intent.url, headers, intent.body, self._tells_below)
        seen = self._read((yield request))
        if seen.response is not None:
            link = status.address(intent.url, seen.response.headers)
            self._status = link or self._status
        return seen

    def _ask(self) -> Generator[Exchange, Optional[Result], _Seen]:
        if self._status is None:
            nowhere = "its status is nowhere to be asked for"
            return _Seen(Status(OperationState.NOT_TOLD), None, nowhere)
        # It is no resend, and whether to ask again is decided here.
        headers = status.question(self._intent)
        seen = self._read((yield self._exchange("GET", self._status, headers, b"", True)))
        told = status.read(seen.observation, seen.response)
        return _Seen(told, None, f"its status is {told.state.value}: {seen.why}")

    def _exchange(
        self,
        method: str,
        url: str,
        headers: Tuple[Tuple[str, str], ...],
        body: bytes,
        retried: bool,
    ) -> Exchange:
        left = max(self._policy.deadline - self._elapsed(), 0.001)
        timeout = min(self._policy.attempt_timeout, left)
        return Exchange(method, url, headers, body, timeout, self._longest_content, retried)

    def _read(self, result: Optional[Result]) -> _Seen:
        if isinstance(result, Response):
            answer = facts(self._policy, result, time.time())
            kind = "" if answer.problem is None else f": {answer.problem.value}"
            return _Seen(answer, result, f"{answer.status}{kind}")
        assert isinstance(result, Failure), "an exchange is answered by its result"
        return _Seen(result.seen, None, result.why)

    def _decide(self, seen: _Seen) -> Next:
        def budget(cost: Cost) -> bool:
            taken = self._budget.take(cost)
            if taken is not None:
                self._last_taken = taken
            return taken is not None

        step = self._course.next(
            self._policy, seen.observation, self._elapsed(), random.random(), budget
        )
        # The service works where it answers with something else than that it does not.
        answer = seen.observation
        if step is End.DONE and isinstance(answer, Answer):
            if answer.kept or (answer.status < 500 and answer.status != 429):
                self._budget.succeed(self._last_taken)
        return step

    def _elapsed(self) -> float:
        return time.monotonic() - self._began

    def _done(self, seen: _Seen) -> Outcome:
        if seen.response is None:
            # An answer stands only where there is one.
            return self._unknown(seen)
        return Done(seen.response, is_replayed(seen.response.headers), self._sent)

    def _refused(self, seen: _Seen) -> Refused:
        why: Union[Problem, Refusal] = Refusal.NOT_APPLIED
        if isinstance(seen.observation, NeverSent):
            why = Refusal.NEVER_SENT
        elif isinstance(seen.observation, Answer) and seen.observation.problem is not None:
            why = seen.observation.problem
        return Refused(why, seen.response, seen.why, self._sent)

    def _unknown(self, seen: _Seen) -> Unknown:
        evidence = seen.response or self._evidence
        return Unknown(Operation(self._intent, self._status, evidence, seen.why, self._sent))

    def _too_late(self) -> Outcome:
        """The key is about to end, and is not sent any more."""
        if not self._course.in_doubt:
            why = Refusal.KEY_ENDS
            return Refused(why, self._evidence, why.value, self._sent)
        return self._unknown_for("the service is about to forget its key, so it is not sent again")

    def _unknown_for(self, why: str) -> Unknown:
        return Unknown(Operation(self._intent, self._status, self._evidence, why, self._sent))
