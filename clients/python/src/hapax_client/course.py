"""The decision: what to do after what was seen.

One state machine, without clock, randomness and network: they are arguments. Its cases for all
languages are in ``clients/policy-cases.json``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Callable, Optional, Union

from .classify import Classified, classify
from .observation import Answer, Lost, NeverSent, Observation, OperationState, Said, Status
from .policy import Policy
from .problem import Problem


@dataclass(frozen=True)
class Resend:
    """To send it again after a pause: the service may work on it."""

    pause: float


@dataclass(frozen=True)
class Ask:
    """To ask for the status of the operation after a pause."""

    pause: float


class End(Enum):
    """Nothing more now."""

    DONE = "done"
    """The answer is the service's, and it stands."""
    REFUSED = "refused"
    """The request was refused or never arrived, and nothing of it happened here."""
    UNKNOWN = "unknown"
    """It may have taken effect."""


Next = Union[Resend, Ask, End]
"""What to do next with an intent."""


class Cost(Enum):
    """What a resend takes from the budget."""

    TRANSIENT = "transient"
    """The service, or the way to it, failed."""
    THROTTLED = "throttled"
    """The service has too much to do."""


@dataclass(frozen=True)
class Request:
    """What kind of request an intent is, and in what circumstances it is sent."""

    safe: bool = False
    """Whether it has no effect whatever becomes of it (RFC 9110, section 9.2.1)."""
    repeatable: bool = True
    """Whether it may be sent again: it has a key, or is idempotent by itself (section 9.2.2)."""
    idempotent: bool = False
    """Whether it may be sent again without a key, too (section 9.2.2)."""
    retried_above: bool = False
    """Whether somebody above already sends again what fails: then this is sent once."""
    in_doubt: bool = False
    """Whether an earlier attempt may have taken effect, as after a restart."""
    key_age: float = 0.0
    """How old the key is already."""


@dataclass(frozen=True)
class _Again:
    """To send again. ``counts`` as an attempt where the service may work on it; ``floor`` is how
    long it asked not to be asked."""

    cost: Optional[Cost]
    counts: bool
    floor: float


@dataclass(frozen=True)
class _Wait:
    """To send again, or to ask, until what is under way has ended."""

    floor: float


class _Plain(Enum):
    FETCH = "fetch"
    """To fetch what is there."""
    STOP = "stop"
    """Nothing."""


# What an observation asks for, before it is known whether that may be.
_Wish = Union[_Again, _Wait, _Plain]

# The service could not work on it, or did not get to answering.
_PASSING = frozenset({408, 425, 429, 502, 503, 504})

# They tell of the operation itself, whatever was in doubt before.
_OF_THE_OPERATION = frozenset({Problem.KEY_EXPIRED, Problem.OUTCOME_NOT_KEPT})


