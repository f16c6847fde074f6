"""What goes over the wire, and what a failure on the way is called."""

import asyncio
import gc
import gzip
import os
import socket
import subprocess
import sys
import tracemalloc
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import anyio
import pytest

from informers import HttpRequest
from informers.api_errors import OutcomeUnknown, TransportError, Unreachable
from informers.kubernetes import Timeouts
from tests.informers.conftest import Connect
from tests.informers.http_peer import (
    CHUNKED,
    END_OF_CHUNKS,
    Get,
    Seen,
    always,
    both_ways,
    chunk,
    get,
    get_as_stream,
    reply,
    serving,
)


async def test_a_request_is_sent_unchanged(connecting: Connect) -> None:
    async with serving(always(reply(201, b"made", "X-One: 1", "Warning: a", "Warning: b"))) as peer:
        transport = await connecting(peer.port)
        response = await transport.request(
            HttpRequest(
                "POST", "/api/v1/pods", {"dryRun": "All"}, {"Content-Type": "application/json"}, b'{"a": 1}'
            )
        )
    assert (response.status, response.body) == (201, b"made")
    assert response.headers["x-one"] == "1"
    assert response.headers["warning"] == "a, b"
    (seen,) = peer.seen
    assert (seen.method, seen.target, seen.body) == ("POST", "/api/v1/pods?dryRun=All", b'{"a": 1}')
    assert seen.headers["content-type"] == "application/json"
    assert seen.headers["user-agent"].startswith("reconcile-runtime/")


@pytest.mark.parametrize("status", [200, 204, 302, 400, 401, 404, 409, 410, 429, 500, 503])
async def test_a_status_is_never_an_exception(status: int, connecting: Connect) -> None:
    body = b"" if status == 204 else b"upstream connect error"
    async with serving(always(reply(status, body, "Location: /elsewhere"))) as peer:
        transport = await connecting(peer.port)
        assert (await get(transport)).status == status
        answer = await get_as_stream(transport)
        assert (answer.status, answer.body) == (status, body)
    assert len(peer.seen) == 2


@pytest.mark.parametrize("name", ["system:node:a", "a b", "a%2Fb", "ü", "a?b#c", "100%", "a+b", "..."])
async def test_a_name_is_percent_encoded_on_the_wire(name: str, connecting: Connect) -> None:
    selector = "a in (b,c),d!=e&f=g+h %/?#ü"
    async with serving(always(reply())) as peer:
        transport = await connecting(peer.port, cluster={"server": f"http://127.0.0.1:{peer.port}/k8s/c-1/"})
        await transport.request(HttpRequest("GET", f"/api/v1/things/{name}", {"labelSelector": selector}))
    parts = urlsplit(peer.seen[0].target)
    assert peer.seen[0].target.isascii()
    assert unquote(parts.path) == f"/k8s/c-1/api/v1/things/{name}"
    assert parse_qs(parts.query) == {"labelSelector": [selector]}


async def test_chunks_are_passed_on_as_they_arrive_whatever_their_content(connecting: Connect) -> None:
    long_line = b'{"type":"ADDED","object":"' + b"x" * 1_500_000 + b'"}\n'
    first_half_read = asyncio.Event()

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + chunk(b'{"type":'))
        await first_half_read.wait()
        writer.write(chunk(b'"BOOKMARK"}\n') + chunk(long_line) + END_OF_CHUNKS)

    async with serving(answer) as peer:
        transport = await connecting(peer.port)
        async with transport.stream(HttpRequest("GET", "/api/v1/pods", {"watch": "1"})) as streaming:
            chunks = aiter(streaming.chunks)
            assert await anext(chunks) == b'{"type":'
            first_half_read.set()
            rest = b"".join([part async for part in chunks])
    assert rest == b'"BOOKMARK"}\n' + long_line


async def test_leaving_a_stream_ends_it_at_the_server(connecting: Connect) -> None:
    gone = asyncio.Event()

    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED)
        while not writer.is_closing():
            writer.write(chunk(b"{}\n"))
            await asyncio.sleep(0.01)
        gone.set()

    async with serving(answer) as peer:
        transport = await connecting(peer.port)
        with anyio.move_on_after(0.1):
            async with transport.stream(HttpRequest("GET", "/watch")) as streaming:
                async for _ in streaming.chunks:
                    pass
        await asyncio.wait_for(gone.wait(), 5)


@both_ways
async def test_a_connection_cut_within_a_body_leaves_the_outcome_unknown(
    read: Get, connecting: Connect
) -> None:
    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + chunk(b"half"))
        await writer.drain()
        writer.transport.abort()

    async with serving(answer) as peer:
        transport = await connecting(peer.port)
        with pytest.raises(OutcomeUnknown, match="cut before the answer was whole") as caught:
            await read(transport)
    assert caught.value.request == f"GET http://127.0.0.1:{peer.port}/x"


