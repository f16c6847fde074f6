"""Calls of the functions of authors in threads."""

import asyncio
import gc
import threading
import weakref
from collections.abc import Iterator
from threading import Thread
from typing import NoReturn

import anyio
import pytest

from reconcile.webhooks.call_threads import Busy, CallThreads


@pytest.fixture
def threads() -> Iterator[CallThreads]:
    threads = CallThreads(1)
    yield threads
    threads.end()


async def test_a_thread_that_cannot_be_started_leaves_no_call_behind(
    threads: CallThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread(thread: Thread) -> NoReturn:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as full:
        full.setattr(Thread, "start", no_thread)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            await threads.call(lambda: 1)
    assert await threads.call(lambda: 2) == 2


class Body:
    def read(self) -> int:
        return 3


async def test_an_idle_thread_keeps_nothing_of_its_last_call(threads: CallThreads) -> None:
    gc.disable()
    try:
        body = Body()
        kept = weakref.ref(body)
        assert await threads.call(body.read) == 3
        del body
        with anyio.fail_after(5):
            while kept() is not None:
                await anyio.sleep(0.001)
    finally:
        gc.enable()


async def test_a_call_that_is_cancelled_counts_until_its_function_returns(threads: CallThreads) -> None:
    release = threading.Event()
    with anyio.move_on_after(0.01):
        await threads.call(release.wait)
    with pytest.raises(Busy):
        await threads.call(lambda: 1)
    release.set()
    with anyio.fail_after(5):
        while True:
            try:
                assert await threads.call(lambda: 1) == 1
                return
            except Busy:
                await anyio.sleep(0.001)


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), GeneratorExit()]
)
async def test_what_would_end_an_event_loop_is_an_ordinary_error(error: BaseException) -> None:
    threads = CallThreads(1)

    def leave() -> None:
        raise error

    with pytest.raises(RuntimeError, match=f"the function raised {type(error).__name__}"):
        await threads.call(leave)
    assert await threads.call(lambda: 7) == 7
    threads.end()
