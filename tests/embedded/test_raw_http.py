"""No bytes on a socket can crash the server, hold it, stop a watch of another client or corrupt the log.

`make fuzz` sends 25,000 bad requests; the suite sends a few hundred of them.
"""

import logging
import os
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import anyio
import msgspec
import pytest
from anyio.abc import SocketStream
from hypothesis import Phase, event, given, settings
from hypothesis import strategies as st

from reconcile.embedded import http
from reconcile.embedded.http import ServerHandle, serve
from tests.embedded.api_client import WIDGETS, Api
from tests.embedded.bystanders import State, apply_event, furnished, listable, replayed, state_of
from tests.embedded.raw_http import Sent, raw_request

IN_FULL = 25_000
AT_ONCE = 50
"""Requests to one server: what one seed stands for."""

SEEDS = int(os.environ.get("FUZZ_REQUESTS", "400")) // AT_ONCE

PROBES = "/api/v1/namespaces/kube-system/configmaps"

SOON = 10.0
A_MOMENT = 0.01
"""Seconds that are waited for what may never be answered."""


class Bystander:
    """A client with a watch over HTTP: what it is told must stay the truth."""

    def __init__(self, path: str, listed: dict[str, Any]) -> None:
        self.path = path
        self.version = listed["metadata"]["resourceVersion"]
        self.state = state_of(listed)
        self.ended = False

    async def watch(self, session: aiohttp.ClientSession, url: str) -> None:
        query = {"watch": "true", "resourceVersion": self.version}
        async with session.get(f"{url}{self.path}", params=query) as response:
            assert response.status == 200
            async for line in response.content:
                told = msgspec.json.decode(line)
                apply_event(self.state, told["type"], told["object"])
        self.ended = True


class Loud(logging.Handler):
    """Takes down what the server's own code did not expect."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        if record.name.startswith("reconcile") or "Unhandled exception" in text:
            self.heard.append(text)


@asynccontextmanager
async def watched(api: Api) -> AsyncIterator[tuple[ServerHandle, list[Bystander]]]:
    """The server over HTTP, and a bystander for each collection."""
    bystanders = [Bystander(path, api.ok("GET", path)) for path in listable()]
    async with (
        serve(api.server, tls=False) as face,
        aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), read_bufsize=2**22, timeout=aiohttp.ClientTimeout()
        ) as session,
        anyio.create_task_group() as tasks,
    ):
        for bystander in bystanders:
            tasks.start_soon(bystander.watch, session, face.url)
        yield face, bystanders
        tasks.cancel_scope.cancel()


async def send(face: ServerHandle, sent: Sent) -> bytes:
    """Send it over a new connection and return what comes back, as far as that is waited for."""
    stream = await anyio.connect_tcp("127.0.0.1", face.port)
    async with stream:
        try:
            with anyio.move_on_after(SOON if sent.answered else 1):
                await stream.send(sent.data)
            return b"" if sent.abandoned else await _received(stream, sent)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return b""


async def _received(stream: SocketStream, sent: Sent) -> bytes:
    received = b""
    while True:
        with anyio.move_on_after(SOON if sent.answered else A_MOMENT) as limit:
            try:
                received += await stream.receive()
            except anyio.EndOfStream:
                return received
        if limit.cancelled_caught:
            assert not sent.answered, f"no answer to {sent.data[:500]!r}: {received!r}"
            return received


def status_of(answer: bytes) -> int:
    """The status of the first answer on a connection."""
    version, status, *_ = answer.split(b"\r\n", 1)[0].split(b" ")
    assert version.startswith(b"HTTP/"), answer[:100]
    return int(status)


async def sent_to(face: ServerHandle, sent: Sent) -> None:
    """Send one bad request: what is answered is HTTP."""
    answer = await send(face, sent)
    if not answer:
        assert not sent.answered, sent.data[:500]
        return
    status = status_of(answer)
    assert 100 <= status < 600
    event(f"{status // 100}xx")


async def assert_healthy(
    api: Api, face: ServerHandle, bystanders: list[Bystander], since: int, states: dict[str, State]
) -> None:
    """The server works, everybody knows the truth, and the log replays to it."""
    api.server.settle()
    for bystander in bystanders:
        answer = api.send("GET", bystander.path)
        if bystander.path == WIDGETS and (bystander.ended or answer.status == 404):
            continue  # a change of their definition ends watches
        with anyio.move_on_after(SOON):
            # What was abandoned may still be on its way, so what is true is asked for anew each time.
            while bystander.state != state_of(api.ok("GET", bystander.path)):
                await anyio.sleep(0.001)
        now = state_of(api.ok("GET", bystander.path))
        assert replayed(api.server, bystander.path, since, states[bystander.path]) == now
        assert bystander.state == now
        assert not bystander.ended
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{face.url}{PROBES}", json={"metadata": {"name": "probe"}}) as made,
    ):
        assert made.status == 201


async def one_seed(seed: int) -> None:
    chance = random.Random(seed)
    api = furnished()
    since, states = api.server.version, {path: state_of(api.ok("GET", path)) for path in listable()}
    with anyio.fail_after(120):
        async with watched(api) as (face, bystanders):
            for _ in range(AT_ONCE):
                await sent_to(face, raw_request(chance))
            await assert_healthy(api, face, bystanders, since, states)


@pytest.fixture(autouse=True, scope="module")
def told() -> Iterator[None]:
    """Say how much of the whole was run; seen with `-s`."""
    yield
    print(f"\n{SEEDS} of {IN_FULL // AT_ONCE} seeds run, {AT_ONCE} requests each")


@pytest.fixture(autouse=True, scope="module")
def loud() -> Iterator[Loud]:
    """What the server's own code said it had not expected."""
    handler = Loud()
    logging.getLogger().addHandler(handler)
    yield handler
    logging.getLogger().removeHandler(handler)


