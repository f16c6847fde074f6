"""An informer against a real log of changes: nothing missed, nothing invented, whatever goes wrong."""

import random
from collections.abc import Iterable
from functools import partial

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from informers import Cache, CacheSyncFailed, Delta, Informer, NotCached, Unreachable
from reconcile import Client
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.kinds import ConfigMap
from reconcile.models import ObjectMeta
from reconcile.testing import (
    Cut,
    Drop,
    EndEarly,
    Expire,
    Fault,
    FaultPlan,
    FaultyTransport,
    LateTransport,
    Refuse,
    Stall,
    VirtualClock,
    When,
    simulate,
)
from tests.helpers.scenarios import in_world, simulated
from tests.helpers.scripted_server import ScriptedServer
from tests.helpers.tasks import beside
from tests.informers.informed import CONFIG_MAPS, World, informed


class History:
    """What a handler heard, per key, to be held against what truly happened."""

    def __init__(self) -> None:
        self.deltas: list[Delta] = []

    def __call__(self, delta: Delta) -> None:
        self.deltas.append(delta)

    def versions(self, name: str) -> list[int]:
        return [d.last.version for d in self.deltas if d.last.key.name == name]


class Writer:
    """Changes config maps at random, and remembers every state that there was."""

    def __init__(self, server: ApiServer, clock: VirtualClock, seed: int) -> None:
        self.client = Client(InProcessTransport(server), clock=clock)
        self.chance = random.Random(seed)
        self.states: dict[str, list[int]] = {}
        self.deletions: dict[str, int] = {}

    async def write(self, times: int) -> None:
        for number in range(times):
            name = self.chance.choice("abcd")
            found = await self.client.find(ConfigMap, name, "default")
            if found is None:
                made = await self.client.create(ConfigMap(metadata=ObjectMeta(name, "default"), data={}))
            elif self.chance.random() < 0.3:
                await self.client.delete(found)
                self.deletions[name] = self.deletions.get(name, 0) + 1
                continue
            else:
                made = await self.client.raw.merge(found, {"data": {"n": str(number)}}, guard={})
            self.states.setdefault(name, []).append(int(made.metadata.resource_version))
            await anyio.sleep(self.chance.random() * 3)


def is_subsequence(part: Iterable[int], whole: Iterable[int]) -> bool:
    rest = iter(whole)
    return all(item in rest for item in part)


STREAM_FAULTS = st.one_of(
    st.builds(Cut, after=st.integers(0, 4), mid_line=st.booleans()),
    st.builds(EndEarly, after=st.integers(0, 4)),
    st.builds(Expire, after=st.integers(0, 4)),
    st.builds(Stall, after=st.integers(0, 4), seconds=st.floats(0, 30)),
    st.just(Drop()),
    st.just(Refuse(503, text="upstream connect error")),
    st.just(Refuse(429, "TooManyRequests", retry_after=3)),
    st.just(Refuse(410, "Expired")),
)
PLANS = st.builds(
    lambda watches, lists: FaultPlan((*watches, *lists)),
    st.lists(
        st.builds(lambda n, what: Fault(When("watch", nth=n), what), st.integers(1, 6), STREAM_FAULTS),
        max_size=5,
    ),
    st.lists(
        st.builds(
            lambda n, what: Fault(When("list", nth=n), what),
            st.integers(1, 4),
            st.sampled_from([Drop(), Refuse(500, "InternalError"), Refuse(401, "Unauthorized")]),
        ),
        max_size=2,
    ),
)


@pytest.mark.rule("inv-21", "inv-25", "inv-28")
@settings(max_examples=60, deadline=None)
@given(plan=PLANS, seed=st.integers(0, 10_000))
def test_the_store_ends_equal_to_the_server_and_handlers_see_true_states_in_order(
    plan: FaultPlan, seed: int
) -> None:
    async def run() -> None:
        clock = VirtualClock(seed)
        server = ApiServer(clock=clock)
        writer = Writer(server, clock, seed)
        await writer.write(6)
        transport = FaultyTransport(LateTransport(InProcessTransport(server), seed, lag=(0.01, 4)), plan)
        informer = Informer(transport, CONFIG_MAPS, clock=clock)
        heard, slowly, store_at_hearing = History(), History(), []

        async def read_slowly(delta: Delta) -> None:
            await anyio.sleep(writer.chance.random() * 4)
            slowly(delta)

        informer.add_handler(heard)
        informer.add_async_handler(read_slowly)
        informer.add_handler(lambda d: store_at_hearing.append(informer.store.get(d.last.key) == d.new))
        async with beside(informer.run):
            await writer.write(30)
            await anyio.sleep(400)
        truth = await writer.client.list(ConfigMap)
        assert {s.key: s.version for s in informer.store} == {
            o.key: int(o.metadata.resource_version) for o in truth
        }
        assert all(store_at_hearing)
        assert slowly.deltas == heard.deltas
        for name, versions in writer.states.items():
            seen = [d.new.version for d in heard.deltas if d.new is not None and d.new.key.name == name]
            assert is_subsequence(seen, versions)
        alive: set[str] = set()
        for delta in heard.deltas:
            (alive.add if delta.new is not None else alive.discard)(delta.last.key.name)
        assert alive == {o.name for o in truth}
        assert len(transport.requests) < 200

    simulate(run, seed=seed, limit_seconds=10_000)


