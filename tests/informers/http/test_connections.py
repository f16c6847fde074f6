"""When a connection is opened, used again, shared, waited for and closed: over real sockets."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
import trustme

from informers import HttpRequest
from informers.api_errors import OutcomeUnknown, Unreachable
from informers.http import Dialer, NotConnected, Origin, Pool, Proxy, RequestForm, Stage, pool
from informers.kubernetes import Timeouts
from informers.transport import last_check
from tests.informers.conftest import Connect
from tests.informers.http_peer import (
    CHUNKED,
    END_OF_CHUNKS,
    Seen,
    always,
    chunk,
    get,
    get_as_stream,
    reply,
    serving,
)


async def test_requests_one_after_another_share_a_connection_and_those_at_once_do_not(
    connecting: Connect,
) -> None:
    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.05)
        writer.write(reply())

    async with serving(answer) as peer:
        transport = await connecting(peer.port)
        for _ in range(3):
            await get(transport)
        assert peer.connections == 1
        await asyncio.gather(*(get(transport) for _ in range(5)))
        assert peer.connections == 5


async def test_a_stream_that_was_read_to_its_end_leaves_its_connection_to_the_next(
    connecting: Connect,
) -> None:
    async with serving(always(CHUNKED + chunk(b"a") + END_OF_CHUNKS)) as peer:
        transport = await connecting(peer.port)
        assert [(await get_as_stream(transport)).body for _ in range(3)] == [b"a"] * 3
    assert peer.connections == 1


async def test_no_more_than_a_hundred_requests_are_under_way_and_leases_do_not_wait_for_them(
    connecting: Connect,
) -> None:
    going = asyncio.Event()

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        if "leases" not in seen.target:
            await going.wait()
        writer.write(reply())

    async with serving(answer) as peer, anyio.create_task_group() as tasks:
        transport = await connecting(peer.port)
        for _ in range(150):
            tasks.start_soon(get, transport)
        with anyio.fail_after(5):
            while peer.connections < 100:
                await anyio.sleep(0.01)
            await get(transport, "/apis/coordination.k8s.io/v1/leases")
        await anyio.sleep(0.05)
        assert peer.connections == 101
        going.set()
    assert len(peer.seen) == 151
    assert peer.connections == 101


async def test_a_request_that_finds_no_free_connection_in_time_was_not_sent(connecting: Connect) -> None:
    async def silent(seen: Seen, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(5)

    async with serving(silent) as peer, anyio.create_task_group() as tasks:
        transport = await connecting(peer.port, timeouts=Timeouts(connect=0.2))
        for _ in range(100):
            tasks.start_soon(get, transport)
        with anyio.fail_after(5):
            while len(peer.seen) < 100:
                await anyio.sleep(0.01)
        with pytest.raises(Unreachable, match=r"no connection within 0.2 s"):
            await transport.request(HttpRequest("PUT", "/x", body=b"{}"))
        tasks.cancel_scope.cancel()
    assert len(peer.seen) == 100


async def test_requests_that_wait_for_a_place_open_no_connection_when_their_transport_is_closed(
    connecting: Connect,
) -> None:
    async def silent(seen: Seen, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(5)

    async with serving(silent) as peer:
        transport = await connecting(peer.port)
        under_way = [asyncio.create_task(get(transport)) for _ in range(120)]
        with anyio.fail_after(5):
            while len(peer.seen) < 100:
                await anyio.sleep(0.01)
            await transport.aclose()
            failures = await asyncio.gather(*under_way, return_exceptions=True)
        await asyncio.sleep(0.05)
    kinds = [type(failure) for failure in failures]
    assert (kinds.count(OutcomeUnknown), kinds.count(Unreachable)) == (100, 20)
    assert peer.connections == 100


async def test_a_connection_that_opens_after_its_pool_was_closed_is_closed() -> None:
    async with serving(always(reply())) as peer:
        dialler = Dialer(Origin("http", "127.0.0.1", peer.port))
        one = Pool(dialler.dial, 1)
        taking = asyncio.create_task(one.take())
        await asyncio.sleep(0)
        one.close()
        with pytest.raises(NotConnected, match="was closed") as caught:
            await taking
        assert caught.value.stage is Stage.CLOSED
        with anyio.fail_after(5):
            while peer.connections == 0 or peer.open:
                await anyio.sleep(0.01)


async def test_a_connection_that_was_open_before_its_dial_was_ended_is_closed_too() -> None:
    async with serving(always(reply())) as peer:
        dialler = Dialer(Origin("http", "127.0.0.1", peer.port))

        async def dial() -> Any:
            connection = await dialler.dial()
            one.close()
            return connection

        one = Pool(dial, 1)
        with pytest.raises(NotConnected, match="was closed"):
            await one.take()
        with anyio.fail_after(5):
            while peer.connections == 0 or peer.open:
                await anyio.sleep(0.01)


async def test_a_dial_that_gets_no_answer_ends_when_its_transport_is_closed(connecting: Connect) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        transport = await connecting(silent.getsockname()[1], scheme="https")
        asking = asyncio.create_task(get(transport))
        await anyio.sleep(0.1)
        with anyio.fail_after(2), pytest.raises(Unreachable, match="closed"):
            await transport.aclose()
            await asking


async def test_a_connection_that_the_server_closed_meanwhile_is_not_used(connecting: Connect) -> None:
    async with serving(always(reply())) as peer:
        transport = await connecting(peer.port)
        await get(transport)
        (writer,) = peer.open
        writer.close()
        await asyncio.sleep(0.05)
        assert (await transport.request(HttpRequest("POST", "/x", body=b"{}"))).status == 200
    assert peer.connections == 2


async def test_no_request_queues_behind_a_body_that_the_server_answered_without_reading_it(
    connecting: Connect,
) -> None:
    async def hasty(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply())

    writers: list[asyncio.StreamWriter] = []
    async with await asyncio.start_server(hasty, "127.0.0.1", 0, limit=1000) as server:
        transport = await connecting(server.sockets[0].getsockname()[1])
        with anyio.fail_after(5):
            await transport.request(HttpRequest("PUT", "/x", body=b"a" * 20_000_000))
            assert (await get(transport)).status == 200
        for writer in writers:
            writer.transport.abort()
    assert len(writers) == 2


async def test_a_connection_that_nobody_uses_is_closed(
    connecting: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "IDLE_SECONDS", 0.1)
    async with serving(always(reply())) as peer:
        transport = await connecting(peer.port)
        await asyncio.gather(get(transport), get(transport))
        with anyio.fail_after(5):
            while peer.open:
                await anyio.sleep(0.02)
        await get(transport)
    assert peer.connections == 3


async def test_a_check_that_fails_sends_nothing_and_keeps_the_connection(connecting: Connect) -> None:
    def refuse() -> None:
        raise RuntimeError("not any more")

    async with serving(always(reply())) as peer:
        transport = await connecting(peer.port)
        await get(transport)
        with last_check(refuse), pytest.raises(RuntimeError, match="not any more"):
            await get(transport, "/unsent")
        await get(transport)
    assert [seen.target for seen in peer.seen] == ["/x", "/x"]
    assert peer.connections == 1


async def test_a_read_is_sent_again_once_and_not_when_an_answer_had_begun(connecting: Connect) -> None:
    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        if seen.target == "/first":
            writer.write(reply())
            return
        if seen.target == "/half":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-")
            await writer.drain()
        writer.close()

    async with serving(answer) as peer:
        transport = await connecting(peer.port)
        for path in ("/never", "/half"):
            await get(transport, "/first")
            with pytest.raises(OutcomeUnknown, match="cut before the answer was whole"):
                await get(transport, path)
    assert [seen.target for seen in peer.seen] == ["/first", "/never", "/never", "/first", "/half"]


async def test_a_header_with_a_line_break_is_refused_before_anything_is_sent(connecting: Connect) -> None:
    async with serving(always(reply())) as peer:
        transport = await connecting(peer.port)
        for value in ("a\r\nX-More: b", "a\nb", "a\rb", "a\0b"):
            with pytest.raises(ValueError, match="line break"):
                await transport.request(HttpRequest("GET", "/x", headers={"X-One": value}))
    assert peer.seen == []


def test_headers_of_a_request_replace_those_of_the_server_whatever_their_case() -> None:
    form = RequestForm("", {"Host": "a", "Accept": "*/*"})
    sent = form.encoded("GET", "/x", {}, {"accept": "text/plain"}, None)
    assert sent == b"GET /x HTTP/1.1\r\nHost: a\r\naccept: text/plain\r\n\r\n"
    assert b"Content-Length: 0\r\n" in form.encoded("POST", "/x", {}, {}, None)


# --- the way to a server ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "authority", "with_port"),
    [
        ("https://10.0.0.1:443", "10.0.0.1", "10.0.0.1:443"),
        ("https://[fd00::1]:6443/k8s", "[fd00::1]:6443", "[fd00::1]:6443"),
        ("http://example.com", "example.com", "example.com:80"),
        ("https://bücher.example", "xn--bcher-kva.example", "xn--bcher-kva.example:443"),
    ],
)
def test_an_origin_is_named_as_http_has_it(url: str, authority: str, with_port: str) -> None:
    origin = Origin.of(url)
    assert (origin.authority, origin.with_port) == (authority, with_port)


def test_the_password_of_a_proxy_is_not_shown() -> None:
    assert "dXNlcj" not in repr(RequestForm("", {"Proxy-Authorization": "Basic dXNlcjpodW50ZXJAMg=="}))
    proxy = Proxy.of("http://user:hunter%402@proxy:3128")
    assert proxy.authorization == "Basic dXNlcjpodW50ZXJAMg=="
    assert "hunter" not in repr(proxy)
    assert "dXNlcj" not in repr(proxy)


async def test_an_address_where_nothing_listens_is_passed_over(
    connecting: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    real = loop.getaddrinfo

    async def two(host: Any, port: int, **options: Any) -> Any:
        if host != "api.example.com":
            return await real(host, port, **options)
        one = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "")
        return [(*one, ("127.0.0.2", 9)), (*one, ("127.0.0.1", port))]

    monkeypatch.setattr(loop, "getaddrinfo", two)
    async with serving(always(reply(200, b"here"))) as peer:
        transport = await connecting(0, cluster={"server": f"http://api.example.com:{peer.port}"})
        assert (await get(transport)).body == b"here"


async def test_no_address_is_asked_for_that_this_machine_has_no_way_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flags = []

    async def none(host: Any, port: int, **options: Any) -> Any:
        flags.append(options.get("flags", 0))
        raise socket.gaierror("none")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", none)
    with pytest.raises(NotConnected):
        await Dialer(Origin.of("http://api.example.com")).dial()
    assert flags == [socket.AI_ADDRCONFIG]


async def test_a_dial_that_is_cancelled_leaves_no_place_taken(authority: trustme.CA) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        tls = ssl.create_default_context()
        dialer = Dialer(Origin("https", "127.0.0.1", silent.getsockname()[1]), tls)
        few = Pool(dialer.dial, 1)
        for _ in range(3):
            with anyio.move_on_after(0.05) as scope:
                await few.take()
            assert scope.cancelled_caught


@pytest.mark.parametrize("proxied", [None, "http", "https"])
async def test_a_dial_that_is_cancelled_at_any_moment_leaves_nothing_behind(
    proxied: str | None, authority: trustme.CA, server_tls: ssl.SSLContext, secret_peer: Any
) -> None:
    loop = asyncio.get_running_loop()
    tls = ssl.create_default_context()
    authority.configure_trust(tls)
    async with tunnelling(tls=server_tls if proxied == "https" else None) as (port, _):
        proxy = Proxy.of(f"{proxied}://127.0.0.1:{port}") if proxied else None
        dialer = Dialer(Origin("https", "127.0.0.1", secret_peer.port), tls, None, proxy)
        for moments in range(200):
            dialling = loop.create_task(dialer.dial())
            for _ in range(moments):
                await asyncio.sleep(0)
            if dialling.done():
                break
            dialling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await dialling
            # The next socket has the number of the one that was closed, which must be free in the loop.
            (await dialer.dial()).close()
        (await dialling).close()
        with anyio.fail_after(5):
            while secret_peer.open:
                await anyio.sleep(0.01)


# --- proxies ----------------------------------------------------------------------------------------


@asynccontextmanager
async def tunnelling(
    answer: bytes = b"HTTP/1.1 200 Connected\r\n\r\n", tls: ssl.SSLContext | None = None
) -> Any:
    """A proxy that connects as it is asked to; yields its port and what it was asked."""
    asked: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            asked.append(head)
            writer.write(answer)
            if b" 200 " not in answer:
                return
            there, out = await asyncio.open_connection(*head.split()[1].rsplit(":", 1))
            await asyncio.gather(_copy(reader, out), _copy(there, writer))
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield server.sockets[0].getsockname()[1], asked


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(1 << 16):
            sink.write(data)
    except OSError:
        pass
    finally:
        sink.close()


@pytest.fixture
def server_tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


@pytest.fixture
async def secret_peer(server_tls: ssl.SSLContext) -> AsyncIterator[Any]:
    async with serving(always(reply(200, b"within")), server_tls) as peer:
        yield peer


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_tls_goes_through_a_proxy_in_a_tunnel(
    scheme: str, connecting: Connect, authority: trustme.CA, server_tls: ssl.SSLContext, secret_peer: Any
) -> None:
    import base64

    trusted = {"certificate-authority-data": base64.b64encode(authority.cert_pem.bytes()).decode()}
    async with tunnelling(tls=server_tls if scheme == "https" else None) as (port, asked):
        cluster = {**trusted, "proxy-url": f"{scheme}://me:pass@127.0.0.1:{port}"}
        transport = await connecting(secret_peer.port, scheme="https", cluster=cluster)
        assert [(await get(transport)).body for _ in range(2)] == [b"within"] * 2
        await transport.aclose()
    (head,) = asked
    assert head.startswith(f"CONNECT 127.0.0.1:{secret_peer.port} HTTP/1.1\r\n")
    assert "Proxy-Authorization: Basic bWU6cGFzcw==" in head
    assert all("proxy-authorization" not in seen.headers for seen in secret_peer.seen)


async def test_a_server_behind_a_proxy_is_verified_as_any_other(
    connecting: Connect, secret_peer: Any
) -> None:
    async with tunnelling() as (port, _):
        transport = await connecting(
            secret_peer.port, scheme="https", cluster={"proxy-url": f"http://127.0.0.1:{port}"}
        )
        with pytest.raises(Unreachable, match="certificate is not to be trusted"):
            await get(transport)
        await transport.aclose()
    assert secret_peer.seen == []


async def test_what_a_proxy_says_instead_of_connecting_is_told(authority: trustme.CA) -> None:
    tls = ssl.create_default_context()
    async with tunnelling(b"HTTP/1.1 403 Not by me\r\n\r\n") as (port, _):
        dialer = Dialer(Origin.of("https://example.com"), tls, None, Proxy.of(f"http://127.0.0.1:{port}"))
        with pytest.raises(NotConnected, match="403 Not by me") as caught:
            await dialer.dial()
    assert caught.value.stage is Stage.REFUSED_BY_PROXY
