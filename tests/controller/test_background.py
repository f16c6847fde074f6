"""One supervised task for each object: from sync and leadership to its deletion, and never beside another."""

import itertools
from collections import Counter

import anyio
import pytest

from reconcile import Context, Controller, LeaderElection
from reconcile.controller.object_background import Background
from reconcile.errors import LeadershipLost
from reconcile.kinds import Lease, LeaseSpec
from tests.helpers.managers import Toy, ToySpec, World, idle, played
from tests.helpers.scenarios import in_world
from tests.helpers.tasks import beside

pytestmark = pytest.mark.rule("background")


class Tasks:
    """What runs in the background, by object."""

    def __init__(self, ending_seconds: float = 0.0) -> None:
        self.running: Counter[str] = Counter()
        self.log: list[str] = []
        self._ending_seconds = ending_seconds

    async def listen(self, background: Background[Toy]) -> None:
        name = background.request.name
        self.running[name] += 1
        assert self.running[name] == 1
        self.log.append(f"start {name}")
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(self._ending_seconds)
            self.running[name] -= 1
            self.log.append(f"end {name}")


@pytest.mark.parametrize("seed", range(5))
@in_world(played)
async def test_a_task_starts_with_its_object_and_ends_with_it_or_with_the_manager(
    world: World, seed: int
) -> None:
    tasks = Tasks()
    await world.make("early")
    async with world.running(Controller(Toy, idle, background=tasks.listen)):
        await anyio.sleep(2)
        assert tasks.log == ["start early"]
        late = await world.make("late")
        await anyio.sleep(2)
        await world.client.modify(Toy, "late", "default", lambda toy: toy.replace(spec=ToySpec(size=9)))
        await anyio.sleep(2)
        assert tasks.log == ["start early", "start late"]
        await world.client.delete(late)
        await anyio.sleep(2)
        assert tasks.log[2:] == ["end late"]
    assert tasks.log[3:] == ["end early"]


@pytest.mark.parametrize("seed", range(5))
@in_world(played)
async def test_a_task_has_ended_before_cleanup_runs(world: World, seed: int) -> None:
    tasks = Tasks(ending_seconds=3)

    async def clean(ctx: Context[Toy]) -> None:
        tasks.log.append(f"clean {ctx.object.name}")

    async with world.running(Controller(Toy, idle, cleanup=clean, background=tasks.listen)):
        toy = await world.make()
        await anyio.sleep(2)
        await world.client.delete(toy)
        await anyio.sleep(10)
    assert tasks.log == ["start a", "end a", "clean a"]


@pytest.mark.parametrize("seed", range(5))
@in_world(played)
async def test_a_recreated_object_gets_a_task_after_the_old_one_has_ended(world: World, seed: int) -> None:
    tasks = Tasks(ending_seconds=3)
    async with world.running(Controller(Toy, idle, background=tasks.listen)) as manager:
        for _ in range(4):
            toy = await world.make()
            await anyio.sleep(1)
            await world.client.delete(toy)
        await world.make()
        await anyio.sleep(30)
        assert tasks.running["a"] == 1
        toy = await world.client.get(Toy, "a", "default")
        await world.client.delete(toy)
        await anyio.sleep(30)
        backgrounds = manager._runners[0]._connected.backgrounds
        assert (len(backgrounds), backgrounds._tasks) == (0, {})


@in_world(played)
async def test_a_failed_task_is_restarted_with_growing_delays_and_a_returned_one_is_not(world: World) -> None:
    starts: dict[str, list[float]] = {}

    async def listen(background: Background[Toy]) -> None:
        starts.setdefault(background.request.name, []).append(anyio.current_time())
        if background.request.name == "bad":
            raise OSError("gone")

    async with world.running(Controller(Toy, idle, background=listen)):
        await world.make("bad")
        await world.make("done")
        await anyio.sleep(40)
    gaps = [b - a for a, b in itertools.pairwise(starts["bad"])]
    assert [round(gap / 2**n) for n, gap in enumerate(gaps)] == [1] * 5
    assert len(starts["done"]) == 1


@in_world(played)
async def test_a_task_sees_the_current_object_and_can_request_runs(world: World) -> None:
    sizes: list[int | None] = []
    causes: list[str] = []

    async def note(ctx: Context[Toy]) -> None:
        causes.extend(map(str, ctx.causes))

    async def listen(background: Background[Toy]) -> None:
        try:
            while True:
                toy = background.object
                sizes.append(None if toy is None else toy.spec.size)
                background.trigger("it moved")
                await anyio.sleep(10)
        finally:
            sizes.append(None if background.object is None else -1)

    async with world.running(Controller(Toy, note, background=listen)):
        await world.make(size=1)
        await anyio.sleep(5)
        await world.client.modify(Toy, "a", "default", lambda toy: toy.replace(spec=ToySpec(size=2)))
        await anyio.sleep(8)
        await world.client.delete(await world.client.get(Toy, "a", "default"))
        await anyio.sleep(5)
    assert sizes == [1, 2, None]
    assert causes.count("triggered: it moved") == 2


@in_world(played)
async def test_no_task_starts_before_leadership(world: World) -> None:
    tasks = Tasks()
    await world.make()
    terms = LeaderElection("toys", "default", identity="first")
    other = LeaderElection("toys", "default", identity="second")
    async with world.running(Controller(Toy, idle, background=tasks.listen), leader_election=terms):
        await anyio.sleep(10)
        assert tasks.running["a"] == 1
        async with world.running(Controller(Toy, idle, background=tasks.listen), leader_election=other):
            await anyio.sleep(60)
            assert tasks.log == ["start a"]


@in_world(played)
async def test_tasks_end_when_leadership_is_lost_and_start_where_it_went(world: World) -> None:
    first, second = Tasks(), Tasks()
    await world.make()
    terms = LeaderElection("toys", "default", identity="first")
    other = LeaderElection("toys", "default", identity="second")
    asked: list[str] = []

    async def listen(background: Background[Toy]) -> None:
        try:
            await first.listen(background)
        finally:
            background.trigger("too late")  # leads to no run: the workers are stopping

    async def note(ctx: Context[Toy]) -> None:
        asked.extend(cause.note for cause in ctx.causes if cause.note)

    manager = world.manager(Controller(Toy, note, background=listen), leader_election=terms)
    async with beside(world.server.run):
        with pytest.raises(LeadershipLost):
            async with manager:
                await anyio.sleep(10)
                assert first.running["a"] == 1
                thief = LeaseSpec(holder_identity="thief", lease_duration_seconds=15)
                await world.client.modify(Lease, "toys", "default", lambda lease: lease.replace(spec=thief))
                await anyio.sleep(60)
    assert (first.log, asked) == (["start a", "end a"], [])
    async with world.running(Controller(Toy, idle, background=second.listen), leader_election=other):
        await anyio.sleep(60)
        assert second.log == ["start a"]
