"""In which order a manager starts and stops, what it refuses, and what its controllers do by default."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import anyio
import pytest

from reconcile import Context, Controller, LeaderElection, Manager, Result
from reconcile.controller.run_result import RunResult
from reconcile.controller.sources import SourceContext
from reconcile.errors import ConfigurationError, StaleVersion, TerminalError
from reconcile.kinds import ConfigMap, Lease
from reconcile.testing import Delay, Fault, FaultPlan, When
from tests.controller.test_sources import Notes
from tests.helpers.managers import Toy, World, idle, keep_size, played
from tests.helpers.scenarios import in_world, simulated


class Diary:
    """What happened, in order."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.seen: list[Any] = []
        self.look: Callable[[], Any] = lambda: None

    def note(self, line: str) -> None:
        """What happens, and how the manager is at that time."""
        self.lines.append(line)
        self.seen.append(self.look())

    async def work(self, ctx: Context[Toy]) -> None:
        self.note("run begins")
        try:
            await anyio.sleep(2)
        finally:
            self.note("run ends")

    async def listen(self, given: Any) -> None:
        self.note("background begins")
        try:
            await anyio.sleep_forever()
        finally:
            self.note("background ends")

    async def source(self, _: SourceContext) -> AsyncIterator[Any]:
        self.note("source begins")
        try:
            await anyio.sleep_forever()
            yield "default/a"
        finally:
            self.note("source ends")


@pytest.mark.rule("start-order", "stop-order")
@pytest.mark.parametrize("seed", range(5))
@in_world(played)
async def test_the_start_order_is_lists_leadership_sources_and_runs_and_the_stop_reverses_it(
    world: World, seed: int
) -> None:
    diary = Diary()
    world.transport.plan = FaultPlan([Fault(When("watch", "*/toys"), Delay(5))])
    world.transport._counts = [0]
    await world.make()
    controller = Controller(Toy, diary.work, background=diary.listen, sources=[diary.source])
    manager = world.manager(controller, leader_election=LeaderElection("toys", "default"))
    diary.look = lambda: (
        manager.status().leading,
        [(informer.synced, informer.state) for informer in manager.status().informers],
    )
    async with manager:
        await anyio.sleep(6)
    assert diary.lines[-3:] == ["run ends", "background ends", "source ends"] or diary.lines[-3:] == [
        "run ends",
        "source ends",
        "background ends",
    ]
    assert set(diary.lines[:3]) == {"source begins", "background begins", "run begins"}
    assert diary.seen == [(True, [(True, "watching")])] * 6
    assert not manager.status().leading
    assert [informer.state for informer in manager.status().informers] == ["stopped"]
    assert (await world.client.get(Lease, "toys", "default")).spec.holder_identity == ""


@pytest.mark.rule("stop-order")
@pytest.mark.parametrize("seed", range(3))
@in_world(played)
async def test_the_lease_is_released_only_after_the_last_run_has_ended_including_cancelled_ones(
    world: World, seed: int
) -> None:
    order: list[str] = []

    async def stubborn(ctx: Context[Toy]) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(4)
            order.append("run ended")

    async def watch(world: World) -> None:
        while True:
            lease = await world.client.find(Lease, "toys", "default")
            if lease is not None and lease.spec.holder_identity == "":
                order.append("released")
                return
            await anyio.sleep(0.05)

    await world.make()
    async with anyio.create_task_group() as group:
        group.start_soon(watch, world)
        async with world.running(
            Controller(Toy, stubborn), leader_election=LeaderElection("toys", "default")
        ):
            await anyio.sleep(5)
        await anyio.sleep(1)
    assert order == ["run ended", "released"]


@pytest.mark.rule("start-once")
@in_world(played)
async def test_a_manager_runs_once(world: World) -> None:
    async with world.running(Controller(Toy, idle)) as manager:
        with pytest.raises(RuntimeError, match="a manager runs once"):
            await manager.run()
    with pytest.raises(RuntimeError, match="a manager runs once"):
        await manager.run()


@pytest.mark.rule("names")
@in_world(played)
async def test_names_are_unique_within_a_manager_but_not_within_a_process(world: World) -> None:
    both = Controller(Toy, keep_size)
    async with world.running(both) as one, world.running(both) as two:
        await world.make(size=4)
        await anyio.sleep(3)
        assert [len(manager.status().controllers) for manager in (one, two)] == [1, 1]
        assert (await world.client.get(Toy, "a", "default")).status.size == 4
    with pytest.raises(ValueError, match="two controllers are named 'toy'"):
        Manager(both, Controller(ConfigMap, idle, name="toy"))


@pytest.mark.rule("names")
@in_world(played)
async def test_one_controller_works_in_two_managers_and_is_triggered_in_each(world: World) -> None:
    notes = Notes()
    controller = Controller(Toy, notes.note)
    await world.make()
    async with world.running(controller) as one, world.running(controller) as other:
        await anyio.sleep(3)
        notes.runs.clear()
        for manager in (one, other):
            manager.trigger(controller, "default/a", "now")
        await anyio.sleep(3)
        assert notes.runs == [("a", "triggered: now")] * 2


@pytest.mark.rule("workers")
@pytest.mark.parametrize(("own", "most"), [(None, 10), (3, 3)])
@in_world(played)
async def test_workers_limit_the_objects_reconciled_at_a_time_and_are_ten_by_default(
    world: World, own: int | None, most: int
) -> None:
    running = 0
    seen = 0

    async def count(ctx: Context[Toy]) -> None:
        nonlocal running, seen
        running += 1
        seen = max(seen, running)
        await anyio.sleep(1)
        running -= 1

    for number in range(25):
        await world.make(f"t{number}")
    async with world.running(Controller(Toy, count, workers=own)):
        await anyio.sleep(12)
    assert seen == most


