"""Blocking code: `ctx.run_sync`, and reconcilers that are plain functions."""

import asyncio
import functools
import threading
import time
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from informers import get_logger
from reconcile import (
    Client,
    Context,
    Controller,
    Intent,
    Manager,
    ObjectMeta,
    RawClient,
    Result,
    SyncClient,
    SyncContext,
    SyncRawClient,
)
from reconcile.controller.blocking import InStep, Threads
from reconcile.errors import AlreadyExists, NotFound, RunEnded, TerminalError
from reconcile.kinds import ConfigMap
from reconcile.testing import FakeClient, RealWorldError, run_once, simulate
from tests.helpers.managers import Toy, ToySpec, World, played
from tests.helpers.scenarios import in_world, simulated

LOG = get_logger("t")


def config(name: str = "", **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name, "default"), data=data)


def keep_plainly(ctx: SyncContext[Toy]) -> Result | None:
    """Uses one of each kind of what a plain reconciler has."""
    child = ctx.apply(Intent(config, "child", size=str(ctx.object.spec.size)))
    with pytest.raises(AlreadyExists):
        ctx.create(config("child"))
    assert [found.name for found in ctx.owned(ConfigMap)] == ["child"]
    ctx.status(size=int(child.data["size"]))
    ctx.condition("Ready", True, reason="Done")
    ctx.event("Kept", "all is well")
    assert 0 < ctx.remaining <= 300
    assert ctx.attempt == 0
    return Result(requeue_after=60)


@in_world(played)
async def test_a_plain_function_is_a_reconciler_in_virtual_time_too(world: World) -> None:
    async with world.running(Controller(Toy, keep_plainly, owns=[ConfigMap])) as manager:
        await world.make(size=4)
        await anyio.sleep(5)
        assert (await world.client.get(Toy, "a", "default")).status.size == 4
        status = manager.status().controllers[0]
        assert (status.failures, status.queue.delayed) == (0, 1)


async def test_a_plain_function_works_in_run_once_and_its_writes_are_reported() -> None:
    client = FakeClient(Toy(metadata=ObjectMeta("a", "default"), spec=ToySpec(size=3)))
    done = await run_once(Controller(Toy, keep_plainly, owns=[ConfigMap]), "a", client)
    assert (done.error, done.result) == (None, Result(requeue_after=60))
    assert done.writes == [
        "apply configmaps default/child",
        "create configmaps default/child",
        "patch toys/status default/a",
    ]
    assert done.events == ["Normal Kept: all is well"]


async def test_a_plain_function_runs_in_a_thread_and_the_loop_goes_on() -> None:
    where: list[bool] = []
    ticks = 0

    def slow(ctx: SyncContext[Toy]) -> None:
        where.append(threading.current_thread() is threading.main_thread())
        time.sleep(0.3)
        ctx.status(size=7)

    client = FakeClient(Toy(metadata=ObjectMeta("a", "default")))
    async with Manager(Controller(Toy, slow), transport=client.transport):
        with anyio.fail_after(10):
            while (await client.get(Toy, "a", "default")).status.size != 7:
                await anyio.sleep(0.01)
                ticks += 1
    assert where[0] is False
    assert ticks > 5


