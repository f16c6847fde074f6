"""Whoever holds the event loop is named, while it happens."""

import asyncio
import logging
import sys
import sysconfig
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from informers import get_logger
from reconcile import Context, Controller, LeaderElection, Manager, ObjectMeta, Result
from reconcile.errors import LeadershipLost, NotLeading
from reconcile.kinds import ConfigMap
from reconcile.ops.watchdog import DEAD_SECONDS, LoopStall, Watchdog, log_stall, place_of
from reconcile.testing import FakeClient, VirtualTimeLoop
from tests.helpers.managers import Toy, World, keep_size, played
from tests.helpers.scenarios import in_world

ROOT = Path(__file__).parents[2]
SITE = f"{sysconfig.get_path('purelib')}/"
STANDARD = f"{sysconfig.get_path('stdlib')}/"


def hold(seconds: float) -> None:
    time.sleep(seconds)


async def test_a_stall_is_reported_once_with_file_line_and_key() -> None:
    stalls: list[LoopStall] = []
    with Watchdog(stalls.append, key_of=lambda task: task.get_name(), limit=0.1).watching():
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


async def test_each_stall_is_reported_and_the_thread_ends_with_the_watch() -> None:
    stalls: list[LoopStall] = []
    with Watchdog(stalls.append, limit=0.1).watching():
        for _ in range(2):
            hold(0.3)
            await anyio.sleep(0.1)
    assert len(stalls) == 2
    hold(0.3)
    await anyio.sleep(0.1)
    assert len(stalls) == 2


def test_the_log_line_of_a_stall_has_a_remedy(caplog: pytest.LogCaptureFixture) -> None:
    log_stall(get_logger("t"))(LoopStall(0.25, "a.py:3 in f: x()", "default/a"))
    (record,) = caplog.records
    assert vars(record)["event"] == "the event loop is blocked: blocking code belongs in ctx.run_sync"
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
    (said,) = [vars(r) for r in caplog.records if r.getMessage().startswith("the event loop is blocked")]
    assert said["key"] == "toy default/a"
    assert said["place"].endswith("in hold: time.sleep(seconds)")


# --- whose code it is -----------------------------------------------------------------------------


def test_the_work_of_the_library_is_not_blamed_on_the_author(caplog: pytest.LogCaptureFixture) -> None:
    report = log_stall(get_logger("t"))
    with caplog.at_level(logging.DEBUG):
        report(LoopStall(0.25, "engine.py:3 in f: x()", "", by_library=True))
        report(LoopStall(0.25, "site.py:3 in f: await ctx.apply()", "default/a", by_library=True))
    assert [(one.levelname, "ctx.run_sync" in one.getMessage()) for one in caplog.records] == [
        ("DEBUG", False),
        ("INFO", False),
    ]


@pytest.mark.parametrize(
    ("frames", "place", "by_library"),
    [
        (["reconcile/controller/runner.py", "/home/me/site.py"], "/home/me/site.py", False),
        (
            ["reconcile/controller/runner.py", "/home/me/site.py", SITE + "requests/api.py"],
            "/home/me/site.py",
            False,
        ),
        (
            ["reconcile/controller/runner.py", "/home/me/site.py", "reconcile/client/client.py"],
            "/home/me/site.py",
            True,
        ),
        (["reconcile/embedded/server.py", STANDARD + "json/decoder.py"], STANDARD + "json/decoder.py", True),
        (["reconcile/commands/dev_command.py", "/home/me/site.py"], "/home/me/site.py", True),
        ([SITE + "aiohttp/web.py"], SITE + "aiohttp/web.py", True),
        (
            ["reconcile/controller/runner.py", SITE + "mine/a.py", SITE + "requests/api.py"],
            SITE + "mine/a.py",
            False,
        ),
        (["reconcile/controller/runner.py", "controllers/nodes/plan.py"], "controllers/nodes/plan.py", False),
    ],
)
def test_the_stack_below_the_event_loop_shows_whose_code_blocks_it(
    frames: list[str], place: str, by_library: bool
) -> None:
    bottom = ["/home/me/operator.py", str(Path(asyncio.__file__).parent / "events.py")]
    told = place_of(stack_of([*bottom, *frames]))
    assert told[0].startswith(f"{absolute(place)}:1 in ")
    assert told[1] is by_library


