"""Under `asyncio.run` nothing tells anyio in a callback which library runs, unless we do."""

import asyncio
import threading
from contextlib import suppress

import anyio
import pytest
import sniffio

from informers import Delta, Informer
from informers.callbacks import callbacks_of_asyncio
from reconcile import Client, ObjectMeta
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.kinds import ConfigMap
from tests.informers.informed import CONFIG_MAPS


@pytest.mark.rule("inv-32")
def test_a_store_is_replayed_by_its_timer_under_asyncio_run() -> None:
    async def replayed() -> list[bool]:
        server = ApiServer()
        await Client(InProcessTransport(server)).create(ConfigMap(metadata=ObjectMeta("a", "default")))
        informer, seen, twice = (
            Informer(InProcessTransport(server), CONFIG_MAPS),
            list[bool](),
            asyncio.Event(),
        )

        def see(delta: Delta) -> None:
            seen.append(delta.resync)
            if sum(seen) == 2:
                twice.set()

        informer.add_handler(see, resync=0.01)
        task = asyncio.create_task(informer.run())
        await asyncio.wait_for(twice.wait(), 10)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        return seen

    assert asyncio.run(replayed())[:3] == [False, True, True]


def library_in_a_callback() -> str | None:
    async def ask() -> str | None:
        answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(lambda: answer.set_result(known()))
        return await answer

    def known() -> str | None:
        try:
            return str(sniffio.current_async_library())
        except sniffio.AsyncLibraryNotFoundError:
            return None

    return asyncio.run(ask())


def test_callbacks_are_known_until_the_last_that_entered_has_left() -> None:
    assert library_in_a_callback() is None
    first, second = callbacks_of_asyncio(), callbacks_of_asyncio()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert library_in_a_callback() == "asyncio"
    second.__exit__(None, None, None)
    assert library_in_a_callback() is None


def test_callbacks_of_other_threads_are_left_alone() -> None:
    found: list[str | None] = []
    with callbacks_of_asyncio():
        thread = threading.Thread(target=lambda: found.append(library_in_a_callback()))
        thread.start()
        thread.join()
    assert found == [None]


def test_another_library_can_run_in_the_thread_afterwards() -> None:
    with callbacks_of_asyncio():
        pass
    anyio.run(anyio.sleep, 0, backend="trio")