class Course:
    """The course of an intent: what was seen so far, as far as it matters for what is next."""

    def __init__(self, policy: Policy, request: Request, *, status_known: bool = False) -> None:
        """A course before its first attempt. ``status_known`` is whether its status can be asked
        for already."""
        self._request = request
        # Attempts that the service may have worked on.
        self._attempts = 0
        # Failures without an answer in between, those that never left included.
        self._failures = 0
        # Whether the service works, or has worked, on what is not counted yet.
        self._uncounted = False
        # Times that it waited for an operation that was under way.
        self._waits = 0
        self._last_pause = 0.0
        self._in_doubt = request.in_doubt
        # When the service forgets the key, from the beginning of the course on.
        self._key_end: Optional[float] = None
        if policy.key_lifetime is not None:
            self._key_end = max(policy.key_lifetime - request.key_age, 0.0)
        self._status_known = status_known

    def may_begin(self, policy: Policy, elapsed: float) -> bool:
        """Whether the key may be sent now, ``elapsed`` since the beginning, or ends too soon."""
        return self._key_lives(policy, elapsed)

    @property
    def in_doubt(self) -> bool:
        """Whether something may have taken effect that no answer has told of."""
        return self._in_doubt

    def next(
        self,
        policy: Policy,
        seen: Observation,
        elapsed: float,
        random: float,
        budget: Callable[[Cost], bool],
    ) -> Next:
        """What to do after an observation, ``elapsed`` since the beginning.

        ``random`` is even in ``0.0..1.0``. ``budget`` is asked for a resend when nothing else
        stands against it.
        """
        wish = self._take_in(policy, seen, elapsed)
        last = self._verdict(seen)
        if self._request.retried_above:
            return last
        step: Union[Resend, Ask]
        if wish is _Plain.STOP:
            return last
        if not self._request.repeatable and not isinstance(wish, _Again):
            return last
        if wish is _Plain.FETCH and self._attempts > policy.attempts:
            # One fetch is free; where what is there cannot be had, more of them are a load like any.
            wish = _Again(Cost.TRANSIENT, counts=False, floor=0.0)
        if isinstance(wish, _Wait):
            pause = self._waiting(policy, wish.floor, random)
            step = Ask(pause) if self._status_known else Resend(pause)
        elif isinstance(wish, _Again):
            spent = wish.counts and self._attempts >= policy.attempts
            if (not self._request.repeatable and wish.counts) or spent:
                return self._or_ask(policy, last, elapsed, random)
            step = Resend(self._pausing(policy, wish, random))
        else:
            step = Resend(0.0)
        then = elapsed + step.pause
        if then >= policy.deadline:
            return last
        if isinstance(step, Resend):
            if not self._key_lives(policy, then):
                return self._or_ask(policy, last, elapsed, random)
            if isinstance(wish, _Again) and wish.cost is not None and not budget(wish.cost):
                return self._or_ask(policy, last, elapsed, random)
        self._last_pause = step.pause
        return step

    def _take_in(self, policy: Policy, seen: Observation, elapsed: float) -> _Wish:
        """What an observation wishes; what it says is remembered."""
        if isinstance(seen, NeverSent):
            self._failures += 1
            return _Plain.STOP if seen.lasting else _Again(cost=None, counts=False, floor=0.0)
        if isinstance(seen, Lost):
            self._count()
            self._in_doubt = True
            self._failures += 1
            return _Again(Cost.TRANSIENT, counts=True, floor=0.0)
        if isinstance(seen, Answer):
            self._status_known |= seen.names_status
            if seen.expires_in is not None:
                end = elapsed + seen.expires_in
                self._key_end = end if self._key_end is None else min(self._key_end, end)
            return self._take_in_answer(policy, seen)
        floor = _longest(policy, seen.retry_after)
        if seen.state is OperationState.ENDED:
            return _Plain.FETCH
        if seen.state is OperationState.NOT_APPLIED:
            self._in_doubt = False
            if self._uncounted:
                self._count()
            return _Again(cost=None, counts=True, floor=floor)
        if seen.state is OperationState.NOT_TOLD:
            self._status_known = False
            if not self._uncounted:
                # What is under way is asked for with its key; here the service may have to work.
                return _Again(Cost.TRANSIENT, counts=True, floor=floor)
        return _Wait(floor)

    def _take_in_answer(self, policy: Policy, answer: Answer) -> _Wish:
        floor = _longest(policy, answer.retry_after)
        if answer.problem is None:
            # The service's own word comes before what its statuses usually mean.
            under_way = answer.said is Said.UNKNOWN or (
                answer.said is None
                and not answer.kept
                and answer.status in policy.in_flight_statuses
            )
        else:
            # Where it may be sent again, the status says so to everybody.
            under_way = answer.problem is Problem.IN_FLIGHT or (
                answer.problem is Problem.OUTCOME_UNKNOWN and answer.status != 503
            )
        if under_way:
            self._in_doubt = True
            self._uncounted = True
            return _Wait(floor)
        self._count()
        if answer.said is Said.NOT_APPLIED:
            self._in_doubt = False
        if answer.problem is None:
            unknown = not answer.kept and classify(answer, clean=True) is Classified.UNCERTAIN
            stands = answer.kept or answer.said is Said.APPLIED
            again = not stands and answer.status in _PASSING
        else:
            unknown = answer.problem in (Problem.OUTCOME_UNKNOWN, Problem.UPSTREAM_FAILED) or (
                answer.problem is Problem.HANDLER_FAILED and answer.said is not Said.NOT_APPLIED
            )
            again = answer.problem.may_be_repeated
            if answer.problem is Problem.UPSTREAM_FAILED:
                # No key protects it.
                again = self._request.idempotent
        self._in_doubt |= unknown
        if not again:
            return _Plain.STOP
        self._failures += 1
        throttled = answer.status == 429 or (
            answer.status == 503 and answer.retry_after is not None
        )
        cost = Cost.THROTTLED if throttled else Cost.TRANSIENT
        return _Again(cost, counts=True, floor=floor)

    def _count(self) -> None:
        self._attempts += 1
        self._uncounted = False
        self._waits = 0

    def _verdict(self, seen: Observation) -> End:
        """What it comes to when nothing more is done."""
        refused = End.UNKNOWN if self._in_doubt else End.REFUSED
        if isinstance(seen, NeverSent):
            return refused
        if isinstance(seen, Lost):
            return End.UNKNOWN
        if isinstance(seen, Status):
            is_free = seen.state is OperationState.NOT_APPLIED
            return End.REFUSED if is_free else End.UNKNOWN
        if seen.problem in (Problem.IN_FLIGHT, Problem.OUTCOME_UNKNOWN):
            return End.UNKNOWN
        if seen.problem in _OF_THE_OPERATION:
            return End.REFUSED
        if seen.problem is Problem.KEY_REUSED and not self._request.in_doubt:
            # Another intent has the key. What was sent before this course began may have been that
            # one: its content or its fields may have been others.
            return End.REFUSED
        if seen.problem is not None:
            return refused
        if self._request.safe or (seen.kept and seen.said is not Said.UNKNOWN):
            return End.DONE
        uncertain = classify(seen, clean=not self._in_doubt) is Classified.UNCERTAIN
        return End.UNKNOWN if uncertain else End.DONE

    def _or_ask(self, policy: Policy, last: End, elapsed: float, random: float) -> Next:
        """Where the outcome is unknown and its status can be asked for, that is done."""
        if last is not End.UNKNOWN or not self._status_known:
            return last
        pause = self._waiting(policy, 0.0, random)
        if elapsed + pause >= policy.deadline:
            return last
        self._last_pause = pause
        return Ask(pause)

    def _pausing(self, policy: Policy, wish: _Again, random: float) -> float:
        base = policy.backoff.base
        if wish.cost is Cost.THROTTLED:
            base = max(policy.throttled_base, base)
        backoff = replace(policy.backoff, base=base)
        return wish.floor + backoff.pause(max(self._failures, 1), self._last_pause, random)

    def _waiting(self, policy: Policy, floor: float, random: float) -> float:
        self._waits += 1
        return floor + policy.waiting.pause(self._waits, self._last_pause, random)

    def _key_lives(self, policy: Policy, at: float) -> bool:
        if self._key_end is None:
            return True
        # What lives shorter than the margin may be sent for half of its life, counted from when it
        # was made: an old key has no shorter margin.
        life = self._request.key_age + self._key_end
        return at + min(policy.lifetime_margin, life / 2) < self._key_end


def _longest(policy: Policy, asked: Optional[float]) -> float:
    """How long a service may make the client wait."""
    return min(asked or 0.0, policy.longest_retry_after)
