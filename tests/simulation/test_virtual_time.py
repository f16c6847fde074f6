"""The virtual-time loop: time, order, determinism, and what it refuses."""

import asyncio
import gc
import itertools
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from types import FunctionType

import anyio
import anyio.to_thread
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.testing import RealWorldError
from reconcile.testing.virtual_clock import VirtualClock
from reconcile.testing.virtual_time import (
    DeadlockError,
    LivelockError,
    TimeLimitError,
    VirtualTimeLoop,
    simulate,
)
from tests.helpers.scenarios import simulated

SEEDS = st.integers(0, 2**32)


def test_a_thousand_virtual_hours_pass_in_a_moment() -> None:
    async def wait() -> float:
        for _ in range(1000):
            await anyio.sleep(3600)
        return anyio.current_time()

    began = time.perf_counter()
    assert simulate(wait, limit_seconds=4e6) == 3_600_000
    assert time.perf_counter() - began < 2


def test_the_result_and_the_error_of_the_function_are_passed_on() -> None:
    async def double(value: int) -> int:
        return value * 2

    async def fail() -> None:
        raise KeyError("lost")

    assert simulate(double, 21) == 42
    with pytest.raises(KeyError, match="lost"):
        simulate(fail)


@given(SEEDS, st.lists(st.floats(0, 1e9), min_size=1, max_size=20))
def test_timers_fire_exactly_on_time_and_in_order(seed: int, delays: list[float]) -> None:
    fired: list[tuple[float, float]] = []

    async def sleep(delay: float) -> None:
        await anyio.sleep(delay)
        fired.append((delay, anyio.current_time()))

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            for delay in delays:
                tasks.start_soon(sleep, delay)

    simulate(main, seed=seed, limit_seconds=2e9)
    assert [moment for _, moment in fired] == sorted(delays)
    assert all(delay == moment for delay, moment in fired)


@given(SEEDS, st.floats(0, 1e8), st.floats(1e-3, 1e8))
def test_fail_after_fires_exactly_on_time(seed: int, start: float, limit: float) -> None:
    async def main() -> None:
        await anyio.sleep(start)
        deadline = anyio.current_time() + limit
        with pytest.raises(TimeoutError), anyio.fail_after(limit):
            await anyio.sleep_forever()
        assert anyio.current_time() == deadline

    simulate(main, seed=seed, limit_seconds=1e9)


async def test_pytest_asyncio_runs_tests_under_it() -> None:
    assert isinstance(asyncio.get_running_loop(), VirtualTimeLoop)
    await anyio.sleep(3600)


def order_of_five_tasks(seed: int) -> tuple[int, ...]:
    order: list[int] = []

    async def step(name: int) -> None:
        order.append(name)

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            for name in range(5):
                tasks.start_soon(step, name)

    simulate(main, seed=seed)
    return tuple(order)


def test_the_seed_chooses_which_ready_task_runs_first() -> None:
    orders = {order_of_five_tasks(seed) for seed in range(50)}
    assert len(orders) > 30
    assert all(sorted(order) == [0, 1, 2, 3, 4] for order in orders)
    assert order_of_five_tasks(7) == order_of_five_tasks(7)


@given(SEEDS)
@simulated
async def test_callbacks_other_than_task_steps_stay_first_in_first_out(seed: int) -> None:
    called: list[int] = []

    loop = asyncio.get_running_loop()
    async with anyio.create_task_group() as tasks:
        for name in range(10):
            loop.call_soon(called.append, name)
            tasks.start_soon(anyio.lowlevel.checkpoint)
    assert called == list(range(10))


@given(SEEDS)
@simulated
async def test_every_ready_task_steps_before_any_steps_twice(seed: int) -> None:
    steps: list[int] = []

    async def work(name: int) -> None:
        for _ in range(4):
            steps.append(name)
            await asyncio.sleep(0)

    async with anyio.create_task_group() as tasks:
        for name in range(5):
            tasks.start_soon(work, name)
    rounds = [steps[at : at + 5] for at in range(0, 20, 5)]
    assert all(sorted(names) == [0, 1, 2, 3, 4] for names in rounds)