def test_a_frame_whose_line_is_not_known_is_told_by_the_first_line_of_its_function() -> None:
    frame: Any = SimpleNamespace(f_code=stack_of.__code__, f_lineno=None, f_back=None)
    assert place_of(frame)[0].startswith(
        f"{__file__}:{stack_of.__code__.co_firstlineno} in stack_of: def stack_of"
    )


def stack_of(files: list[str]) -> Any:
    """Frames of functions in those files, the innermost last; `_run` is that of the event loop's file."""
    inner: Any = None

    def deepest() -> None:
        nonlocal inner
        inner = sys._getframe().f_back

    call: Any = deepest
    for file in reversed(files):
        name = "_run" if "asyncio" in file else "work"
        names: dict[str, Any] = {"call": call}
        exec(compile(f"def {name}(): call()", absolute(file), "exec"), names)
        call = names[name]
    call()
    return inner


def absolute(file: str) -> str:
    return file if file.startswith("/") else str(ROOT / file)


# --- liveness -------------------------------------------------------------------------------------


async def test_another_thread_can_read_how_long_a_loop_has_been_blocked() -> None:
    watchdog = Watchdog(lambda stall: None, limit=0.1)
    assert watchdog.held == 0  # nothing is watched yet
    said: list[float] = []

    def ask() -> None:
        time.sleep(0.4)
        said.append(watchdog.held)

    with watchdog.watching():
        asking = threading.Thread(target=ask)
        asking.start()
        hold(0.7)
        await anyio.sleep(0.05)
        assert watchdog.held < 0.1
    asking.join()
    assert DEAD_SECONDS == 30
    assert 0.3 < said[0] < 0.7


def page(address: str, path: str, seconds: float = 5) -> tuple[int, str]:
    """A page, asked for from a thread with a client that needs no event loop; 0 is no answer."""
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=seconds) as answer:
            return answer.status, str(answer.read().decode())
    except urllib.error.HTTPError as error:
        return error.code, str(error.read().decode())
    except (TimeoutError, urllib.error.URLError):
        return 0, "no answer"


@pytest.mark.rule("M3")
async def test_health_is_answered_while_the_loop_is_held_and_fails_after_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("reconcile.ops.watchdog.DEAD_SECONDS", 1.5)
    monkeypatch.setattr("reconcile.ops.page_routes.HEALTH_SECONDS", 0.1)
    monkeypatch.setattr("reconcile.ops.page_routes.BEGIN_SECONDS", 0.2)
    answers: list[tuple[int, str]] = []

    def ask() -> None:
        answers.append(page(manager.address, "/healthz", 1))
        answers.append(page(manager.address, "/readyz", 1))
        answers.append(page(manager.address, "/metrics", 1))
        time.sleep(1.5)
        answers.append(page(manager.address, "/healthz?verbose", 1))
        answers.append(page(manager.address, "/readyz", 1))
        answers.append(page(manager.address, "/healthz/event-loop", 1))

    async def rude(ctx: Context[Toy]) -> None:
        if ctx.object.name == "rude":
            asking = threading.Thread(target=ask)
            asking.start()
            while asking.is_alive():
                hold(0.05)

    client = FakeClient(Toy(metadata=ObjectMeta("a", "default")))
    manager = Manager(Controller(Toy, rude), transport=client.transport, serve="127.0.0.1:0")
    async with manager:
        assert await anyio.to_thread.run_sync(page, manager.address, "/readyz") == (200, "ok")
        await client.create(Toy(metadata=ObjectMeta("rude", "default")))
        with anyio.fail_after(20):
            while len(answers) < 6:
                await anyio.sleep(0.01)
        held = (503, "the manager's event loop is blocked or overloaded\n")
        assert answers[:3] == [(200, "ok"), (200, "ok"), held]
        assert answers[3] == (
            500,
            "[+]ping ok\n[-]event-loop failed: reason withheld\nhealthz check failed\n",
        )
        assert answers[4] == (500, "[+]ping ok\n[-]event-loop failed: reason withheld\nreadyz check failed\n")
        assert answers[5][0] == 500
        status, text = await anyio.to_thread.run_sync(page, manager.address, "/healthz?verbose")
        assert (status, "[+]event-loop ok" in text) == (200, True)