async def make(client: Client, name: str) -> ConfigMap:
    return await client.create(ConfigMap(metadata=ObjectMeta(name, "default"), data={}))


@in_world(partial(informed, faults=[Fault(When("watch"), Stall(after=1))]))
async def test_a_list_of_many_pages_is_whole_and_consistent(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("informers.reflector.PAGE", 2)
    for name in "abcde":
        await make(world.client, name)
    world.informer.relist()
    await anyio.sleep(1)
    assert sorted(s.key.name for s in world.informer.store) == list("abcde")
    assert [r.query.get("limit") for r in world.transport.requests if r.verb == "list"] == ["2"] * 3


@pytest.mark.rule("inv-17")
@in_world(informed)
async def test_a_day_of_normal_watches_costs_one_list(world: World) -> None:
    await make(world.client, "a")
    await anyio.sleep(24 * 3600)
    await make(world.client, "b")
    await anyio.sleep(1)
    assert len(world.informer.store) == 2
    lists = [r for r in world.transport.requests if r.verb == "list" or "sendInitialEvents" in r.query]
    assert len(lists) == 1
    assert len(world.transport.requests) > 100


@pytest.mark.rule("inv-30")
@in_world(informed)
async def test_a_late_handler_gets_all_existing_objects_and_then_changes(world: World) -> None:
    await make(world.client, "a")
    await anyio.sleep(1)
    heard = History()
    world.informer.add_handler(heard)
    assert [(d.initial, d.last.key.name) for d in heard.deltas] == [(True, "a")]
    await make(world.client, "b")
    await anyio.sleep(1)
    assert [(d.initial, d.last.key.name) for d in heard.deltas] == [(True, "a"), (False, "b")]


@pytest.mark.rule("inv-35")
@in_world(informed)
async def test_a_removed_handler_gets_nothing_more(world: World) -> None:
    heard = History()
    world.informer.add_handler(heard).remove()
    await make(world.client, "a")
    await anyio.sleep(1)
    assert heard.deltas == []


@in_world(partial(informed, faults=[Fault(When("watch"), Stall(after=1))]))
async def test_a_requested_relist_happens_even_if_the_watch_is_silent(world: World) -> None:
    await make(world.client, "a")
    await anyio.sleep(1)
    assert len(world.informer.store) == 0
    world.informer.relist()
    await anyio.sleep(1)
    assert len(world.informer.store) == 1
    assert world.informer.status().relists == 1


@in_world(partial(informed, faults=[Fault(When("watch"), Stall(after=1))]))
async def test_a_watch_that_stays_silent_is_cut_and_resumed(world: World) -> None:
    await make(world.client, "a")
    await anyio.sleep(700)
    assert len(world.informer.store) == 1
    assert world.informer.status().relists == 0


@in_world(partial(informed, faults=[Fault(When("watch"), Stall())]))
async def test_an_initial_state_that_does_not_arrive_is_a_failure_and_pages_replace_it(world: World) -> None:
    assert world.informer.status().failures == 1
    assert [request.verb for request in world.transport.requests[:2]] == ["watch", "list"]
    assert 30 < anyio.current_time() < 40


def down() -> ScriptedServer:
    """A server that cannot be reached."""
    return ScriptedServer(lambda _: Unreachable("connection refused", "GET /api/v1/configmaps"))


@simulated
async def test_an_unreachable_server_is_retried_less_and_less_often_and_shown_in_the_status() -> None:
    informer = Informer(down(), CONFIG_MAPS, clock=VirtualClock())
    async with beside(informer.run):
        await anyio.sleep(3600)
        status = informer.status()
    assert status.failures < 150
    assert not status.synced
    assert "connection refused" in status.error


@simulated
async def test_a_cache_that_cannot_sync_reports_why() -> None:
    cache = Cache(down(), clock=VirtualClock())
    async with beside(cache.declare(CONFIG_MAPS).run):
        with pytest.raises(BaseExceptionGroup) as caught:
            await cache.wait_synced(60)
    assert caught.group_contains(CacheSyncFailed, match="cannot list configmaps: .*connection refused")


def test_reading_an_undeclared_resource_is_an_error_that_explains_how_to_declare_it() -> None:
    with pytest.raises(NotCached, match="name it in owns= or watches="):
        Cache(down()).informer(CONFIG_MAPS)


@pytest.mark.rule("K6")
def test_declaring_a_resource_twice_gives_the_same_informer() -> None:
    cache = Cache(down())
    assert cache.declare(CONFIG_MAPS) is cache.declare(CONFIG_MAPS)
