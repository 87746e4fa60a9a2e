"""What a caller wants to happen once: a request that is frozen with its key."""

from __future__ import annotations

import json as _json
import re
import secrets
import time
import uuid
from enum import Enum
from typing import Any, Iterable, Mapping, NoReturn, Optional, Tuple, Union
from urllib.parse import urlsplit

from .course import Request

HeadersLike = Union[Mapping[str, str], Iterable[Tuple[str, str]]]

_SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_IDEMPOTENT = _SAFE | {"PUT", "DELETE"}
_OURS = frozenset({"content-length", "transfer-encoding", "connection", "idempotency-key"})
_LONGEST_KEY = 255
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t -~]*")


class KeyStyle(Enum):
    """How a key is written in its field."""

    QUOTED = "quoted"
    """As a String in double quotes (RFC 9651), as the draft of the field has it."""
    BARE = "bare"
    """Its bare characters, as most deployed services document it."""


class IntentError(ValueError):
    """Why there is no intent. Nothing was sent."""


class Intent:
    """One intent: a request with its key, made before the first attempt and the same in each.

    Nothing of it can be changed: an intent that changed is another one, with another key.
    """

    __slots__ = ("method", "url", "headers", "body", "key", "made", "destination")

    method: str
    url: str
    headers: Tuple[Tuple[str, str], ...]
    """Its fields, with that of the key."""
    body: bytes
    key: Optional[str]
    made: float
    """When its key was made, in seconds since 1970."""
    destination: str
    """Scheme, host and port: what a budget is of."""

    def __init__(
        self,
        method: str,
        url: str,
        *,
        headers: HeadersLike = (),
        json: Any = None,
        body: Union[bytes, bytearray, memoryview, str] = b"",
        key: Optional[str] = None,
        without_key: bool = False,
        key_style: KeyStyle = KeyStyle.QUOTED,
        made: Optional[float] = None,
    ) -> None:
        """Freezes a request. ``POST``, ``PATCH`` and whatever else is not idempotent get a key of
        their own (a UUIDv7), if they have none.

        ``key`` is a key that the caller has for it: one that was written down (``made`` is when),
        or a natural one such as the number of an order. ``without_key`` sends it without any, and
        so once, unless it is idempotent by itself. ``json`` is written as the content, and its
        media type set. Raises :class:`IntentError`.
        """
        method = method.upper()
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        fields = [(name, value) for name, value in pairs]
        content = body.encode() if isinstance(body, str) else bytes(body)
        if json is not None:
            if content:
                raise IntentError("there is one content: give json or body")
            content = _written(json)
            fields = [field for field in fields if field[0].lower() != "content-type"]
            fields.append(("Content-Type", "application/json"))
        if without_key and key is not None:
            raise IntentError("give a key, or say that it goes without")
        if key is None and not without_key and method not in _IDEMPOTENT:
            key = uuid7()
        _check(fields)
        if key is not None:
            fields.append(("Idempotency-Key", _field(key, key_style)))
        for name, value in (
            ("method", method),
            ("url", url),
            ("headers", tuple(fields)),
            ("body", content),
            ("key", key),
            ("made", time.time() if made is None else made),
            ("destination", _destination(url)),
        ):
            object.__setattr__(self, name, value)

    @classmethod
    def post(cls, url: str, **more: Any) -> Intent:
        """An intent to ``POST``."""
        return cls("POST", url, **more)

    def request_facts(self, *, retried_above: bool, in_doubt: bool, now: float) -> Request:
        """What is known of it before it is sent."""
        is_safe = self.method in _SAFE
        return Request(
            safe=is_safe,
            repeatable=self.key is not None or self.method in _IDEMPOTENT,
            idempotent=self.method in _IDEMPOTENT,
            retried_above=retried_above,
            in_doubt=in_doubt and not is_safe,
            key_age=max(now - self.made, 0.0),
        )

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("an intent cannot be changed: make another one")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("an intent cannot be changed: make another one")

    # Without the key and the content, which may be nobody's business.
    def __repr__(self) -> str:
        return f"Intent({self.method} {self.url}, {len(self.body)} bytes)"


def uuid7() -> str:
    """A UUID of version 7 (RFC 9562, section 5.7): it begins with the time, so that the records of
    one time are in one place of the service's store."""
    milliseconds = time.time_ns() // 1_000_000
    value = (milliseconds & (1 << 48) - 1) << 80 | secrets.randbits(80)
    value = value & ~(0xF << 76) | 7 << 76
    value = value & ~(0x3 << 62) | 2 << 62
    return str(uuid.UUID(int=value))


def _written(json: Any) -> bytes:
    try:
        text = _json.dumps(json, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise IntentError(f"the content cannot be written as JSON: {error}") from error


def _destination(url: str) -> str:
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme.lower(), parts.hostname, parts.port
    except ValueError as error:
        raise IntentError(f"the address {url} cannot be read: {error}") from error
    if scheme not in ("http", "https") or not host:
        raise IntentError(f"the address {url} is not absolute; write it with https:// and a host")
    host = f"[{host}]" if ":" in host else host
    return f"{scheme}://{host}" if port is None else f"{scheme}://{host}:{port}"


def _check(fields: Iterable[Tuple[str, str]]) -> None:
    for name, value in fields:
        if name.lower() in _OURS:
            raise IntentError(f"the field {name} is set by the client; leave it out")
        if not (_NAME.fullmatch(name) and _VALUE.fullmatch(value)):
            raise IntentError(f"the field {name} has characters that no field can carry")


def _field(key: str, style: KeyStyle) -> str:
    if not 1 <= len(key) <= _LONGEST_KEY:
        raise IntentError(f"a key has 1 to {_LONGEST_KEY} characters")
    if not all(" " <= character <= "~" for character in key):
        raise IntentError("the key has characters that a field cannot carry; use printable ASCII")
    if style is KeyStyle.BARE:
        return key
    escaped = key.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
