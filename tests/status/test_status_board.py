"""Rows among replicas, outages, storms, leaders and secrets, in virtual time."""

from base64 import b64encode
from collections.abc import Collection

import anyio
import pytest
from anyio.abc import TaskGroup
from attrs import define, frozen
from attrs import field as attrs_field

from informers import Snapshot
from reconcile import (
    Condition,
    Context,
    Controller,
    LeaderElection,
    Manager,
    Object,
    ObjectMeta,
    field,
    resource,
)
from reconcile.client.buckets import Buckets
from reconcile.embedded import InProcessTransport
from reconcile.kinds import ConfigMap, Secret
from reconcile.models import Intent, definition_of
from reconcile.sharding import Sharding
from reconcile.status.life_secrets import declared_values_of
from reconcile.status.object_glance import glance_at, health_at
from tests.controller.outage import Line, refused
from tests.helpers.managers import Toy, World, idle, keep_size, played
from tests.helpers.scenarios import in_world
from tests.helpers.viewers import SeenPage, Watching, board_of, watching
from tests.manager.test_managed_clusters import Sites
from tests.manager.test_managed_clusters import played as on_sites

OBJECTS = 30


async def replica(world: World, group: TaskGroup, identity: str) -> Manager:
    toys = Controller(Toy, keep_size, owns=[ConfigMap])
    whole = Controller(Toy, idle, name="whole", sharded=False)
    ring = Sharding("ring", buckets=16, identity=identity)
    manager = world.manager(toys, whole, sharding=ring, stop_seconds=5)
    await group.start(manager.run)
    return manager


def keys_of(page: SeenPage, controller: int) -> set[str]:
    return {row.key for row in page.rows.values() if row.controller == controller}


@pytest.mark.rule("status-shared")
@in_world(played)
async def test_each_object_is_on_the_page_of_the_replica_that_works_on_it(world: World) -> None:
    everything = {f"default/t{number}" for number in range(OBJECTS)}
    for number in range(OBJECTS):
        await world.make(f"t{number}")
    async with anyio.create_task_group() as group:
        group.start_soon(world.server.run)
        a = await replica(world, group, "a")
        first = watching(board_of(a))
        await anyio.sleep(10)
        await first.until(lambda page: keys_of(page, 0) == keys_of(page, 1) == everything)
        assert first.page.overview["shards"]["held"] == 16
        assert first.page.overview["shards"]["members"] == [{"identity": "a", "held": 16, "state": "works"}]
        b = await replica(world, group, "b")
        second = watching(board_of(b))
        group.start_soon(first.during, 40)
        await second.during(40)
        for page in (first.page, second.page):
            assert not {"waiting", "elsewhere"} & {row.state for row in page.rows.values()}
            assert {member["held"] for member in page.overview["shards"]["members"]} == {8}
        of_a, of_b = keys_of(first.page, 0), keys_of(second.page, 0)
        assert of_a | of_b == everything
        assert not of_a & of_b
        buckets, held = Buckets(16), set(a.status().sharding.held)  # type: ignore[union-attr]
        toys = await world.client.list(Toy, "default")
        assert of_a == {f"default/{toy.name}" for toy in toys if buckets.of(toy.uid) in held}
        # The controller that needs all objects works in one of the two.
        assert sorted((len(keys_of(first.page, 1)), len(keys_of(second.page, 1)))) == [0, OBJECTS]
        elsewhere = [page.overview["controllers"][1]["elsewhere"] for page in (first.page, second.page)]
        assert sorted(elsewhere) == [0, OBJECTS]
        group.cancel_scope.cancel()