@pytest.fixture(autouse=True, scope="module")
def in_a_hurry() -> Iterator[None]:
    """Versions of the future are waited for as briefly as can be."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(http, "CATCHING_UP", 0.01)
        yield


@settings(max_examples=SEEDS, phases=[Phase.generate])  # a smaller seed is no simpler one
@pytest.mark.timeout(3600)
@given(st.integers(0, 2**32))
def test_no_bytes_on_a_socket_harm_the_server(loud: Loud, seed: int) -> None:
    anyio.run(one_seed, seed)
    assert not loud.heard


async def answer_to(data: bytes) -> bytes:
    async with serve(Api().server, tls=False) as face:
        return await send(face, Sent(data, answered=True))


async def test_selectors_may_be_as_long_as_in_a_real_server() -> None:
    selector = ",".join(f"label-{number}!=value" for number in range(4000))
    head = f"GET {WIDGETS}?labelSelector={selector} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    assert len(head) > 65_536
    assert status_of(await answer_to(head.encode())) == 200


async def test_malformed_http_is_refused_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    secret = b"GET /api HTTP/1.1\r\nAuthorization: Bearer \x00secret\r\n\r\n"
    assert status_of(await answer_to(secret)) == 400
    assert status_of(await answer_to(b"GET /api HTTP/0.9\r\nHost: a\r\n\r\n")) == 505
    assert not caplog.records


async def test_bytes_that_are_not_utf8_are_a_bad_request() -> None:
    body = b'"\xea(\xff"'
    head = b"POST %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    assert status_of(await answer_to(head % (WIDGETS.encode(), len(body)) + body)) == 400


async def test_a_warning_with_characters_that_headers_forbid_is_still_one_header() -> None:
    body = msgspec.json.encode({"metadata": {"name": "a"}, 'odd\r\n"\\\x00\x7fé': 1})
    path = "/api/v1/namespaces/default/configmaps"
    head = f"POST {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    answer = await answer_to(head.encode() + body)
    assert status_of(answer) == 201
    assert b"odd  " in answer
    assert answer.lower().count(b"\r\nwarning:") == 1
