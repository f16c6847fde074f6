"""The page embed-in-an-application: a manager beside a web server, which ends with it."""

import asyncio
import signal
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from aiohttp import web

from reconcile import Manager
from reconcile.errors import Interrupted
from reconcile.testing import FakeClient
from tests.docs.blocks import run

PAGE = "docs/how-to/embed-in-an-application.md"


class FastAPI:
    """As much of FastAPI as a lifespan needs: it is no dependency of ours."""

    def __init__(self, lifespan: Any) -> None:
        self.lifespan, self.state = lifespan, SimpleNamespace()


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    fastapi: Any = ModuleType("fastapi")
    fastapi.FastAPI = FastAPI
    monkeypatch.setitem(sys.modules, "fastapi", fastapi)
    names = run(PAGE)
    controllers = names["make_manager"]().controllers
    transport = FakeClient().transport
    names["make_manager"] = lambda: Manager(*controllers, transport=transport, environ={})
    return names


@pytest.fixture
def signals(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    sent: list[int] = []
    monkeypatch.setattr(signal, "raise_signal", sent.append)
    return sent


def kill() -> None:
    next(task for task in asyncio.all_tasks() if task.get_name() == "informer of configmaps").cancel()


async def until(sent: list[int]) -> None:
    async with asyncio.timeout(10):
        while not sent:
            await asyncio.sleep(0.01)


@pytest.mark.rule("life-wait")
@pytest.mark.parametrize("dies", [False, True])
async def test_a_fastapi_application_ends_with_its_manager(
    page: dict[str, Any], signals: list[int], dies: bool
) -> None:
    app = page["app"]

    async def serve() -> None:
        async with app.lifespan(app):
            assert app.state.manager.status().informers[0].synced
            if dies:
                kill()
                await until(signals)

    if dies:
        with pytest.raises(Interrupted):
            await serve()
    else:
        await serve()
    assert signals == [signal.SIGTERM] * dies


@pytest.mark.rule("life-wait")
@pytest.mark.parametrize("dies", [False, True])
async def test_an_aiohttp_application_ends_with_its_manager(
    page: dict[str, Any], signals: list[int], dies: bool
) -> None:
    runner = web.AppRunner(page["make_app"]())
    await runner.setup()
    assert runner.app[page["MANAGER"]].status().informers[0].synced
    if not dies:
        await runner.cleanup()
        assert signals == []
        return
    kill()
    await until(signals)
    with pytest.raises(Interrupted):
        await runner.cleanup()
    assert signals == [signal.SIGTERM]


@pytest.mark.rule("life-wait")
def test_a_manager_under_asyncio_run_is_stopped_from_a_callback(page: dict[str, Any]) -> None:
    """As by `loop.add_signal_handler(SIGTERM, manager.stop)`. A callback has no task."""

    async def stopped() -> None:
        manager = page["make_manager"]()
        async with asyncio.timeout(10), manager:
            asyncio.get_running_loop().call_soon(manager.stop)
            await manager.wait()

    asyncio.run(stopped())