@in_world(played)
async def test_a_worker_starts_when_a_key_waits_and_no_worker_is_idle(world: World) -> None:
    async def slow(ctx: Context[Toy]) -> None:
        await anyio.sleep(10)

    def workers(manager: Manager) -> int:
        (runner,) = manager._runners
        return 1 + len(runner._started)

    async with world.running(Controller(Toy, slow, workers=3)) as manager:
        await world.make("a")
        await anyio.sleep(1)
        assert workers(manager) == 1
        await world.make("b")
        await anyio.sleep(1)
        assert workers(manager) == 2
        assert manager.status().controllers[0].queue.working == 2
        await anyio.sleep(20)
        await world.make("c")
        await world.make("d")
        await anyio.sleep(1)
        assert workers(manager) == 2
        await world.make("e")
        await world.make("f")
        await anyio.sleep(1)
        assert workers(manager) == 3
        assert manager.status().controllers[0].queue.working == 3


@in_world(played)
async def test_a_key_whose_delay_ends_while_the_first_worker_is_busy_is_reconciled_at_once(
    world: World,
) -> None:
    began: set[str] = set()

    async def work(ctx: Context[Toy]) -> Result:
        name = ctx.object.name
        if name == "long":
            await anyio.sleep(60)
        if name in began:
            return Result()
        began.add(name)
        return Result(requeue_after=5)

    async with world.running(Controller(Toy, work, workers=2)) as manager:
        await world.make("short")
        await anyio.sleep(1)
        await world.make("long")
        await anyio.sleep(10)
        (status,) = manager.status().controllers
        assert (status.runs, status.queue.working, status.queue.delayed) == (2, 1, 0)


@pytest.mark.parametrize("before", [True, False])
@in_world(played)
async def test_a_manager_without_controllers_runs_until_stopped_even_before_its_start(
    world: World, before: bool
) -> None:
    manager = world.manager()
    ended: list[float] = []

    async def run() -> None:
        await manager.run()
        ended.append(anyio.current_time())

    if before:
        manager.stop()
    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await anyio.sleep(3600)
        assert bool(ended) is before
        manager.stop()
        manager.stop()
    manager.stop()
    assert ended == [0.0 if before else 3600.0]


@pytest.mark.rule("timeout")
@in_world(played)
async def test_a_run_may_take_five_minutes_by_default(world: World) -> None:
    async def endless(ctx: Context[Toy]) -> None:
        assert ctx.remaining == pytest.approx(300)
        await anyio.sleep_forever()

    async with world.running(Controller(Toy, endless)) as manager:
        await world.make()
        await anyio.sleep(299)
        assert manager.status().controllers[0].failures == 0
        await anyio.sleep(2)
        assert manager.status().controllers[0].failures == 1


@pytest.mark.rule("inv-11")
@pytest.mark.parametrize(
    ("errors", "terminal"),
    [
        ([TerminalError("a")], True),
        ([TerminalError("a"), TerminalError("b")], True),
        ([TerminalError("a"), ValueError("b")], False),
        ([ValueError("a")], False),
    ],
)
def test_a_group_of_errors_is_terminal_if_each_of_them_is(
    errors: Sequence[Exception], terminal: bool
) -> None:
    group = ExceptionGroup("of a task group", errors)
    assert RunResult(error=group).terminal is terminal
    assert RunResult(error=ExceptionGroup("around it", [group])).terminal is terminal


@in_world(played)
async def test_a_stale_write_within_a_task_group_repeats_the_run_and_is_not_a_failure(world: World) -> None:
    runs = 0

    async def race(ctx: Context[Toy]) -> Result | None:
        nonlocal runs
        runs += 1
        if runs < 3:
            async with anyio.create_task_group():
                raise StaleVersion(409, "Conflict", "somebody was faster")
        return None

    async with world.running(Controller(Toy, race)) as manager:
        await world.make()
        await anyio.sleep(3)
        assert (runs, manager.status().controllers[0].failures) == (3, 0)


@in_world(played)
async def test_a_controller_that_names_an_unknown_cluster_is_refused(world: World) -> None:
    with pytest.raises(ConfigurationError, match="names the cluster east; the manager has: none by name"):
        await Manager(Controller(Toy, idle, clusters=["east"]), transport=world.transport).run()


@pytest.mark.rule("stop-grace")
@pytest.mark.parametrize(("seconds", "ends"), [({}, 30), ({"stop_seconds": 0}, 0), ({"stop_seconds": 7}, 7)])
@in_world(played)
async def test_a_stop_waits_for_runs_for_stop_seconds_and_half_a_minute_by_default(
    world: World, seconds: Any, ends: float
) -> None:
    async def endless(ctx: Context[Toy]) -> None:
        await anyio.sleep_forever()

    await world.make()
    async with world.manager(Controller(Toy, endless), **seconds):
        await anyio.sleep(3)
        begun = anyio.current_time()
    assert -0.001 <= anyio.current_time() - begun - ends < 1


@pytest.mark.rule("start-late-kind")
@pytest.mark.parametrize("seed", range(3))
@simulated
async def test_the_start_waits_for_a_kind_whose_definition_is_installed_late(seed: int) -> None:
    world = World(seed)

    async def install() -> None:
        await anyio.sleep(40)
        await world.define()
        await world.make(size=3)

    async with anyio.create_task_group() as group:
        group.start_soon(install)
        async with world.running(Controller(Toy, keep_size)):
            assert anyio.current_time() >= 40
            await anyio.sleep(3)
            assert (await world.client.get(Toy, "a", "default")).status.size == 3
