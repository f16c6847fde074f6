"""What an informer asks for, when, and what it takes to hold the answer."""

import gc
import json
import tracemalloc
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
from attrs import define, field

from informers import APIResource, HttpRequest, Informer, InformerOptions, Response, StreamingResponse
from reconcile.testing import VirtualClock, simulate

PODS = APIResource("", "v1", "Pod", "pods")
PIECE = 1 << 16


@define
class Server:
    """Refuses streaming lists. Every list is `items`, every watch `lines` and then silence, in pieces."""

    items: list[bytes]
    lines: list[bytes] = field(factory=list)
    asked: list[tuple[float, Mapping[str, str], Mapping[str, str]]] = field(factory=list)
    collecting: list[bool] = field(factory=list)
    broken: bool = False
    server: str = "scripted"

    async def request(self, request: HttpRequest) -> Response:
        raise AssertionError("an informer reads everything as a stream")

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncIterator[StreamingResponse]:
        self.asked.append((anyio.current_time(), dict(request.query), dict(request.headers)))
        if "sendInitialEvents" in request.query:
            yield StreamingResponse(422, {}, self._body(b"sendInitialEvents is forbidden for watch"))
        elif "watch" in request.query:
            yield StreamingResponse(200, {}, self._watch())
        else:
            yield StreamingResponse(200, {}, self._list())

    async def _list(self) -> AsyncIterator[bytes]:
        yield b'{"metadata":{"resourceVersion":"100"},"items":['
        pending = bytearray()
        for number, item in enumerate(self.items):
            pending += b"," * bool(number) + item
            if len(pending) >= PIECE:
                self.collecting.append(gc.isenabled())
                yield bytes(pending)
                pending.clear()
        if not self.broken:
            yield bytes(pending) + b"]}"

    async def _watch(self) -> AsyncIterator[bytes]:
        self.collecting.append(gc.isenabled())
        if self.lines:
            async for piece in self._body(self.lines.pop(0)):
                yield piece
        else:
            await anyio.sleep_forever()

    async def _body(self, body: bytes) -> AsyncIterator[bytes]:
        for start in range(0, len(body), PIECE):
            yield body[start : start + PIECE]

    async def aclose(self) -> None:
        pass


def pod(number: int, size: int) -> bytes:
    metadata = {"namespace": "ns", "name": f"pod-{number}", "uid": f"{number}", "resourceVersion": "7"}
    return json.dumps({"metadata": metadata, "spec": {"text": f"{number:0{size}}"}}).encode()


def followed(server: Server, seconds: float = 100, **options: Any) -> Informer:
    """An informer that has followed that server for so long, in virtual time."""
    informer = Informer(server, PODS, options=InformerOptions(**options), clock=VirtualClock())

    async def run() -> None:
        with anyio.move_on_after(seconds):
            await informer.run()

    simulate(run, limit_seconds=10_000)
    return informer


def test_selectors_go_with_every_request() -> None:
    server = Server([])
    shard = "shardRange(object.metadata.uid,'0x0000000000000000','0x8000000000000000')"
    followed(server, labels="app=web", fields="spec.nodeName=n", shard=shard)
    said = [
        (query["labelSelector"], query["fieldSelector"], query["shardSelector"])
        for _, query, _ in server.asked
    ]
    assert said == [("app=web", "spec.nodeName=n", shard)] * 3


def test_metadata_alone_is_asked_for_in_lists_and_in_watches() -> None:
    server = Server([])
    followed(server, metadata_only=True)
    assert [headers["accept"] for _, _, headers in server.asked] == [
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    ]


def test_a_watch_that_is_told_to_come_back_later_does_so() -> None:
    details = {"retryAfterSeconds": 42}
    status = {"kind": "Status", "code": 429, "reason": "TooManyRequests", "message": "no", "details": details}
    server = Server([], [json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"])
    followed(server)
    *_, refused, again = [at for at, query, _ in server.asked if "watch" in query]
    assert 42 <= again - refused < 45


def test_an_object_may_be_as_large_as_a_server_takes_it() -> None:
    line = b'{"type":"ADDED","object":%s}\n' % pod(1, 1_500_000).replace(b'"7"', b'"101"')
    (snapshot,) = followed(Server([], [line])).store
    assert snapshot.size > 1_500_000


def test_the_garbage_collector_waits_for_the_end_of_a_list() -> None:
    for broken in (False, True):
        server = Server([pod(number, 1000) for number in range(200)], broken=broken)
        followed(server, 1)
        assert server.collecting[:3] == [False] * 3
        assert server.collecting[3:] == [True] * (not broken)
        assert gc.isenabled()


def test_a_list_is_never_in_memory_twice() -> None:
    server = Server([pod(number, 4000) for number in range(1000)])
    informer = Informer(server, PODS, clock=VirtualClock())
    most: list[int] = []

    async def run() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(informer.run)
            await informer.wait_synced()
            most.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.reset_peak()
            informer.relist()
            await informer.wait_until(lambda: informer.status().relists == 1, 100)
            most.append(tracemalloc.get_traced_memory()[1])
            group.cancel_scope.cancel()

    tracemalloc.start()
    try:
        simulate(run)
    finally:
        tracemalloc.stop()
    stored = informer.store.size
    assert stored > 4_000_000
    assert most[0] < 1.5 * stored
    assert most[1] < 1.5 * stored
