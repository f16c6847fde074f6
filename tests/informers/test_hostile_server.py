"""An informer against a server of bare sockets that does everything wrong: nothing is lost, nothing spins."""

import asyncio
import gc
import json
import os
import tracemalloc
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import pytest
from attrs import define, field

from informers import APIResource, Delta, Informer, Key
from tests.helpers.tasks import beside
from tests.informers.conftest import Connect
from tests.informers.http_peer import CHUNKED, END_OF_CHUNKS, Peer, Seen, chunk, reply, serving
from tests.informers.watch_lines import error, line, pod, whole

PODS = APIResource("", "v1", "Pod", "pods")
RECONNECTS = int(os.environ.get("RECONNECTS", "300"))
IN_FULL = 10_000
LONGEST = 1 << 20
Mischief = Callable[["Server", asyncio.StreamWriter, bytes], Awaitable[None]]


@define(eq=False)
class Server:
    """Serves pods from a log of changes; each `mischief` befalls one watch instead of its next event."""

    objects: dict[str, int] = field(factory=dict)
    log: list[tuple[int, str, str]] = field(factory=list)
    mischief: deque[Mischief] = field(factory=deque)
    streaming: bool = True
    token: str = ""
    version: int = 100
    lists: int = 0
    watches: int = 0
    _news: asyncio.Event = field(factory=asyncio.Event)

    def change(self, name: str, *, gone: bool = False) -> None:
        self.version += 1
        kind = "DELETED" if gone else "MODIFIED" if name in self.objects else "ADDED"
        self.objects.pop(name, None)
        if not gone:
            self.objects[name] = self.version
        self.log.append((self.version, kind, name))
        self._news.set()
        self._news = asyncio.Event()

    async def answer(self, seen: Seen, writer: asyncio.StreamWriter) -> None:
        if self.token and seen.headers.get("authorization") != f"Bearer {self.token}":
            writer.write(reply(401, b"who are you"))
            return
        query = {name: values[0] for name, values in parse_qs(urlsplit(seen.target).query).items()}
        if "watch" not in query:
            self.lists += 1
            content = {"metadata": {"resourceVersion": str(self.version)}, "items": self._items()}
            writer.write(reply(200, json.dumps(content).encode()))
        elif "sendInitialEvents" in query and not self.streaming:
            writer.write(reply(422, b"sendInitialEvents is forbidden for watch"))
        else:
            self.watches += 1
            await self._watch(query, writer)

    def _items(self) -> list[dict[str, Any]]:
        return [pod(name, version) for name, version in self.objects.items()]

    async def _watch(self, query: dict[str, str], writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED)
        after = int(query.get("resourceVersion", self.version))
        if "sendInitialEvents" in query:
            for name, version in list(self.objects.items()):
                writer.write(chunk(line("ADDED", pod(name, version))))
            writer.write(chunk(whole(after)))
        while not writer.is_closing():
            news = self._news
            for version, kind, name in self.log:
                if version > after:
                    said = line(kind, pod(name, version))
                    if self.mischief:
                        await self.mischief.popleft()(self, writer, said)
                        return
                    writer.write(chunk(said))
                    after = version
            await writer.drain()
            await news.wait()


async def close_within_a_line(server: Server, writer: asyncio.StreamWriter, said: bytes) -> None:
    writer.write(chunk(said[:20]) + END_OF_CHUNKS)


async def reset_within_a_line(server: Server, writer: asyncio.StreamWriter, said: bytes) -> None:
    writer.write(chunk(said[:20]))
    await writer.drain()
    writer.transport.abort()


async def say_garbage(server: Server, writer: asyncio.StreamWriter, said: bytes) -> None:
    writer.write(chunk(b'{"type":"MODIFIED","object":{"metadata":}}\n'))


async def say_text(server: Server, writer: asyncio.StreamWriter, said: bytes) -> None:
    writer.write(chunk(b"upstream connect error or disconnect/reset before headers\n"))


async def say_something_new(server: Server, writer: asyncio.StreamWriter, said: bytes) -> None:
    writer.write(chunk(line("NOVELTY", {"kind": "Hint"})) + END_OF_CHUNKS)


async def say_it_twice(server: Server, writer: asyncio.StreamWriter, said: bytes) -> None:
    writer.write(chunk(said) + chunk(said) + END_OF_CHUNKS)


async def never_end_a_line(server: Server, writer: asyncio.StreamWriter, said: bytes) -> None:
    while not writer.is_closing():
        writer.write(chunk(b"x" * 65536))
        await writer.drain()


async def fall_silent(server: Server, writer: asyncio.StreamWriter, said: bytes) -> None:
    await asyncio.sleep(60)


async def close_at_once(server: Server, writer: asyncio.StreamWriter, said: bytes) -> None:
    writer.write(END_OF_CHUNKS)


async def expire(server: Server, writer: asyncio.StreamWriter, said: bytes) -> None:
    writer.write(chunk(error(410, "Expired")) + END_OF_CHUNKS)


async def be_busy(server: Server, writer: asyncio.StreamWriter, said: bytes) -> None:
    writer.write(chunk(error(429, "TooManyRequests")) + END_OF_CHUNKS)


async def go_back(server: Server, writer: asyncio.StreamWriter, said: bytes) -> None:
    """The server is restored from a backup: versions begin before those that were told."""
    server.version = 50
    server.log.clear()
    server.objects = {"restored": 50}
    writer.write(chunk(line("BOOKMARK", {"metadata": {"resourceVersion": "50"}})) + END_OF_CHUNKS)


