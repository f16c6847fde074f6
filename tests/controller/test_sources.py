"""Keys that come from elsewhere: triggers, streams, tickers, iterators."""

import itertools
import threading
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from attrs import evolve
from attrs.exceptions import FrozenInstanceError

from reconcile import Cause, Context, Controller, Key, Manager, ObjectMeta, Request
from reconcile.controller.sources import SYNCED, Source, SourceContext, Synced, ticker
from reconcile.controller.triggers import INITIAL_PRIORITY
from reconcile.runs.run_request import Named
from reconcile.testing import FakeClient
from tests.helpers.managers import Toy, World, played
from tests.helpers.scenarios import in_world


class Notes:
    """What ran, and why."""

    def __init__(self) -> None:
        self.runs: list[tuple[str, str]] = []

    async def note(self, ctx: Context[Toy]) -> None:
        self.runs.append((ctx.object.name, ", ".join(map(str, ctx.causes))))


@in_world(played)
async def test_a_trigger_runs_a_key_with_its_cause(world: World) -> None:
    notes = Notes()
    controller = Controller(Toy, notes.note)
    async with world.running(controller) as manager:
        toy = await world.make()
        await anyio.sleep(2)
        notes.runs.clear()
        for key in (toy, "default/a", Request("default", "a"), Key("default", "a")):
            manager.trigger(controller, key, "a webhook came")
            await anyio.sleep(1)
        manager.trigger("toy", toy, Cause("updated"), priority=3)
        manager.trigger(controller, "default/absent")
        await anyio.sleep(1)
    assert notes.runs == [("a", "triggered: a webhook came")] * 4 + [("a", "updated")]


@pytest.mark.parametrize(
    ("key", "error"),
    [("a", ValueError), ("x/default/a", ValueError), ("default/", ValueError), (7, TypeError)],
)
@in_world(played)
async def test_a_trigger_with_an_invalid_key_is_refused(
    world: World, key: Any, error: type[Exception]
) -> None:
    async with world.running(Controller(Toy, Notes().note)) as manager:
        with pytest.raises(error, match=r"not a key of Toy: expected a namespace|names no object"):
            manager.trigger("toy", key)


@in_world(played)
async def test_a_trigger_is_refused_before_the_start_and_after_the_end_and_for_an_unknown_controller(
    world: World,
) -> None:
    manager = Manager(Controller(Toy, Notes().note), transport=world.transport, clock=world.clock)
    with pytest.raises(RuntimeError, match="does not run"):
        manager.trigger("toy", "default/a")
    async with manager:
        manager.trigger("toy", "default/a")
        with pytest.raises(LookupError, match="no controller 'other' runs here; there are: toy"):
            manager.trigger("other", "default/a")
    with pytest.raises(RuntimeError, match="the manager has ended"):
        manager.trigger("toy", "default/a")


@pytest.mark.rule("names")
@in_world(played)
async def test_an_evolved_controller_derives_its_own_names(world: World) -> None:
    async def clean(ctx: Context[Toy]) -> None:
        """Nothing to undo."""

    notes = Notes()
    first = Controller(Toy, notes.note, cleanup=clean, selector="chosen=yes")
    evolved = evolve(first, name="other", cleanup=None, selector=None)
    assert (evolved.finalizers, evolved.field_manager) == ((), "toys.example.com/other")
    assert (first.finalizers, first.field_manager) == (("toys.example.com/toy",), "toys.example.com/toy")
    assert evolve(evolved, name="", cleanup=clean, selector="chosen=yes") == first
    with pytest.raises(FrozenInstanceError):
        first.cleanup = None  # type: ignore[misc]
    async with world.running(first, evolved) as manager:
        await world.make()
        await anyio.sleep(1)
        manager.trigger(first, "default/a")
        manager.trigger(evolved, "default/a")
        await anyio.sleep(1)
        assert notes.runs[1:] == [("a", "triggered")]
        assert (await world.client.get(Toy, "a", "default")).metadata.finalizers == ()