@pytest.mark.parametrize(
    ("method", "arrivals"), [("PUT", 1), ("POST", 1), ("DELETE", 1), ("PATCH", 1), ("GET", 2)]
)
async def test_on_a_reused_connection_that_dies_only_a_read_is_retried(
    method: str, arrivals: int, connecting: Connect
) -> None:
    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        if seen.target == "/second" and not any(s.target == "/second" for s in peer.seen[:-1]):
            writer.transport.abort()
            return
        writer.write(reply())

    async with serving(answer) as peer:
        transport = await connecting(peer.port)
        await transport.request(HttpRequest(method, "/first"))
        if method == "GET":
            assert (await transport.request(HttpRequest(method, "/second"))).status == 200
        else:
            with pytest.raises(OutcomeUnknown):
                await transport.request(HttpRequest(method, "/second"))
        assert [seen.target for seen in peer.seen].count("/second") == arrivals
        assert peer.connections == arrivals


async def test_nothing_listening_is_unreachable_and_says_so(connecting: Connect) -> None:
    async with serving(always(reply())) as peer:
        port = peer.port
    transport = await connecting(port)
    with pytest.raises(Unreachable, match=f"nothing listens at 127.0.0.1:{port}: .* context test running"):
        await transport.request(HttpRequest("DELETE", "/x"))
    with pytest.raises(Unreachable):
        await get_as_stream(transport)


async def test_a_cancelled_request_ends_its_connection_and_no_other(connecting: Connect) -> None:
    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        if seen.target == "/slow":
            await asyncio.sleep(0.2)
        writer.write(reply(200, seen.target.encode()))

    async with serving(answer) as peer:
        transport = await connecting(peer.port)
        other = asyncio.create_task(get(transport, "/slow"))
        with anyio.move_on_after(0.05) as scope:
            await get(transport, "/slow")
        assert scope.cancelled_caught
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await get(transport, "/slow")
        assert (await get(transport, "/next")).body == b"/next"
        assert (await other).body == b"/slow"


