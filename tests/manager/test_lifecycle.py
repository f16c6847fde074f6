"""A manager as a program, as a context of an application, and as a fixture; what its errors say, once."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from reconcile import Context, Controller, Manager
from reconcile.embedded import InProcessTransport
from reconcile.errors import Unreachable
from tests.helpers.managers import Toy, World, idle, keep_size, played
from tests.helpers.scenarios import in_world

ROOT = Path(__file__).parents[2]

FIXTURES = """
import asyncio
import {fixtures} as fixtures
import pytest
import pytest_asyncio

from reconcile import Context, Controller, Manager, ObjectMeta
from reconcile.kinds import ConfigMap
from reconcile.testing import FakeClient

{mark}

async def mark(ctx: Context[ConfigMap]) -> None:
    async with ctx.client.editing(ctx.object) as draft:
        draft.data["seen"] = "yes"


async def run_manager():
    before = asyncio.all_tasks()
    client = FakeClient(ConfigMap(metadata=ObjectMeta("a", "default")))
    async with Manager(Controller(ConfigMap, mark), transport=client.transport) as manager:
        yield client
    assert not [task for task in asyncio.all_tasks() - before if task is not asyncio.current_task()]


each = fixtures.fixture(run_manager)
shared = pytest_asyncio.fixture(run_manager, scope="module", loop_scope="module")


async def until_seen(client):
    async with asyncio.timeout(10):
        while (await client.get(ConfigMap, "a", "default")).data.get("seen") != "yes":
            await asyncio.sleep(0.01)


async def test_one(each):
    await until_seen(each)


async def test_two(each):
    await until_seen(each)

@pytest.mark.asyncio(loop_scope="module")
async def test_three(shared):
    await until_seen(shared)

@pytest.mark.asyncio(loop_scope="module")
async def test_four(shared):
    await until_seen(shared)
"""

MODES = {
    "strict": {"fixtures": "pytest_asyncio", "mark": "pytestmark = pytest.mark.asyncio"},
    "auto": {"fixtures": "pytest", "mark": ""},
}


@pytest.mark.rule("life-context")
@pytest.mark.parametrize("mode", MODES)
def test_a_manager_is_a_yield_fixture_in_both_modes_of_pytest_asyncio(mode: str, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(FIXTURES.format(**MODES[mode]))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"]
    command += [f"--asyncio-mode={mode}", "-o", "asyncio_default_fixture_loop_scope=function"]
    command += ["--rootdir", str(tmp_path), str(tmp_path)]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert "4 passed" in done.stdout, done.stdout + done.stderr
    assert "warning" not in done.stdout


# --- as a context ---------------------------------------------------------------------------------


@pytest.mark.rule("life-context")
@in_world(played)
async def test_a_cancelled_start_leaves_no_task(world: World) -> None:
    before = asyncio.all_tasks()

    class Silent(InProcessTransport):
        def stream(self, *_: Any, **__: Any) -> Any:
            raise Unreachable("nobody there")

    manager = Manager(Controller(Toy, keep_size), transport=Silent(world.server), clock=world.clock)
    with anyio.move_on_after(5) as scope:
        async with manager:
            raise AssertionError("started")
    assert scope.cancelled_caught
    await anyio.sleep(0.1)
    assert asyncio.all_tasks() == before


@pytest.mark.rule("life-context")
@in_world(played)
async def test_a_cancellation_during_the_stop_makes_it_immediate_and_leaves_no_task(world: World) -> None:
    ended: list[str] = []

    async def endless(ctx: Context[Toy]) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(ctx.object.name)

    before = asyncio.all_tasks()
    await world.make()

    async def application() -> None:
        async with world.manager(Controller(Toy, endless), stop_seconds=1000):
            await anyio.sleep(3)

    task = asyncio.ensure_future(application())
    await anyio.sleep(10)
    assert ended == []
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["a"]
    assert anyio.current_time() < 15
    assert asyncio.all_tasks() == before


# --- errors ---------------------------------------------------------------------------------------


def broken(manager: Manager, *controllers: str) -> None:
    """Let the workers of some controllers fail as only a fault of the library can."""

    def fail(*_: Any) -> None:
        raise ZeroDivisionError("a fault of the library")

    for runner in manager._runners:
        if runner.controller.name in controllers:
            runner._follow_up = SimpleNamespace(after=fail)  # type: ignore[assignment]


@pytest.mark.rule("M2")
@pytest.mark.parametrize("how", ["run", "context"])
@in_world(played)
async def test_an_error_is_raised_once_with_a_note_on_its_origin(
    world: World, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = asyncio.all_tasks()
    manager = world.manager(Controller(Toy, idle))
    provoking: asyncio.Future[None] | None = None
    with pytest.raises(ZeroDivisionError) as caught:
        if how == "context":
            async with manager:
                broken(manager, "toy")
                await world.make()
                await anyio.sleep(5)
        else:

            async def provoke() -> None:
                await anyio.sleep(2)
                broken(manager, "toy")
                await world.make()

            provoking = asyncio.ensure_future(provoke())
            await manager.run()
    assert provoking is None or provoking.done()
    assert caught.value.__notes__ == ["in controller toy"]
    (line,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert (vars(line)["event"], line.exc_info[1]) == ("the manager has ended", caught.value)  # type: ignore[index]
    await anyio.sleep(0.1)
    assert asyncio.all_tasks() == before


@pytest.mark.rule("M2")
@in_world(played)
async def test_of_two_errors_one_is_raised_and_the_other_logged(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    both = [Controller(Toy, idle, name="first"), Controller(Toy, idle, name="second")]
    manager = world.manager(*both)
    with pytest.raises(ZeroDivisionError):
        async with manager:
            broken(manager, "first", "second")
            await world.make()
            await anyio.sleep(5)
    places = {"in controller first", "in controller second"}
    logged = [str(record.exc_info[1].__notes__[0]) for record in caplog.records if record.exc_info]  # type: ignore[union-attr]
    assert set(logged) == places
    assert len(logged) == 2


@pytest.mark.rule("M2")
@in_world(played)
async def test_an_error_of_the_application_is_the_context_of_one_of_the_manager(world: World) -> None:
    manager = world.manager(Controller(Toy, idle))
    with pytest.raises(ZeroDivisionError) as caught:
        async with manager:
            broken(manager, "toy")
            await world.make()
            await anyio.sleep(5)
            raise LookupError("of the application")
    assert isinstance(caught.value.__context__, LookupError)


# --- as a program ---------------------------------------------------------------------------------


def started(text: str, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    program = folder / "program.py"
    program.write_text(text)
    # A fork of a process with threads is deprecated, and what one test is about.
    command = [sys.executable, "-W", "ignore::DeprecationWarning", str(program), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def first_line(running: subprocess.Popen[str]) -> str:
    assert running.stdout is not None
    return running.stdout.readline()


PROGRAM = """
import sys
import time

