"""One manager on several clusters, of which one may be down."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any

import anyio
import pytest

from informers import CacheSyncFailed, Response, StreamingResponse, Unreachable
from informers.transport import HttpRequest, PassingTransport
from reconcile import (
    Client,
    Context,
    Controller,
    Intent,
    LeaderElection,
    Manager,
    ObjectMeta,
    Predecessor,
    Request,
    SyncContext,
    Watch,
)
from reconcile.controller.sources import SourceContext
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.errors import ConfigurationError, Invalid
from reconcile.kinds import ConfigMap, Lease, LeaseSpec
from reconcile.models import definition_of
from reconcile.testing import LateTransport, VirtualClock, simulate
from tests.helpers.managers import Toy, ToySpec, keep_size
from tests.helpers.scenarios import in_world


class Site(PassingTransport):
    """A cluster of the test: a server, and a way to it that can be cut."""

    def __init__(self, name: str, seed: int) -> None:
        self.clock = VirtualClock(seed)
        self.api = ApiServer(clock=self.clock)
        super().__init__(LateTransport(InProcessTransport(self.api), seed))
        self.client = Client(InProcessTransport(self.api), clock=self.clock)
        self.name, self.down, self.writes = name, False, 0

    async def request(self, request: HttpRequest) -> Response:
        self._check()
        self.writes += request.method != "GET" and "leases" not in request.path
        return await super().request(request)

    def stream(self, request: HttpRequest) -> AbstractAsyncContextManager[StreamingResponse]:
        self._check()
        return super().stream(request)

    def _check(self) -> None:
        if self.down:
            raise Unreachable(f"{self.name} is down")

    async def make(self, name: str = "a", **spec: Any) -> Toy:
        return await self.client.create(Toy(metadata=ObjectMeta(name, "default"), spec=ToySpec(**spec)))

    async def size(self, name: str = "a") -> int:
        return (await self.client.get(Toy, name, "default")).status.size


class Sites:
    """Two clusters, and managers on both."""

    def __init__(self, seed: int) -> None:
        self.east, self.west = Site("east", seed), Site("west", seed + 1)
        self.clock = VirtualClock(seed)

    @asynccontextmanager
    async def running(self, *controllers: Controller[Any], **options: Any) -> AsyncIterator[Manager]:
        clusters = {"east": self.east, "west": self.west}
        async with Manager(*controllers, clusters=clusters, clock=self.clock, **options) as manager:
            yield manager


def played(scenario: Any, seed: int = 0, without: str = "") -> None:
    async def run() -> None:
        sites = Sites(seed)
        async with anyio.create_task_group() as group:
            for site in (sites.east, sites.west):
                group.start_soon(site.api.run)
                if site.name != without:
                    await site.client.apply(definition_of(Toy))
            await scenario(sites)
            group.cancel_scope.cancel()

    simulate(run, seed=seed, limit_seconds=7200)


@pytest.mark.parametrize("seed", range(3))
@in_world(played)
async def test_each_object_is_reconciled_in_its_own_cluster_and_its_key_names_that_cluster(
    sites: Sites, seed: int
) -> None:
    seen: set[Request] = set()

    async def note(ctx: Context[Toy]) -> None:
        seen.add(ctx.request)
        await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta(ctx.object.name)))
        await keep_size(ctx)

    await sites.east.make("a", size=2)
    async with sites.running(Controller(Toy, note, owns=[ConfigMap])) as manager:
        await sites.west.make("a", size=3)
        await sites.west.make("b", size=4)
        await anyio.sleep(3)
        sizes = [await sites.east.size(), await sites.west.size(), await sites.west.size("b")]
        assert sizes == [2, 3, 4]
        assert seen == {
            Request("default", "a", "east"),
            Request("default", "a", "west"),
            Request("default", "b", "west"),
        }
        assert {str(request) for request in seen} == {"east:default/a", "west:default/a", "west:default/b"}
        assert len(await sites.east.client.list(ConfigMap, "default")) == 1
        assert len(await sites.west.client.list(ConfigMap, "default")) == 2
        status = manager.status()
        assert [controller.name for controller in status.controllers] == ["east/toy", "west/toy"]
        assert {(c.name, c.works, c.error) for c in status.clusters} == {
            ("east", True, ""),
            ("west", True, ""),
        }
        assert (await manager.client_of("west").get(Toy, "b", "default")).spec.size == 4
        with pytest.raises(LookupError, match="no cluster 'north'; there are: east, west"):
            manager.client_of("north")


@pytest.mark.rule("clusters-down")
@pytest.mark.parametrize("seed", range(3))
@in_world(played)
async def test_a_cluster_that_is_down_at_the_start_joins_when_it_answers_and_the_others_work_meanwhile(
    sites: Sites, seed: int
) -> None:
    sites.west.down = True
    await sites.east.make(size=2)
    await sites.west.make(size=3)
    begun = anyio.current_time()
    async with sites.running(Controller(Toy, keep_size), sync_seconds=20) as manager:
        assert anyio.current_time() - begun < 5
        await anyio.sleep(3)
        assert (await sites.east.size(), await sites.west.size()) == (2, 0)
        await anyio.sleep(100)
        (error,) = [cluster.error for cluster in manager.status().clusters if not cluster.works]
        assert "west is down" in error
        sites.west.down = False
        await anyio.sleep(60)
        assert await sites.west.size() == 3
        assert all(cluster.works for cluster in manager.status().clusters)


@pytest.mark.rule("clusters-down")
@pytest.mark.parametrize("seed", range(3))
@in_world(played)
async def test_a_cluster_that_fails_later_does_not_delay_the_others_and_converges_when_back(
    sites: Sites, seed: int
) -> None:
    async with sites.running(Controller(Toy, keep_size, workers=1)):
        toys = [await sites.west.make(f"t{number}", size=1) for number in range(20)]
        await anyio.sleep(5)
        sites.west.down = True
        for toy in toys:
            await sites.west.client.modify(
                Toy, toy.name, "default", lambda toy: toy.replace(spec=ToySpec(size=5))
            )
        for number in range(20):
            await sites.east.make(f"t{number}", size=number)
        await anyio.sleep(5)
        assert [await sites.east.size(f"t{number}") for number in range(20)] == list(range(20))
        sites.west.down = False
        await anyio.sleep(120)
        assert {await sites.west.size(toy.name) for toy in toys} == {5}


@in_world(played)
async def test_the_start_fails_if_all_clusters_are_down(sites: Sites) -> None:
    sites.east.down = sites.west.down = True
    with pytest.raises(CacheSyncFailed, match="is down"):
        async with sites.running(Controller(Toy, keep_size), sync_seconds=20):
            raise AssertionError("started")


def test_a_kind_that_only_one_cluster_serves_delays_only_the_other(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(sites: Sites) -> None:
        await sites.east.make(size=2)
        async with sites.running(Controller(Toy, keep_size), sync_seconds=20):
            await anyio.sleep(30)
            assert await sites.east.size() == 2

    played(scenario, without="west")
    assert "the cluster is left out until it can be read" in caplog.text


@pytest.mark.parametrize("seed", range(3))
@in_world(played)
async def test_a_controller_selects_its_clusters_and_can_be_woken_from_and_write_to_others(
    sites: Sites, seed: int
) -> None:
    """A hub that spreads its objects over the clusters, and hears when a copy changes."""

    async def spread(ctx: Context[Toy]) -> None:
        copy = Intent(
            ConfigMap, metadata=ObjectMeta(ctx.object.name, "default"), data={"s": str(ctx.object.spec.size)}
        )
        await ctx.client_of("west").apply(copy)
        found = await ctx.client_of("west").list(ConfigMap, "default")
        ctx.status(size=len(found))

    changed: asyncio.Queue[Request] = asyncio.Queue()

    async def changes(_: SourceContext) -> AsyncIterator[Request]:
        while True:
            yield await changed.get()

    async def note_change(ctx: Context[ConfigMap]) -> None:
        changed.put_nowait(Request("default", ctx.object.name, "east"))

    hub = Controller(Toy, spread, writes=[ConfigMap], name="hub", clusters=["east"], sources=[changes])
    leaf = Controller(ConfigMap, note_change, name="leaf", clusters="west")
    async with sites.running(hub, leaf) as manager:
        assert [c.name for c in manager.status().controllers] == ["east/hub", "west/leaf"]
        await sites.east.make("a", size=7)
        await sites.west.make("b")
        await anyio.sleep(3)
        (copy,) = await sites.west.client.list(ConfigMap, "default")
        assert copy.data == {"s": "7"}
        assert await sites.east.size() == 1
        await sites.west.client.delete(copy)
        await anyio.sleep(3)
        manager.trigger(hub, "default/a")
        await anyio.sleep(3)
        assert len(await sites.west.client.list(ConfigMap, "default")) == 1
        with pytest.raises(LookupError, match="controller hub does not work in cluster 'west'"):
            manager.trigger(hub, Request("default", "a", "west"))
        assert not manager._runners[0]._executor._distant


@in_world(played)
async def test_a_map_function_may_name_keys_of_another_cluster(
    sites: Sites, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []

    async def note(ctx: Context[Toy]) -> None:
        seen.append(str(ctx.request))

    def concerned(config: ConfigMap) -> list[Request]:
        return [Request("default", "a", cluster) for cluster in ("west", "north")]

    async with sites.running(Controller(Toy, note, watches=[Watch(ConfigMap, to=concerned)])):
        await sites.west.make("a")
        await anyio.sleep(3)
        seen.clear()
        await sites.east.client.create(ConfigMap(metadata=ObjectMeta("c", "default")))
        await anyio.sleep(3)
        assert seen == ["west:default/a"]
    assert "a key names a cluster without that controller" in caplog.text


@in_world(played)
async def test_plain_functions_sources_and_background_tasks_work_in_several_clusters(sites: Sites) -> None:
    gone: list[str] = []
    beside: list[str] = []

    def plain(ctx: SyncContext[Toy]) -> None:
        ctx.status(size=ctx.client_of("east").get(Toy, "a", "default").spec.size)

    async def forget(last: Any) -> None:
        gone.append(str(last.request))

    async def listen(given: Any) -> None:
        beside.append(str(given.request))
        await anyio.sleep_forever()

    await sites.east.make("a", size=6)
    async with sites.running(Controller(Toy, plain, on_deleted=forget, background=listen)):
        made = await sites.west.make("b")
        await anyio.sleep(3)
        assert await sites.west.size("b") == 6
        await sites.west.client.delete(made)
        await anyio.sleep(3)
    assert gone == ["west:default/b"]
    assert sorted(beside) == ["east:default/a", "west:default/b"]


@in_world(played)
async def test_the_runs_of_a_controller_are_those_of_one_cluster(sites: Sites) -> None:
    async with sites.running(Controller(Toy, keep_size)) as manager:
        await sites.west.make()
        await anyio.sleep(3)
        assert not list(manager.runs("toy").recent())
        ((_, runs),) = manager.runs("toy", "west").recent()
        assert [run.result for run in runs] == ["success"]
        with pytest.raises(LookupError, match="no cluster 'north' has a controller 'toy'"):
            manager.runs("toy", "north")
        with pytest.raises(LookupError):
            manager.runs("other")


@in_world(played)
async def test_controllers_are_added_paused_and_removed_in_all_clusters_at_once(sites: Sites) -> None:
    async with sites.running(Controller(Toy, keep_size, name="first")) as manager:
        await manager.add(Controller(ConfigMap, touch))
        assert [controller.name for controller in manager.status().controllers] == [
            "east/first",
            "east/configmap",
            "west/first",
            "west/configmap",
        ]
        manager.pause("first")
        assert [c.paused for c in manager.status().controllers] == [True, False, True, False]
        manager.resume("first")
        await manager.remove("configmap")
        with pytest.raises(LookupError, match="no controller 'configmap'"):
            await manager.remove("configmap")
        with pytest.raises(ValueError, match="two controllers are named 'first'"):
            await manager.add(Controller(ConfigMap, touch, name="first"))


@in_world(played)
async def test_a_controller_added_while_a_cluster_is_down_starts_there_when_it_joins(sites: Sites) -> None:
    sites.west.down = True
    await sites.west.make(size=4)
    async with sites.running(Controller(ConfigMap, touch), sync_seconds=20) as manager:
        await manager.add(Controller(Toy, keep_size))
        await anyio.sleep(10)
        sites.west.down = False
        await anyio.sleep(60)
        assert await sites.west.size() == 4


@in_world(played)
async def test_the_lease_is_in_the_first_cluster_and_guards_writes_to_all(sites: Sites) -> None:
    first = LeaderElection("toys", "default", identity="first")
    second = LeaderElection("toys", "default", identity="second")
    async with sites.running(Controller(Toy, keep_size), leader_election=first):
        await anyio.sleep(3)
        async with sites.running(Controller(Toy, keep_size), leader_election=second) as standby:
            await anyio.sleep(3)
            assert not standby.status().leading
            await sites.west.make(size=3)
            await anyio.sleep(3)
            assert await sites.west.size() == 3
            assert sum(controller.runs for controller in standby.status().controllers) == 0


@in_world(played)
async def test_a_stop_ends_all_clusters_within_one_deadline_and_leaves_no_task(sites: Sites) -> None:
    async def endless(ctx: Context[Toy]) -> None:
        await anyio.sleep_forever()

    tasks = asyncio.all_tasks()
    async with sites.running(Controller(Toy, endless), stop_seconds=10):
        await sites.east.make()
        await sites.west.make()
        await anyio.sleep(3)
        begun = anyio.current_time()
    assert 10 <= anyio.current_time() - begun < 11
    assert asyncio.all_tasks() == tasks


async def touch(ctx: Context[ConfigMap]) -> None:
    """Do nothing."""


def test_transport_clusters_and_embedded_exclude_each_other_and_cluster_names_are_dns_labels() -> None:
    transport = InProcessTransport(ApiServer())
    with pytest.raises(ValueError, match="exclude each other: choose one"):
        Manager(transport=transport, clusters={"east": transport})
    with pytest.raises(ValueError, match="expected a name of a cluster"):
        Manager(clusters={"East/1": transport})
    with pytest.raises(ConfigurationError, match="exclude each other"):
        Manager(transport=transport, environ={"RECONCILE_CLUSTERS": "a=ctx"}).configure()
    manager = Manager(Controller(Toy, keep_size, clusters=["north"]), clusters={"east": transport})
    with pytest.raises(ConfigurationError, match="names the cluster north; the manager has: east"):
        manager.configure()


@in_world(played)
async def test_a_failure_in_one_cluster_is_not_made_good_by_a_success_in_another(sites: Sites) -> None:
    async def keep(ctx: Context[Toy]) -> None:
        if ctx.object.spec.size == 1:
            await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta("old")))
            return
        with suppress(Invalid):
            bad = Intent(ConfigMap, metadata=ObjectMeta("new", "default"), data={"bad key!": "x"})
            await ctx.client_of("west").apply(bad)
        await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta("new")))
        ctx.prune(ConfigMap)

    async with sites.running(Controller(Toy, keep, owns=[ConfigMap], clusters="east")):
        await sites.east.make(size=1)
        await anyio.sleep(5)
        toy = await sites.east.client.get(Toy, "a", "default")
        await sites.east.client.raw.merge(toy, {"spec": {"size": 2}})
        await anyio.sleep(20)
        there = {one.name for one in await sites.east.client.list(ConfigMap, "default")}
    assert there == {"old", "new"}, "what is desired is not known, so nothing may be pruned"


@in_world(played)
async def test_a_child_that_moved_to_another_cluster_is_pruned_in_the_former_one(sites: Sites) -> None:
    async def keep(ctx: Context[Toy]) -> None:
        child = Intent(ConfigMap, metadata=ObjectMeta("child", "default"))
        await (ctx.apply(child) if ctx.object.spec.size == 1 else ctx.client_of("west").apply(child))
        ctx.prune(ConfigMap)

    async with sites.running(Controller(Toy, keep, owns=[ConfigMap], clusters="east")):
        await sites.east.make(size=1)
        await anyio.sleep(5)
        toy = await sites.east.client.get(Toy, "a", "default")
        await sites.east.client.raw.merge(toy, {"spec": {"size": 2}})
        await anyio.sleep(20)
        assert not await sites.east.client.list(ConfigMap, "default")
        assert [one.name for one in await sites.west.client.list(ConfigMap, "default")] == ["child"]


@pytest.mark.rule("clusters-down")
@in_world(played)
async def test_a_cluster_that_is_down_when_leadership_begins_ends_no_other(sites: Sites) -> None:
    spec = LeaseSpec(holder_identity="old", lease_duration_seconds=60)
    await sites.east.client.create(Lease(metadata=ObjectMeta("op", "default"), spec=spec))
    await sites.east.make(size=2)
    controller = Controller(Toy, keep_size, predecessor=Predecessor("Rival", deployments=("rival",)))
    async with sites.running(controller, leader_election=LeaderElection("op"), sync_seconds=20) as manager:
        await anyio.sleep(10)
        sites.west.down = True
        await anyio.sleep(180)
        assert manager.status().leading
        assert await sites.east.size() == 2
        sites.west.down = False
        await sites.west.make(size=3)
        await anyio.sleep(120)
        assert await sites.west.size() == 3
