"""What an add says holds whichever way the key is added, and from whichever thread."""

from collections.abc import Callable
from typing import Any

import anyio.to_thread
import pytest

from tests.workqueue.helpers import take
from workqueue import WorkQueue

pytestmark = pytest.mark.anyio

Add = Callable[..., Any]

WAYS: dict[str, Callable[[WorkQueue[str]], Add]] = {
    "add": lambda queue: queue.add,
    "add_after": lambda queue: lambda key, **said: queue.add_after(key, 0, **said),
    "add_rate_limited": lambda queue: queue.add_rate_limited,
}


class AtOnce:
    """A limiter that limits nothing."""

    def next_delay(self, key: str, now: float) -> float:
        return 0.0

    def retries(self, key: str) -> int:
        return 0

    def forget(self, key: str) -> None:
        """Nothing is known of it."""


@pytest.mark.rule("queue-threads")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("elsewhere", [False, True])
async def test_an_add_sets_priority_cause_and_urgency(way: str, elsewhere: bool) -> None:
    queue: WorkQueue[str] = WorkQueue(limiter=AtOnce(), min_interval=3600)

    async def add(**said: Any) -> None:
        def call() -> None:
            WAYS[way](queue)("a", **said)

        await (anyio.to_thread.run_sync(call) if elsewhere else now(call))

    queue.add("a")
    async with queue.get():
        pass
    await add(priority=7, cause="first")
    assert (queue.status().ready, queue.status().delayed) == (0, 1)
    await add(priority=5, cause="second", urgent=True)
    assert (queue.status().ready, queue.status().delayed) == (1, 0)
    _, item = await take(queue)
    assert (item.priority, item.causes) == (7, ("first", "second"))


async def now(call: Callable[[], None]) -> None:
    call()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("elsewhere", [False, True])
async def test_an_add_without_options_has_priority_0_no_cause_and_no_urgency(
    way: str, elsewhere: bool
) -> None:
    queue: WorkQueue[str] = WorkQueue(limiter=AtOnce(), min_interval=3600)
    queue.add("a")
    async with queue.get() as item:
        assert (item.priority, item.causes) == (0, ())

    def call() -> None:
        WAYS[way](queue)("b")
        WAYS[way](queue)("a")

    await (anyio.to_thread.run_sync(call) if elsewhere else now(call))
    assert (queue.status().depths, queue.status().delayed) == ({0: 1}, 1)
    _, item = await take(queue)
    assert (item.key, item.causes) == ("b", ())