from reconcile import Context, Controller, Manager, ObjectMeta
from reconcile.kinds import ConfigMap
from reconcile.testing import FakeClient


async def slow(ctx: Context[ConfigMap]) -> None:
    print("begun", flush=True)
    await ctx.run_sync(time.sleep, float(sys.argv[1]))
    print("ended", flush=True)


client = FakeClient(ConfigMap(metadata=ObjectMeta("a", "default")))
Manager(Controller(ConfigMap, slow), transport=client.transport, environ={}).main()
print("clean", flush=True)
"""


@pytest.mark.rule("life-signals")
@pytest.mark.parametrize(
    ("seconds", "signals", "said", "status"),
    [
        ("0.3", [signal.SIGTERM], "begun\nended\nclean\n", 0),
        ("0.3", [signal.SIGINT], "begun\nended\nclean\n", 0),
        ("60", [signal.SIGTERM, signal.SIGINT], "begun\n", 130),
    ],
)
def test_the_first_signal_stops_cleanly_and_a_second_one_at_once(
    seconds: str, signals: list[signal.Signals], said: str, status: int, tmp_path: Path
) -> None:
    running = started(PROGRAM, tmp_path, seconds)
    begun = first_line(running)
    for number in signals:
        running.send_signal(number)
        time.sleep(0.2)
    rest, _ = running.communicate(timeout=20)
    assert (begun + rest, running.returncode) == (said, status)


HELD = """
import sys
import time

from reconcile import Context, Controller, Manager, ObjectMeta
from reconcile.kinds import ConfigMap
from reconcile.testing import FakeClient


async def hold(ctx: Context[ConfigMap]) -> None:
    print("begun", flush=True)
    if sys.argv[1] == "asleep":
        time.sleep(60)
    while True:
        pass


client = FakeClient(ConfigMap(metadata=ObjectMeta("a", "default")))
Manager(Controller(ConfigMap, hold), transport=client.transport, environ={}).main()
"""


@pytest.mark.rule("life-signals")
@pytest.mark.parametrize("held", ["asleep", "busy"])
def test_a_second_signal_ends_the_process_even_while_the_event_loop_is_blocked(
    held: str, tmp_path: Path
) -> None:
    running = started(HELD, tmp_path, held)
    assert first_line(running) == "begun\n"
    for number in (signal.SIGTERM, signal.SIGINT):
        running.send_signal(number)
        time.sleep(0.3)
    running.communicate(timeout=10)
    assert running.returncode == 130


FORKING = """
import multiprocessing
import time

from reconcile import Context, Controller, Manager, ObjectMeta
from reconcile.kinds import ConfigMap
from reconcile.testing import FakeClient


def child() -> None:
    time.sleep(60)


async def fork(ctx: Context[ConfigMap]) -> None:
    started = multiprocessing.get_context("fork").Process(target=child)
    started.start()
    time.sleep(0.3)
    started.terminate()
    started.join(10)
    print("child", started.exitcode, flush=True)


client = FakeClient(ConfigMap(metadata=ObjectMeta("a", "default")))
Manager(Controller(ConfigMap, fork), transport=client.transport, environ={}).main()
print("clean", flush=True)
"""


@pytest.mark.rule("life-signals")
def test_a_signal_to_a_forked_child_ends_only_the_child(tmp_path: Path) -> None:
    running = started(FORKING, tmp_path)
    assert first_line(running) == "child -15\n"
    time.sleep(0.5)
    assert running.poll() is None
    running.send_signal(signal.SIGINT)
    rest, _ = running.communicate(timeout=10)
    assert (rest, running.returncode) == ("clean\n", 0)
