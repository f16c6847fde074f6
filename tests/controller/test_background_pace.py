"""How often the task of an object may ask for a run."""

import anyio
import anyio.to_thread
import pytest

from reconcile import Context, Controller
from reconcile.controller.object_background import Background, PacedTrigger
from reconcile.runs.run_request import Cause
from tests.helpers.managers import Toy, World, played
from tests.helpers.scenarios import in_world

pytestmark = pytest.mark.rule("background")


class Runs:
    """When the reconciler ran, and the notes of what woke it."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.notes: list[str] = []

    async def note(self, ctx: Context[Toy]) -> None:
        self.times.append(anyio.current_time())
        self.notes += [cause.note for cause in ctx.causes if cause.note]


@in_world(played)
async def test_a_task_that_asks_without_end_is_paced(world: World) -> None:
    runs = Runs()

    async def listen(background: Background[Toy]) -> None:
        number = 0
        while True:
            background.trigger(f"change {number}")
            number += 1
            await anyio.sleep(0.01)

    async with world.running(Controller(Toy, runs.note, background=listen)):
        await world.make()
        await anyio.sleep(100)
    assert 100 <= len(runs.times) <= 112
    numbers = [int(note.split()[1]) for note in runs.notes]
    assert numbers == sorted(numbers)
    assert numbers[-1] > 9800  # with the newest cause, not with the one that was first to wait


@in_world(played)
async def test_a_few_changes_at_once_are_not_delayed_and_the_last_one_is_never_lost(world: World) -> None:
    runs = Runs()

    async def listen(background: Background[Toy]) -> None:
        for number in range(30):
            background.trigger(str(number))
            await anyio.sleep(0.02)
        await anyio.sleep_forever()

    async with world.running(Controller(Toy, runs.note, background=listen)):
        await world.make()
        await anyio.sleep(60)
    assert runs.notes[:10] == [str(number) for number in range(10)]
    assert runs.notes[-1] == "29"
    assert runs.times[-1] - runs.times[0] < 3


@in_world(played)
async def test_what_still_waits_is_dropped_with_the_object(world: World) -> None:
    runs = Runs()

    async def listen(background: Background[Toy]) -> None:
        for number in range(12):
            background.trigger(str(number))
        await anyio.sleep_forever()

    async with world.running(Controller(Toy, runs.note, background=listen)):
        toy = await world.make()
        await anyio.sleep(0.5)
        ran = len(runs.times)
        await world.client.delete(toy)
        await anyio.sleep(30)
        assert len(runs.times) == ran


async def test_a_thread_may_ask_and_nothing_is_asked_for_after_the_end() -> None:
    asked: list[Cause] = []
    trigger = PacedTrigger(asked.append)
    cause = Cause("triggered", note="of a thread")
    await anyio.to_thread.run_sync(trigger.ask, cause)
    await anyio.sleep(0.01)
    assert asked == [cause]
    trigger.end()
    trigger.ask(cause)
    assert asked == [cause]
