"""A reconciler that creates "the missing one" never creates two, whatever becomes of news and answers."""

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import anyio
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from informers import (
    APIResource,
    Cache,
    HttpRequest,
    Informer,
    InformerOptions,
    Key,
    Snapshot,
    StaleVersion,
    StreamingResponse,
)
from reconcile import Client, Context, Controller, ObjectMeta, Result, kind_of
from reconcile.client.client import bound, reads_of
from reconcile.client.own_writes import Freshness, Journal
from reconcile.embedded import InProcessTransport
from reconcile.errors import CacheBehind
from reconcile.kinds import ConfigMap
from reconcile.testing import (
    Cut,
    Delay,
    FakeClient,
    Fault,
    FaultPlan,
    FaultyTransport,
    LateTransport,
    LoseReply,
    Refuse,
    SlowReply,
    When,
)
from reconcile.testing.stream_faults import whole_lines
from tests.client.cached_client import cached
from tests.helpers.managers import Toy, World, played
from tests.helpers.scenarios import simulated

CONFIG = kind_of(ConfigMap).resource
CREATE = "*/configmaps"
NEVER = 10**9


class WithoutBookmarks:
    """A server that sends no bookmark but the one that ends a first state."""

    server = "without bookmarks"

    def __init__(self, inner: InProcessTransport) -> None:
        self._inner = inner
        self.request = inner.request
        self.aclose = inner.aclose

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncIterator[StreamingResponse]:
        async with self._inner.stream(request) as answer:
            yield StreamingResponse(answer.status, answer.headers, _without_bookmarks(answer.chunks))


async def _without_bookmarks(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async with aclosing(whole_lines(chunks)) as lines:
        async for line in lines:
            if b'"BOOKMARK"' not in line or b"initial-events-end" in line:
                yield line


def created(
    *,
    seed: int,
    lag: tuple[float, float] = (0.005, 0.25),
    plan: FaultPlan = FaultPlan(),  # noqa: B008
    bookmarks: bool = True,
    generated: bool = True,
    every: float = 0.3,
    timeout: float = 300.0,
) -> int:
    """How many children half a minute of reconciling has ever created."""
    counts: list[int] = []

    async def ensure_one(ctx: Context[Toy]) -> Result:
        if not await ctx.owned(ConfigMap):
            metadata = ObjectMeta(generate_name="child-") if generated else ObjectMeta("child")
            await ctx.create(ConfigMap(metadata=metadata))
        return Result(requeue_after=every)

    async def scenario(world: World) -> None:
        inner: Any = InProcessTransport(world.server)
        late = LateTransport(inner if bookmarks else WithoutBookmarks(inner), seed, lag=lag)
        world.transport = FaultyTransport(late, plan)
        async with world.running(Controller(Toy, ensure_one, owns=[ConfigMap], timeout=timeout)):
            await world.make()
            await anyio.sleep(30)
        made = [r for r in world.transport.requests if r.verb == "create" and r.path.endswith("/configmaps")]
        counts.append(sum(request.effective for request in made))
        assert len(await world.client.list(ConfigMap, "default")) == counts[0]

    played(scenario, seed)
    return counts[0]


UNLUCKY = st.sampled_from(
    [LoseReply(), Refuse(500, "InternalError"), Refuse(504, "Timeout"), SlowReply(2.0), Delay(1.0)]
)
FAULTS = st.lists(
    st.builds(Fault, st.builds(When, st.just("create"), st.just(CREATE), st.integers(1, 3)), UNLUCKY)
    | st.builds(Fault, st.builds(When, st.just("watch"), st.just(CREATE), st.integers(1, 2)), st.builds(Cut)),
    max_size=3,
).map(FaultPlan)


@pytest.mark.rule("inv-36", "inv-37")
@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 1000),
    lag=st.tuples(st.floats(0.001, 2.0), st.floats(0.0, 3.0)).map(lambda drawn: (drawn[0], sum(drawn))),
    plan=FAULTS,
    bookmarks=st.booleans(),
    generated=st.booleans(),
    every=st.sampled_from([0.1, 0.5, 2.0]),
    timeout=st.sampled_from([0.5, 300.0]),
)
def test_a_missing_object_is_never_created_twice(**circumstances: Any) -> None:
    assert created(**circumstances) == 1


