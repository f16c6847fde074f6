"""Whoever holds the event loop is named, while it happens."""

import asyncio
import time

import anyio
import pytest

from informers import get_logger
from reconcile import Context, Controller, Manager, ObjectMeta
from reconcile.testing import FakeClient
from reconcile.watchdog import Stall, Watchdog, log_stall
from tests.reconcile.test_manager import Toy


def hold(seconds: float) -> None:
    time.sleep(seconds)


async def test_what_holds_the_loop_is_told_once_with_file_line_and_key_and_what_does_not_is_not() -> None:
    stalls: list[Stall] = []
    watchdog = Watchdog(stalls.append, key_of=lambda task: task.get_name(), limit=0.1)
    with watchdog.watching():
        for _ in range(5):
            hold(0.02)
            await anyio.sleep(0.03)
        assert stalls == []
        await asyncio.create_task(held(0.5), name="default/a")
        await anyio.sleep(0.2)
    (stall,) = stalls
    assert stall.key == "default/a"
    assert "test_watchdog.py:" in stall.place
    assert stall.place.endswith("in hold: time.sleep(seconds)")
    assert 0.1 < stall.seconds < 0.5


async def held(seconds: float) -> None:
    hold(seconds)


async def test_each_stall_is_told_and_the_thread_ends_with_the_watch() -> None:
    stalls: list[Stall] = []
    with Watchdog(stalls.append, limit=0.1).watching():
        for _ in range(2):
            hold(0.3)
            await anyio.sleep(0.1)
    assert len(stalls) == 2
    hold(0.3)
    await anyio.sleep(0.1)
    assert len(stalls) == 2


def test_a_stall_in_the_log_says_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    log_stall(get_logger("t"))(Stall(0.25, "a.py:3 in f: x()", "default/a"))
    (record,) = caplog.records
    assert record.getMessage() == "the event loop is held: blocking code belongs into ctx.run_sync"
    said = vars(record)
    assert (said["seconds"], said["place"], said["key"]) == (0.25, "a.py:3 in f: x()", "default/a")


async def test_a_manager_names_the_run_that_holds_the_loop(caplog: pytest.LogCaptureFixture) -> None:
    ran: list[str] = []

    async def rude(ctx: Context[Toy]) -> None:
        hold(0.5)
        ran.append(ctx.object.name)

    client = FakeClient(Toy(metadata=ObjectMeta("a", "default")))
    async with Manager(Controller(Toy, rude), transport=client.transport):
        with anyio.fail_after(10):
            while not ran:
                await anyio.sleep(0.01)
    (said,) = [vars(r) for r in caplog.records if r.getMessage().startswith("the event loop is held")]
    assert said["key"] == "toy default/a"
    assert said["place"].endswith("in hold: time.sleep(seconds)")
