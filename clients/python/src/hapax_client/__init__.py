"""A client that retries safely: one key for one intent, kept until the outcome is known.

An :class:`Intent` owns its key before the first attempt and cannot be changed. A :class:`Client`
sends it until its outcome is known, as far as its :class:`Policy` and a budget go, and tells one of
three things: :class:`Done`, :class:`Refused` or :class:`Unknown`.

The transports are in ``hapax_client.requests_transport`` and ``hapax_client.httpx_transport``.
"""

from __future__ import annotations

from .above import retries, retrying, says
from .backoff import Backoff, Jitter
from .budget import Budget, Budgets, TokenBucket
from .client import AsyncClient, Client
from .intent import Intent, IntentError, KeyStyle
from .outcome import Done, Operation, Outcome, Refusal, Refused, Unknown
from .policy import Policy
from .problem import Problem
from .response import Headers, Response

__all__ = [
    "AsyncClient",
    "Backoff",
    "Budget",
    "Budgets",
    "Client",
    "Done",
    "Headers",
    "Intent",
    "IntentError",
    "Jitter",
    "KeyStyle",
    "Operation",
    "Outcome",
    "Policy",
    "Problem",
    "Refusal",
    "Refused",
    "Response",
    "TokenBucket",
    "Unknown",
    "retries",
    "retrying",
    "says",
]