@simulated
async def test_the_blocking_client_does_the_same_as_the_client() -> None:
    def everything(client: SyncClient) -> None:
        made = client.create(config("one", a="1"))
        assert client.get(ConfigMap, "one", "default").uid == made.uid
        assert client.find(ConfigMap, "none", "default") is None
        with pytest.raises(NotFound):
            client.get(ConfigMap, "none", "default")
        client.apply(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "two"}, "data": {"b": "2"}}
        )
        assert {found.name for found in client.list(ConfigMap, "default")} == {"one", "two"}
        assert [len(page) for page in client.pages(ConfigMap, "default", size=1)] == [1, 1]
        changed = client.modify(ConfigMap, "one", "default", lambda found: found.replace(data={"a": "3"}))
        with client.editing(changed) as draft:
            draft.data["c"] = "4"
        assert client.get(ConfigMap, "one", "default").data == {"a": "3", "c": "4"}
        with pytest.raises(ZeroDivisionError), client.editing(changed) as draft:
            draft.data["c"] = str(1 // 0)
        assert client.raw.merge(changed, {}) is changed
        client.with_options(dry_run=True).delete(changed)
        client.raw.update(client.get(ConfigMap, "one", "default").replace(data={}))
        assert (
            client.raw.unstructured({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}).name
            == "p"
        )
        client.delete(client.get(ConfigMap, "one", "default"))
        assert client.raw.delete_all(ConfigMap, "default") == 1

    client = FakeClient()
    view = client.with_options(namespace="default")
    await InStep().call_with_loop(lambda ask: everything(SyncClient(view, ask)), LOG)


@pytest.mark.parametrize(
    ("source", "face", "without"),
    [
        (Client, SyncClient, {"watch"}),
        (RawClient, SyncRawClient, set()),
        (Context, SyncContext, {"run_sync"}),
    ],
)
def test_a_blocking_class_has_every_public_name_of_its_source(
    source: type, face: type, without: set[str]
) -> None:
    names = {name for name in dir(source) if not name.startswith("_")}
    assert names - without == {name for name in dir(face) if not name.startswith("_")} - {"waiting"}


def wrapped(ctx: SyncContext[Toy]) -> Any:
    return keep_async(ctx)


async def keep_async(ctx: Any) -> None:
    """Never awaited."""


class Keeper:
    async def __call__(self, ctx: Context[Toy]) -> None:
        ctx.status(size=9)


@pytest.mark.parametrize(
    "function", [Keeper(), functools.partial(Keeper.__call__, Keeper()), Keeper().__call__]
)
async def test_other_forms_of_coroutine_functions_are_recognised(function: Any) -> None:
    client = FakeClient(Toy(metadata=ObjectMeta("a", "default")))
    assert (await run_once(Controller(Toy, function), "a", client)).error is None
    assert (await client.get(Toy, "a", "default")).status.size == 9


async def test_a_plain_function_that_returns_a_coroutine_is_reported_and_not_retried() -> None:
    client = FakeClient(Toy(metadata=ObjectMeta("a", "default")))
    done = await run_once(Controller(Toy, wrapped), "a", client)
    assert isinstance(done.error, TerminalError)
    assert "wrapped is a plain function that returns something to await: use `async def`" in str(done.error)
    assert not done.retry


@pytest.mark.parametrize("option", ["on_deleted", "background"])
def test_functions_that_run_in_the_event_loop_must_be_async(option: str) -> None:
    plain: Any = {option: lambda given: None}
    with pytest.raises(TypeError, match=f"{option}= is an `async def`"):
        Controller(Toy, keep_plainly, **plain)


@in_world(played)
async def test_cleanup_may_be_a_plain_function(world: World) -> None:
    left: list[str] = []

    def clean(ctx: SyncContext[Toy]) -> None:
        left.extend(child.name for child in ctx.owned(ConfigMap))

    async with world.running(Controller(Toy, keep_plainly, cleanup=clean, owns=[ConfigMap])):
        toy = await world.make()
        await anyio.sleep(5)
        await world.client.delete(toy)
        await anyio.sleep(5)
        assert await world.client.find(Toy, "a", "default") is None
    assert left == ["child"]


# --- threads cannot be ended ----------------------------------------------------------------------


async def wait_until(reached: Callable[[], bool]) -> None:
    with anyio.fail_after(10):
        while not reached():
            await anyio.sleep(0.01)


async def test_an_overdue_thread_holds_its_key_until_it_returns_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    release = threading.Event()
    after: list[str] = []

    def stuck(ctx: SyncContext[Toy]) -> None:
        release.wait(10)
        try:
            ctx.client.find(ConfigMap, "x", "default")
        except RunEnded:
            after.append("over")
            raise

    client = FakeClient(Toy(metadata=ObjectMeta("a", "default")))
    async with Manager(Controller(Toy, stuck, timeout=0.2), transport=client.transport) as manager:
        await wait_until(lambda: "blocking code is still running" in caplog.text)
        (run,) = manager.runs("toy").running()
        assert str(run.request) == "default/a"
        assert manager.status().controllers[0].failures == 0
        release.set()
        await wait_until(lambda: manager.status().controllers[0].failures > 0)
        (_, (past, *_)), *_ = manager.runs("toy").recent()
        assert past.error == "ReconcileTimeout: took longer than 0.2 s"
        assert after[0] == "over"


async def test_stopping_waits_for_threads_beyond_its_deadline_and_logs_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    release, ended = threading.Event(), threading.Event()

    async def stuck(ctx: Context[Toy]) -> None:
        await ctx.run_sync(release.wait, 10)
        ended.set()

    client = FakeClient(Toy(metadata=ObjectMeta("a", "default")))
    timer = threading.Timer(0.5, release.set)
    async with Manager(Controller(Toy, stuck), transport=client.transport, stop_seconds=0.1) as manager:
        await wait_until(lambda: bool(list(manager.runs("toy").running())))
        timer.start()
    assert release.is_set()
    assert not ended.is_set()
    assert "blocking code is still running" in caplog.text
    timer.join()


async def test_no_more_threads_run_at_a_time_than_allowed_and_the_others_wait() -> None:
    running, most = 0, 0
    lock = threading.Lock()

    def count() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.02)
        with lock:
            running -= 1

    threads = Threads(3)
    async with anyio.create_task_group() as group:
        for _ in range(12):
            group.start_soon(threads.call, count, LOG)
    assert most == 3


