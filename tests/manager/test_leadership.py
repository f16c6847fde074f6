"""One leader at a time, whatever hangs, is cut off or dies; and never for long none."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconcile import Client, Context, Controller, Manager
from reconcile.client.certainty import LedTransport
from reconcile.client.guarded_writes import NotLeading
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.kinds import ConfigMap, Lease, LeaseSpec
from reconcile.manager.leadership import (
    LeaderElection,
    LeaderElector,
    LeadershipLost,
    LeaseTerms,
    Sighting,
    claim,
    is_free,
    sighted,
)
from reconcile.models import ObjectMeta
from reconcile.testing import (
    Delay,
    Drop,
    Fault,
    FaultPlan,
    FaultyTransport,
    LoseReply,
    Refuse,
    SlowReply,
    VirtualClock,
    When,
    simulate,
)
from tests.helpers.managers import Toy, World
from tests.helpers.scenarios import in_world, simulated
from tests.helpers.tasks import beside

TERMS = LeaseTerms()
NO_FAULTS = FaultPlan()


class Arena:
    """A server, and candidates that run for one lease."""

    def __init__(self, seed: int = 0) -> None:
        self.clock = VirtualClock(seed)
        self.server = ApiServer(clock=self.clock)
        self.client = Client(InProcessTransport(self.server), clock=self.clock)
        self.led: list[tuple[str, float]] = []
        self.electors: list[LeaderElector] = []

    def elector(self, identity: str, plan: FaultPlan = NO_FAULTS, terms: LeaseTerms = TERMS) -> LeaderElector:
        transport = FaultyTransport(InProcessTransport(self.server), plan)
        election = LeaderElection("lock", "default", identity)
        made = LeaderElector(Client(transport, clock=self.clock), election, terms)
        self.electors.append(made)
        return made

    async def run(self, elector: LeaderElector) -> None:
        """As a process that starts again whenever it has lost."""
        while True:
            try:
                await elector.acquire()
                self.led.append((elector.election.identity, anyio.current_time()))
                await elector.hold()
            except LeadershipLost:
                await anyio.sleep(1)

    async def never_two(self) -> None:
        while True:
            assert sum(elector.is_leader for elector in self.electors) <= 1
            await anyio.sleep(0.5)

    async def lease(self) -> LeaseSpec:
        return (await self.client.get(Lease, "lock", "default")).spec


def played(scenario: Callable[[Arena], Any], seed: int = 0) -> None:
    async def run() -> None:
        arena = Arena(seed)
        async with beside(arena.never_two):
            await scenario(arena)

    simulate(run, seed=seed, limit_seconds=10_000)


@pytest.mark.rule("L4")
@in_world(played)
async def test_a_duration_that_is_no_whole_number_leaves_no_second_leader(arena: Arena) -> None:
    terms = LeaseTerms(2.9, 2.8, 0.2)
    cut_off = FaultPlan([Fault(When(nth=12, times=None), Drop())])
    async with beside(arena.run, arena.elector("one", cut_off, terms)):
        await anyio.sleep(1)
        assert (await arena.lease()).lease_duration_seconds == 3
        async with beside(arena.run, arena.elector("two", terms=terms)):
            for _ in range(1000):
                await anyio.sleep(0.01)
                assert sum(elector.is_leader for elector in arena.electors) <= 1
    assert [name for name, _ in arena.led] == ["one", "two"]


@pytest.mark.rule("L4")
@in_world(played)
async def test_the_first_candidate_creates_the_lease_and_renews_it(arena: Arena) -> None:
    async with beside(arena.run, arena.elector("one")):
        await anyio.sleep(1)
        first = await arena.lease()
        assert (first.holder_identity, first.lease_duration_seconds, first.lease_transitions) == (
            "one",
            15,
            0,
        )
        await anyio.sleep(60)
        later = await arena.lease()
        assert later.acquire_time == first.acquire_time
        assert later.renew_time != first.renew_time
        assert arena.electors[0].is_leader


@pytest.mark.rule("L1")
@pytest.mark.parametrize("seed", range(5))
@in_world(played)
async def test_when_a_leader_dies_another_leads_within_duration_and_two_retries(
    arena: Arena, seed: int
) -> None:
    async with anyio.create_task_group() as group:
        async with beside(arena.run, arena.elector("one")):
            await anyio.sleep(1)
            group.start_soon(arena.run, arena.elector("two"))
            await anyio.sleep(30)
            assert [name for name, _ in arena.led] == ["one"]
            died = anyio.current_time()
        await anyio.sleep(30)
        assert [name for name, _ in arena.led] == ["one", "two"]
        assert arena.led[1][1] - died <= TERMS.duration + 2 * TERMS.retry
        assert (await arena.lease()).lease_transitions == 1
        group.cancel_scope.cancel()


@pytest.mark.rule("L7")
@in_world(played)
async def test_a_released_lease_is_acquired_at_once(arena: Arena) -> None:
    one, two = arena.elector("one"), arena.elector("two")
    await one.acquire()
    async with beside(arena.run, two):
        await anyio.sleep(5)
        await one.release()
        assert not one.is_leader
        await anyio.sleep(1)
        assert two.is_leader


@pytest.mark.rule("L7")
@in_world(played)
async def test_a_standby_watches_the_lease_and_requests_it_within_a_second_of_its_release(
    arena: Arena,
) -> None:
    one, two = arena.elector("one"), arena.elector("two")
    await one.acquire()
    async with beside(arena.run, two):
        await anyio.sleep(0.1)
        released = anyio.current_time()
        await one.release()
        await anyio.sleep(0.05)
        assert arena.led == [("two", released)]
        assert (await arena.lease()).lease_transitions == 1


@pytest.mark.rule("L3")
@in_world(played)
async def test_a_leader_renews_with_one_update_and_reads_only_after_a_failed_one(arena: Arena) -> None:
    one = arena.elector("one")
    transport = one._client.transport
    assert isinstance(transport, FaultyTransport)
    await one.acquire()
    began = len(transport.requests)
    async with beside(one.hold):
        await anyio.sleep(5)
        assert [request.verb for request in transport.requests[began:]] == ["update", "update"]
        touched = await arena.client.get(Lease, "lock", "default")
        await arena.client.raw.merge(touched, {"metadata": {"labels": {"touched": "yes"}}})
        await anyio.sleep(2)
        assert [request.verb for request in transport.requests[began + 2 :]] == ["update", "get", "update"]
        assert one.is_leader


@pytest.mark.rule("L5")
@in_world(played)
async def test_a_leader_that_sees_another_holder_stops_at_once(arena: Arena) -> None:
    one = arena.elector("one")
    await one.acquire()
    lease = await arena.client.get(Lease, "lock", "default")
    await arena.client.raw.update(
        lease.replace(spec=LeaseSpec(holder_identity="thief", lease_duration_seconds=15))
    )
    started = anyio.current_time()
    with pytest.raises(LeadershipLost, match="held by 'thief'"):
        await one.hold()
    assert anyio.current_time() - started < 3
    assert not one.is_leader


@pytest.mark.rule("L6")
@pytest.mark.parametrize(
    "what", [Drop(), Delay(1000), SlowReply(1000), LoseReply(), Refuse(500, "InternalError")]
)
@in_world(played)
async def test_a_leader_that_is_cut_off_stops_before_another_can_start(arena: Arena, what: Any) -> None:
    plan = FaultPlan([Fault(When(nth=8, times=None), what)])
    one, two = arena.elector("one", plan), arena.elector("two")
    await one.acquire()
    async with beside(arena.run, two):
        with pytest.raises(LeadershipLost):
            await one.hold()
        assert not two.is_leader
        await anyio.sleep(40)
        assert two.is_leader


FAULTS = st.lists(
    st.builds(
        lambda nth, times, what: Fault(When(nth=nth, times=times), what),
        st.integers(1, 40),
        st.integers(1, 12),
        st.sampled_from(
            [Drop(), Delay(3), Delay(30), SlowReply(7), LoseReply(), Refuse(500, "InternalError")]
        ),
    ),
    max_size=4,
)


@pytest.mark.rule("L1", "L6")
@settings(max_examples=25, deadline=None)
@given(plans=st.lists(FAULTS, min_size=2, max_size=3), seed=st.integers(0, 1000))
@in_world(played)
async def test_there_are_never_two_leaders_and_finally_there_is_one(
    arena: Arena, plans: list[list[Fault]], seed: int
) -> None:
    async with anyio.create_task_group() as group:
        for number, faults in enumerate(plans):
            group.start_soon(arena.run, arena.elector(f"candidate-{number}", FaultPlan(faults)))
        await anyio.sleep(400)
        assert sum(elector.is_leader for elector in arena.electors) == 1
        group.cancel_scope.cancel()


@in_world(played)
async def test_writes_are_refused_while_leadership_is_not_certain_and_reads_are_sent(arena: Arena) -> None:
    one = arena.elector("one")
    client = Client(LedTransport(InProcessTransport(arena.server), one.certainty), clock=arena.clock)
    settings_map = ConfigMap(metadata=ObjectMeta("c", "default"))
    with pytest.raises(NotLeading, match=r"POST .*/configmaps was not sent"):
        await client.create(settings_map)
    await one.acquire()
    await client.create(settings_map)
    await anyio.sleep(TERMS.renew_deadline)
    with pytest.raises(NotLeading):
        await client.create(ConfigMap(metadata=ObjectMeta("d", "default")))
    assert len(await client.list(ConfigMap, "default")) == 1


@pytest.mark.rule("L2")
@pytest.mark.parametrize("values", [(10, 10, 2), (15, 2.4, 2), (15, 10, 0), (5, 10, 2), (15, 10, -1)])
def test_lease_terms_without_a_margin_are_refused(values: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="a Lease needs"):
        LeaseTerms(*values)


def lease(holder: str | None, duration: int = 15, renewed: str = "t0") -> Lease:
    spec = LeaseSpec(holder_identity=holder, lease_duration_seconds=duration, renew_time=renewed)
    return Lease(metadata=ObjectMeta("lock", "default", uid="u"), spec=spec)


@pytest.mark.rule("L1", "L4")
@pytest.mark.parametrize(
    ("seen", "now", "free"),
    [
        (Sighting(lease("other"), 100), 114.9, False),
        (Sighting(lease("other"), 100), 115, True),
        (Sighting(lease("other", duration=60), 100), 120, False),
        (Sighting(lease(""), 100), 100, True),
        (Sighting(lease(None), 100), 100, True),
        (Sighting(lease("me"), 100), 100, True),
    ],
)
def test_the_conditions_under_which_a_lease_may_be_taken(seen: Sighting, now: float, free: bool) -> None:
    assert is_free(seen, "me", now) is free


@pytest.mark.rule("L1")
def test_the_age_of_a_lease_record_counts_from_its_first_observation() -> None:
    first = sighted(None, lease("other"), 100)
    assert sighted(first, lease("other"), 110).since == 100
    assert sighted(first, lease("other", renewed="t1"), 110).since == 110


@pytest.mark.rule("L4")
def test_a_takeover_counts_as_a_transition_and_a_renewal_does_not() -> None:
    first = claim(LeaseSpec(), "a", TERMS, "t0")
    renewed = claim(first, "a", TERMS, "t1")
    taken = claim(renewed, "b", TERMS, "t2")
    assert [(s.lease_transitions, s.acquire_time, s.renew_time) for s in (first, renewed, taken)] == [
        (0, "t0", "t0"),
        (0, "t0", "t1"),
        (1, "t2", "t2"),
    ]


async def keep(ctx: Context[Toy]) -> None:
    ctx.status(size=ctx.object.spec.size)


@pytest.mark.rule("L9")
@pytest.mark.parametrize("seed", range(3))
@simulated
async def test_a_standby_is_warm_writes_nothing_and_takes_over_when_the_leader_stops(seed: int) -> None:
    world = World(seed)
    await world.define()
    transports = [FaultyTransport(InProcessTransport(world.server)) for _ in range(2)]
    one, two = [
        Manager(Controller(Toy, keep), transport=t, clock=world.clock, leader_election=LeaderElection("toys"))
        for t in transports
    ]
    async with anyio.create_task_group() as group:
        group.start_soon(world.server.run)
        await group.start(one.run)
        await anyio.sleep(1)
        await group.start(two.run)
        await world.make("a", size=2)
        await anyio.sleep(20)
        assert (await world.client.get(Toy, "a", "default")).status.size == 2
        assert [m.status().leading for m in (one, two)] == [True, False]
        assert two.status().informers[0].objects == 1
        assert [w for w in transports[1].writes if "leases" not in w.path] == []
        one.stop()
        await anyio.sleep(1)
        assert two.status().leading
        await world.make("b", size=3)
        await anyio.sleep(2)
        assert (await world.client.get(Toy, "b", "default")).status.size == 3
        group.cancel_scope.cancel()


@pytest.mark.rule("L8")
@simulated
async def test_a_manager_that_never_led_stops_without_an_error_and_without_a_write() -> None:
    world = World()
    await world.define()
    await world.make("a", size=2)
    await LeaderElector(world.client, LeaderElection("toys", identity="other")).acquire()
    began = 0
    transport = FaultyTransport(InProcessTransport(world.server))

    async def start(ctx: Context[Toy]) -> None:
        nonlocal began
        began += 1

    manager = Manager(
        Controller(Toy, start),
        transport=transport,
        clock=world.clock,
        leader_election=LeaderElection("toys", identity="me"),
    )
    async with beside(world.server.run):
        async with manager:
            await anyio.sleep(10)
        assert transport.writes == []
        assert began == 0
        assert (await world.client.get(Lease, "toys", "default")).spec.holder_identity == "other"


@pytest.mark.rule("L9")
@simulated
async def test_a_manager_that_loses_its_lease_stops_and_reports_the_reason() -> None:
    world = World()
    await world.define()
    manager = world.manager(Controller(Toy, keep), leader_election=LeaderElection("toys", identity="me"))
    async with beside(world.server.run):
        with pytest.raises(LeadershipLost, match="default/toys is held by 'thief'"):
            async with manager:
                await anyio.sleep(3)
                held = await world.client.get(Lease, "toys", "default")
                thief = LeaseSpec(holder_identity="thief", lease_duration_seconds=15)
                await world.client.raw.update(held.replace(spec=thief))
                await anyio.sleep(30)
        assert (await world.client.get(Lease, "toys", "default")).spec.holder_identity == "thief"
