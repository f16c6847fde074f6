"""Reaches a service from httpx, without a socket. Imported only where an author uses httpx."""

from collections.abc import Mapping
from typing import Protocol

import anyio
import httpx

from reconcile.testing.fake_services.service_laws import AnswerLost, Exchange, ServiceUnreachable


class ServiceTransport(httpx.AsyncBaseTransport):
    """Hands requests to a service, under any host name. Keeps the client's time-out for reading."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Raises httpx.ConnectError, ReadError and ReadTimeout, as a network does."""
        body = await request.aread()
        target = request.url.raw_path.decode("ascii")
        seconds = request.extensions.get("timeout", {}).get("read")
        try:
            with anyio.fail_after(seconds):
                answer = await self._exchange(request.method, target, dict(request.headers), body)
        except TimeoutError:
            raise httpx.ReadTimeout("no answer in time", request=request) from None
        except ServiceUnreachable as error:
            raise httpx.ConnectError(str(error), request=request) from None
        except AnswerLost as error:
            raise httpx.ReadError(str(error), request=request) from None
        return httpx.Response(answer.status, headers=dict(answer.headers), content=answer.body)


class Record(Protocol):
    """Keeps one request and its answer."""

    def __call__(
        self,
        method: str,
        target: str,
        body: bytes,
        status: int,
        answer: bytes,
        *,
        headers: Mapping[str, str],
        answer_headers: Mapping[str, str],
    ) -> None: ...


class RecordingTransport(httpx.AsyncBaseTransport):
    """Passes requests on to another transport, and keeps what is answered."""

    def __init__(self, inner: httpx.AsyncBaseTransport, record: Record) -> None:
        self._inner = inner
        self._record = record

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Raises what the inner transport raises; that is not recorded."""
        body = await request.aread()
        answer = await self._inner.handle_async_request(request)
        content = await answer.aread()
        self._record(
            request.method,
            request.url.raw_path.decode("ascii"),
            body,
            answer.status_code,
            content,
            headers=dict(request.headers),
            answer_headers=dict(answer.headers),
        )
        return answer

    async def aclose(self) -> None:
        """Close the inner transport."""
        await self._inner.aclose()
