"""Reaches a service from httpx, without a socket. Imported only where an author uses httpx."""

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
