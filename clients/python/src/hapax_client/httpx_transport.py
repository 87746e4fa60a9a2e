"""Sending through ``httpx``."""

from __future__ import annotations

import asyncio
import ssl
import time
from typing import Any, Dict, Optional, Union

import httpx

from .exchange import Exchange, Failure, Result, reasons
from .observation import Lost, NeverSent
from .response import Headers, Response


class HttpxTransport:
    """Sends through an ``httpx.Client``: one request each time, without redirects.

    Its head has to come without pauses as long as the time of the attempt; the time of the whole
    answer is looked at with each piece of its content.
    """

    def __init__(
        self, client: Optional[httpx.Client] = None, *, connect_timeout: float = 5.0
    ) -> None:
        """``connect_timeout`` is how long a connection may take. One that takes longer is none, and
        no attempt: nothing was sent."""
        self._client = httpx.Client() if client is None else client
        self._connect_timeout = connect_timeout

    def exchange(self, request: Exchange) -> Result:
        """Sends a request and reads its whole answer, within its time."""
        end = time.monotonic() + request.timeout
        try:
            with self._client.stream(**_arguments(request, self._connect_timeout)) as answer:
                content = _Content(request.longest_content)
                for piece in answer.iter_bytes():
                    if time.monotonic() > end:
                        raise httpx.ReadTimeout("the time of the attempt is over")
                    if not content.takes(piece):
                        break
                return content.response(answer)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return Failure(_reached(error), reasons(error))

    def close(self) -> None:
        """Closes its connections."""
        self._client.close()


class AsyncHttpxTransport:
    """As :class:`HttpxTransport`, through an ``httpx.AsyncClient`` of ``asyncio``; the time of an
    attempt is that of its whole answer."""

    def __init__(
        self, client: Optional[httpx.AsyncClient] = None, *, connect_timeout: float = 5.0
    ) -> None:
        """``connect_timeout`` as for :class:`HttpxTransport`."""
        self._client = httpx.AsyncClient() if client is None else client
        self._connect_timeout = connect_timeout

    async def exchange(self, request: Exchange) -> Result:
        """Sends a request and reads its whole answer, within its time."""
        try:
            return await asyncio.wait_for(self._exchange(request), request.timeout)
        except asyncio.TimeoutError:
            return Failure(Lost(), f"no complete answer within {request.timeout:.3f} s")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return Failure(_reached(error), reasons(error))

    async def _exchange(self, request: Exchange) -> Response:
        async with self._client.stream(**_arguments(request, self._connect_timeout)) as answer:
            content = _Content(request.longest_content)
            async for piece in answer.aiter_bytes():
                if not content.takes(piece):
                    break
            return content.response(answer)

    async def aclose(self) -> None:
        """Closes its connections."""
        await self._client.aclose()


class _Content:
    """The content up to a length."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._bytes = bytearray()
        self._cut = False

    def takes(self, piece: bytes) -> bool:
        """Takes a piece; whether there is room for more."""
        room = self._longest - len(self._bytes)
        self._bytes += piece[:room]
        self._cut = len(piece) > room
        return not self._cut

    def response(self, answer: httpx.Response) -> Response:
        headers = Headers.of(answer.headers.multi_items())
        return Response(answer.status_code, headers, bytes(self._bytes), self._cut)


def _arguments(request: Exchange, connect_timeout: float) -> Dict[str, Any]:
    return {
        "method": request.method,
        "url": request.url,
        "headers": list(request.headers),
        "content": request.body,
        "follow_redirects": False,
        "timeout": httpx.Timeout(request.timeout, connect=min(connect_timeout, request.timeout)),
    }


def _reached(error: Exception) -> Union[NeverSent, Lost]:
    """Whether a request may have been sent: not without a connection."""
    if isinstance(error, (httpx.InvalidURL, httpx.UnsupportedProtocol)):
        return NeverSent(lasting=True)
    if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)):
        cause: Optional[BaseException] = error
        while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
            cause = cause.__cause__ or cause.__context__
        return NeverSent(lasting=cause is not None)
    return Lost()
