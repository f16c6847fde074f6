"""A manager outlives what its reconcilers and other tasks do, and says so where it does not."""

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from reconcile import Context, Controller, Manager, ObjectMeta, Request
from reconcile.errors import Interrupted
from reconcile.kinds import ConfigMap
from reconcile.testing import FakeClient, run_once
from tests.helpers.managers import Toy, World, idle, keep_size, played
from tests.helpers.scenarios import in_world

# --- ways to be cancelled that nothing asked for -----------------------------------------------------


async def cancelled_elsewhere(ctx: Context[Any]) -> None:
    task = asyncio.ensure_future(asyncio.sleep(60))
    asyncio.get_running_loop().call_later(0.5, task.cancel)
    await task


async def gathered(ctx: Context[Any]) -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    future.cancel()
    await asyncio.gather(future)


async def raised(ctx: Context[Any]) -> None:
    raise asyncio.CancelledError("as grpc does")


async def raised_in_a_group(ctx: Context[Any]) -> None:
    raise BaseExceptionGroup("of a library", [asyncio.CancelledError(), ValueError("no")])


async def cancels_itself(ctx: Context[Any]) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await anyio.sleep(1)


async def exits(ctx: Context[Any]) -> None:
    sys.exit(3)


async def exits_in_a_thread(ctx: Context[Any]) -> None:
    await ctx.run_sync(sys.exit, 3)


def exits_as_a_plain_function(ctx: Any) -> None:
    sys.exit(3)


def raises_as_a_plain_function(ctx: Any) -> None:
    raise asyncio.CancelledError


WAYS: list[Callable[[Any], Any]] = [
    cancelled_elsewhere,
    gathered,
    raised,
    raised_in_a_group,
    cancels_itself,
    exits,
    exits_in_a_thread,
    exits_as_a_plain_function,
    raises_as_a_plain_function,
]


@pytest.mark.rule("survival-run")
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("workers", [1, 3])
@in_world(played)
async def test_a_run_cancelled_by_foreign_code_is_a_failed_run_of_its_key(
    world: World, way: Callable[[Any], Any], workers: int, caplog: pytest.LogCaptureFixture
) -> None:
    failing = Controller(Toy, way, workers=workers, name="failing")

    await world.make("a", size=1)
    await world.make("b", size=2)
    async with world.running(failing, Controller(Toy, keep_size)) as manager:
        await anyio.sleep(20)
        failed, kept = manager.status().controllers
        assert failed.failures >= 4
        assert (kept.failures, kept.queue.working) == (0, 0)
        assert (await world.client.get(Toy, "b", "default")).status.size == 2
        assert all(task.cancelling() == 0 for task in asyncio.all_tasks())
    errors = [vars(record)["error"] for record in caplog.records if vars(record)["event"] == "failed"]
    assert all(error.startswith("Interrupted: ") for error in errors), errors
    if way is not cancels_itself:
        assert all(way.__name__ in error for error in errors)


@pytest.mark.rule("survival-run")
@in_world(played)
async def test_a_run_that_cancels_its_own_task_and_returns_succeeds_and_harms_no_later_run(
    world: World,
) -> None:
    async def rude(ctx: Context[Toy]) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    for number in range(5):
        await world.make(f"t{number}")
    async with world.running(Controller(Toy, rude, workers=1)) as manager:
        await anyio.sleep(5)
        (status,) = manager.status().controllers
        assert (status.runs, status.failures, status.queue.ready) == (5, 0, 0)


@pytest.mark.rule("survival-run")
@in_world(played)
async def test_a_worker_cancelled_by_foreign_code_while_waiting_continues(world: World) -> None:
    tasks: list[asyncio.Task[Any]] = []

    async def note(ctx: Context[Toy]) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.append(task)

    async with world.running(Controller(Toy, note, workers=1)) as manager:
        await world.make("a")
        await anyio.sleep(2)
        tasks[0].cancel()
        await anyio.sleep(1)
        await world.make("b")
        await anyio.sleep(2)
        (status,) = manager.status().controllers
        assert (status.runs, status.failures) == (2, 0)


@pytest.mark.rule("survival-run")
@in_world(played)
async def test_the_status_of_a_cancelled_run_is_written_too(world: World) -> None:
    async def say_and_break(ctx: Context[Toy]) -> None:
        ctx.status(size=7)
        raise asyncio.CancelledError

    await world.make()
    async with world.running(Controller(Toy, say_and_break)):
        await anyio.sleep(2)
        assert (await world.client.get(Toy, "a", "default")).status.size == 7


@pytest.mark.rule("survival-run")
async def test_a_cancellation_around_run_once_is_not_attributed_to_the_run() -> None:
    toy = ConfigMap(metadata=ObjectMeta("a", "default"))
    done = await run_once(Controller(ConfigMap, raised), toy, FakeClient(toy))
    assert isinstance(done.error, Interrupted)
    assert "raised CancelledError" in str(done.error)

    async def endless(ctx: Context[ConfigMap]) -> None:
        await anyio.sleep_forever()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await run_once(Controller(ConfigMap, endless), toy, FakeClient(toy))
    with anyio.move_on_after(0.05) as scope:
        await run_once(Controller(ConfigMap, endless), toy, FakeClient(toy))
    assert scope.cancelled_caught