async def test_an_action_refused_while_the_loop_was_blocked_is_not_executed_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("reconcile.ops.page_routes.BEGIN_SECONDS", 0.1)
    answers: list[int] = []
    runs: list[str] = []

    def trigger() -> None:
        url = f"http://{manager.address}/debug/trigger?kind=Toy&key=default/a"
        request = urllib.request.Request(url, method="POST", headers={"X-Reconcile": "1"})
        try:
            answers.append(urllib.request.urlopen(request, timeout=5).status)
        except urllib.error.HTTPError as error:
            answers.append(error.code)

    async def rude(ctx: Context[Toy]) -> None:
        runs.append(ctx.object.name)
        if not answers:
            asking = threading.Thread(target=trigger)
            asking.start()
            while asking.is_alive():
                hold(0.05)

    client = FakeClient(Toy(metadata=ObjectMeta("a", "default")))
    manager = Manager(Controller(Toy, rude, name="toys"), transport=client.transport, serve="127.0.0.1:0")
    async with manager:
        with anyio.fail_after(20):
            while not answers:
                await anyio.sleep(0.01)
        await anyio.sleep(0.3)
        assert (answers, runs) == ([503], ["a"])
        await anyio.to_thread.run_sync(trigger)
        with anyio.fail_after(5):
            while len(runs) < 2:
                await anyio.sleep(0.01)
        assert answers == [503, 200]


# --- a leader whose loop is held ------------------------------------------------------------------


@pytest.mark.rule("L6")
async def test_a_leader_whose_loop_was_held_for_longer_than_its_lease_writes_nothing_and_stops() -> None:
    refused: list[str] = []

    async def rude(ctx: Context[Toy]) -> None:
        hold(1.3)
        try:
            await ctx.client.create(ConfigMap(metadata=ObjectMeta("late", "default")))
        except NotLeading as error:
            refused.append(str(error))
            raise

    client = FakeClient(Toy(metadata=ObjectMeta("a", "default")))
    client.serve(ConfigMap)
    election = LeaderElection("toys", "default")
    manager = Manager(
        Controller(Toy, rude),
        transport=client.transport,
        leader_election=election,
        lease_seconds=1.2,
        renew_seconds=1.0,
        retry_seconds=0.2,
    )
    with pytest.raises(LeadershipLost), anyio.fail_after(20):
        await manager.run()
    assert refused
    assert await client.find(ConfigMap, "late", "default") is None


@pytest.mark.rule("L6")
@pytest.mark.parametrize("seed", range(5))
@in_world(played)
async def test_after_a_blocked_loop_outlives_its_lease_another_leads_and_it_has_written_nothing(
    world: World, seed: int
) -> None:
    refused: list[float] = []

    async def rude(ctx: Context[Toy]) -> Result:
        loop = asyncio.get_running_loop()
        if ctx.object.name == "hold" and not refused:
            assert isinstance(loop, VirtualTimeLoop)
            loop.hold(20)
            try:
                await ctx.client.create(ConfigMap(metadata=ObjectMeta("late", "default")))
            except NotLeading:
                refused.append(loop.time())
                raise
        return Result(requeue_after=1)

    elections = [LeaderElection("toys", "default", identity=name) for name in ("first", "second")]
    old = world.manager(Controller(Toy, rude, writes=[ConfigMap]), leader_election=elections[0])
    lost: list[BaseException] = []

    async def run_old() -> None:
        try:
            await old.run()
        except LeadershipLost as error:
            lost.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(run_old)
        await anyio.sleep(5)
        async with world.running(Controller(Toy, keep_size), leader_election=elections[1]) as new:
            await anyio.sleep(5)
            assert (old.status().leading, new.status().leading) == (True, False)
            await world.make("hold", size=3)
            await anyio.sleep(30)
            assert refused
            assert lost
            assert new.status().leading
            assert (await world.client.get(Toy, "hold", "default")).status.size == 3
    assert await world.client.find(ConfigMap, "late", "default") is None
