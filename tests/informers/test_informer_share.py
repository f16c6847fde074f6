"""An informer that follows a share of a resource, which changes while it runs."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from attrs import define, field

from informers import Delta, Informer, InformerOptions, Response
from informers.apimachinery.shard_selectors import SHARD_EXAMPLE
from informers.informer_share import Share, shards_served
from informers.loop_slices import LOOK_EVERY
from informers.owed_parts import OwedPart, OwedParts
from reconcile import Client
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.kinds import ConfigMap
from reconcile.models import ObjectMeta
from reconcile.testing import Drop, Fault, FaultPlan, FaultyTransport, Refuse, Stall, VirtualClock, When
from tests.helpers.scenarios import simulated
from tests.helpers.scripted_server import Answer, Chunks, ScriptedServer, SeenRequest
from tests.helpers.tasks import beside
from tests.informers.informed import CONFIG_MAPS
from tests.informers.shares import BUCKET, WithoutShards, labelled, sharded, unfiltered
from tests.informers.watch_lines import line, pod, whole

PATH = CONFIG_MAPS.path("")


# --- what is asked for ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "share", "query"),
    [
        (InformerOptions(labels="a=b"), labelled({0, 1}), {"labelSelector": "a=b,bucket in (0,1)"}),
        (InformerOptions(), labelled({1}), {"labelSelector": "bucket in (1)"}),
        (
            InformerOptions(labels="a=b", fields="metadata.name=n"),
            Share(keeps=bool, shard=SHARD_EXAMPLE),
            {"labelSelector": "a=b", "fieldSelector": "metadata.name=n", "shardSelector": SHARD_EXAMPLE},
        ),
        (
            InformerOptions(shard=SHARD_EXAMPLE),
            labelled({1}),
            {"labelSelector": "bucket in (1)", "shardSelector": SHARD_EXAMPLE},
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


@define(eq=False)
class World:
    """An informer of a server that is never late, and what its handler hears."""

    client: Client
    informer: Informer
    transport: FaultyTransport
    heard: list[Delta] = field(factory=list)

    async def make(self, name: str, bucket: int, namespace: str = "default") -> ConfigMap:
        meta = ObjectMeta(name, namespace, labels={BUCKET: str(bucket)})
        return await self.client.create(ConfigMap(metadata=meta))

    async def move(self, name: str, bucket: int) -> None:
        await self.client.raw.merge(
            await self.client.get(ConfigMap, name, "default"),
            {"metadata": {"labels": {BUCKET: str(bucket)}}},
            guard={},
        )

    @property
    def names(self) -> str:
        return "".join(sorted(snapshot.key.name for snapshot in self.informer.store))

    @property
    def told(self) -> list[str]:
        """What the handler heard since it was last asked."""
        heard, self.heard[:] = [_in_short(delta) for delta in self.heard], []
        return heard

    @property
    def lists(self) -> list[str]:
        """The label selectors of lists."""
        return [r.query["labelSelector"] for r in self.transport.requests if r.verb == "list"]


def _in_short(delta: Delta) -> str:
    marks = "initial" * delta.initial + "missed" * delta.missed + " left" * delta.left
    sign = "-" if delta.new is None else "+" if delta.old is None else "="
    return f"{sign}{delta.last.key.name} {marks}".strip()


def a_world(share: Share, faults: Sequence[Fault] = (), namespaces: Sequence[str] = ()) -> World:
    server = ApiServer(clock=VirtualClock())
    direct = InProcessTransport(server)
    transport = FaultyTransport(direct, FaultPlan(tuple(faults)))
    options = InformerOptions(namespaces=namespaces)
    informer = Informer(transport, CONFIG_MAPS, options=options, share=share, clock=VirtualClock())
    world = World(Client(direct, clock=VirtualClock()), informer, transport)
    informer.add_handler(world.heard.append)
    return world


@asynccontextmanager
async def synced(world: World) -> AsyncIterator[None]:
    """Runs the informer with an object in each bucket: a, b, c, d. What was heard of them is forgotten."""
    for bucket, name in enumerate("abcd"):
        await world.make(name, bucket)
    async with beside(world.informer.run):
        await world.informer.wait_synced()
        world.heard.clear()
        yield


@simulated
async def test_a_gained_bucket_is_in_the_store_when_set_share_returns_and_a_lost_one_has_left() -> None:
    world = a_world(labelled({0, 1}))
    async with synced(world):
        await world.informer.set_share(labelled({1, 2}), labelled({2}))
        assert world.names == "bc"
        assert world.told == ["-a missed left", "+c initial"]
        for name in "abc":
            await world.move(name, 1)
        await anyio.sleep(1)
        assert world.told == ["+a", "=c"]
        assert world.lists == ["bucket in (2)"]
    assert world.informer.status().relists == 0


@simulated
async def test_what_is_only_lost_costs_no_list() -> None:
    world = a_world(labelled({0, 1}))
    async with synced(world):
        await world.informer.set_share(labelled({1}), None)
        assert world.told == ["-a missed left"]
        await world.make("e", 0)
        await world.make("f", 1)
        await anyio.sleep(1)
        assert (world.told, world.lists) == (["+f"], [])


@simulated
async def test_a_gained_bucket_is_read_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("informers.reflector.PAGE", 2)
    world = a_world(labelled({0}), [Fault(When("list", nth=2), Refuse(410, "Expired"))])
    for name in "vwxyz":
        await world.make(name, 2)
    async with synced(world):
        await world.informer.set_share(labelled({0, 2}), labelled({2}))
        assert world.names == "acvwxyz"
        assert len(world.told) == 6
    assert len(world.lists) == 2 + 3


@simulated
async def test_the_watch_goes_on_while_a_gained_bucket_cannot_be_read() -> None:
    busy = Fault(When("list", times=2), Refuse(429, "TooManyRequests", retry_after=20))
    world = a_world(labelled({0}), [busy])
    async with synced(world), anyio.create_task_group() as group:
        group.start_soon(world.informer.set_share, labelled({0, 1}), labelled({1}))
        await anyio.sleep(5)
        await world.make("e", 0)
        await anyio.sleep(5)
        assert (world.told, world.names) == (["+e"], "ae")
        await anyio.sleep(40)
        assert (world.told, world.names) == (["+b initial"], "abe")
        assert world.informer.status().error == ""


@simulated
async def test_a_gained_bucket_is_read_even_if_its_caller_has_given_up() -> None:
    world = a_world(labelled({0}), [Fault(When("list", times=2), Drop())])
    async with synced(world):
        with anyio.move_on_after(0.1):
            await world.informer.set_share(labelled({0, 1}), labelled({1}))
        assert world.names == "a"
        await anyio.sleep(10)
        assert world.names == "ab"


@simulated
async def test_all_that_is_lost_leaves_even_if_its_caller_has_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("informers.loop_slices.SLICE", -1)
    world = a_world(labelled({0, 1}))
    for number in range(2 * LOOK_EVERY):
        await world.make(f"more-{number}", 0)
    async with synced(world):
        with anyio.CancelScope() as given_up:
            given_up.cancel()
            await world.informer.set_share(labelled({1}), None)
        assert world.names == "b"


@simulated
async def test_a_share_is_set_while_nothing_runs_and_read_by_the_next_run() -> None:
    world = a_world(labelled({0, 1}))
    async with synced(world):
        pass
    await world.informer.set_share(labelled({1, 2}), labelled({2}))
    assert world.told == ["-a missed left"]
    async with beside(world.informer.run):
        await anyio.sleep(1)
        assert world.told == ["+c initial"]


@simulated
async def test_what_waits_for_an_informer_ends_with_it() -> None:
    world = a_world(labelled({0}), [Fault(When("list", times=None), Drop())])
    async with anyio.create_task_group() as group, synced(world):
        group.start_soon(world.informer.set_share, labelled({0, 1}), labelled({1}))
        group.start_soon(world.informer.refresh, labelled({0}))
        await anyio.sleep(1)


@simulated
async def test_a_change_of_share_during_the_first_list_begins_it_again() -> None:
    world = a_world(labelled({0}), [Fault(When("watch"), Stall(after=1, seconds=5))])
    for bucket, name in enumerate("abcd"):
        await world.make(name, bucket)
    async with beside(world.informer.run):
        await anyio.sleep(1)
        await world.informer.set_share(labelled({1}), labelled({1}))
        assert (world.names, world.told) == ("b", ["+b initial"])


@simulated
async def test_what_is_lost_during_the_first_list_is_not_in_it() -> None:
    world = a_world(unfiltered({0, 1}), [Fault(When("watch"), Stall(after=4, seconds=5))])
    for bucket, name in enumerate("abcd"):
        await world.make(name, bucket)
    async with beside(world.informer.run):
        await anyio.sleep(1)
        await world.informer.set_share(unfiltered({1}), None)
        await world.informer.wait_synced()
        assert (world.names, world.told) == ("b", ["+b initial"])


@simulated
async def test_every_namespace_is_read() -> None:
    world = a_world(labelled({0}), namespaces=["default", "kube-public"])
    await world.make("x", 1, "kube-public")
    await world.make("y", 1, "kube-system")
    async with synced(world):
        await world.informer.set_share(labelled({0, 1}), labelled({1}))
        assert (world.names, sorted(world.told)) == ("abx", ["+b initial", "+x initial"])
        await world.informer.remove_namespace("kube-public")
        await world.informer.set_share(labelled({1}), None)
        assert world.told == ["-x missed", "-a missed left"]


@pytest.mark.parametrize("relist", [False, True])
@simulated
async def test_an_object_that_leaves_the_share_of_an_unfiltered_watch_is_told_from_a_deleted_one(
    relist: bool,
) -> None:
    world = a_world(unfiltered({0, 1}), [Fault(When("watch"), Stall(after=5))] if relist else ())
    async with synced(world):
        await world.move("a", 3)
        await world.client.delete(await world.client.get(ConfigMap, "b", "default"))
        if relist:
            world.informer.relist()
        await anyio.sleep(1)
        assert world.names == ""
        assert sorted(world.told) == ["-a missed left", "-b missed" if relist else "-b"]


@simulated
async def test_a_refresh_shows_what_a_silent_watch_does_not() -> None:
    world = a_world(labelled({0, 1}), [Fault(When("watch"), Stall(after=3))])
    async with synced(world):
        await world.make("e", 1)
        await world.make("f", 0)
        await world.client.delete(await world.client.get(ConfigMap, "b", "default"))
        await world.informer.refresh(labelled({1}))
        assert world.told[:2] == ["+e", "-b missed"]
        await anyio.sleep(1)
        assert world.names == "aef"


# --- catching up ------------------------------------------------------------------------------------------


@simulated
async def test_a_store_that_has_reached_a_version_need_not_catch_up() -> None:
    world = a_world(unfiltered({0, 1}))
    async with synced(world):
        await world.informer.catch_up(world.informer.store.version, unfiltered({0}), filtered=True)
    assert len(world.transport.requests) == 1


@pytest.mark.parametrize("silent", [False, True])
@simulated
async def test_an_unfiltered_watch_catches_up_by_itself_unless_it_is_silent(silent: bool) -> None:
    world = a_world(unfiltered({0}), [Fault(When("watch"), Stall(after=5))] if silent else ())
    async with synced(world):
        made = await world.make("e", 0)
        await world.informer.catch_up(int(made.metadata.resource_version), unfiltered({0}), filtered=False)
        assert world.names == "ae"
    assert len(world.transport.requests) == (1 if not silent else 3)


@simulated
async def test_a_filtered_watch_of_a_quiet_share_catches_up_by_a_list() -> None:
    world = a_world(labelled({0}))
    async with synced(world):
        other = await world.make("e", 1)
        await world.informer.catch_up(int(other.metadata.resource_version), labelled({0}), filtered=True)
        assert world.lists == ["bucket in (0)"]


def test_what_work_waits_for_is_read_before_what_is_to_come() -> None:
    owed = OwedParts()
    first, second = [OwedPart(lambda _: True, {}, initial=True) for _ in range(2)]
    third, fourth = [OwedPart(lambda _: True, {}) for _ in range(2)]
    for part in (first, second, third, fourth):
        owed.add(part)
    order = []
    while (part := owed.next) is not None:
        order.append(part)
        owed.note_read(part, 7)
    assert order == [third, fourth, first, second]
    assert {part.version for part in order} == {7}


@simulated
async def test_a_share_tells_at_which_version_it_was_read() -> None:
    world = a_world(labelled({0}))
    async with synced(world):
        other = await world.make("e", 1)
        assert await world.informer.set_share(labelled({0, 1}), labelled({1})) >= int(
            other.metadata.resource_version
        )
        assert await world.informer.set_share(labelled({0}), None) == 0


# --- strange servers --------------------------------------------------------------------------------------


def _answered(request: SeenRequest) -> Answer:
    """A server that was restored after its watch began."""
    if "watch" in request.query:
        return Chunks([(0, whole(50))] if "sendInitialEvents" in request.query else (), then="silence")
    body = {"metadata": {"resourceVersion": "8"}, "items": [pod("a", 7)]}
    return Response(200, body=json.dumps(body).encode())


@simulated
async def test_a_server_that_went_back_is_listed_as_a_whole() -> None:
    server = ScriptedServer(_answered)
    informer = Informer(server, CONFIG_MAPS, share=Share(keeps=bool), clock=VirtualClock())
    async with beside(informer.run):
        await informer.wait_synced()
        await informer.refresh(Share(keeps=bool))
        assert [held.version for held in informer.store] == [7]
        await anyio.sleep(1)
        assert informer.store.version == 8
    assert server.seen[-1].query["resourceVersion"] == "8"


@simulated
async def test_an_object_that_leaves_during_the_first_list_is_not_in_it() -> None:
    changes = [
        labelled_pod("a", 3, 0),
        labelled_pod("b", 4, 0),
        labelled_pod("a", 5, 3),
        labelled_pod("b", 6, 0),
    ]
    lines = [line("MODIFIED", change) for change in changes]
    server = ScriptedServer(lambda _: Chunks([(0, b"".join(lines)), (1, whole(9))], then="silence"))
    informer = Informer(server, CONFIG_MAPS, share=unfiltered({0}), clock=VirtualClock())
    async with beside(informer.run):
        await informer.wait_synced()
        assert [(held.key.name, held.version) for held in informer.store] == [("b", 6)]


def labelled_pod(name: str, version: int, bucket: int) -> dict[str, Any]:
    made = pod(name, version)
    return made | {"metadata": made["metadata"] | {"labels": {BUCKET: str(bucket)}}}


@simulated
async def test_a_resource_that_is_gone_has_nothing_to_gain() -> None:
    informer = Informer(
        ScriptedServer(lambda _: Response(404)), CONFIG_MAPS, share=labelled({0}), clock=VirtualClock()
    )
    async with beside(informer.run):
        await anyio.sleep(20)
        with anyio.fail_after(1):
            await informer.set_share(labelled({1}), labelled({1}))