async def test_a_call_that_waits_for_a_thread_is_cancelled_at_once(caplog: pytest.LogCaptureFixture) -> None:
    threads, release = Threads(1), threading.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(threads.call, lambda: release.wait(10), LOG)
        await anyio.sleep(0.05)
        with anyio.move_on_after(0.05) as scope:
            await threads.call(lambda: None, LOG)
        assert scope.cancelled_caught
        assert caplog.text == ""
        release.set()


async def test_an_error_in_blocking_code_is_raised_unchanged() -> None:
    def fail() -> None:
        raise ZeroDivisionError("in a thread")

    for blocking in (Threads(1), InStep()):
        with pytest.raises(ZeroDivisionError, match="in a thread"):
            await blocking.call(fail, LOG)
        with pytest.raises(ZeroDivisionError, match="in a thread"):
            await blocking.call_with_loop(lambda ask: fail(), LOG)


@simulated
async def test_in_step_a_timed_out_run_ends_the_requests_of_its_code() -> None:
    seen: list[str] = []

    def ask_twice(ask: Any) -> None:
        for _ in range(2):
            try:
                ask(lambda: anyio.sleep(100))
            except RunEnded:
                seen.append(f"over at {now():g}")

    now = asyncio.get_running_loop().time
    with anyio.move_on_after(5) as scope:
        await InStep().call_with_loop(ask_twice, LOG)
    assert scope.cancelled_caught
    assert seen == ["over at 5"] * 2


def test_the_test_kit_refuses_to_start_other_threads() -> None:
    async def run() -> None:
        await InStep().call_with_loop(lambda ask: None, LOG)
        threading.Thread(target=print).start()

    with pytest.raises(RealWorldError, match="starting a thread"):
        simulate(run)


@pytest.mark.parametrize("seed", range(3))
def test_plain_functions_in_virtual_time_are_deterministic_for_a_seed(seed: int) -> None:
    def story() -> list[str]:
        told: list[str] = []

        def act(ctx: SyncContext[Toy]) -> None:
            told.append(ctx.object.name)
            ctx.client.list(ConfigMap, "default", live=True)
            told.append(ctx.object.name)

        async def scenario(world: World) -> None:
            async with world.running(Controller(Toy, act, owns=[ConfigMap])):
                for name in "abcdef":
                    await world.make(name)
                await anyio.sleep(5)

        played(scenario, seed)
        return told

    first = story()
    assert first == story()
    assert first != sorted(first)