async def test_a_trigger_from_another_thread_runs_the_key() -> None:
    notes = Notes()
    controller = Controller(Toy, notes.note)
    client = FakeClient(Toy(metadata=ObjectMeta("a", "default")))
    async with Manager(controller, transport=client.transport) as manager:
        threads = [
            threading.Thread(target=manager.trigger, args=(controller, "default/a", f"t{n}"))
            for n in range(8)
        ]
        for thread in threads:
            thread.start()
        with anyio.fail_after(10):
            while len({cause for _, causes in notes.runs for cause in causes.split(", ")}) < 9:
                await anyio.sleep(0.01)
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("seed", range(3))
@in_world(played)
async def test_a_stream_is_a_source_and_its_end_is_not_a_failure(world: World, seed: int) -> None:
    notes = Notes()
    send, receive = anyio.create_memory_object_stream[Named | Synced](10)
    async with world.running(Controller(Toy, notes.note, sources=[receive])):
        await world.make()
        await anyio.sleep(2)
        notes.runs.clear()
        await send.send("default/a")
        await anyio.sleep(1)
        send.close()
        await anyio.sleep(100)
        assert [name for name, _ in notes.runs] == ["a"]
    assert receive.statistics().tasks_waiting_receive == 0
    receive.close()


@in_world(played)
async def test_a_failed_source_is_restarted_with_growing_delays(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    notes = Notes()
    starts: list[float] = []

    async def flaky(_: SourceContext) -> AsyncIterator[Named | Synced]:
        starts.append(anyio.current_time())
        yield "default/a"
        raise OSError("gone")

    await world.make()
    async with world.running(Controller(Toy, notes.note, sources=[flaky])):
        await anyio.sleep(40)
    gaps = [b - a for a, b in itertools.pairwise(starts)]
    assert len(gaps) == 5
    assert all(2**n <= gap <= 2**n * 1.11 for n, gap in enumerate(gaps))
    failures = [vars(r) for r in caplog.records if vars(r)["event"] == "failed; it will be restarted"]
    assert {record["part"] for record in failures} == {"flaky"}
    assert "triggered: flaky" in notes.runs[-1][1]


@in_world(played)
async def test_a_ticker_runs_all_objects_repeatedly(world: World) -> None:
    notes = Notes()
    await world.make("a")
    await world.make("b")
    async with world.running(Controller(Toy, notes.note, sources=[ticker(60)])):
        await anyio.sleep(5)
        notes.runs.clear()
        await anyio.sleep(610)
    assert sorted(notes.runs)[::9] == [("a", "triggered: ticker"), ("b", "triggered: ticker")]


def test_a_ticker_needs_a_positive_interval() -> None:
    with pytest.raises(ValueError, match="seconds above 0"):
        ticker(0)


@in_world(played)
async def test_a_source_that_delays_the_workers_is_named_in_the_log(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    notes = Notes()

    async def silent(_: SourceContext) -> AsyncIterator[Named | Synced]:
        await anyio.sleep(300)
        yield SYNCED

    await world.make()
    async with world.running(Controller(Toy, notes.note, sources=[Source(silent, "slow", initial=True)])):
        await anyio.sleep(200)
        assert notes.runs == []
        await anyio.sleep(200)
        assert len(notes.runs) == 1
    (record,) = [vars(line) for line in caplog.records if "source to yield SYNCED" in line.getMessage()]
    assert record["source"] == "slow"


@pytest.mark.rule("inv-14")
@pytest.mark.parametrize("seed", range(5))
@in_world(played)
async def test_no_key_runs_before_every_source_has_synced_and_its_initial_keys_run_last(
    world: World, seed: int
) -> None:
    runs: list[tuple[float, int]] = []

    async def slow_to_start(_: SourceContext) -> AsyncIterator[Named | Synced]:
        yield "default/b"
        await anyio.sleep(30)
        yield SYNCED
        yield "default/b"
        await anyio.sleep_forever()

    await world.make("a")
    await world.make("b")
    begun = anyio.current_time()

    async def note(ctx: Context[Toy]) -> None:
        (run,) = running._runners[0].history.running()
        runs.append((anyio.current_time() - begun, run.priority))

    source = Source(slow_to_start, "slow", initial=True)
    async with world.running(Controller(Toy, note, sources=[source], workers=1)) as running:
        await anyio.sleep(20)
        assert runs == []
        await anyio.sleep(20)
    assert all(at >= 30 for at, _ in runs)
    assert {priority for _, priority in runs} <= {0, INITIAL_PRIORITY}
    assert runs[-1][1] == INITIAL_PRIORITY
