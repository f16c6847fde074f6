"""Waiting for the next change."""

import anyio

from informers.broadcast import Broadcast


async def test_every_waiting_task_wakes_and_later_ones_wait_for_the_following_change() -> None:
    changes, woken = Broadcast(), list[str]()

    async def wait(name: str) -> None:
        await changes.wait()
        woken.append(name)

    async with anyio.create_task_group() as group:
        changes.notify()  # no task waits yet, so this one is for nothing
        group.start_soon(wait, "a")
        group.start_soon(wait, "b")
        await anyio.wait_all_tasks_blocked()
        assert woken == []
        changes.notify()
        await anyio.wait_all_tasks_blocked()
        assert sorted(woken) == ["a", "b"]
        group.start_soon(wait, "c")
        await anyio.wait_all_tasks_blocked()
        assert len(woken) == 2
        changes.notify()
    assert woken[2:] == ["c"]


async def test_a_condition_is_checked_at_once_and_at_each_change() -> None:
    changes, asked = Broadcast(), list[int]()

    def third_time() -> bool:
        asked.append(len(asked))
        return len(asked) == 3

    async with anyio.create_task_group() as group:
        group.start_soon(changes.wait_until, third_time)
        for expected in (1, 2, 3, 3):
            await anyio.wait_all_tasks_blocked()
            assert len(asked) == expected
            changes.notify()