@in_world(played)
async def test_an_outage_is_seen_at_the_objects_that_wait_and_its_end_too(world: World) -> None:
    line = Line(InProcessTransport(world.server))
    slow = Controller(Toy, keep_size, every=2)
    async with world.running(slow, transport=line) as manager:
        await world.make("a")
        watcher = watching(board_of(manager))
        await watcher.until(lambda page: page.of("default/a") and page.of("default/a").state == "later")
        line.break_down(refused)
        await watcher.until(lambda page: page.of("default/a").state == "outage")
        sentence = watcher.page.of("default/a").sentence  # type: ignore[union-attr]
        assert sentence.startswith("the API server cannot be reached, for ")
        await watcher.until(lambda page: not page.overview["clusters"][0]["reachable"])
        assert watcher.page.overview["clusters"][0]["down_seconds"] > 0
        line.weather = lambda method, path: None
        await watcher.until(lambda page: page.of("default/a").state == "later")
        await watcher.until(lambda page: page.overview["clusters"][0]["reachable"])


@in_world(played)
async def test_a_storm_is_seen_at_its_object_and_in_the_overview(world: World) -> None:
    runs = 0

    async def churn(ctx: Context[Toy]) -> None:
        nonlocal runs
        runs += 1
        data = {"x": str(runs % 2)}
        await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta("child"), data=data))

    async with world.running(Controller(Toy, churn, owns=[ConfigMap])) as manager:
        await world.make("a")
        watcher = watching(board_of(manager))
        await watcher.until(lambda page: page.complete and page.overview["controllers"][0]["storms"], 300)
        (storm,) = watcher.page.overview["controllers"][0]["storms"]
        assert storm["key"] == "default/a"
        assert ".data.x of ConfigMap default/child" in storm["message"]
        await watcher.until(lambda page: page.of("default/a").state == "throttled", 300)
        row = watcher.page.of("default/a")
        assert row is not None
        assert row.sentence.startswith("slowed down, next run in ")


@in_world(played)
async def test_a_standby_says_who_leads(world: World) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(world.server.run)
        managers = [
            world.manager(Controller(Toy, idle), leader_election=LeaderElection("toys", identity=identity))
            for identity in ("a", "b")
        ]
        for manager in managers:
            await group.start(manager.run)
        await world.make("t")
        await anyio.sleep(5)
        watchers = [watching(board_of(manager)) for manager in managers]
        for watcher in watchers:
            await watcher.until_complete()
        assert [watcher.page.overview["leading"] for watcher in watchers] == [True, False]
        assert [watcher.page.overview["leader"] for watcher in watchers] == ["a", "a"]
        row = watchers[1].page.of("default/t")
        assert row is not None
        assert (row.state, row.sentence) == ("not-leading", "this replica is on standby: a leads")
        managers[0].stop()
        await watchers[1].until(lambda page: page.of("default/t").state == "resting", 60)
        await watchers[1].until(lambda page: page.overview["leading"])
        group.cancel_scope.cancel()


def objects_of(page: SeenPage) -> dict[str, int]:
    return {cluster["name"]: cluster["informers"][0]["objects"] for cluster in page.overview["clusters"]}


def test_of_several_clusters_each_has_rows_and_informers_of_its_own() -> None:
    async def scenario(sites: Sites) -> None:
        async with sites.running(Controller(Toy, keep_size)) as manager:
            await sites.east.make("a")
            await sites.west.make("b")
            watcher = watching(board_of(manager))
            await watcher.until(lambda page: len(page.rows) == 2)
            assert watcher.page.hello["controllers"] == ["east/toy", "west/toy"]
            assert (keys_of(watcher.page, 0), keys_of(watcher.page, 1)) == ({"default/a"}, {"default/b"})
            await watcher.until(lambda page: objects_of(page) == {"east": 1, "west": 1})
            for cluster in watcher.page.overview["clusters"]:
                assert cluster["synced"]
                assert cluster["informers"][0]["resource"] == "toys.toys.example.com"

    on_sites(scenario)


@define(eq=False)
class Told:
    """An onlooker that keeps what it is told."""

    rows: list[int] = attrs_field(factory=list)
    """How many rows each call was about."""

    def stirred(self) -> None:
        pass

    def changed(self, rows: Collection[int]) -> None:
        self.rows.append(len(rows))


