"""An informer that follows a share of a resource, which changes while it runs."""

from collections.abc import Collection

import anyio
import pytest

from informers import Delta, HttpRequest, Informer, InformerOptions, Response, Snapshot
from informers.apimachinery.shard_selectors import SHARD_EXAMPLE, fnv1a
from informers.informer_share import Share, shards_served
from informers.transport import PassingTransport
from reconcile import Client
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.kinds import ConfigMap
from reconcile.models import ObjectMeta
from reconcile.testing import VirtualClock
from tests.helpers.scenarios import simulated
from tests.helpers.scripted_server import ScriptedServer
from tests.helpers.tasks import beside
from tests.informers.informed import CONFIG_MAPS

PATH = CONFIG_MAPS.path("")
BUCKET = "bucket"


def bucket_of(snapshot: Snapshot) -> str:
    return snapshot.labels.get(BUCKET, "")


def labelled(*buckets: str) -> Share:
    """The objects with such a label."""
    return Share(keeps=lambda s: bucket_of(s) in buckets, labels=f"{BUCKET} in ({','.join(buckets)})")


def sharded(buckets: Collection[int]) -> Share:
    """The objects in these quarters of the hash of their uid."""
    quarter = 2**62
    ranges = [f"'0x{n * quarter:016x}', '0x{(n + 1) * quarter:016x}'" for n in buckets]
    shard = " || ".join(f"shardRange(object.metadata.uid, {one})" for one in ranges)
    return Share(keeps=lambda s: fnv1a(s.uid) // quarter in buckets, shard=shard)


class WithoutShards(PassingTransport):
    """A server without shards: it ignores the parameter."""

    async def request(self, request: HttpRequest) -> Response:
        query = {name: value for name, value in request.query.items() if name != "shardSelector"}
        return await self._inner.request(HttpRequest(request.method, request.path, query))


# --- what is asked for ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "share", "query"),
    [
        (InformerOptions(labels="a=b"), labelled("x", "y"), {"labelSelector": "a=b,bucket in (x,y)"}),
        (InformerOptions(), labelled("x"), {"labelSelector": "bucket in (x)"}),
        (
            InformerOptions(labels="a=b", fields="metadata.name=n"),
            Share(keeps=bool, shard=SHARD_EXAMPLE),
            {"labelSelector": "a=b", "fieldSelector": "metadata.name=n", "shardSelector": SHARD_EXAMPLE},
        ),
        (
            InformerOptions(shard=SHARD_EXAMPLE),
            labelled("x"),
            {"labelSelector": "bucket in (x)", "shardSelector": SHARD_EXAMPLE},
        ),
        (InformerOptions(), Share(keeps=bool), {}),
    ],
)
@simulated
async def test_a_share_narrows_what_the_options_select(
    options: InformerOptions, share: Share, query: dict[str, str]
) -> None:
    server = ScriptedServer(lambda _: Response(403))
    with anyio.move_on_after(10):
        await Informer(server, CONFIG_MAPS, options=options, share=share, clock=VirtualClock()).run()
    watch, page = server.seen[:2]
    assert "watch" in watch.query
    for request in (watch, page):
        assert {name: text for name, text in request.query.items() if "Selector" in name} == query


@simulated
async def test_two_shard_selectors_do_not_go_together() -> None:
    options, server = InformerOptions(shard=SHARD_EXAMPLE), ScriptedServer(lambda _: Response(403))
    with pytest.raises(ValueError, match="a share with shard= cannot be part of"):
        Informer(server, CONFIG_MAPS, options=options, share=sharded([0]))
    informer = Informer(server, CONFIG_MAPS, options=options)
    with pytest.raises(ValueError, match="remove shard= of the options"):
        await informer.set_share(sharded([0]), None)


@pytest.mark.parametrize("wrong", [{"labels": "a=(b"}, {"shard": "half"}])
def test_a_share_with_text_that_is_no_selector_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="selector"):
        Share(keeps=bool, **wrong)


@pytest.mark.parametrize("served", [True, False])
@simulated
async def test_a_server_is_asked_whether_it_filters_by_shard(served: bool) -> None:
    transport = InProcessTransport(ApiServer(clock=VirtualClock()))
    assert await shards_served(transport if served else WithoutShards(transport), PATH) is served


@pytest.mark.parametrize("status", [500, 503, 403])
@simulated
async def test_another_failure_does_not_count_as_support_of_shards(status: int) -> None:
    server = ScriptedServer(lambda _: Response(status, body=b"etcd is gone"))
    with pytest.raises(Exception, match="etcd is gone"):
        await shards_served(server, PATH)


# --- a share that changes ---------------------------------------------------------------------------------


async def make(client: Client, name: str, bucket: str) -> ConfigMap:
    return await client.create(
        ConfigMap(metadata=ObjectMeta(name, "default", labels={BUCKET: bucket}), data={})
    )


def names(informer: Informer) -> list[str]:
    return sorted(snapshot.key.name for snapshot in informer.store)


@simulated
async def test_a_gained_bucket_is_in_the_store_when_set_share_returns_and_a_lost_one_has_left() -> None:
    server = ApiServer(clock=VirtualClock())
    client = Client(InProcessTransport(server), clock=VirtualClock())
    for name, bucket in (("a", "0"), ("b", "1"), ("c", "2")):
        await make(client, name, bucket)
    informer = Informer(
        InProcessTransport(server), CONFIG_MAPS, share=labelled("0", "1"), clock=VirtualClock()
    )
    heard: list[Delta] = []
    async with beside(informer.run):
        await informer.wait_synced()
        assert names(informer) == ["a", "b"]
        informer.add_handler(heard.append)
        heard.clear()
        await informer.set_share(labelled("1", "2"), labelled("2"))
        assert names(informer) == ["b", "c"]
    assert [(delta.last.key.name, delta.new is None, delta.left) for delta in heard] == [
        ("a", True, True),
        ("c", False, False),
    ]