@given(SEEDS)
@simulated
async def test_locks_events_and_streams_hold_under_every_order(seed: int) -> None:
    received: list[int] = []
    inside = 0

    async def critical(lock: asyncio.Lock | anyio.Lock) -> None:
        nonlocal inside
        async with lock:
            inside += 1
            assert inside == 1
            await anyio.sleep(0.1)
            inside -= 1

    async def send(stream: anyio.abc.ObjectSendStream[int], opened: anyio.Event) -> None:
        await opened.wait()
        async with stream:
            for item in range(10):
                await stream.send(item)

    async def receive(stream: anyio.abc.ObjectReceiveStream[int]) -> None:
        async with stream:
            async for item in stream:
                received.append(item)

    lock: asyncio.Lock | anyio.Lock
    for lock in (asyncio.Lock(), anyio.Lock()):
        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(critical, lock)
    opened = anyio.Event()
    sender, receiver = anyio.create_memory_object_stream[int](1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send, sender, opened)
        tasks.start_soon(receive, receiver)
        opened.set()
    assert received == list(range(10))


@given(SEEDS)
@simulated
async def test_cancelling_a_group_reaches_every_task_and_nested_scopes_keep_their_shield(seed: int) -> None:
    ended: list[str] = []

    async def work(name: str) -> None:
        try:
            with anyio.CancelScope(shield=name == "shielded"):
                await anyio.sleep(5)
            await anyio.sleep(5)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(1)
            ended.append(f"{name} at {anyio.current_time():g}")

    async with anyio.create_task_group() as tasks:
        for name in ("a", "shielded", "b"):
            tasks.start_soon(work, name)
        await anyio.sleep(2)
        tasks.cancel_scope.cancel()
    assert sorted(ended) == ["a at 3", "b at 3", "shielded at 6"]


def trace_in_another_process(seed: int, hash_seed: str) -> str:
    here = Path(__file__).resolve()
    return subprocess.run(
        [sys.executable, here.with_name("schedule_program.py"), str(seed)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(here.parents[2])},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_the_same_seed_is_the_same_schedule_in_every_process() -> None:
    first, second = (trace_in_another_process(5, hash_seed) for hash_seed in ("0", "4242"))
    assert first == second
    assert len(first.splitlines()) == 33
    assert trace_in_another_process(6, "0") != first


async def use_executor() -> None:
    await asyncio.to_thread(print)


async def use_anyio_thread() -> None:
    await anyio.to_thread.run_sync(print)


async def use_thread() -> None:
    threading.Thread(target=print).start()


async def use_connection() -> None:
    await asyncio.open_connection("127.0.0.1", 1)


async def use_server() -> None:
    await asyncio.start_server(print, "127.0.0.1", 0)


async def use_process() -> None:
    await asyncio.create_subprocess_exec("true")


async def use_blocking_process() -> None:
    subprocess.run(["true"], check=True)  # noqa: ASYNC221


async def use_blocking_socket() -> None:
    with socket.socket() as sock:
        sock.connect(("127.0.0.1", 1))


async def use_blocking_sleep() -> None:
    time.sleep(0.001)  # noqa: ASYNC251


async def use_name_lookup() -> None:
    await asyncio.get_running_loop().getaddrinfo("localhost", 80)


@pytest.mark.parametrize(
    "reach",
    [
        use_executor, use_anyio_thread, use_thread, use_connection, use_server,
        use_process, use_blocking_process, use_blocking_socket, use_blocking_sleep, use_name_lookup,
    ],
)  # fmt: skip
def test_real_world_access_is_refused_with_its_source_line(reach: FunctionType) -> None:
    with pytest.raises(RealWorldError) as caught:
        simulate(reach)
    filename, line = caught.value.place.rsplit(":", 1)
    assert filename == __file__
    assert line in {str(at) for _, _, at in reach.__code__.co_lines()}
    assert caught.value.place in str(caught.value)


def test_a_library_that_connects_in_a_separate_task_is_refused_too() -> None:
    with pytest.raises(RealWorldError, match=r"create_connection\(\) under virtual time, at .*anyio"):
        simulate(anyio.connect_tcp, "127.0.0.1", 1)


def test_real_world_access_ends_the_run_even_if_the_error_is_caught() -> None:
    async def main() -> None:
        try:
            await asyncio.to_thread(print)
        except Exception:
            await anyio.sleep(1)

    with pytest.raises(RealWorldError, match=r"run_in_executor\(\) under virtual time"):
        simulate(main)


def test_another_thread_may_not_schedule_callbacks() -> None:
    errors: list[Exception] = []
    go, gone = threading.Event(), threading.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    def intrude() -> None:
        go.wait(5)
        try:
            loops[0].call_soon_threadsafe(print)
        except RealWorldError as error:
            errors.append(error)
        gone.set()

    async def main() -> None:
        loops.append(asyncio.get_running_loop())
        go.set()
        gone.wait(5)

    thread = threading.Thread(target=intrude)
    thread.start()
    with pytest.raises(RealWorldError, match="a call from another thread"):
        simulate(main)
    thread.join()
    assert len(errors) == 1


def test_outside_a_simulation_real_world_access_is_allowed() -> None:
    simulate(anyio.sleep, 1)
    assert asyncio.run(asyncio.to_thread(lambda: 42)) == 42


async def wait_for_nobody(event: anyio.Event) -> None:
    await event.wait()


def test_a_deadlock_names_every_task_and_where_it_waits() -> None:
    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait_for_nobody, anyio.Event(), name="lonely")
            await anyio.sleep(7)

    with pytest.raises(DeadlockError) as caught:
        simulate(main, seed=3)
    text = str(caught.value)
    assert "(seed 3, time 7)" in text
    line = wait_for_nobody.__code__.co_firstlineno + 1
    assert f"lonely: {__file__}:{line} in wait_for_nobody: await event.wait()" in text
    assert "in main: async with anyio.create_task_group() as tasks:" in text


