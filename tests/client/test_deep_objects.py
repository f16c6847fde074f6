"""An object that is nested too deeply, and diagnostics that fail: at most the runs of one object do."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from informers import StreamingResponse
from informers.transport import HttpRequest, PassingTransport
from reconcile import Context, Controller, ObjectMeta
from reconcile.kinds import ConfigMap, Secret
from reconcile.storms import echoes, storm_report
from reconcile.storms.guard import StormGuard
from tests.client.test_consistency import ensure_one
from tests.helpers.managers import Toy, World, keep_size, played
from tests.helpers.scenarios import in_world

MARK = 77
"""The size of the toys that a server sends with something nested within."""


class Nesting(PassingTransport):
    """Sends what has the size `MARK` with something nested so deep in it."""

    def __init__(self, inner: Any, depth: int) -> None:
        super().__init__(inner)
        self.nested = b'"size":77,"extra":' + b'{"a":' * depth + b"1" + b"}" * depth

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncIterator[StreamingResponse]:
        async with self._inner.stream(request) as answer:

            async def chunks() -> AsyncIterator[bytes]:
                async for chunk in answer.chunks:
                    yield chunk.replace(b'"size":77', self.nested)

            yield StreamingResponse(answer.status, answer.headers, chunks())


@pytest.mark.rule("unreadable")
@pytest.mark.parametrize("depth", [100, 400, 900, 960, 990, 2_000, 20_000])
@in_world(played)
async def test_a_deeply_nested_object_fails_no_runs_but_its_own(world: World, depth: int) -> None:
    world.transport = Nesting(world.transport, depth)  # type: ignore[assignment]
    await world.make("deep", size=MARK)
    await world.make("flat", size=2)
    async with world.running(Controller(Toy, keep_size)) as manager:
        await anyio.sleep(20)
        await world.make("late", size=3)
        await anyio.sleep(20)
        for name, size in (("flat", 2), ("late", 3)):
            assert (await world.client.get(Toy, name, "default")).status.size == size
        json.dumps(manager.state())


def fail(*_: Any, **__: Any) -> Any:
    raise RecursionError


@pytest.mark.parametrize(
    "broken",
    [
        (echoes, "_explains"),
        (echoes, "_names_version"),
        (storm_report, "paths_of"),
        (StormGuard, "_look_for_loop"),
        (StormGuard, "_look_for_status_waits"),
        (StormGuard, "_explained"),
    ],
    ids=lambda broken: broken[1],
)
@in_world(played)
async def test_a_diagnostic_that_fails_fails_no_run(
    world: World, broken: tuple[Any, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*broken, fail)

    async def both(ctx: Context[Toy]) -> None:
        await keep_size(ctx)
        await ensure_one(ctx)

    async with world.running(Controller(Toy, both, owns=[ConfigMap])) as manager:
        await world.make(size=1)
        for size in (2, 3, 4):
            await anyio.sleep(5)
            toy = await world.client.get(Toy, "a", "default")
            await world.client.raw.merge(toy, {"spec": {"size": size}})
        await anyio.sleep(5)
        assert (await world.client.get(Toy, "a", "default")).status.size == 4
        assert len(await world.client.list(ConfigMap, "default")) == 1
        (status,) = manager.status().controllers
        assert status.failures == 0


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize("secretive", [False, True])
@in_world(played)
async def test_an_error_whose_text_cannot_be_read_is_a_failed_run_like_any_other(
    world: World, secretive: bool
) -> None:
    async def fail_once(ctx: Context[Toy]) -> None:
        if secretive:
            await ctx.client.get(Secret, "planted", "default")
        if ctx.attempt == 0:
            with ctx.false_on_failure("Ready", Unspeakable):
                raise Unspeakable
        await keep_size(ctx)

    planted = Secret(metadata=ObjectMeta("planted", "default"), data={"password": "aHVudGVyMjI="})
    await world.client.create(planted)
    async with world.running(Controller(Toy, fail_once, reads=[Secret])) as manager:
        await world.make(size=5)
        await anyio.sleep(20)
        assert (await world.client.get(Toy, "a", "default")).status.size == 5
        assert "its text raised RuntimeError" in json.dumps(manager.state())
