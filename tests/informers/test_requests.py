"""What an informer asks for, when, and what it takes to hold the answer."""

import gc
import json
import tracemalloc
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import anyio

from informers import APIResource, Informer, InformerOptions, Response
from reconcile.testing import VirtualClock, simulate
from tests.helpers.scripted_server import PIECE, Answer, Chunks, ScriptedServer, SeenRequest
from tests.helpers.tasks import beside

PODS = APIResource("", "v1", "Pod", "pods")


class Server(ScriptedServer):
    """Refuses streaming lists. Every list is `items`, every watch `lines` and then silence, in pieces."""

    def __init__(self, items: Sequence[bytes], lines: Sequence[bytes] = (), *, broken: bool = False) -> None:
        super().__init__(self._next)
        self.items, self.lines, self.broken = items, deque(lines), broken
        self.collecting: list[bool] = []

    def _next(self, request: SeenRequest) -> Answer:
        if "sendInitialEvents" in request.query:
            return Response(422, body=b"sendInitialEvents is forbidden for watch")
        if "watch" not in request.query:
            return Chunks(self._list())
        self.collecting.append(gc.isenabled())
        return Response(200, body=self.lines.popleft()) if self.lines else Chunks(then="silence")

    def _list(self) -> Iterator[tuple[float, bytes]]:
        yield 0, b'{"metadata":{"resourceVersion":"100"},"items":['
        pending = bytearray()
        for number, item in enumerate(self.items):
            pending += b"," * bool(number) + item
            if len(pending) >= PIECE:
                self.collecting.append(gc.isenabled())
                yield 0, bytes(pending)
                pending.clear()
        if not self.broken:
            yield 0, bytes(pending) + b"]}"


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


def test_selectors_are_sent_with_every_request() -> None:
    server = Server([])
    shard = "shardRange(object.metadata.uid,'0x0000000000000000','0x8000000000000000')"
    followed(server, labels="app=web", fields="spec.nodeName=n", shard=shard)
    names = ("labelSelector", "fieldSelector", "shardSelector")
    said = [[seen.query[name] for name in names] for seen in server.seen]
    assert said == [["app=web", "spec.nodeName=n", shard]] * 3


def test_metadata_only_is_requested_in_lists_and_watches() -> None:
    server = Server([])
    followed(server, metadata_only=True)
    assert [seen.headers["accept"].split(",")[-1] for seen in server.seen] == [
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    ]


def test_a_watch_respects_retry_after() -> None:
    details = {"retryAfterSeconds": 42}
    status = {"kind": "Status", "code": 429, "reason": "TooManyRequests", "message": "no", "details": details}
    server = Server([], [json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"])
    followed(server)
    *_, refused, again = [seen.at for seen in server.seen if "watch" in seen.query]
    assert 42 <= again - refused < 45


def test_an_object_may_be_as_large_as_a_server_allows() -> None:
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
        async with beside(informer.run):
            await informer.wait_synced()
            most.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.reset_peak()
            informer.relist()
            await informer.wait_until(lambda: informer.status().relists == 1, 100)
            most.append(tracemalloc.get_traced_memory()[1])

    tracemalloc.start()
    try:
        simulate(run)
    finally:
        tracemalloc.stop()
    stored = informer.store.size
    assert stored > 4_000_000
    assert most[0] < 1.5 * stored
    assert most[1] < 1.5 * stored
