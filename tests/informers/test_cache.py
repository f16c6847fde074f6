"""The cache: what is followed, where, how it is kept, and what it says of itself."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from informers import (
    APIResource,
    Cache,
    CacheSyncFailed,
    Delta,
    InformerOptions,
    Key,
    NotCached,
    StatusError,
    Unreachable,
)
from informers.cache import explain
from informers.discovery import ABSENT_SECONDS, Discovery, UnknownKind
from informers.store import Store
from reconcile import Client
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.kinds import ConfigMap, Namespace, Secret
from reconcile.models import ObjectMeta, definition_of, kind_of
from reconcile.testing import Fault, FaultyTransport, Refuse, VirtualClock, When, simulate
from tests.helpers.scenarios import Scenario, in_world, simulated
from tests.helpers.tasks import beside
from tests.informers.sites import SITES, Site

CONFIG_MAPS = APIResource("", "v1", "ConfigMap", "configmaps")
SECRETS = APIResource("", "v1", "Secret", "secrets")


class World:
    """A server with two namespaces more, a client, and a way to caches."""

    def __init__(self) -> None:
        self.server = ApiServer(clock=VirtualClock())
        self.client = Client(InProcessTransport(self.server), clock=VirtualClock())
        self.transport = FaultyTransport(InProcessTransport(self.server))

    def cache(self, **options: Any) -> Cache:
        return Cache(self.transport, clock=VirtualClock(), **options)

    async def make(self, name: str, namespace: str = "default", **labels: str) -> ConfigMap:
        metadata = ObjectMeta(name, namespace, labels=labels)
        return await self.client.create(ConfigMap(metadata=metadata, data={"k": "v" * 500}))

    @asynccontextmanager
    async def running(self, cache: Cache) -> AsyncIterator[None]:
        async with beside(cache.run):
            await cache.wait_synced()
            yield


def played(scenario: Scenario) -> None:
    simulate(scenario, World(), limit_seconds=1000)


def names(cache: Cache, resource: APIResource = CONFIG_MAPS) -> list[str]:
    found = cache.informer(resource).store.list()
    return sorted(s.key.name for s in found if not s.key.name.startswith("kube-"))


@in_world(played)
async def test_namespaces_can_be_added_and_removed_while_the_cache_runs(world: World) -> None:
    for namespace in ("one", "two", "three"):
        await world.client.create(Namespace(metadata=ObjectMeta(namespace)))
        await world.make(f"in-{namespace}", namespace)
    cache = world.cache(namespaces=["one", "two"])
    heard: list[tuple[str, bool, bool]] = []
    informer = cache.declare(CONFIG_MAPS)
    informer.add_handler(lambda d: heard.append((d.last.key.name, d.new is None, d.missed)))
    async with world.running(cache):
        assert names(cache) == ["in-one", "in-two"]
        cache.add_namespace("three")
        await cache.wait_synced()
        assert names(cache) == ["in-one", "in-three", "in-two"]
        assert [s.key.name for s in informer.store.list("three") if s.key.name == "in-three"]
        await cache.remove_namespace("one")
        assert names(cache) == ["in-three", "in-two"]
        assert ("in-one", True, True) in heard
        await world.make("late", "one")
        await world.make("later", "three")
        await anyio.sleep(1)
        assert names(cache) == ["in-three", "in-two", "later"]
        assert not informer.covers("one")
        assert informer.store.get(Key("one", "late")) is None
        with pytest.raises(ValueError, match="last namespace"):
            await cache.remove_namespace("two")
            await cache.remove_namespace("three")


@in_world(played)
async def test_options_of_a_resource_override_the_defaults(world: World) -> None:
    await world.make("web", app="web")
    await world.make("db", app="db")
    cache = world.cache(
        defaults=InformerOptions(labels="app=web", compress=True),
        options={SECRETS: InformerOptions(labels="", metadata_only=True)},
    )
    await world.client.create(Secret(metadata=ObjectMeta("s", "default"), data={"k": "dg=="}))
    config_maps, secrets = cache.declare(CONFIG_MAPS), cache.declare(SECRETS)
    async with world.running(cache):
        assert names(cache) == ["web"]
        (found,) = config_maps.store.list()
        assert found.to_dict()["data"] == {"k": "v" * 500}
        assert found.size < 300
        (secret,) = secrets.store.list()
        assert secret.key.name == "s"
        assert "data" not in secret.to_dict()
        assert secrets.store.lacks("/data")
        assert not config_maps.store.lacks("/data")


@in_world(played)
async def test_an_object_that_stops_matching_leaves_the_store(world: World) -> None:
    made = await world.make("web", app="web")
    cache = world.cache(defaults=InformerOptions(labels="app=web"))
    cache.declare(CONFIG_MAPS)
    async with world.running(cache):
        await world.client.raw.merge(made, {"metadata": {"labels": {"app": "db"}}}, guard={})
        await anyio.sleep(1)
        assert names(cache) == []


@in_world(played)
async def test_a_later_declared_resource_starts_at_once_and_a_fully_released_one_stops(world: World) -> None:
    await world.make("a")
    cache = world.cache()
    async with world.running(cache):
        informer = cache.declare(CONFIG_MAPS)
        cache.declare(CONFIG_MAPS)
        await cache.wait_synced()
        assert names(cache) == ["a"]
        cache.release(CONFIG_MAPS)
        await anyio.sleep(1)
        assert informer.running
        cache.release(CONFIG_MAPS)
        await anyio.sleep(1)
        assert not informer.running
        with pytest.raises(NotCached):
            cache.informer(CONFIG_MAPS)


@pytest.mark.parametrize(
    ("code", "reason", "says"),
    [
        (401, "Unauthorized", "does not accept the credentials"),
        (403, "Forbidden", r'add the RBAC rule \{apiGroups: \[""\], resources: \["configmaps"\]'),
        (404, "NotFound", "install its CustomResourceDefinition"),
    ],
)
@in_world(played)
async def test_an_obstacle_to_the_first_list_is_reported_at_once_and_fails_after_a_while(
    world: World, code: int, reason: str, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    refuse = Refuse(code, reason)
    world.transport.add(Fault(When("list", times=99), refuse), Fault(When("watch", times=99), refuse))
    cache = world.cache()
    cache.declare(CONFIG_MAPS)
    async with beside(cache.run):
        with pytest.raises(BaseExceptionGroup) as caught:
            async with anyio.create_task_group() as waiting:
                waiting.start_soon(cache.wait_synced, 120.0)
                await anyio.sleep(1)
                assert "cannot be watched yet" in caplog.text
        assert caught.group_contains(CacheSyncFailed, match=says)
        assert anyio.current_time() > 119


@in_world(played)
async def test_a_role_granted_in_time_is_not_a_failure(world: World) -> None:
    refuse = Refuse(403, "Forbidden")
    world.transport.add(Fault(When("list", times=3), refuse), Fault(When("watch", times=1), refuse))
    await world.make("a")
    cache = world.cache()
    cache.declare(CONFIG_MAPS)
    async with world.running(cache):
        assert names(cache) == ["a"]


@in_world(played)
async def test_a_definition_that_is_deleted_empties_its_store_and_its_return_resumes(world: World) -> None:
    definition = await world.client.apply(definition_of(Site))
    await world.client.create(Site(metadata=ObjectMeta("a", "default")))
    cache = world.cache()
    informer = cache.declare(SITES)
    gone: list[Delta] = []
    async with world.running(cache):
        informer.add_handler(lambda delta: gone.append(delta) if delta.new is None else None)
        await world.client.delete(definition)
        world.server.settle()
        await anyio.sleep(120)
        assert [delta.last.key.name for delta in gone] == ["a"]
        assert informer.status().state == "gone"
        assert len(informer.store) == 0
        await world.client.apply(definition_of(Site))
        await world.client.create(Site(metadata=ObjectMeta("b", "default")))
        await anyio.sleep(120)
        assert names(cache, SITES) == ["b"]
        assert informer.status().state == "watching"


@in_world(played)
async def test_objects_that_vanish_with_their_resource_are_reported_as_missed_deletions(world: World) -> None:
    world.transport.add(Fault(When("list", times=3), Refuse(404)))
    await world.make("a")
    cache = world.cache()
    informer = cache.declare(CONFIG_MAPS)
    deltas: list[Delta] = []
    async with world.running(cache):
        informer.add_handler(deltas.append)
        informer.relist()
        await anyio.sleep(60)
        assert [(d.new is None, d.missed) for d in deltas if d.last.key.name == "a"] == [
            (False, False),
            (True, True),
            (False, False),
        ]


@in_world(played)
async def test_a_status_describes_the_activity_of_an_informer(world: World) -> None:
    cache = world.cache(namespace="default")
    cache.declare(CONFIG_MAPS)
    (before,) = cache.status()
    assert (before.state, before.synced, before.lag, before.last_event) == ("stopped", False, None, None)
    async with world.running(cache):
        await world.make("a")
        await anyio.sleep(30)
        (status,) = cache.status()
        assert (status.resource, status.namespace, status.state) == ("configmaps", "default", "watching")
        assert (status.synced, status.objects, status.error) == (True, 1, "")
        assert status.bytes > 500
        assert status.version >= cache.informer(CONFIG_MAPS).store.list()[0].version
        assert status.last_event is not None
        assert status.lag is not None
        assert 29 < status.lag < 31
        assert (status.restarts, status.relists, status.failures, status.backlog) == (0, 0, 0, 0)


@in_world(played)
async def test_discovery_caches_existing_kinds_and_soon_retries_missing_ones(world: World) -> None:
    discovery = Discovery(world.transport)
    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(discovery.resource, "v1", "ConfigMap")
    assert await discovery.resource("v1", "Secret") == SECRETS
    assert len(world.transport.requests) == 1
    for _ in range(5):
        with pytest.raises(UnknownKind, match=r"no kind Site in example\.com/v1"):
            await discovery.resource("example.com/v1", "Site")
    assert len(world.transport.requests) == 2
    await world.client.apply(definition_of(Site))
    await anyio.sleep(ABSENT_SECONDS)
    assert await discovery.resource("example.com/v1", "Site") == SITES
    discovery.forget(SITES)
    await discovery.resource("example.com/v1", "Site")
    assert len(world.transport.requests) == 4


def test_namespace_and_namespaces_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="namespace= or namespaces="):
        World().cache(namespace="default", namespaces=["one"])


@simulated
async def test_adding_a_present_or_removing_an_absent_namespace_changes_nothing() -> None:
    cache = World().cache(namespaces=["one", "two", "one"])
    cache.add_namespace("two")
    await cache.remove_namespace("three")
    assert cache.namespaces == ("one", "two")
    with pytest.raises(ValueError, match="follows all namespaces already"):
        World().cache().add_namespace("one")


def test_a_resource_declared_in_one_namespace_cannot_later_be_declared_everywhere() -> None:
    cache = World().cache(namespace="default")
    cache.declare(SECRETS, everywhere=True)
    assert not cache.declare(SECRETS).namespaces
    cache.declare(CONFIG_MAPS)
    with pytest.raises(ValueError, match="configmaps is followed in namespace default only"):
        cache.declare(CONFIG_MAPS, everywhere=True)


def test_a_resource_released_before_the_cache_runs_is_forgotten() -> None:
    cache = World().cache()
    cache.declare(CONFIG_MAPS)
    cache.release(CONFIG_MAPS)
    assert cache.find(CONFIG_MAPS) is None
    with pytest.raises(NotCached):
        cache.release(CONFIG_MAPS)


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (None, ""),
        (StatusError(500, "InternalError", "etcd is away"), "cannot list configmaps: etcd is away"),
        (Unreachable("nobody there"), "cannot list configmaps: nobody there"),
        (ZeroDivisionError("oh"), "cannot list configmaps: ZeroDivisionError: oh"),
    ],
)
def test_every_obstacle_is_explained_in_a_sentence(error: Exception | None, says: str) -> None:
    informer = World().cache().declare(CONFIG_MAPS)
    for part in informer._parts.values():
        part.reflector.status.error = error
    assert explain(informer) == says


@simulated
async def test_a_namespace_may_be_removed_before_its_task_has_begun() -> None:
    server = ApiServer(clock=VirtualClock())
    cache = Cache(InProcessTransport(server), clock=VirtualClock(), namespaces=["default"])
    informer = cache.declare(kind_of(ConfigMap).resource)
    async with anyio.create_task_group() as group:
        cache.start(group)
        await cache.wait_synced()
        cache.add_namespace("kube-system")
        await cache.remove_namespace("kube-system")
        await anyio.sleep(5)
        assert informer.status().state == "watching"
        group.cancel_scope.cancel()


@pytest.mark.parametrize("name", ["", "a/b", "A", "x" * 64])
def test_what_is_no_namespace_is_refused_before_anything_changes(name: str) -> None:
    transport = InProcessTransport(ApiServer(clock=VirtualClock()))
    cache = Cache(transport, clock=VirtualClock(), namespaces=["default"])
    informer = cache.declare(kind_of(ConfigMap).resource)
    with pytest.raises(ValueError, match="is not the name of a namespace"):
        cache.add_namespace(name)
    with pytest.raises(ValueError, match="is not the name of a namespace"):
        informer.add_namespace(name)
    assert [*cache.namespaces] == ["default"]


def test_what_comes_for_a_namespace_that_was_removed_is_dropped() -> None:
    store = Store(parts=["default"])
    store.stage([], "gone")
    store.stage_left([], "gone")
    assert store.commit(3, "gone") == []
    assert store.clear("gone") == []
