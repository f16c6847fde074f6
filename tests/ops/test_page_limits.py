"""What the pages' port takes from clients that ask for nothing, over real sockets and in real time."""

import asyncio
import logging
import resource
import socket
import ssl
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import anyio
import pytest
import trustme

from reconcile import Manager
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.ops import page_connections
from tests.ops.test_page_tls import issue
from tests.ops.test_watchdog import page

HALF = b"GET /healthz HTTP/1.1\r\nHost: a\r\n"


@asynccontextmanager
async def serving(**options: str) -> AsyncIterator[tuple[str, tuple[str, int]]]:
    manager = Manager(
        transport=InProcessTransport(ApiServer()),
        serve="127.0.0.1:0",
        environ={},
        **options,  # type: ignore[arg-type]
    )
    async with manager:
        host, _, port = manager.address.rpartition(":")
        yield manager.address, (host, int(port))


@contextmanager
def clients(number: int, place: tuple[str, int], text: bytes) -> Iterator[list[socket.socket]]:
    opened: list[socket.socket] = []
    try:
        for _ in range(number):
            client = socket.create_connection(place, timeout=5)
            opened.append(client)
            if text:
                client.sendall(text)
        yield opened
    finally:
        for client in opened:
            client.close()


def is_cut(client: socket.socket, seconds: float = 5) -> bool:
    client.settimeout(seconds)
    try:
        return client.recv(1000) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False


@pytest.mark.parametrize("text", [b"", HALF], ids=["silent", "half-sent"])
async def test_1100_idle_connections_delay_no_probe_and_fill_no_log(
    text: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with serving() as (address, place):

        def flood() -> list[int]:
            statuses: list[int] = []
            with clients(0, place, b"") as opened:
                for number in range(1100):
                    client = socket.create_connection(place, timeout=5)
                    opened.append(client)
                    client.sendall(text)
                    if number % 100 == 0:
                        statuses.append(page(address, "/healthz", 2)[0])
                statuses.append(page(address, "/healthz", 2)[0])
                assert sum(is_cut(client, 0.001) for client in opened) >= 1100 - 200
            return statuses

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert soft >= 4096 or soft == hard, "the manager raises it"
        assert set(await anyio.to_thread.run_sync(flood)) == {200}
        assert page_connections.MAX_CONNECTIONS == 200
    assert len(caplog.text) < 20_000


async def test_an_incomplete_request_is_cut_off_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_connections, "HEAD_SECONDS", 0.3)
    async with serving() as (_, place):
        for text in (b"", HALF):
            with clients(1, place, text) as (client,):
                assert await anyio.to_thread.run_sync(is_cut, client)


async def test_a_connection_is_kept_between_requests_for_a_time_and_then_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(page_connections, "HEAD_SECONDS", 0.3)
    monkeypatch.setattr(page_connections, "IDLE_SECONDS", 1.0)
    async with serving() as (_, place):
        with clients(1, place, HALF + b"\r\n") as (client,):
            assert b"200 OK" in await anyio.to_thread.run_sync(client.recv, 1000)
            await anyio.sleep(0.6)
            client.sendall(HALF + b"\r\n")
            assert b"200 OK" in await anyio.to_thread.run_sync(client.recv, 1000)
            assert await anyio.to_thread.run_sync(is_cut, client)
        with clients(1, place, HALF + b"\r\n") as (client,):
            assert b"200 OK" in await anyio.to_thread.run_sync(client.recv, 1000)
            client.sendall(HALF)  # from here on the shorter time counts
            assert await anyio.to_thread.run_sync(is_cut, client, 0.8)


async def test_an_endless_request_head_is_cut_off() -> None:
    async with serving() as (_, place):

        def send() -> None:
            with clients(1, place, HALF) as (client,), suppress(ConnectionError):
                for number in range(2000):
                    client.sendall(b"X-%d: " % number + b"x" * 1000 + b"\r\n")
                # Buffers may hold all of that before the server has read so much: then the end comes later.
                while client.recv(1000):
                    pass

        await anyio.to_thread.run_sync(send)


async def test_unfinished_handshakes_are_bounded_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_connections, "MAX_CONNECTIONS", 20)
    monkeypatch.setattr("reconcile.ops.page_server.MAX_CONNECTIONS", 20)
    authority = trustme.CA()
    issue(authority, tmp_path)
    context = ssl.create_default_context()
    authority.configure_trust(context)
    async with serving(serve_certificates=str(tmp_path)) as (_, place):

        def probe() -> None:
            with (
                clients(60, place, b"\x16\x03\x01") as opened,
                socket.create_connection(place, timeout=5) as plain,
                context.wrap_socket(plain, server_hostname="127.0.0.1") as client,
            ):
                client.sendall(HALF + b"\r\n")
                assert b"200 OK" in client.recv(1000)
                assert sum(is_cut(one, 0.001) for one in opened) >= 40

        await anyio.to_thread.run_sync(probe)


async def test_garbage_is_answered_with_400_and_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with serving() as (_, place):
        for _ in range(20):
            with clients(1, place, b"\x00secret garbage\r\n\r\n") as (client,):
                assert b"400" in await anyio.to_thread.run_sync(client.recv, 1000)
    assert "garbage" not in caplog.text


async def test_failures_to_accept_are_logged_once_in_30_seconds(caplog: pytest.LogCaptureFixture) -> None:
    class Exhausted(asyncio.SelectorEventLoop):
        async def sock_accept(self, sock: socket.socket) -> tuple[socket.socket, object]:
            raise OSError(24, "Too many open files")

    async def accept() -> None:
        connections = page_connections.PageConnectionPool(asyncio.Protocol)
        with socket.socket() as listener, anyio.move_on_after(0.5):
            await connections.accept(listener)

    def run() -> None:
        with asyncio.Runner(loop_factory=Exhausted) as runner:
            runner.run(accept())

    await anyio.to_thread.run_sync(run)
    assert [one.getMessage() for one in caplog.records if "accept" in one.getMessage()] == [
        'cannot accept connections times=1 error="Too many open files"'
    ]


def test_a_manager_that_serves_raises_the_soft_limit_of_open_files() -> None:
    code = """
        import anyio, resource
        from reconcile import Manager
        from reconcile.embedded import ApiServer, InProcessTransport
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))

        async def main():
            async with Manager(transport=InProcessTransport(ApiServer()), serve="127.0.0.1:0"):
                print(resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(hard, 65536))

        anyio.run(main)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=30
    )
    assert done.stdout == "True\n", done.stderr


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_the_pages_are_served_with_uvloop_as_the_default_loop(tls: bool, tmp_path: Path) -> None:
    code = f"""
        import anyio, asyncio, ssl, urllib.request, uvloop, warnings
        from reconcile import Manager
        from reconcile.embedded import ApiServer, InProcessTransport
        warnings.simplefilter("ignore")
        asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())

        async def main():
            manager = Manager(transport=InProcessTransport(ApiServer()), serve="127.0.0.1:0",
                              serve_certificates={str(tmp_path) if tls else ""!r})
            async with manager:
                url = "{"https" if tls else "http"}://" + manager.address + "/healthz"
                context = ssl._create_unverified_context() if {tls} else None
                opened = await anyio.to_thread.run_sync(lambda: urllib.request.urlopen(url, context=context))
                print(opened.status)

        anyio.run(main)
    """
    issue(trustme.CA(), tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=30
    )
    assert done.stdout == "200\n", done.stderr
