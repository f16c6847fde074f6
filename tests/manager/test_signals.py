"""Signals that come at any moment act in the event loop, as if its own task had asked."""

import asyncio
import os
import signal

import anyio
import pytest

from reconcile.manager.signals import handling, in_loop, on_signal


@pytest.mark.rule("life-signals")
async def test_a_signal_callback_runs_in_the_loop_and_in_the_context_of_its_handler() -> None:
    times: list[float] = []
    ended = anyio.Event()

    def act() -> None:
        times.append(anyio.current_time())  # raises outside of a context with an event loop
        ended.set()

    soon = in_loop()
    with handling(lambda: soon(act), signal.SIGUSR2):
        # Between two callbacks of the loop, where no task runs.
        asyncio.get_running_loop().call_later(0.05, os.kill, os.getpid(), signal.SIGUSR2)
        with anyio.fail_after(5):
            await ended.wait()
    assert times


@pytest.mark.rule("life-signals")
async def test_the_first_signal_stops_in_the_context_of_its_handler_s_creator() -> None:
    ended = anyio.Event()

    def stop() -> None:
        assert anyio.current_time()
        ended.set()

    with on_signal(stop):
        asyncio.get_running_loop().call_later(0.05, os.kill, os.getpid(), signal.SIGTERM)
        with anyio.fail_after(5):
            await ended.wait()
