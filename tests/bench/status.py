"""The status page of a manager with 20,000 objects, in a headless Chromium: how soon it shows them.

The manager and its embedded API server are one process, the browser is another. Times are in milliseconds of
the wall clock: from the navigation on, and from a write to the API server until its run is painted. Without a
Chromium there are no figures.
"""

import asyncio
import logging
import multiprocessing
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

import anyio
from attrs import frozen

from reconcile import Client, Context, Controller, Manager, Object, ObjectMeta, resource
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.errors import TerminalError
from reconcile.models import definition_of
from tests.bench._harness import Figures
from tests.helpers.browsers import HOW_TO_INSTALL, Tab, browser_program, launched, opened_tab
from tests.status.page_at_scale import OBJECTS, opened

CHANGES = 10
_SPAWN = multiprocessing.get_context("spawn")


@frozen
class LampSpec:
    watts: int = 1


@frozen
class LampStatus:
    watts: int = 0


@resource("lamps.example.com/v1")
class Lamp(Object):
    spec: LampSpec = LampSpec()
    status: LampStatus = LampStatus()


runs = 0


async def light(ctx: Context[Lamp]) -> None:
    """A lamp of 2 watts fails for good, and so comes first on the page."""
    global runs
    runs += 1
    if ctx.object.spec.watts == 2:
        raise TerminalError("just now")
    ctx.status(watts=ctx.object.spec.watts)


def _manage(calls: Connection) -> None:
    logging.disable()
    anyio.run(_managing, calls)


async def _managing(calls: Connection) -> None:
    server = ApiServer()
    client = Client(InProcessTransport(server))
    await client.apply(definition_of(Lamp))
    for number in range(OBJECTS):
        await client.create(Lamp(metadata=_named(number)))
    controller = Controller(Lamp, light)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.run)
        transport = InProcessTransport(server)
        async with Manager(
            controller, transport=transport, environ={}, serve="127.0.0.1:0", client_qps=0
        ) as manager:
            while runs < OBJECTS or not manager.address:
                await asyncio.sleep(0.1)
            await asyncio.sleep(2)
            calls.send(manager.address)
            while (change := await asyncio.to_thread(calls.recv)) is not None:
                number, watts = change
                calls.send(time.time() * 1000)
                await client.raw.merge(Lamp(metadata=_named(number)), {"spec": {"watts": watts}}, guard={})
        tasks.cancel_scope.cancel()


def _named(number: int) -> ObjectMeta:
    return ObjectMeta(f"lamp-{number:05}", "default")


async def figures() -> Figures:
    program = browser_program()
    if program is None:
        print(HOW_TO_INSTALL, file=sys.stderr)
        return {}
    here, there = _SPAWN.Pipe()
    process = _SPAWN.Process(target=_manage, args=(there,), daemon=True)
    process.start()
    there.close()  # so that its end is noticed here
    try:
        address = await asyncio.to_thread(here.recv)
        with tempfile.TemporaryDirectory() as profile, launched(program, Path(profile)) as browser:
            async with opened_tab(browser) as tab:
                return await _measured(tab, address, here)
    finally:
        process.kill()


async def _measured(tab: Tab, address: str, calls: Connection) -> Figures:
    await opened(tab, f"http://{address}/")
    times = await tab.evaluate("times")
    took = []
    for number in range(CHANGES):
        await asyncio.sleep(1)  # with more than three changes a second some wait
        await tab.evaluate("times.change = 0")
        calls.send((number, 2))
        sent = await asyncio.to_thread(calls.recv)
        took.append(await tab.until("window.times.change") - sent)
        calls.send((number, 1))
        await asyncio.to_thread(calls.recv)
        await tab.until("!document.querySelector('.row').textContent.includes('just now')")
    took.sort()
    return {
        "status.first_rows_ms": times["rows"],
        "status.all_rows_ms": times["all"],
        "status.change_p50_ms": took[len(took) // 2],
        "status.change_most_ms": took[-1],
    }
