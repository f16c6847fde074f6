"""The pages under /status over real sockets, in real time."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp
import anyio
import pytest
from attrs import define, field

from reconcile import Context, Controller, ObjectMeta
from reconcile.ops import page_connections
from reconcile.status import status_pages
from reconcile.status.page_assets import page_assets
from tests.helpers.viewers import SeenPage
from tests.ops.test_pages import Asker, Lamp, LampSpec, World

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


async def light(ctx: Context[Lamp]) -> None:
    if ctx.object.name == "broken":
        raise ValueError("no bulb")


lamps = Controller(Lamp, light)


@define
class Reader:
    """A client that reads a stream as a page does."""

    answer: aiohttp.ClientResponse
    page: SeenPage = field(factory=SeenPage)
    _rest: bytes = b""

    async def until(self, holds: Any, seconds: float = 10) -> SeenPage:
        with anyio.fail_after(seconds):
            while not holds(self.page):
                part = await self.answer.content.readany()
                assert part, "the stream has ended"
                whole, mark, self._rest = (self._rest + part).rpartition(b"\n\n")
                self.page.take(whole + mark)
        return self.page

    async def ended(self, seconds: float = 10) -> None:
        with anyio.fail_after(seconds), contextlib.suppress(aiohttp.ClientError):
            while await self.answer.content.readany():
                pass


@contextlib.asynccontextmanager
async def stream(ask: Asker, **headers: str) -> AsyncIterator[Reader]:
    async with ask.session.get(f"http://{ask.address}/status/stream", headers=headers) as answer:
        assert answer.status == 200, await answer.text()
        yield Reader(answer)


async def test_the_page_is_served_with_its_headers_and_needs_no_other_host() -> None:
    async with World().running(lamps) as (_, ask):
        paths = {"/status/": 200, "/": 302, "/status": 302, "/status/none": 404, "/status/assets/none": 404}
        paths |= {f"/status/assets/{name}": 200 for name in page_assets() if name != "index.html"}
        assert "/status/assets/page.js" in paths
        for path, status in paths.items():
            async with ask.session.get(f"http://{ask.address}{path}", allow_redirects=False) as answer:
                assert answer.status == status, path
                check_headers(answer.headers)
                if status == 302:
                    assert answer.headers["Location"] == "status/"
                if status == 200:
                    assert answer.headers["Cache-Control"] == "no-cache"
                    tag = {"If-None-Match": answer.headers["ETag"]}
                    async with ask.session.get(answer.url, headers=tag) as again:
                        assert again.status == 304
        async with ask.session.get(f"http://{ask.address}/") as answer:
            assert (answer.status, answer.url.path) == (200, "/status/")
            assert answer.content_type == "text/html"


def check_headers(headers: Mapping[str, str]) -> None:
    assert headers["Content-Security-Policy"] == POLICY
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"


@pytest.mark.parametrize(
    "path", ["/status/assets/../status_pages.py", "/status/assets/%2e%2e%2fstatus_pages.py"]
)
async def test_only_the_files_of_the_page_are_served(path: str) -> None:
    async with World().running(lamps) as (_, ask):
        host, _, port = ask.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(
            f"GET /status/assets/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode()
        )
        assert b" 404 " in (await reader.read()).splitlines()[0]
        writer.close()


async def test_a_stream_shows_objects_and_what_changes() -> None:
    world = World()
    async with world.running(lamps) as (_, ask), stream(ask) as reader:
        assert reader.answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        assert reader.answer.headers["Cache-Control"] == "no-store"
        check_headers(reader.answer.headers)
        await reader.until(lambda page: page.complete)
        assert reader.page.hello["controllers"] == ["lamp"]
        await world.make("broken")
        await reader.until(lambda page: page.of("default/broken") and page.of("default/broken").failures > 1)
        await world.client.apply(Lamp(metadata=ObjectMeta("fine", "default"), spec=LampSpec(5)))
        await reader.until(lambda page: page.of("default/fine") and page.of("default/fine").ended)
        await reader.until(lambda page: page.overview["controllers"][0]["objects"]["failing"] == 1)
        assert reader.page.overview["ready"]


async def test_before_the_first_lists_a_stream_says_what_it_waits_for() -> None:
    world = World()
    async with world.running(lamps, held=True) as (_, ask), stream(ask) as reader:
        await reader.until(lambda page: page.overview and page.overview["clusters"])
        assert not reader.page.overview["clusters"][0]["synced"]
        world.transport.go.set()
        await reader.until(lambda page: page.overview["clusters"][0]["synced"])


async def test_streams_beyond_eight_are_refused_in_words_and_free_again_when_one_ends() -> None:
    async with World().running(lamps) as (_, ask):
        address = f"http://{ask.address}/status/stream"
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            streams = [await session.get(address) for _ in range(status_pages.STREAMS)]
            assert {answer.status for answer in streams} == {200}
            for _ in range(100):
                async with session.get(address) as refused:
                    assert refused.status == 503
                    assert "8 streams of this page are open already" in await refused.text()
                    check_headers(refused.headers)
            streams[0].close()
            with anyio.fail_after(2):  # at once, not with the next write
                while True:
                    async with session.get(address) as answer:
                        if answer.status == 200:
                            break
                    await anyio.sleep(0.02)
            for answer in streams:
                answer.close()


@pytest.mark.rule("status-who")
@pytest.mark.parametrize("headers", [{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}])
async def test_another_site_is_refused(headers: dict[str, str]) -> None:
    async with World().running(lamps) as (_, ask):
        for path in ("/status/stream", "/status/object?controller=lamp&key=default/a"):
            async with ask.session.get(f"http://{ask.address}{path}", headers=headers) as answer:
                assert answer.status == 403
                assert "of another site" in await answer.text()


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({"X-Forwarded-For": "10.0.0.1"}, "a proxy forwarded the request"),
        ({"Host": "evil.example.com"}, "ask for 127.0.0.1"),
    ],
)
async def test_the_stream_is_for_this_machine_and_the_page_for_all(
    headers: dict[str, str], words: str
) -> None:
    async with World().running(lamps) as (_, ask):
        async with ask.session.get(f"http://{ask.address}/status/stream", headers=headers) as answer:
            assert answer.status == 403
            assert words in await answer.text()
            check_headers(answer.headers)
        async with ask.session.get(f"http://{ask.address}/status/", headers=headers) as answer:
            assert answer.status == 200


async def test_a_stream_ends_at_once_with_the_manager() -> None:
    world = World()
    async with world.running(lamps) as (manager, ask), stream(ask) as reader:
        await reader.until(lambda page: page.complete)
        began = anyio.current_time()
        manager.stop()
        await reader.ended()
        assert anyio.current_time() - began < 1.5


async def test_without_a_stream_nothing_of_the_page_is_left_in_the_manager() -> None:
    world = World()
    async with world.running(lamps) as (manager, ask):
        (runner,) = manager._runners
        async with stream(ask) as reader:
            await reader.until(lambda page: page.complete)
            assert runner.queue.on_add is not None
        with anyio.fail_after(2):
            while runner.queue.on_add is not None:
                await anyio.sleep(0.02)


async def test_clients_that_leave_at_any_moment_leave_nothing_behind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    async with world.running(lamps) as (manager, ask):
        for number in range(20):
            await world.make(f"lamp-{number}")
        host, _, port = ask.address.rpartition(":")
        for turn in range(60):
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"GET /status/stream HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            await anyio.sleep(turn / 10_000)
            writer.transport.abort()
        (runner,) = manager._runners
        with anyio.fail_after(5):
            while runner.queue.on_add is not None:
                await anyio.sleep(0.02)
        async with stream(ask) as reader:
            await reader.until(lambda page: len(page.rows) == 20)
    assert "a page failed" not in caplog.text
    assert "a connection failed" not in caplog.text


async def test_half_a_request_and_a_client_that_reads_nothing_hold_up_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(status_pages, "WRITE_SECONDS", 0.5)
    bound = page_connections._bound

    def with_small_buffers(*place: Any) -> socket.socket:
        listener = bound(*place)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # accepted sockets have it too
        return listener

    monkeypatch.setattr(page_connections, "_bound", with_small_buffers)
    world = World()
    async with world.running(lamps) as (manager, ask):
        for number in range(50):
            await world.make(f"{'x' * 200}{number}")
        host, _, port = ask.address.rpartition(":")
        deaf = socket.socket()
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        deaf.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            deaf.connect((host, int(port)))
        await anyio.wait_writable(deaf)
        deaf.send(b"GET /status/stream HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        _, half = await asyncio.open_connection(host, int(port))
        half.write(b"GET /status/stream HTTP/1.1\r\nHo")
        (runner,) = manager._runners
        async with stream(ask) as reader:
            await reader.until(lambda page: len(page.rows) == 50)
        with anyio.fail_after(20):  # the deaf one is cut off, once the buffers are full
            while runner.queue.on_add is not None:
                for number in range(50):
                    manager.trigger("lamp", f"default/{'x' * 200}{number}")
                await anyio.sleep(0.05)
        deaf.close()
        half.close()


async def test_a_manager_that_does_not_respond_is_a_503_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconcile.ops.page_routes.BEGIN_SECONDS", 0.2)
    async with World().running(lamps) as (_, ask):
        host, _, port = ask.address.rpartition(":")

        def request() -> bytes:
            with socket.create_connection((host, int(port))) as client:
                client.sendall(b"GET /status/stream HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
                return client.recv(4096)

        asked = asyncio.get_running_loop().run_in_executor(None, request)
        _block(1.0)
        assert b" 503 " in (await asked).splitlines()[0]


def _block(seconds: float) -> None:
    import time

    time.sleep(seconds)


async def test_the_life_of_an_object_is_json_and_what_is_wrong_is_said_in_words() -> None:
    world = World()
    async with world.running(lamps) as (_, ask):
        await world.make("broken")
        path = f"http://{ask.address}/status/object"
        with anyio.fail_after(5):
            while True:
                async with ask.session.get(f"{path}?controller=lamp&key=default/broken") as answer:
                    check_headers(answer.headers)
                    if answer.status == 200:
                        life = await answer.json()
                        if life["runs"]:
                            break
                await anyio.sleep(0.02)
        assert (life["controller"], life["key"], life["health"]) == ("lamp", "default/broken", "failing")
        assert answer.headers["Cache-Control"] == "no-store"
        for query, status, words in (
            ("controller=lamp&key=default/none", 404, "there is no lamp default/none"),
            ("controller=none&key=default/broken", 404, "no controller here has the kind 'none'"),
            ("controller=lamp&key=a/b/c", 400, "names no object"),
            ("", 404, "no controller here"),
        ):
            async with ask.session.get(f"{path}?{query}") as answer:
                assert answer.status == status
                assert words in await answer.text()
                check_headers(answer.headers)
