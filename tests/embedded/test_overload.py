"""What the server says to one request too many."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import anyio
import pytest

from reconcile.embedded import ApiServer
from reconcile.embedded.http import Face, serve

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
SLOW = (
    b"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    b"Content-Length: 34\r\n\r\n"
)
BODY = b'{"metadata":{"generateName":"a-"}}'


@asynccontextmanager
async def unfinished(face: Face) -> AsyncIterator[anyio.abc.SocketStream]:
    """A request whose body is still to come."""
    async with await anyio.connect_tcp("127.0.0.1", face.port) as stream:
        await stream.send(SLOW)
        yield stream


async def status_of(session: aiohttp.ClientSession) -> int:
    async with session.get(CONFIG_MAPS) as answer:
        await answer.read()
        return answer.status


@pytest.mark.rule("api-25")
async def test_one_request_too_many_is_a_text_that_says_when_to_come_back() -> None:
    async with (
        serve(ApiServer(), tls=False, max_in_flight=2) as face,
        aiohttp.ClientSession(face.url) as session,
        unfinished(face) as first,
        unfinished(face),
    ):
        while await status_of(session) != 429:
            await anyio.sleep(0.01)
        async with session.post(CONFIG_MAPS, data=BODY) as answer:
            assert answer.status == 429
            assert answer.headers["Retry-After"] == "1"
            assert answer.headers["Content-Type"].startswith("text/plain")
            assert await answer.text() == "Too many requests, please try again later.\n"
        await first.send(BODY)
        assert b" 201 " in await first.receive()
        while await status_of(session) != 200:
            await anyio.sleep(0.01)


async def test_watches_do_not_count() -> None:
    async with (
        serve(ApiServer(), tls=False, max_in_flight=1) as face,
        aiohttp.ClientSession(face.url) as session,
        session.get(CONFIG_MAPS, params={"watch": "true"}) as one,
        session.get(CONFIG_MAPS, params={"watch": "true"}) as other,
    ):
        assert (one.status, other.status) == (200, 200)
        assert await status_of(session) == 200


async def test_who_hangs_up_gives_the_place_free() -> None:
    async with (
        serve(ApiServer(), tls=False, max_in_flight=1) as face,
        aiohttp.ClientSession(face.url) as session,
    ):
        async with unfinished(face):
            while await status_of(session) != 429:
                await anyio.sleep(0.01)
        with anyio.fail_after(5):
            while await status_of(session) != 200:
                await anyio.sleep(0.01)