async def test_a_name_without_a_host_is_unreachable_and_says_so(
    connecting: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    transport = await connecting(0, cluster={"server": "https://api.example.com"})
    with pytest.raises(Unreachable, match=r"there is no host api.example.com: .* VPN"):
        await get(transport)


async def test_a_handshake_that_hangs_is_unreachable(connecting: Connect) -> None:
    async with serving(always(reply())) as peer:
        transport = await connecting(peer.port, scheme="https", timeouts=Timeouts(connect=0.1))
        with pytest.raises(Unreachable, match=r"no connection within 0.1 s"):
            await transport.request(HttpRequest("PUT", "/x", body=b"{}"))
        with pytest.raises(Unreachable, match=r"no connection within 0.1 s"):
            await get_as_stream(transport)


async def test_a_missing_answer_leaves_the_outcome_unknown(connecting: Connect) -> None:
    async def silent(seen: Seen, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(5)

    async with serving(silent) as peer:
        transport = await connecting(peer.port, timeouts=Timeouts(answer=0.1, headers=0.1))
        with pytest.raises(OutcomeUnknown, match=r"no whole answer within 0.1 s"):
            await transport.request(HttpRequest("POST", "/x", body=b"{}"))
        with pytest.raises(OutcomeUnknown, match=r"no whole answer within 0.1 s"):
            await get_as_stream(transport)


async def test_an_established_stream_may_be_silent_for_longer_than_any_timeout(connecting: Connect) -> None:
    async def slow(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + chunk(b"1"))
        await asyncio.sleep(0.3)
        writer.write(chunk(b"2") + END_OF_CHUNKS)

    async with serving(slow) as peer:
        transport = await connecting(peer.port, timeouts=Timeouts(connect=0.1, answer=0.1, headers=0.1))
        async with transport.stream(HttpRequest("GET", "/x")) as streaming:
            assert [part async for part in streaming.chunks] == [b"1", b"2"]


async def test_no_number_of_watches_blocks_a_request(connecting: Connect) -> None:
    async def answer(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + chunk(b"{}\n") if "watch" in seen.target else reply())

    async with serving(answer) as peer, anyio.create_task_group() as watches:
        transport = await connecting(peer.port)
        begun = asyncio.Semaphore(0)

        async def watch() -> None:
            async with transport.stream(HttpRequest("GET", "/pods", {"watch": "1"})) as streaming:
                async for _ in streaming.chunks:
                    begun.release()

        for _ in range(200):
            watches.start_soon(watch)
        for _ in range(200):
            await asyncio.wait_for(begun.acquire(), 10)
        assert (await asyncio.wait_for(transport.request(HttpRequest("GET", "/pods")), 2)).status == 200
        watches.cancel_scope.cancel()


async def test_connections_use_tcp_keepalive(connecting: Connect) -> None:
    async with serving(always(reply())) as peer:
        transport = await connecting(peer.port)
        await get(transport)
        ours = [s for s in gc.get_objects() if isinstance(s, socket.socket) and s.fileno() != -1]
        (used,) = [s for s in ours if _peer_port(s) == peer.port]
        assert used.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert used.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 30


def _peer_port(candidate: socket.socket) -> int | None:
    try:
        return int(candidate.getpeername()[1])
    except (OSError, IndexError):
        return None


async def test_a_compressed_answer_arrives_unpacked(connecting: Connect) -> None:
    body = os.urandom(1000) * 5000
    async with serving(always(reply(200, gzip.compress(body, 1), "Content-Encoding: gzip"))) as peer:
        transport = await connecting(peer.port)
        assert (await get(transport)).body == body
    assert "gzip" in peer.seen[0].headers["accept-encoding"]


async def test_a_returned_body_is_not_kept_in_memory(connecting: Connect) -> None:
    size = 8_000_000
    async with serving(always(reply(200, b"x" * size))) as peer:
        transport = await connecting(peer.port)
        await get(transport, "/warm-up")
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            response = await get(transport)
            assert len(response.body) == size
            del response
            assert tracemalloc.get_traced_memory()[0] - before < size / 2
        finally:
            tracemalloc.stop()


async def test_closing_ends_requests_in_progress_and_refuses_later_ones(connecting: Connect) -> None:
    arrived = asyncio.Event()

    async def silent(seen: Seen, writer: asyncio.StreamWriter) -> None:
        arrived.set()
        await asyncio.sleep(5)

    async with serving(silent) as peer:
        transport = await connecting(peer.port)
        under_way = asyncio.create_task(get(transport))
        await arrived.wait()
        await transport.aclose()
        with pytest.raises(TransportError):
            await asyncio.wait_for(under_way, 2)
        with pytest.raises(Unreachable, match="was closed"):
            await get(transport)


async def test_a_write_that_was_sent_before_the_closing_may_have_been_carried_out(
    connecting: Connect,
) -> None:
    arrived = asyncio.Event()

    async def silent(seen: Seen, writer: asyncio.StreamWriter) -> None:
        arrived.set()
        await asyncio.sleep(5)

    async with serving(silent) as peer:
        transport = await connecting(peer.port)
        under_way = asyncio.create_task(transport.request(HttpRequest("PUT", "/x", body=b"{}")))
        await arrived.wait()
        await transport.aclose()
        with pytest.raises(OutcomeUnknown, match="cut before the answer was whole: we closed it"):
            await asyncio.wait_for(under_way, 2)


@both_ways
async def test_a_body_that_is_read_while_its_transport_closes_is_not_taken_for_a_whole_one(
    read: Get, connecting: Connect
) -> None:
    async def half(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nhalf")
        await asyncio.sleep(5)

    async with serving(half) as peer:
        transport = await connecting(peer.port)
        under_way = asyncio.ensure_future(read(transport))
        await asyncio.sleep(0.2)
        await transport.aclose()
        with pytest.raises(OutcomeUnknown):
            await asyncio.wait_for(under_way, 2)


async def test_the_kubeconfigs_proxy_carries_requests(connecting: Connect) -> None:
    async with serving(always(reply(200, b"by proxy"))) as proxy:
        cluster = {"server": "http://cluster.example.com", "proxy-url": f"http://127.0.0.1:{proxy.port}"}
        transport = await connecting(0, cluster=cluster)
        assert (await get(transport)).body == b"by proxy"
    assert proxy.seen[0].target == "http://cluster.example.com/x"


async def test_the_environments_proxy_carries_requests_but_not_to_this_machine(
    connecting: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(always(reply(200, b"by proxy"))) as proxy, serving(always(reply())) as peer:
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        near = await connecting(peer.port)
        await get(near, "/near")
        far = await connecting(0, cluster={"server": "http://cluster.example.com"})
        await get(far, "/far")
        monkeypatch.setenv("no_proxy", "cluster.example.com")
        assert (await connecting(0, cluster={"server": "http://cluster.example.com"}))._proxy is None
    assert [seen.target for seen in proxy.seen] == ["http://cluster.example.com/far"]
    assert [seen.target for seen in peer.seen] == ["/near"]


async def test_a_proxy_that_does_not_answer_or_refuses_is_unreachable(connecting: Connect) -> None:
    async with serving(always(reply(407, b""))) as proxy:
        port = proxy.port
        cluster = {"server": "https://cluster.example.com", "proxy-url": f"http://127.0.0.1:{port}"}
        transport = await connecting(0, cluster=cluster)
        with pytest.raises(Unreachable, match="the proxy refused: 407"):
            await transport.request(HttpRequest("POST", "/x", body=b"{}"))
    with pytest.raises(Unreachable, match="the proxy does not answer"):
        await transport.request(HttpRequest("POST", "/x", body=b"{}"))


async def test_an_answer_that_is_not_http_leaves_the_outcome_unknown(connecting: Connect) -> None:
    async with serving(always(b"SSH-2.0-OpenSSH\r\n\r\n")) as peer:
        transport = await connecting(peer.port)
        with pytest.raises(OutcomeUnknown, match="the answer is not HTTP"):
            await get(transport)


def test_importing_the_transport_imports_no_library_for_all_servers() -> None:
    heavy = "{'aiohttp', 'email', 'http.client', 'kubernetes_asyncio', 'urllib.request'}"
    code = f"import informers, informers.kubernetes, sys; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
