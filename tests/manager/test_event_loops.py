"""An operator on a server over HTTPS, in each event loop that this project is tested in."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import aiohttp
import anyio
import pytest

from informers.kubernetes import connect
from reconcile import Client, Context, Controller, LeaderElection, Manager, ObjectMeta
from reconcile.embedded import ApiServer
from reconcile.embedded.http import serve
from reconcile.embedded.listener.admin_kubeconfig import write_kubeconfig
from reconcile.kinds import ConfigMap, Lease, Secret

ROOT = Path(__file__).parents[2]


async def copy(ctx: Context[ConfigMap]) -> None:
    await ctx.run_sync(time.sleep, 0.001)
    await ctx.apply(Secret(metadata=ObjectMeta(ctx.object.name, "default")))


@pytest.mark.rule("loop-uvloop")
async def test_an_operator_leads_reconciles_and_leaves_nothing_behind(tmp_path: Path) -> None:
    before = asyncio.all_tasks()
    server = ApiServer()
    async with anyio.create_task_group() as tasks, serve(server, token="t") as face:
        tasks.start_soon(server.run)
        kubeconfig = tmp_path / "kubeconfig"
        write_kubeconfig(kubeconfig, face.url, face.ca_pem, face.token)
        own = await connect(kubeconfig)
        client = Client(own)
        transport = await connect(kubeconfig)
        copies = Controller(ConfigMap, copy, owns=[Secret], operator="example.com")
        leading = LeaderElection("copies", "default")
        async with Manager(
            copies, transport=transport, serve="127.0.0.1:0", leader_election=leading
        ) as manager:
            for name in ("first", "second"):
                await client.create(ConfigMap(metadata=ObjectMeta(name, "default")))
                with anyio.fail_after(20):
                    while await client.find(Secret, name, "default") is None:
                        await anyio.sleep(0.01)
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"http://{manager.address}/readyz") as page,
            ):
                assert page.status == 200
        assert (await client.get(Lease, "copies", "default")).spec.holder_identity in (None, "")
        await transport.aclose()
        await own.aclose()
        tasks.cancel_scope.cancel()
    assert asyncio.all_tasks() == before


PROGRAM = """
import asyncio
import uvloop
from reconcile import Context, Controller, Manager, ObjectMeta
from reconcile.kinds import ConfigMap
from reconcile.testing import FakeClient


async def say(ctx: Context[ConfigMap]) -> None:
    print(type(asyncio.get_running_loop()).__module__, flush=True)


client = FakeClient(ConfigMap(metadata=ObjectMeta("a", "default")))
manager = Manager(Controller(ConfigMap, say), transport=client.transport, environ={})
manager.main(loop_factory=uvloop.new_event_loop)
print("clean", flush=True)
"""


@pytest.mark.rule("loop-uvloop")
def test_a_program_on_uvloop_ends_cleanly_at_the_first_signal(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    running = subprocess.Popen(
        [sys.executable, str(program)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    assert running.stdout.readline() == "uvloop\n"
    running.send_signal(signal.SIGTERM)
    rest, _ = running.communicate(timeout=20)
    assert (rest, running.returncode) == ("clean\n", 0)
