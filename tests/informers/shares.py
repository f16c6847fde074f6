"""Shares of config maps, in four buckets: of a label, or of the uid."""

from collections.abc import Collection
from contextlib import AbstractAsyncContextManager

from msgspec.structs import replace

from informers import HttpRequest, Response, Snapshot, StreamingResponse
from informers.apimachinery.shard_selectors import fnv1a
from informers.informer_share import Share
from informers.transport import PassingTransport

BUCKET = "bucket"
BUCKETS = range(4)
_QUARTER = 2**62


def of_uid(uid: str) -> int:
    return fnv1a(uid) // _QUARTER


def of_label(snapshot: Snapshot) -> int:
    return int(snapshot.labels.get(BUCKET, "-1"))


def labelled(buckets: Collection[int]) -> Share:
    """The objects with such a label."""
    chosen = ",".join(map(str, sorted(buckets)))
    return Share(keeps=lambda one: of_label(one) in buckets, labels=f"{BUCKET} in ({chosen})")


def unfiltered(buckets: Collection[int]) -> Share:
    """The same, though the server sends all."""
    return Share(keeps=lambda one: of_label(one) in buckets)


def sharded(buckets: Collection[int]) -> Share:
    """The objects whose uid is in such a quarter."""
    bounds = [(bucket * _QUARTER, (bucket + 1) * _QUARTER) for bucket in sorted(buckets)]
    ranges = [f"shardRange(object.metadata.uid, '0x{start:016x}', '0x{end:016x}')" for start, end in bounds]
    return Share(keeps=lambda one: of_uid(one.uid) in buckets, shard=" || ".join(ranges))


class WithoutShards(PassingTransport):
    """A server without shards: it ignores the parameter."""

    async def request(self, request: HttpRequest) -> Response:
        return await self._inner.request(_stripped(request))

    def stream(self, request: HttpRequest) -> AbstractAsyncContextManager[StreamingResponse]:
        return self._inner.stream(_stripped(request))


def _stripped(request: HttpRequest) -> HttpRequest:
    return replace(
        request, query={name: text for name, text in request.query.items() if name != "shardSelector"}
    )