@in_world(played)
async def test_the_deadline_of_a_run_is_still_a_timeout_after_the_run_cancelled_itself(world: World) -> None:
    errors: list[str] = []

    async def first_this_then_that(ctx: Context[Toy]) -> None:
        if ctx.attempt == 0:
            raise asyncio.CancelledError
        try:
            await anyio.sleep_forever()
        finally:
            if ctx.attempt == 2:
                raise asyncio.CancelledError  # on its way out; the deadline is what ended it

    await world.make()
    async with world.running(Controller(Toy, first_this_then_that, timeout=2)) as manager:
        await anyio.sleep(5)
        errors.extend(run.error for run in manager.runs("toy").past(Request("default", "a")))
    assert [error.partition(":")[0] for error in errors] == [
        "Interrupted",
        "ReconcileTimeout",
        "ReconcileTimeout",
    ]


# --- the manager's own end ---------------------------------------------------------------------------


def _task_named(part: str) -> asyncio.Task[Any]:
    return next(task for task in asyncio.all_tasks() if part in repr(task))


async def _started(world: World, manager: Manager) -> None:
    while not manager._started.is_set():
        await anyio.sleep(0.1)


@pytest.mark.rule("survival-end")
@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("informer of configmaps", "the informer of configmaps was cancelled, and nothing had asked"),
        ("_run_part", "one of the manager's tasks was cancelled, and nothing had asked it to end"),
    ],
)
@in_world(played)
async def test_a_manager_whose_task_is_cancelled_by_foreign_code_ends_with_a_clear_error(
    world: World, part: str, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    controller = Controller(ConfigMap, idle)
    manager = Manager(controller, transport=world.transport, clock=world.clock, namespaces=["a", "b"])
    running = asyncio.ensure_future(manager.run())
    await _started(world, manager)
    _task_named(part).cancel()
    with pytest.raises(Interrupted, match=message):
        await running
    with pytest.raises(Interrupted, match=message):
        await manager.wait()
    (line,) = [record for record in caplog.records if vars(record)["event"] == "the manager has ended"]
    assert line.levelname == "ERROR"
    assert line.exc_info


@pytest.mark.rule("survival-end")
@pytest.mark.parametrize("how", ["stop", "scope", "task"])
def test_a_requested_stop_is_not_an_error(how: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(world: World) -> None:
        manager = Manager(Controller(Toy, keep_size), transport=world.transport, clock=world.clock)
        task = asyncio.ensure_future(manager.run())
        waiting = asyncio.ensure_future(manager.wait())
        await _started(world, manager)
        await world.make()
        await anyio.sleep(1)
        assert not waiting.done()
        if how == "stop":
            manager.stop()
            await task
        else:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await waiting
        await manager.wait()

    async def in_a_scope(world: World) -> None:
        manager = Manager(Controller(Toy, keep_size), transport=world.transport, clock=world.clock)
        with anyio.move_on_after(3) as scope:
            await manager.run()
        assert scope.cancelled_caught
        await manager.wait()

    played(in_a_scope if how == "scope" else scenario)
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


@pytest.mark.rule("survival-end")
async def test_the_end_of_the_event_loop_is_not_a_failure_of_its_runs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def endless(ctx: Context[Any]) -> None:
        await anyio.sleep_forever()

    client = FakeClient(ConfigMap(metadata=ObjectMeta("a", "default")))
    before = asyncio.all_tasks()
    manager = Manager(Controller(ConfigMap, endless), transport=client.transport)
    await manager.__aenter__()
    await anyio.sleep(0.05)
    ours = asyncio.all_tasks() - before
    for task in ours:  # as asyncio.run does at its end
        task.cancel()
    ends = await asyncio.gather(*ours, return_exceptions=True)
    assert [end for end in ends if isinstance(end, Exception)] == []
    assert [record.getMessage() for record in caplog.records if record.levelno > 20] == []
    await manager.wait()


# --- an application around it ------------------------------------------------------------------------


@pytest.mark.rule("life-wait")
async def test_wait_raises_when_the_manager_dies_inside_its_context() -> None:
    client = FakeClient(ConfigMap(metadata=ObjectMeta("a", "default")))
    manager = Manager(Controller(ConfigMap, raised), transport=client.transport)
    with pytest.raises(Interrupted):
        async with manager:
            waiting = asyncio.ensure_future(manager.wait())
            _task_named("informer of configmaps").cancel()
            with pytest.raises(Interrupted):
                await asyncio.wait_for(waiting, 5)


@pytest.mark.rule("life-wait")
async def test_wait_raises_when_the_manager_cannot_start() -> None:
    manager = Manager(
        Controller(ConfigMap, raised), transport=FakeClient().transport, environ={"RECONCILE_NO_SUCH": "1"}
    )
    waiting = asyncio.ensure_future(manager.wait())
    with pytest.raises(Exception, match="NO_SUCH"):
        await manager.run()
    with pytest.raises(Exception, match="NO_SUCH"):
        await waiting