@pytest.mark.parametrize("what", [SlowReply(0.0), LoseReply()])
def test_without_a_journal_the_same_reconciler_creates_several(
    what: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def forget(self: Journal, *_: Any) -> None:
        return

    monkeypatch.setattr(Journal, "settle", forget)
    monkeypatch.setattr(Journal, "is_certain", lambda *_: True)
    assert created(seed=1, lag=(1.0, 2.0), plan=FaultPlan((Fault(When("create", CREATE), what),))) > 1


# --- before the first destructive act -----------------------------------------------------------------


class Elsewhere:
    """Answers what a server would, for a store that the test fills by hand."""

    def __init__(self, version: int) -> None:
        self.reached = version
        self.asked = 0

    async def version(self, resource: APIResource, namespace: str = "") -> int:
        self.asked += 1
        return self.reached

    async def read(self, resource: APIResource, key: Key) -> Snapshot | None:
        return None


def informed(version: int) -> tuple[Cache, Informer]:
    cache = Cache(FakeClient().transport)
    informer = cache.declare(CONFIG)
    informer.store.replace([], version)
    return cache, informer


@simulated
async def test_an_up_to_date_store_is_confirmed_with_one_request() -> None:
    cache, _ = informed(7)
    live, freshness = Elsewhere(7), Freshness()
    assert [await freshness.confirm(cache, live, CONFIG) for _ in range(3)] == [True] * 3
    assert live.asked == 1
    freshness.reset()
    assert await freshness.confirm(cache, live, CONFIG)
    assert live.asked == 2


@simulated
async def test_a_store_that_is_behind_is_waited_for_and_the_decision_discarded() -> None:
    cache, informer = informed(6)
    live, freshness, answers = Elsewhere(7), Freshness(), []

    async def confirm() -> None:
        answers.append(await freshness.confirm(cache, live, CONFIG))

    async with anyio.create_task_group() as group:
        group.start_soon(confirm)
        group.start_soon(confirm)
        await anyio.sleep(0.3)
        assert answers == []
        informer.store.reach(7)
        await anyio.sleep(0.3)
    assert answers == [False, False]
    assert live.asked == 1
    assert await freshness.confirm(cache, live, CONFIG)


@simulated
async def test_a_store_that_stays_behind_is_an_error_and_permits_nothing() -> None:
    cache, _ = informed(6)
    with pytest.raises(CacheBehind):
        await Freshness().confirm(cache, Elsewhere(NEVER), CONFIG)


@pytest.mark.rule("write-9")
@simulated
async def test_a_deletion_decided_on_stale_state_is_decided_again() -> None:
    client = FakeClient(ConfigMap(metadata=ObjectMeta("c", "default")))
    cache = Cache(client.transport, clock=client.clock)
    informer = cache.declare(CONFIG)
    listed = client.request("GET", CONFIG.path())
    version = int(listed["metadata"]["resourceVersion"])
    items = [Snapshot.from_json(msgspec.json.encode(item)) for item in listed["items"]]
    informer.store.replace(items, version - 1)
    client_of_run = bound(Client(client.transport, cache=cache, clock=client.clock), Journal())
    known = await client_of_run.get(ConfigMap, "c", "default")

    async def delete() -> None:
        with pytest.raises(StaleVersion, match="decide again"):
            await client_of_run.delete(known)

    async with anyio.create_task_group() as group:
        group.start_soon(delete)
        await anyio.sleep(0.1)
        informer.store.reach(version)
    assert client.transport.writes == []
    await client_of_run.delete(known)
    assert await client.find(ConfigMap, "c", "default") is None


@simulated
async def test_the_deletion_of_an_object_that_was_not_read_is_not_forgotten_either() -> None:
    client = FakeClient(ConfigMap(metadata=ObjectMeta("c", "default")))
    cached_client = cached(client, CONFIG)
    assert await cached_client.find(ConfigMap, "c", "default") is not None
    await cached_client.delete(ConfigMap(metadata=ObjectMeta("c", "default")))
    assert await client.find(ConfigMap, "c", "default") is None
    with pytest.raises(CacheBehind):  # the watch never shows the end
        await cached_client.find(ConfigMap, "c", "default")


@pytest.mark.rule("write-9")
@simulated
async def test_a_child_with_a_generated_name_decided_on_stale_state_is_decided_again() -> None:
    """A leader that has just taken over may not have been shown yet what its predecessor created."""

    client = FakeClient(ConfigMap(metadata=ObjectMeta("c-x7", "default")))
    cache = Cache(client.transport, clock=client.clock)
    informer = cache.declare(CONFIG)
    version = int(client.request("GET", CONFIG.path())["metadata"]["resourceVersion"])
    informer.store.replace([], version - 1)
    root = Client(client.transport, cache=cache, clock=client.clock)
    client_of_run, other = bound(root, Journal()), bound(root, Journal())
    second = ConfigMap(metadata=ObjectMeta(generate_name="c-", namespace="default"))

    with pytest.raises(StaleVersion, match="decide again"):
        await client_of_run.create(second)
    assert client.transport.writes == []
    async with anyio.create_task_group() as group:
        group.start_soon(reads_of(client_of_run).settle)
        await anyio.sleep(0.1)
        with pytest.raises(StaleVersion):
            await client_of_run.create(second)
        informer.store.reach(version)
    await client_of_run.create(second)
    assert len(await client.list(ConfigMap, "default")) == 2
    with pytest.raises(StaleVersion):
        await other.create(second)  # it may have decided before
    later = bound(root, Journal())  # of another key, whose run begins after that
    await later.create(second)


@pytest.mark.rule("inv-36")
@simulated
async def test_an_object_outside_the_selectors_of_an_informer_is_not_waited_for() -> None:
    client = FakeClient()
    cache = Cache(client.transport, clock=client.clock, options={CONFIG: InformerOptions(labels="tier=web")})
    informer = cache.declare(CONFIG)
    informer.store.replace([], 1)
    client_of_run = bound(Client(client.transport, cache=cache, clock=client.clock), Journal())
    await client_of_run.create(ConfigMap(metadata=ObjectMeta("c", "default", labels={"tier": "db"})))
    started = anyio.current_time()
    assert await client_of_run.find(ConfigMap, "c", "default") is None
    assert anyio.current_time() == started
    assert informer.store.get(Key("default", "c")) is None
