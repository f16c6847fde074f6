"""Recordings of managers on a real event loop, written by a thread, replay on virtual time."""

import sys
import threading
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from attrs import evolve

from reconcile import Context, Controller, Intent, Manager, ObjectMeta
from reconcile.client.client import Client
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.kinds import ConfigMap
from reconcile.manager.installed_definitions import install_missing
from reconcile.recording import read_recording, recording_file
from reconcile.testing.recorded_runs import replay_recording
from tests.recording.recorded_sites import Site, site, sites


def doze(seconds: float) -> None:
    time.sleep(seconds)


async def observe(ctx: Context[Site]) -> None:
    """Decides by what the cache has at each of its steps."""
    for _ in range(2):
        await anyio.sleep(0.001)
        seen = sorted(one.name for one in await ctx.client.list(ConfigMap, "default"))
        data = {"text": ctx.object.spec.text, "seen": ",".join(seen), "at": ctx.clock.now().isoformat()}
        await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta(ctx.object.name), data=data))


def observe_blocking(ctx: Any) -> None:
    for _ in range(2):
        doze(0.002)
        seen = sorted(one.name for one in ctx.client.list(ConfigMap, "default"))
        ctx.apply(Intent(ConfigMap, metadata=ObjectMeta(ctx.object.name), data={"seen": ",".join(seen)}))


async def observe_in_a_thread(ctx: Context[Site]) -> None:
    before = len(await ctx.client.list(ConfigMap, "default"))
    await ctx.run_sync(doze, 0.003)
    after = len(await ctx.client.list(ConfigMap, "default"))
    data = {"seen": f"{before} {after}"}
    await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta(ctx.object.name), data=data))


async def play(path: Path, controller: Controller[Any]) -> None:
    server = ApiServer()
    transport = InProcessTransport(server)
    client = Client(transport)
    await install_missing(client, [Site], lambda kind: None)
    manager = Manager(controller, transport=transport, environ={}, record=path)
    async with anyio.create_task_group() as group:
        group.start_soon(server.run)
        await group.start(manager.run)
        for number in range(12):
            await client.create(site(f"site-{number}"))
            await anyio.sleep(0.003 * (number % 3))
        for number in range(12):
            found = await client.get(Site, f"site-{number}", "default")
            await client.modify(
                Site, found.name, "default", lambda one: one.replace(spec=evolve(one.spec, text="more"))
            )
        await anyio.sleep(0.5)
        manager.stop()
        await anyio.sleep(0.3)
        group.cancel_scope.cancel()


def played(path: Path, controller: Controller[Any]) -> None:
    anyio.run(play, path, controller)


@pytest.mark.rule("replay-identical")
@pytest.mark.parametrize("reconcile", [observe, observe_blocking, observe_in_a_thread])
def test_runs_of_a_real_loop_that_overlap_replay_identically(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reconcile: Any
) -> None:
    played(tmp_path / "rec", sites(reconcile, workers=5))
    # Under virtual time a blocking sleep is refused: a stand-in takes its place, as for systems outside.
    monkeypatch.setattr(sys.modules[__name__], "doze", lambda seconds: None)
    report = replay_recording(read_recording(tmp_path / "rec"), [sites(reconcile, workers=5)])
    assert report.identical, "\n".join(report.lines())
    assert report.runs >= 12
    assert report.requests >= 12


def test_a_thread_writes_while_the_manager_runs_and_ends_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writers, real = list[str](), recording_file.os.write

    def write(descriptor: int, data: bytes) -> int:
        writers.append(threading.current_thread().name)
        return real(descriptor, data)

    monkeypatch.setattr(recording_file, "PERIOD", 0.05)
    monkeypatch.setattr(recording_file.os, "write", write)
    played(tmp_path / "rec", sites())
    assert "recording" in writers
    assert not [thread for thread in threading.enumerate() if thread.name == "recording"]


def test_a_disk_that_is_stuck_ends_the_recording_and_holds_up_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    released, real = threading.Event(), recording_file.os.write
    monkeypatch.setattr(recording_file, "LAST_SECONDS", 0.2)

    def write(descriptor: int, data: bytes) -> int:
        if threading.current_thread().name == "recording":
            released.wait()
        return real(descriptor, data)

    monkeypatch.setattr(recording_file.os, "write", write)
    played(tmp_path / "rec", sites())
    # The manager has ended, and the thread is still at its first write.
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "recording"]
    released.set()
    thread.join()
    whys = [
        str(vars(one).get("why"))
        for one in caplog.records
        if vars(one).get("event") == "the recording has ended"
    ]
    assert whys == ["the last events could not be written within 0.2 s"]