def test_the_time_limit_lists_waiting_tasks_and_lets_them_clean_up() -> None:
    cleaned: list[float] = []

    async def main() -> None:
        try:
            for _ in itertools.count():
                await anyio.sleep(10)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(1)
            cleaned.append(anyio.current_time())

    with pytest.raises(TimeLimitError, match=r"95 virtual seconds have passed(.|\n)*await anyio.sleep\(10\)"):
        simulate(main, limit_seconds=95)
    assert cleaned == [91]


def test_tasks_that_only_keep_each_other_busy_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconcile.testing.virtual_time.TICKS_AT_ONE_TIME", 1000)

    async def main() -> None:
        for _ in itertools.count():
            await asyncio.sleep(0)

    with pytest.raises(LivelockError, match="1000 rounds ran and no time passed"):
        simulate(main)


def test_a_deadlocked_simulation_leaves_no_task_behind() -> None:
    ended: list[str] = []

    async def main() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("main")

    with pytest.raises(DeadlockError):
        simulate(main)
    assert ended == ["main"]


def test_the_clock_of_a_simulation_is_that_of_its_loop() -> None:
    clock = VirtualClock()

    async def main() -> float:
        await anyio.sleep(90)
        return (clock.now() - clock.start).total_seconds()

    assert simulate(main) == 90


def test_garbage_collection_while_tasks_are_being_scheduled_is_harmless() -> None:
    async def numbers() -> AsyncGenerator[int, None]:
        yield 1

    async def take_turns() -> None:
        for _ in range(400):
            await asyncio.sleep(0)

    async def leave_behind() -> None:
        for allocations in range(1, 200):
            abandoned = numbers()
            await anext(abandoned)
            cycle: list[object] = [abandoned]
            cycle.append(cycle)
            del abandoned, cycle
            gc.set_threshold(allocations, 1, 1)
            await asyncio.sleep(0)
            gc.set_threshold(100_000)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(take_turns)
            group.start_soon(leave_behind)

    usual = gc.get_threshold()
    try:
        simulate(main)
    finally:
        gc.set_threshold(*usual)
