"""Whatever the order of start, stop, failure, loss and change: what a manager promises holds."""

import asyncio
from collections import Counter
from typing import Any, Literal

import anyio
import pytest
from attrs import define, field, frozen
from hypothesis import given, settings
from hypothesis import strategies as st

from informers import CacheSyncFailed
from reconcile import Context, Controller, LeaderElection, Manager, ObjectMeta
from reconcile.errors import LeadershipLost
from reconcile.kinds import ConfigMap, Lease
from reconcile.testing import Fault, FaultPlan, Refuse, When
from tests.helpers.managers import Toy, World, played
from tests.manager.test_lifecycle import broken

Kind = Literal["add", "remove", "pause", "resume", "make", "change", "outage", "fault", "usurp"]


@frozen
class Step:
    """After so many seconds, do this."""

    after: float
    kind: Kind
    number: int


@frozen
class Story:
    """What happens between the start and the end, and how it ends."""

    seed: int
    led: bool
    steps: list[Step]
    ending: Literal["stop", "cancel", "leave"]
    at: float


steps = st.lists(
    st.builds(
        Step,
        st.floats(0, 4),
        st.sampled_from(Kind.__args__),  # type: ignore[attr-defined]
        st.integers(0, 3),
    ),
    max_size=12,
)
stories = st.builds(
    Story,
    st.integers(0, 10_000),
    st.booleans(),
    steps,
    st.sampled_from(["stop", "cancel", "leave"]),
    st.floats(0, 30),
)


@define
class Ledger:
    """What runs were begun and ended."""

    running: Counter[tuple[str, str]] = field(factory=Counter)
    begun: int = 0
    ended: int = 0
    overlaps: int = 0
    over: bool = False
    late: int = 0

    def controller(self, kind: Any, name: str) -> Controller[Any]:
        async def work(ctx: Context[Any]) -> None:
            key = (name, str(ctx.request))
            self.begun += 1
            self.late += self.over
            self.overlaps += self.running[key] > 0
            self.running[key] += 1
            try:
                await anyio.sleep(0.5)
                if kind is Toy:
                    ctx.status(size=ctx.object.spec.size)
            finally:
                self.running[key] -= 1
                self.ended += 1

        return Controller(kind, work, name=name, workers=2)


class Player:
    """Plays one story."""

    def __init__(self, story: Story, world: World) -> None:
        self.story, self.world, self.ledger = story, world, Ledger()
        election = LeaderElection("toys", "default", identity="us") if story.led else None
        self.manager = Manager(
            self.ledger.controller(Toy, "toy"),
            transport=world.transport,
            clock=world.clock,
            stop_seconds=3,
            leader_election=election,
        )
        self.refused = 0
        self.faulted = self.cut_off = False

    async def play(self) -> None:
        for step in self.story.steps:
            await anyio.sleep(step.after)
            try:
                await getattr(self, f"_{step.kind}")(step.number)
            except (LookupError, RuntimeError, ValueError, CacheSyncFailed):
                self.refused += 1

    async def _add(self, number: int) -> None:
        await self.manager.add(self.ledger.controller(ConfigMap, f"c{number}"))

    async def _remove(self, number: int) -> None:
        await self.manager.remove(f"c{number}")

    async def _pause(self, number: int) -> None:
        self.manager.pause("toy")

    async def _resume(self, number: int) -> None:
        self.manager.resume("toy")

    async def _make(self, number: int) -> None:
        metadata = ObjectMeta(f"o{number}", "default")
        for made in (Toy(metadata=metadata), ConfigMap(metadata=metadata)):
            if await self.world.client.find(type(made), made.name, "default") is None:
                await self.world.client.create(made)

    async def _change(self, number: int) -> None:
        found = await self.world.client.find(Toy, f"o{number}", "default")
        if found is not None:
            async with self.world.client.editing(found) as draft:
                draft.spec.size += 1

    async def _outage(self, number: int) -> None:
        plan = FaultPlan([Fault(When("*", times=2 * (number + 1)), Refuse(503))])
        self.world.transport.plan = plan
        self.cut_off = True
        self.world.transport._counts = [0]

    async def _fault(self, number: int) -> None:
        broken(self.manager, "toy")
        self.faulted = True

    async def _usurp(self, number: int) -> None:
        lease = await self.world.client.find(Lease, "toys", "default")
        if lease is not None:
            async with self.world.client.editing(lease) as draft:
                draft.spec.holder_identity = "them"
            self.cut_off = True


@pytest.mark.rule("M1", "M2")
@settings(deadline=None, max_examples=40)
@given(story=stories)
def test_in_every_order_runs_are_awaited_errors_surface_once_and_no_task_is_left(story: Story) -> None:
    async def scenario(world: World) -> None:
        before = asyncio.all_tasks()
        player = Player(story, world)
        manager, ledger = player.manager, player.ledger
        raised: list[BaseException] = []

        async def live() -> None:
            try:
                if story.ending == "leave":
                    async with manager:
                        await anyio.sleep(story.at)
                else:
                    with anyio.move_on_after(story.at if story.ending == "cancel" else 1000):
                        await manager.run()
            except (ZeroDivisionError, LeadershipLost, CacheSyncFailed) as error:
                raised.append(error)
            ledger.over = True

        async with anyio.create_task_group() as group:
            group.start_soon(live)
            group.start_soon(player.play)
            if story.ending == "stop":
                await anyio.sleep(story.at)
                manager.stop()
        await anyio.sleep(20)
        assert ledger.begun == ledger.ended
        assert (ledger.overlaps, ledger.late) == (0, 0)
        assert len(raised) <= 1
        for error in raised:
            assert player.faulted if isinstance(error, ZeroDivisionError) else player.cut_off
        assert asyncio.all_tasks() == before
        lease = await world.client.find(Lease, "toys", "default")
        assert lease is None or lease.spec.holder_identity in ("", "them") or player.cut_off
        with pytest.raises(RuntimeError):
            await manager.add(ledger.controller(ConfigMap, "after"))

    played(scenario, story.seed)


def is_survived(story: Story) -> bool:
    """Whether nothing in it ends a manager: no fault, and too little of an outage to lose the Lease by."""
    kinds = [step.kind for step in story.steps]
    return not {"fault", "usurp"} & set(kinds) and kinds.count("outage") < 3


@settings(deadline=None, max_examples=25)
@given(story=stories.filter(is_survived))
def test_every_object_ends_in_its_desired_state_after_any_order_of_events(story: Story) -> None:
    async def scenario(world: World) -> None:
        player = Player(story, world)
        async with player.manager:
            await player.play()
            player.manager.resume("toy")
            await anyio.sleep(300)
            toys = await world.client.list(Toy, "default")
            assert [toy.status.size for toy in toys] == [toy.spec.size for toy in toys]
            assert player.manager.status().leading

    played(scenario, story.seed)