@pytest.mark.rule("status-calm")
@in_world(played)
async def test_what_concerns_all_objects_is_told_at_once_and_not_row_by_row(world: World) -> None:
    async with world.running(Controller(Toy, idle)) as manager:
        for number in range(OBJECTS):
            await world.make(f"t{number}")
        await anyio.sleep(1)
        board, told = board_of(manager), Told()
        board.join(told)
        await board.refresh()
        told.rows.clear()
        await anyio.sleep(1)
        manager.pause("toy")
        board.look()
        assert told.rows == [OBJECTS]
        board.leave(told)


@in_world(played)
async def test_readiness_is_asked_twice_a_second_however_many_look(world: World) -> None:
    asked: list[float] = []

    def ready() -> bool:
        asked.append(anyio.current_time())
        return len(asked) > 2

    async with world.running(Controller(Toy, idle)) as manager:
        board = board_of(manager, ready=ready)
        watchers = [watching(board) for _ in range(5)]
        async with anyio.create_task_group() as group:
            for watcher in watchers:
                group.start_soon(watcher.during, 10)
        assert 18 <= len(asked) <= 22
        for watcher in watchers:
            assert watcher.page.overview["ready"]


# --- secrets ---------------------------------------------------------------------------------------------


@frozen
class VaultSpec:
    password: str = field(default="", secret=True)
    url: str = ""


@frozen
class VaultStatus:
    conditions: tuple[Condition, ...] = ()


@resource("vaults.example.com/v1")
class Vault(Object):
    """Has a password of its own, and reads another one from a Secret."""

    spec: VaultSpec = VaultSpec()
    status: VaultStatus = VaultStatus()


DECLARED, OF_SECRET, IN_URL = "declared-s3cr3t", "ReadS3cr3tValue", "url-s3cr3t"


async def open_vault(ctx: Context[Vault]) -> None:
    key = (await ctx.client.get(Secret, "keys", "default")).data["key"]
    vault = ctx.object
    if vault.name == "condition":
        ctx.condition("Ready", False, reason=OF_SECRET, message=f"{DECLARED} and {OF_SECRET}")
        return
    spec = vault.spec
    raise ValueError(
        f"cannot log in with {spec.password} or {key} or {OF_SECRET} at {spec.url}: token={IN_URL}"
    )


@pytest.mark.rule("status-secrets")
@in_world(played)
async def test_no_secret_is_anywhere_in_a_stream(world: World) -> None:
    await world.client.apply(definition_of(Vault))
    await world.client.create(
        Secret(metadata=ObjectMeta("keys", "default"), data={"key": b64encode(OF_SECRET.encode()).decode()})
    )
    async with world.running(Controller(Vault, open_vault, reads=[Secret])) as manager:
        watcher: Watching = watching(board_of(manager))
        spec = VaultSpec(DECLARED, f"https://root:{IN_URL}@example.com")
        for name in ("error", "condition"):
            await world.client.create(Vault(metadata=ObjectMeta(name, "default"), spec=spec))
        await watcher.until(lambda page: len(page.rows) == 2 and page.of("default/error").failures > 3)
        await watcher.during(10)
        shown = repr(watcher.page.events)
        assert "cannot log in with" in shown
        assert "Ready=False: <secret>" in shown
        for secret in (DECLARED, OF_SECRET, IN_URL):
            assert secret not in shown


def test_an_object_that_is_nested_too_deeply_is_a_row_like_others() -> None:
    text = b'{"metadata":{"name":"a","namespace":"default","uid":"u"},"spec":{"password":'
    for depth in (400, 5_000):
        deep = text + b'{"a":' * depth + b"1" + b"}" * depth + b'},"status":{"conditions":' + b"[" * depth
        snapshot = Snapshot.from_deep_json(deep + b"]" * depth + b"}}")
        assert declared_values_of(snapshot, {("spec", "password")}) == set()
        assert health_at(snapshot, True, "", False).health == "healthy"
        assert health_at(snapshot, True, "no bulb", False) == ("failing", "no bulb")
        assert glance_at(snapshot, False, "", False).conditions == []