MISCHIEFS = [
    close_within_a_line,
    reset_within_a_line,
    say_garbage,
    say_text,
    say_something_new,
    say_it_twice,
    never_end_a_line,
    fall_silent,
    close_at_once,
    expire,
    be_busy,
    go_back,
]


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that takes its time takes less of it."""
    monkeypatch.setattr("informers.reflector_state.FIRST_REST", 0.01)
    monkeypatch.setattr("informers.reflector_state.LONGEST_REST", 0.1)
    monkeypatch.setattr("informers.reflector_state.RECONNECT_JITTER", 0.01)
    monkeypatch.setattr("informers.reflector.WATCH_SECONDS", (0.4, 0.5))
    monkeypatch.setattr("informers.reflector.SILENCE", 0.4)
    monkeypatch.setattr("informers.line_splitter.LONGEST", LONGEST)


@asynccontextmanager
async def following(
    server: Server, connecting: Connect, **options: Any
) -> AsyncIterator[tuple[Informer, Peer, list[Delta]]]:
    """An informer that is synced with the server, and what it has told."""
    async with serving(server.answer) as peer:
        informer = Informer(await connecting(peer.port, **options), PODS)
        heard: list[Delta] = []
        informer.add_handler(heard.append)
        async with beside(informer.run):
            with anyio.fail_after(10):
                await informer.wait_synced()
            yield informer, peer, heard


def held(informer: Informer) -> dict[str, int]:
    return {snapshot.key.name: snapshot.version for snapshot in informer.store}


async def agree(informer: Informer, server: Server) -> None:
    assert await informer.wait_until(lambda: held(informer) == server.objects, 10), (
        held(informer),
        server.objects,
    )


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("mischief", MISCHIEFS, ids=lambda one: one.__name__)
async def test_whatever_a_server_does_to_a_watch_nothing_is_lost_and_no_loop_spins(
    mischief: Mischief, streaming: bool, connecting: Connect
) -> None:
    server = Server(streaming=streaming)
    for name in "abc":
        server.change(name)
    async with following(server, connecting) as (informer, peer, heard):
        server.mischief.extend([mischief, mischief])
        for round_ in range(3):
            server.change("a")
            server.change("b", gone=True)
            server.change("b")
            server.change(f"new-{round_}")
            await agree(informer, server)
        server.change("c", gone=True)
        await agree(informer, server)
        assert [delta.last.key for delta in heard if delta.new is None].count(Key("ns", "c")) == 1
        alive: set[str] = set()
        for delta in heard:
            (alive.add if delta.new is not None else alive.discard)(delta.last.key.name)
        assert alive == set(server.objects)
        assert len(peer.seen) < 40
        assert informer.status().error == ""


async def test_a_token_that_expires_during_a_watch_is_renewed_and_nothing_is_lost(
    connecting: Connect, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("first")
    server = Server(token="first")
    server.change("a")

    async def expire_token(server: Server, writer: asyncio.StreamWriter, said: bytes) -> None:
        server.token = "second"
        token.write_text("second")
        writer.write(chunk(error(401, "Unauthorized")) + END_OF_CHUNKS)

    async with following(server, connecting, user={"tokenFile": str(token)}) as (informer, peer, _):
        server.mischief.append(expire_token)
        server.change("b")
        await agree(informer, server)
        assert len(peer.seen) < 10


async def test_an_html_page_instead_of_a_watch_is_a_failure_that_says_so(connecting: Connect) -> None:
    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(reply(200, b"<html>Log in</html>\n", "Content-Type: text/html"))

    async with serving(answer) as peer:
        informer = Informer(await connecting(peer.port), PODS)
        with anyio.move_on_after(1):
            await informer.run()
        assert "expected an answer of an API server" in informer.status().error
        assert 2 <= len(peer.seen) < 40


async def test_an_endless_line_takes_no_more_memory_than_the_longest_allowed_line(
    connecting: Connect,
) -> None:
    server = Server()
    async with following(server, connecting) as (informer, _, _):
        tracemalloc.start()
        try:
            server.mischief.extend([never_end_a_line] * 3)
            server.change("a")
            await agree(informer, server)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert LONGEST < most < 8 * LONGEST


async def test_many_reconnects_leave_no_task_no_socket_and_no_memory_behind(
    connecting: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as the environment's RECONNECTS says: `make soak` has all."""
    print(f"\n{RECONNECTS} of {IN_FULL} reconnects")
    monkeypatch.setattr("informers.reflector_state.FIRST_REST", 0.0)
    monkeypatch.setattr("informers.reflector_state.EMPTY_STREAMS_MEAN_EXPIRED", 1 << 30)
    server = Server()
    server.change("a")
    async with following(server, connecting) as (informer, peer, _):

        async def reconnect(times: int) -> tuple[int, int, int]:
            wanted = server.watches + times
            server.mischief.extend([close_at_once] * times)
            server.change("a")
            while server.watches < wanted:
                await asyncio.sleep(0.01)
            await agree(informer, server)
            gc.collect()
            peer.seen.clear()
            return len(asyncio.all_tasks()), len(peer.open), tracemalloc.get_traced_memory()[0]

        tracemalloc.start()
        try:
            before = await reconnect(100)
            after = await reconnect(RECONNECTS)
        finally:
            tracemalloc.stop()
        assert after[0] - before[0] < 5
        assert after[1] - before[1] < 5
        assert after[2] - before[2] < 100_000
