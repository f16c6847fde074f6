"""What the server says to one request too many, and to those that never become whole."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
import anyio
import pytest
from anyio.abc import SocketStream

from reconcile.embedded import ApiServer, http
from reconcile.embedded.http import ServerHandle, serve
from reconcile.embedded.listener import connections
from tests.embedded.api_client import CONFIG_MAPS, Api, config_map

SLOW = (
    b"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    b"Content-Length: 34\r\n\r\n"
)
BODY = b'{"metadata":{"generateName":"a-"}}'
WAITING = f"GET {CONFIG_MAPS}?resourceVersion={2**63 - 1} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
HEAD = f"GET {CONFIG_MAPS} HTTP/1.1\r\nHost: x\r\n".encode()


@asynccontextmanager
async def connected(face: ServerHandle, *sent: bytes) -> AsyncIterator[SocketStream]:
    """A connection on which something was sent."""
    async with await anyio.connect_tcp("127.0.0.1", face.port) as stream:
        for data in sent:
            await stream.send(data)
        yield stream


async def answer_on(stream: SocketStream) -> bytes:
    """All that comes until the server hangs up."""
    received = b""
    with anyio.fail_after(20):
        while True:
            try:
                received += await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return received


async def status_of(session: aiohttp.ClientSession) -> int:
    async with session.get(CONFIG_MAPS) as answer:
        await answer.read()
        return answer.status


@pytest.mark.rule("api-25")
async def test_a_request_beyond_the_limit_is_429_with_retry_after() -> None:
    async with (
        serve(ApiServer(), tls=False, max_in_flight=2) as face,
        aiohttp.ClientSession(face.url) as session,
        connected(face, WAITING) as first,
        connected(face, WAITING),
    ):
        while await status_of(session) != 429:
            await anyio.sleep(0.01)
        async with session.post(CONFIG_MAPS, data=BODY) as answer:
            assert answer.status == 429
            assert answer.headers["Retry-After"] == "1"
            assert answer.headers["Content-Type"].startswith("text/plain")
            assert await answer.text() == "Too many requests, please try again later.\n"
        assert b" 504 " in await first.receive()
        while await status_of(session) != 200:
            await anyio.sleep(0.01)


async def test_watches_do_not_count_against_the_limit() -> None:
    async with (
        serve(ApiServer(), tls=False, max_in_flight=1) as face,
        aiohttp.ClientSession(face.url) as session,
        session.get(CONFIG_MAPS, params={"watch": "true"}) as one,
        session.get(CONFIG_MAPS, params={"watch": "true"}) as other,
    ):
        assert (one.status, other.status) == (200, 200)
        assert await status_of(session) == 200


async def test_a_client_that_disconnects_frees_its_place() -> None:
    async with (
        serve(ApiServer(), tls=False, max_in_flight=1) as face,
        aiohttp.ClientSession(face.url) as session,
    ):
        async with connected(face, WAITING):
            while await status_of(session) != 429:
                await anyio.sleep(0.01)
        with anyio.fail_after(2):
            while await status_of(session) != 200:
                await anyio.sleep(0.01)


# --- what never becomes whole -----------------------------------------------------------------


@pytest.mark.rule("api-142")
async def test_half_sent_bodies_do_not_count_as_requests_in_flight() -> None:
    async with (
        serve(ApiServer(), tls=False, max_in_flight=2) as face,
        aiohttp.ClientSession(face.url) as session,
        AsyncExitStack() as stack,
    ):
        streams = [await stack.enter_async_context(connected(face, SLOW, BODY[:9])) for _ in range(20)]
        for _ in range(5):
            assert await status_of(session) == 200
        await streams[0].send(BODY[9:])
        assert b" 201 " in await streams[0].receive()


@pytest.mark.rule("api-142")
async def test_a_body_that_does_not_arrive_is_408(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "BODY_TIME", 0.1)
    async with serve(ApiServer(), tls=False) as face, connected(face, SLOW, BODY[:9]) as stream:
        with anyio.fail_after(5):
            answer = await stream.receive()
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"Connection: close" in answer


@pytest.mark.rule("api-142")
@pytest.mark.parametrize("sent", [(), (b"G",), (HEAD,), (HEAD, b"X-A: b\r\n")])
async def test_a_request_head_that_does_not_arrive_ends_the_connection(
    monkeypatch: pytest.MonkeyPatch, sent: tuple[bytes, ...]
) -> None:
    monkeypatch.setattr(connections, "HEAD_TIME", 0.2)
    async with serve(ApiServer(), tls=False) as face, connected(face, *sent) as stream:
        answer = await answer_on(stream)
    assert answer == b""


@pytest.mark.rule("api-142")
async def test_the_oldest_unfinished_bodies_make_room_for_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_UNFINISHED", 1_000_000)
    head = SLOW.replace(b"Content-Length: 34", b"Content-Length: 400000")
    async with serve(ApiServer(), tls=False) as face, AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(connected(face, head, b"{" * 300_000)) for _ in range(5)]
        with anyio.fail_after(5):
            assert (await streams[0].receive()).startswith(b"HTTP/1.1 408 ")
            await streams[4].send(b"{" * 100_000)
            assert (await streams[4].receive()).startswith(b"HTTP/1.1 400 ")


@pytest.mark.rule("api-142")
async def test_all_headers_together_may_have_a_mebibyte() -> None:
    some = [b"X-%d: %s\r\n" % (number, b"x" * 60_000) for number in range(20)]
    async with serve(ApiServer(), tls=False) as face:
        async with connected(face, HEAD + b"".join(some) + b"\r\n") as stream:
            assert b" 431 " in await stream.receive()
        async with connected(face, HEAD + b"".join(some[:10]) + b"\r\n") as stream:
            assert b" 200 " in await stream.receive()
        async with connected(face, HEAD) as stream:
            sent = 0
            with anyio.fail_after(10), pytest.raises((anyio.BrokenResourceError, anyio.ClosedResourceError)):
                while True:
                    await stream.send(b"Y: " + b"y" * 500_000 + b"\r\n")
                    sent += 500_000
        assert sent < 16_000_000


@pytest.mark.rule("api-142")
async def test_connections_without_a_request_make_room_for_those_with_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 10)
    async with (
        serve(ApiServer(), tls=False) as face,
        aiohttp.ClientSession(face.url) as session,
        session.get(CONFIG_MAPS, params={"watch": "true"}) as watch,
        AsyncExitStack() as stack,
    ):
        streams = [await stack.enter_async_context(connected(face, b"G")) for _ in range(50)]
        assert await status_of(session) == 200
        assert await answer_on(streams[0]) == b""
        async with session.post(CONFIG_MAPS, json={"metadata": {"name": "a"}}) as made:
            assert made.status == 201
        with anyio.fail_after(5):
            while b'"name":"a"' not in await watch.content.readline():
                pass


async def with_much_to_read() -> Api:
    api = Api()
    for number in range(20):
        api.ok("POST", CONFIG_MAPS, config_map(f"a{number}", {"k": "x" * 1_000_000}))
    return api


@pytest.mark.rule("api-142")
async def test_a_client_that_does_not_read_its_answer_is_disconnected() -> None:
    api = await with_much_to_read()
    async with (
        serve(api.server, tls=False, patience=0.2, max_in_flight=1) as face,
        aiohttp.ClientSession(face.url) as session,
        connected(face, HEAD + b"\r\n"),
    ):
        with anyio.fail_after(10):
            while await status_of(session) != 200:
                await anyio.sleep(0.01)


@pytest.mark.rule("api-142")
async def test_answers_in_flight_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_SENDING", 30_000_000)
    api = await with_much_to_read()
    async with serve(api.server, tls=False) as face, connected(face, HEAD + b"\r\n") as first:
        assert b" 200 " in await first.receive()
        async with connected(face, HEAD + b"\r\n") as second:
            assert b" 429 " in await second.receive()


# --- what is kept -----------------------------------------------------------------------------


@pytest.mark.rule("api-116")
def test_history_is_bounded_by_its_size() -> None:
    server = ApiServer(history_bytes=10_000_000)
    api = Api()
    api.server = server
    first = api.ok("POST", CONFIG_MAPS, config_map())["metadata"]["resourceVersion"]
    for number in range(60):
        api.merge(f"{CONFIG_MAPS}/a", {"data": {"k": f"{number:02}" * 250_000}})
    timeline = server.log.timeline(("", "configmaps"))
    kept = [change.new for change in timeline.since(timeline.dropped) if change.new is not None]
    assert 5 < len(kept) < 15
    assert server.log.kept <= 10_000_000
    late = api.send("GET", CONFIG_MAPS, query={"resourceVersion": first, "resourceVersionMatch": "Exact"})
    assert (late.status, late.body["reason"]) == (410, "Expired")


@pytest.mark.rule("api-142")
def test_a_full_store_refuses_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconcile.embedded.engine.MAX_STORE_BYTES", 2_000_000)
    api = Api()
    api.ok("POST", CONFIG_MAPS, config_map("a", {"k": "x" * 1_000_000}))
    answer = api.send("POST", CONFIG_MAPS, config_map("b", {"k": "x" * 1_000_000}))
    assert (answer.status, answer.body["message"]) == (500, "etcdserver: mvcc: database space exceeded")
    api.ok("DELETE", f"{CONFIG_MAPS}/a")
    api.ok("POST", CONFIG_MAPS, config_map("b", {"k": "x" * 1_000_000}))


def test_an_object_without_room_for_the_marks_of_its_deletion_holds_up_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api, within = Api(), "/api/v1/namespaces/ending/configmaps"
    api.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "ending"}})
    absent = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "no-such-uid"}]
    for path in (CONFIG_MAPS, within):
        large = config_map("a", {"k": "x" * 20_000}, finalizers=["example.com/hold"], ownerReferences=absent)
        api.ok("POST", path, large)
        api.ok("POST", path, config_map("b", ownerReferences=absent))
    api.ok("DELETE", "/api/v1/namespaces/ending")
    monkeypatch.setattr("reconcile.embedded.engine.MAX_STORED_BYTES", 20_000)
    api.server.settle()
    for path in (CONFIG_MAPS, within):
        assert api.gone(f"{path}/b")
        assert "deletionTimestamp" not in api.ok("GET", f"{path}/a")["metadata"]
        api.merge(f"{path}/a", {"data": None})
    api.server.settle()
    for path in (CONFIG_MAPS, within):
        assert "deletionTimestamp" in api.ok("GET", f"{path}/a")["metadata"]
        api.merge(f"{path}/a", {"metadata": {"finalizers": None}})
    api.server.settle()
    assert api.gone("/api/v1/namespaces/ending")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/v1/namespaces/default/resourcequotas", {"spec": {"hard": {"pods": "1"}}}),
        ("/apis/policy/v1/namespaces/default/poddisruptionbudgets", {"spec": {"minAvailable": 1}}),
    ],
)
def test_a_status_that_makes_an_object_too_large_is_not_written(
    monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, Any]
) -> None:
    api = Api()
    api.ok("POST", path, {"metadata": {"name": "a"}, **body})
    with monkeypatch.context() as patched:
        patched.setattr("reconcile.embedded.engine.MAX_STORED_BYTES", 1)
        api.server.settle()
    assert not api.ok("GET", f"{path}/a").get("status", {}).keys() & {"used", "conditions"}
    api.merge(f"{path}/a", {"metadata": {"labels": {"a": "b"}}})
    api.server.settle()
    assert api.ok("GET", f"{path}/a")["status"].keys() & {"used", "conditions"}


@pytest.mark.rule("api-142")
async def test_a_client_gets_its_answer_even_if_the_rest_of_its_body_is_refused() -> None:
    head = SLOW.replace(b"Content-Length: 34", b"Content-Length: 3500000")
    async with serve(ApiServer(), tls=False) as face, connected(face, head + b" " * 3_500_000) as stream:
        with anyio.fail_after(5):
            assert b" 413 " in await stream.receive()
