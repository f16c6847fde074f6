"""What a recording costs an operator: processor time, and bytes on the disk.

One process is the operator: each change of a site wakes a run that applies a ConfigMap, over HTTPS. Another
process is the embedded server, a third one changes sites 100 times a second. The operator runs with and
without a recording, in turns; the time is that of its process, of all threads.
"""

import gc
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any

import anyio
from attrs import frozen

from informers.kubernetes import connect
from reconcile import Context, Controller, Intent, Manager, Object, ObjectMeta, resource
from reconcile.client.client import Client
from reconcile.kinds import ConfigMap
from reconcile.manager.installed_definitions import install_missing
from reconcile.testing import FakeClient, simulate
from tests.bench._harness import Figures, measured

SITES = 200
PER_SECOND = 100
SECONDS = int(os.environ.get("RECORDING_SECONDS", "20"))
ROUNDS = int(os.environ.get("RECORDING_ROUNDS", "3"))
HOUR = 3_600
OPCODE_RUNS = 40


@frozen
class SiteSpec:
    text: str = ""
    number: int = 0


@frozen
class SiteStatus:
    seen: int = 0


@resource("bench.example.com/v1", kind="Site")
class RecordedSite(Object):
    spec: SiteSpec = SiteSpec()
    status: SiteStatus = SiteStatus()


class Counted:
    def __init__(self) -> None:
        self.runs = 0

    async def keep(self, ctx: Context[RecordedSite]) -> None:
        self.runs += 1
        data = {"text": ctx.object.spec.text, "number": str(ctx.object.spec.number)}
        await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta(ctx.object.name), data=data))


def site(number: int) -> RecordedSite:
    text = f"the page of customer {number}, who wants {number % 7} columns " * 8
    return RecordedSite(metadata=ObjectMeta(f"site-{number}", "default"), spec=SiteSpec(text))


@contextmanager
def server() -> Iterator[str]:
    """The kubeconfig of an embedded server in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kubeconfig"
        command = [
            sys.executable,
            "-m",
            "reconcile",
            "apiserver",
            "--port",
            "0",
            "--kubeconfig-out",
            str(path),
        ]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while not path.exists():
                time.sleep(0.1)
            yield str(path)
        finally:
            process.terminate()
            process.wait()


async def prepare(kubeconfig: str) -> Figures:
    transport = await connect(kubeconfig)
    client = Client(transport)
    await install_missing(client, [RecordedSite], lambda kind: None)
    for number in range(SITES):
        await client.create(site(number))
    await transport.aclose()
    return {}


async def change(kubeconfig: str, seconds: str) -> Figures:
    """Change sites at a steady pace."""
    transport = await connect(kubeconfig)
    client, began = Client(transport), time.monotonic()

    async def edit(number: int) -> None:
        patch = {"spec": {"number": number}}
        await client.raw.merge(site(number % SITES), patch, guard={})

    async with anyio.create_task_group() as group:
        for number in range(PER_SECOND * int(seconds)):
            await anyio.sleep(max(0.0, began + number / PER_SECOND - time.monotonic()))
            group.start_soon(edit, number + time.time_ns() % 1_000_000)
    await transport.aclose()
    return {}


def written(record: str) -> int:
    return sum(path.stat().st_size for path in Path(record).parent.iterdir()) if record else 0


async def operate(kubeconfig: str, record: str) -> Figures:
    """Processor time of an operator for each of its runs, in microseconds, and how many there were."""
    transport, counted = await connect(kubeconfig), Counted()
    controller = Controller(RecordedSite, counted.keep, owns=[ConfigMap])
    manager = Manager(controller, transport=transport, environ={}, client_qps=0, record=record)
    async with anyio.create_task_group() as group:
        await group.start(manager.run)
        await anyio.sleep(3)
        gc.collect()
        before, bytes_before, began = counted.runs, written(record), time.process_time()
        driver = await anyio.open_process(
            [sys.executable, "-m", "tests.bench._harness", __name__, "change", kubeconfig, str(SECONDS)],
            stdout=subprocess.DEVNULL, stderr=None,
        )  # fmt: skip
        await driver.wait()
        await anyio.sleep(0.5)  # the last ones are written
        taken, runs = time.process_time() - began, counted.runs - before
        size = written(record) - bytes_before
        manager.stop()
    await transport.aclose()
    return {"us": taken / runs * 1e6, "runs": runs, "seconds": SECONDS, "bytes": size}


# --- opcodes ----------------------------------------------------------------------------------------------


def opcodes() -> Figures:
    """Opcodes of the event loop's thread for each run, without and with a recording.

    On virtual time the recording is written in step: what its thread does elsewhere counts here too.
    """
    with tempfile.TemporaryDirectory() as folder:
        plain, recorded = _opcodes(""), _opcodes(f"{folder}/rec")
    return {"plain": plain, "recorded": recorded}


def _opcodes(record: str) -> float:
    counted, count = Counted(), 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    async def world() -> None:
        controller = Controller(RecordedSite, counted.keep, owns=[ConfigMap])
        client = FakeClient(controller, site(0))
        manager = Manager(
            controller, transport=client.transport, clock=client.clock, environ={}, record=record
        )
        async with anyio.create_task_group() as group:
            await group.start(manager.run)
            await anyio.sleep(5)
            sys.settrace(trace)
            for number in range(OPCODE_RUNS):
                manager.trigger(controller, "default/site-0", str(number))
                await anyio.sleep(1)
            sys.settrace(None)
            manager.stop()

    simulate(world)
    return count / OPCODE_RUNS


def figures() -> Figures:
    plain: list[dict[str, float]] = []
    recorded: list[dict[str, float]] = []
    with server() as kubeconfig:
        measured(__name__, "prepare", kubeconfig)
        for _ in range(ROUNDS):
            plain.append(measured(__name__, "operate", kubeconfig, ""))
            with tempfile.TemporaryDirectory() as folder:
                recorded.append(measured(__name__, "operate", kubeconfig, f"{folder}/rec"))
    counted = measured(__name__, "opcodes")
    without, with_it = median(one["us"] for one in plain), median(one["us"] for one in recorded)
    a_run = median(one["bytes"] / one["runs"] for one in recorded)
    return {
        "recording.run_us": without,
        "recording.added_us": with_it - without,
        "recording.added_percent": (with_it / without - 1) * 100,
        "recording.added_percent_of_a_core_at_100_runs_s": (with_it - without) * PER_SECOND / 1e6 * 100,
        "recording.mb_an_hour_at_100_runs_s": a_run * PER_SECOND * HOUR / 1e6,
        "recording.runs_a_second": median(one["runs"] / one["seconds"] for one in recorded),
        "recording.added_opcodes_percent": (counted["recorded"] / counted["plain"] - 1) * 100,
    }
