"""The client: what sends intents through a transport."""

from __future__ import annotations

import asyncio
import time
from typing import Optional

from . import above
from .budget import Budgets
from .drive import Drive, Pause, Steps
from .exchange import AsyncTransport, Exchange, Result, Transport
from .intent import Intent
from .outcome import Operation, Outcome
from .policy import Policy

# Answers are kept up to 16 MiB.
_LONGEST_CONTENT = 16 << 20


class _Settings:
    """What both clients know."""

    def __init__(
        self,
        policy: Optional[Policy] = None,
        budgets: Optional[Budgets] = None,
        longest_content: int = _LONGEST_CONTENT,
    ) -> None:
        self._policy = Policy() if policy is None else policy
        self._budgets = Budgets() if budgets is None else budgets
        self._longest_content = longest_content

    def _steps(self, intent: Intent, operation: Optional[Operation] = None) -> Steps:
        drive = Drive(self._policy, self._budgets, self._longest_content, intent, operation)
        return drive.run()


class Client(_Settings):
    """A client that sends intents until their outcomes are known, or it is known that they are not.

    Threads may share it where they may share what is below its transport. To share a budget with
    other clients of the process, give them the same :class:`Budgets`.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        policy: Optional[Policy] = None,
        budgets: Optional[Budgets] = None,
        longest_content: int = _LONGEST_CONTENT,
    ) -> None:
        super().__init__(policy, budgets, longest_content)
        self._transport = transport

    def send(self, intent: Intent) -> Outcome:
        """Sends an intent until its outcome is known, as far as the policy goes.

        Interrupted in the middle (``KeyboardInterrupt``), the intent may have been sent: find out
        what became of ``Operation.of(intent)``.
        """
        return self._run(self._steps(intent))

    def find_out(self, operation: Operation) -> Outcome:
        """Finds out what became of an operation: asks for its status where that is known, and sends
        its intent again, with its key."""
        return self._run(self._steps(operation.intent, operation))

    def _run(self, steps: Steps) -> Outcome:
        result: Optional[Result] = None
        while True:
            try:
                step = steps.send(result)
            except StopIteration as end:
                outcome: Outcome = end.value
                return outcome
            result = None
            if isinstance(step, Pause):
                time.sleep(step.seconds)
            else:
                result = self._exchange(step)

    def _exchange(self, request: Exchange) -> Result:
        # Clients that this request is handed to within the process do not retry.
        with above.retrying(request.retried):
            return self._transport.exchange(request)


class AsyncClient(_Settings):
    """As :class:`Client`, for ``asyncio``."""

    def __init__(
        self,
        transport: AsyncTransport,
        *,
        policy: Optional[Policy] = None,
        budgets: Optional[Budgets] = None,
        longest_content: int = _LONGEST_CONTENT,
    ) -> None:
        super().__init__(policy, budgets, longest_content)
        self._transport = transport

    async def send(self, intent: Intent) -> Outcome:
        """Sends an intent until its outcome is known, as far as the policy goes.

        Cancelled in the middle, the intent may have been sent: find out what became of
        ``Operation.of(intent)``.
        """
        return await self._run(self._steps(intent))

    async def find_out(self, operation: Operation) -> Outcome:
        """Finds out what became of an operation: asks for its status where that is known, and sends
        its intent again, with its key."""
        return await self._run(self._steps(operation.intent, operation))

    async def _run(self, steps: Steps) -> Outcome:
        result: Optional[Result] = None
        while True:
            try:
                step = steps.send(result)
            except StopIteration as end:
                outcome: Outcome = end.value
                return outcome
            result = None
            if isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
            else:
                with above.retrying(step.retried):
                    result = await self._transport.exchange(step)
