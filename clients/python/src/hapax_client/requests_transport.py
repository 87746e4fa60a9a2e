"""Sending through ``requests``."""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import time
from contextvars import ContextVar
from typing import Any, Dict, List, Optional, Tuple, Union

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import ConnectTimeoutError, MaxRetryError, NewConnectionError

from .exchange import Exchange, Failure, Result, reasons
from .observation import Lost, NeverSent
from .response import Headers, Response

_PIECE = 64 * 1024


class RequestsTransport:
    """Sends through a session of ``requests``: one request each time, without redirects.

    Of a session that is given, the fields, cookies, authentication, proxies, hooks and certificates
    are used, as they are when this is made. Its adapters are not: they may send again by
    themselves.
    """

    def __init__(
        self, session: Optional[requests.Session] = None, *, connect_timeout: float = 5.0
    ) -> None:
        """``connect_timeout`` is how long a connection may take. One that takes longer is none, and
        no attempt: nothing was sent."""
        self._session = requests.Session()
        for name in _SHARED if session is not None else ():
            setattr(self._session, name, getattr(session, name))
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, _Adapter(max_retries=0))
        self._connect_timeout = connect_timeout

    def exchange(self, request: Exchange) -> Result:
        """Sends a request and reads its whole answer, within its time."""
        end = time.monotonic() + request.timeout
        before = _END.set(end)
        try:
            with self._session.request(
                request.method,
                request.url,
                headers=_merged(request),
                data=request.body,
                allow_redirects=False,
                stream=True,
                timeout=(min(self._connect_timeout, request.timeout), request.timeout),
                # Left to the session, a variable of the environment goes before it.
                verify=self._session.verify,
            ) as answer:
                return _read(answer, request)
        except (requests.RequestException, http.client.HTTPException, OSError) as error:
            return Failure(_reached(error), reasons(error))
        finally:
            _END.reset(before)

    def close(self) -> None:
        """Closes its connections."""
        self._session.close()


# What is taken of a session that is given.
_SHARED = (
    "headers",
    "cookies",
    "auth",
    "proxies",
    "hooks",
    "params",
    "verify",
    "cert",
    "trust_env",
)

# When the exchange of this context ends, on the monotonic clock.
_END: ContextVar[float] = ContextVar("hapax_end")


def _merged(request: Exchange) -> Dict[str, str]:
    """A field that is there several times is one with a list (RFC 9110, section 5.3)."""
    merged: Dict[str, Tuple[str, List[str]]] = {}
    for name, value in request.headers:
        merged.setdefault(name.lower(), (name, []))[1].append(value)
    return {name: ", ".join(values) for name, values in merged.values()}


def _read(answer: requests.Response, request: Exchange) -> Response:
    content, cut = bytearray(), False
    for piece in answer.iter_content(_PIECE):
        room = request.longest_content - len(content)
        content += piece[:room]
        if len(piece) > room:
            cut = True
            break
    return Response(answer.status_code, Headers.of(answer.raw.headers.items()), bytes(content), cut)


def _reached(error: Exception) -> Union[NeverSent, Lost]:
    """Whether a request may have been sent: not without a connection."""
    if isinstance(error, ValueError):
        # An address or a field that it does not take.
        return NeverSent(lasting=True)
    reason: Any = error.args[0] if error.args else None
    if isinstance(reason, MaxRetryError):
        reason = reason.reason
    if isinstance(reason, (NewConnectionError, ConnectTimeoutError)):
        return NeverSent()
    # A certificate is looked at before anything is sent.
    while isinstance(reason, Exception) and not isinstance(reason, ssl.SSLCertVerificationError):
        reason = reason.args[0] if reason.args else None
    if isinstance(reason, ssl.SSLCertVerificationError):
        return NeverSent(lasting=True)
    return Lost()


class _Timed(io.RawIOBase):
    """What a socket brings until the exchange ends: a bound for each read alone would let a service
    send one byte after the other for ever."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket, end: float) -> None:
        self._raw, self._sock, self._end = raw, sock, end

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> Optional[int]:
        left = self._end - time.monotonic()
        if left <= 0:
            raise socket.timeout("the time of the attempt is over")
        self._sock.settimeout(left)
        return self._raw.readinto(into)

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()


class _Lines:
    """The lines of a head: one that ends before its last line is none. ``http.client`` takes it for
    a whole one, with an empty body."""

    def __init__(self, fp: Any) -> None:
        self._fp = fp

    def readline(self, limit: int = -1) -> bytes:
        line: bytes = self._fp.readline(limit)
        if not line.endswith(b"\n") and not 0 < limit <= len(line):
            raise http.client.IncompleteRead(line)
        return line

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fp, name)


class _WholeAnswer(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, **more: Any) -> None:
        super().__init__(sock, *args, **more)
        end = _END.get(None)
        if end is not None:
            raw = self.fp.detach()
            self.fp = io.BufferedReader(_Timed(raw, sock, end))

    def begin(self) -> None:
        whole = self.fp
        self.fp = _Lines(whole)  # type: ignore[assignment]
        try:
            super().begin()
        finally:
            # Without a body it is closed already.
            if self.fp is not None:
                self.fp = whole


class _Connection(HTTPConnection):
    response_class = _WholeAnswer


class _TlsConnection(HTTPSConnection):
    response_class = _WholeAnswer


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


_POOLS = {"http": _Pool, "https": _TlsPool}


class _Adapter(HTTPAdapter):
    def init_poolmanager(self, *args: Any, **more: Any) -> None:
        super().init_poolmanager(*args, **more)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, *args: Any, **more: Any) -> Any:
        manager = super().proxy_manager_for(*args, **more)
        manager.pool_classes_by_scheme = _POOLS
        return manager
