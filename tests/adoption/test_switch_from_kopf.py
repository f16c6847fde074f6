"""A switch from kopf itself, in a process of its own: by the command, and by a manager that freezes it."""

import os
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import pytest
from anyio.to_thread import run_sync

from informers import Key
from reconcile import Client, ObjectMeta
from reconcile.adoption.switch_plan import IDENTITY
from reconcile.commands import main
from reconcile.kinds import Deployment, Pod
from reconcile.manager import predecessor_freeze
from reconcile.models import definition_of
from reconcile.predecessors import PEERINGS, peers_in
from reconcile.testing import ListeningServer, ManagerRunner, eventually
from tests.adoption.switched_sites import Site, sites
from tests.clients.gadgets import deployment
from tests.helpers.definitions import definition
from tests.helpers.kopf_process import kopf
from tests.helpers.pods import pod

OPERATOR = "switched_sites"
OLD = "old-sites"
PEERING = PEERINGS[0]
PATIENCE = 40.0
KOPF = os.environ.get("OLD_KOPF", "")
"""A folder with an older kopf: `pip install --no-deps --target FOLDER kopf==1.37.2`; empty: the installed."""
SWITCH = ("adopt", "kopf", "switch", "--kind", "sites.switched.example.com")

pytestmark = [pytest.mark.timeout(180), pytest.mark.rule("takeover-kopf")]


class Cluster:
    """A server on which sites are kept by kopf, which signs in a peering object."""

    def __init__(self, server: ListeningServer, client: Client, calls: Path) -> None:
        self.server, self.client, self.ledger = server, client, calls

    def calls(self, *kinds: str) -> Sequence[str]:
        lines = self.ledger.read_text().split("\n")[:-1] if self.ledger.exists() else []
        return sorted(line for line in lines if not kinds or line.partition(" ")[0] in kinds)

    async def build(self) -> None:
        await self.client.apply(definition_of(Site))
        peerings = definition(PEERING.kind, group=PEERING.group, subresources={})
        peerings["spec"]["scope"] = "Cluster"
        await self.client.create(peerings)
        head = {"apiVersion": PEERING.api_version, "kind": PEERING.kind, "metadata": {"name": "default"}}
        await self.client.create(head)

    async def make(self, *names: str) -> None:
        for name in names:
            await self.client.create(Site(metadata=ObjectMeta(name, "default")))

    async def signs(self, identity: str) -> bool:
        found = await self.client.raw.snapshot(PEERING, Key("", "default"), live=True)
        peers = [] if found is None else peers_in(found.to_dict())
        return any(peer.identity.startswith(identity) for peer in peers)

    async def is_at_work(self) -> bool:
        """Whether kopf has handled all objects once."""
        found = await self.client.list(Site)
        return all(any("last-handled" in name for name in site.metadata.annotations) for site in found)

    async def is_taken_over(self) -> bool:
        found = await self.client.list(Site)
        return all(
            site.metadata.finalizers == (sites.finalizer,) and not site.metadata.annotations for site in found
        )

    async def ends_with_its_deployment(self, process: subprocess.Popen[bytes]) -> None:
        """What a kubelet does: the process ends when the Deployment has no replicas, and then the pod."""
        while (await self.client.get(Deployment, OLD, "default")).spec.replicas:
            await anyio.sleep(0.1)
        process.terminate()
        await run_sync(process.wait)
        await self.client.delete(await self.client.get(Pod, OLD, "default"))


@asynccontextmanager
async def cluster(
    server: ListeningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Cluster]:
    calls = tmp_path / "calls"
    monkeypatch.setenv("CALLS", str(calls))
    async with server.connect() as client:
        made = Cluster(server, client, calls)
        await made.build()
        yield made


async def test_the_command_stops_kopf_between_its_handlers_and_the_port_takes_all_objects_over(
    api_server: ListeningServer,
    manager: ManagerRunner,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with cluster(api_server, tmp_path, monkeypatch) as here:
        await here.client.create(deployment(OLD, "sites:1"))
        await here.client.create(pod(OLD, "Running", labels={"a": OLD}))
        options = ["--deployment", OLD, "--drain", "1", "--kubeconfig", str(api_server.kubeconfig)]
        log = tmp_path / "log"
        with kopf(api_server, log, OPERATOR, peering="default", PYTHONPATH=KOPF) as process:
            await here.make("a", "b")
            await eventually(here.is_at_work, within=PATIENCE)
            await here.make("slow", "retried")
            await eventually(partial(began, here, "slow", "retried"), within=PATIENCE)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(here.ends_with_its_deployment, process)
                tasks.start_soon(run_and_expect, [*SWITCH, *options, "--yes"], 0)
                await eventually(partial(has_paused, log), within=PATIENCE)
                assert await here.signs(IDENTITY)
                await here.make("late")
        shown = capsys.readouterr().out
        assert "waiting until kopf has finished the creation of default/" in shown
        assert "the operator on kopf has stopped: start the new operator" in shown
        ended = ["end a", "end b", "end retried", "end slow"]
        assert here.calls("end", "update", "delete") == ended
        assert len(here.calls("begin")) == len(here.calls("end", "fail"))
        assert not await here.signs("")
        assert await run_sync(main, [*SWITCH, "--verify", *options]) == 1
        assert "error    objects: sites.switched.example.com: 4 objects" in capsys.readouterr().out
        async with manager(sites):
            await eventually(here.is_taken_over, within=PATIENCE)
        assert await run_sync(main, [*SWITCH, "--verify", *options]) == 0
        assert "nothing of kopf is left on 5 objects" in capsys.readouterr().out
        assert here.calls("end", "update", "delete") == ended


async def test_a_manager_freezes_kopf_and_takes_its_objects_over_while_it_is_still_there(
    api_server: ListeningServer, manager: ManagerRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predecessor_freeze, "SETTLING", 1.0)
    log = tmp_path / "log"
    async with cluster(api_server, tmp_path, monkeypatch) as here:
        with kopf(api_server, log, OPERATOR, peering="default", PYTHONPATH=KOPF):
            await here.make("a", "b")
            await eventually(here.is_at_work, within=PATIENCE)
            async with manager(sites, freeze_predecessor=True):
                await eventually(here.is_taken_over, within=PATIENCE)
                assert has_paused(log)
                await here.make("new")
                await here.client.modify(Site, "a", "default", lambda found: found.replace(size=2))
                await here.client.delete(await here.client.get(Site, "b", "default"))
                await eventually(here.is_taken_over, within=PATIENCE)
                await anyio.sleep(1)
            assert await here.signs("reconcile/")
            assert [site.name for site in await here.client.list(Site)] == ["a", "new"]
            assert here.calls() == ["begin a", "begin b", "end a", "end b"]


async def began(here: Cluster, *names: str) -> bool:
    return {f"begin {name}" for name in names} <= set(here.calls())


def has_paused(log: Path) -> bool:
    return "Pausing operations in favour of" in log.read_text()


async def run_and_expect(arguments: Sequence[str], status: int) -> None:
    assert await run_sync(main, list(arguments)) == status
