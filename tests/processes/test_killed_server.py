"""An operator whose API server is killed and started anew, over real connections."""

import signal
import time
from pathlib import Path

import anyio
import pytest

from informers.kubernetes import connect
from reconcile import Client, Context, Controller, Manager
from reconcile.kinds import ConfigMap
from tests.processes.harness import machine, prepare, send
from tests.processes.recording_server import asked_of

NAMES = [f"one-{number}" for number in range(40)]
AWAY = 4.0
"""Seconds without a server."""
FIRST_SECOND = 100


async def copy(ctx: Context[ConfigMap]) -> None:
    wanted = ctx.object.data.get("wanted")
    if wanted is not None and ctx.object.data.get("done") != wanted:
        await ctx.client.raw.merge(ctx.object, {"data": {"done": wanted}})


async def seconds_until_done(folder: Path, wanted: str) -> float:
    """How long it takes until all objects say so."""
    transport = await connect(folder / "admin")
    client = Client(transport)
    began = time.monotonic()
    with anyio.fail_after(60):
        while True:
            objects = await client.list(ConfigMap, "work")
            if len(objects) == len(NAMES) and {one.data.get("done") for one in objects} == {wanted}:
                break
            await anyio.sleep(0.1)
    await transport.aclose()
    return time.monotonic() - began


@pytest.mark.rule("outage-3", "outage-4")
async def test_an_operator_resumes_at_once_after_its_server_was_killed_and_restarted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with machine(tmp_path) as computer:
        process, port = await computer.serve(tmp_path, ["operator"], tls=False)
        await prepare(tmp_path, "work", *NAMES, wanted="first")
        transport = await connect(tmp_path / "operator")
        controller = Controller(ConfigMap, copy, name="copies")
        async with Manager(controller, transport=transport, namespace="work", environ={}) as manager:
            await seconds_until_done(tmp_path, "first")
            send(process, signal.SIGKILL)
            for number in range(5):
                await anyio.sleep(AWAY / 5)
                manager.trigger(controller, f"work/one-{number}", "in the outage")
            assert not manager.status().clusters[0].reachable
            began = time.monotonic()
            await computer.serve(tmp_path, ["operator"], tls=False, port=port)
            await prepare(tmp_path, "work", *NAMES, wanted="second")
            # The server is slow to start on a busy machine; what counts is that no back-off is waited for.
            assert await seconds_until_done(tmp_path, "second") <= 10
            assert manager.status().clusters[0].reachable
        await transport.aclose()
    times = [asked.at for asked in asked_of(tmp_path) if asked.user == "operator" and asked.at >= began]
    assert len([at for at in times if at < times[0] + 1]) <= FIRST_SECOND
    told = [record.getMessage() for record in caplog.records if "API server" in record.getMessage()]
    assert len([line for line in told if "cannot be reached" in line]) == 1
    assert len([line for line in told if "answers again" in line]) == 1
