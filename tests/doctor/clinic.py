"""An operator that is installed and runs on an embedded server with RBAC, to plant faults in."""

import datetime
import itertools
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from email.utils import format_datetime
from functools import cache
from typing import Any

import anyio
import msgspec
from anyio.abc import TaskStatus
from attrs import define, field
from click.testing import CliRunner
from sites import sites

from informers import Clock, HttpRequest, Response, SystemClock
from reconcile import Client, LeaderElection, Manager
from reconcile.commands.main import reconcile
from reconcile.doctor.checks import report_of
from reconcile.doctor.declared import declared_by
from reconcile.doctor.findings import Finding, Report
from reconcile.doctor.gathering import gather, installed
from reconcile.doctor.managers import ManagerState, manager_state
from reconcile.embedded import ADMIN, InProcessTransport, User, service_account
from reconcile.manager.option_list import complete_options, from_flags
from reconcile.sharding import Sharding
from reconcile.testing import FakeClient, eventually

ACCOUNT = service_account("sites-system", "sites")
POD = "sites-7d9f-x2x9q"
OTHER_POD = "sites-7d9f-kk2lm"
Document = dict[str, Any]


@cache
def manifests(*options: str) -> str:
    result = CliRunner().invoke(reconcile, ["manifests", "sites", "--json", *options])
    assert result.exit_code == 0, result.output
    return result.output


def pod(name: str, ready: str = "True") -> Document:
    labels = {"app.kubernetes.io/name": "sites", "app.kubernetes.io/instance": "sites"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "sites-system", "labels": labels},
        "spec": {"serviceAccountName": "sites", "containers": [{"name": "manager", "image": "sites"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
    }


class DatedTransport(InProcessTransport):
    """Answers have a Date, as those over HTTP have; `skew` seconds ahead."""

    def __init__(self, client: FakeClient, user: User) -> None:
        super().__init__(client.server, user=user)
        self.skew = 0.0
        self.paths: list[str] = []
        self._clock = client.clock

    async def request(self, request: HttpRequest) -> Response:
        assert request.reads
        self.paths.append(request.path)
        answer = await super().request(request)
        date = self._clock.now() + datetime.timedelta(seconds=self.skew)
        headers = {**answer.headers, "date": format_datetime(date.replace(tzinfo=datetime.UTC), usegmt=True)}
        return Response(answer.status, headers, answer.body)


@define
class Ahead(SystemClock):
    """A clock that is ahead of another one."""

    clock: Clock
    seconds: float

    def now(self) -> datetime.datetime:
        return self.clock.now() + datetime.timedelta(seconds=self.seconds)


@define
class Clinic:
    """The operator `sites`, its cluster and its manager."""

    client: FakeClient
    manager: Manager
    admin: Client = field(init=False)
    skew: float = 0.0
    ahead: float = 0.0
    """Seconds by which the clock of the one who looks is ahead of all others."""
    metrics: str = ""
    states: list[ManagerState] = field(factory=list)
    """Further managers that are asked."""
    rivals: Sequence[str] = ()
    """Identities that take the Lease in turns, each second."""
    paths: Sequence[str] = ()
    _ended: anyio.Event = field(factory=anyio.Event)

    def __attrs_post_init__(self) -> None:
        self.admin = Client(InProcessTransport(self.client.server, settle=True), clock=self.client.clock)

    def change(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Document:
        return self.client.request(method, path, body)

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Run the manager until `stop`."""
        async with self.manager:
            await eventually(lambda: self.manager.state()["leading"])
            await anyio.sleep(5)
            task_status.started()
            await self._ended.wait()

    async def stop(self) -> None:
        """End the manager, as a process does that is killed: it says what it said last."""
        if self._ended.is_set():
            return
        state = self.manager.state()
        self.states = [manager_state(POD, msgspec.json.encode({**state, "leading": False}))]
        self._ended.set()
        await anyio.sleep(1)

    async def report(self, module: str = "sites", user: User = ADMIN, asks: bool = True) -> Report:
        """With `asks`, the managers are asked at their addresses."""
        transport = DatedTransport(self.client, user)
        transport.skew = self.skew
        there = await installed(transport, "sites-system", "sites")
        controllers = [sites] if module else []
        options = complete_options({})
        declared = declared_by("sites", "sites-system", module, controllers, options, there.arguments)
        async with anyio.create_task_group() as group:
            group.start_soon(self._fight)
            clock = Ahead(self.client.clock, self.ahead)
            facts = await gather(transport, clock, declared, there, self._managers if asks else None)
            group.cancel_scope.cancel()
        self.paths = transport.paths
        return report_of(declared, facts)

    async def findings(self, module: str = "sites", user: User = ADMIN) -> Sequence[Finding]:
        return (await self.report(module, user)).findings

    async def _fight(self) -> None:
        for turn in itertools.count() if self.rivals else ():
            time = self.client.clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            spec = {
                "holderIdentity": self.rivals[turn % 2],
                "leaseDurationSeconds": 15,
                "acquireTime": time,
                "renewTime": time,
                "leaseTransitions": turn + 1,
            }
            path = "/apis/coordination.k8s.io/v1/namespaces/sites-system/leases/sites"
            self.change("PATCH", path, {"spec": spec})
            await anyio.sleep(2)

    async def _managers(self) -> Sequence[ManagerState]:
        if self._ended.is_set():
            return self.states
        state = msgspec.json.encode(self.manager.state())
        return [manager_state(POD, state, self.metrics), *self.states]


@asynccontextmanager
async def clinic(*options: str) -> AsyncIterator[Clinic]:
    """A healthy one: its manager runs in a pod, leads, and has filled its caches."""
    documents = json.loads(manifests(*options))["items"]
    client = FakeClient(*documents, pod(POD), pod(OTHER_POD), user=ACCOUNT)
    way: dict[str, Any] = {"leader_election": LeaderElection("sites", "sites-system", f"{POD}_1")}
    if "--sharding" in options:
        way = {"sharding": Sharding("sites", "sites-system", buckets=4, identity=f"{POD}-1")}
    manager = Manager(sites, environ={}, clock=client.clock, **way)
    if "--namespaces" in options:
        manager.configure(from_flags({"namespaces": "shop"}))
    manager = manager.on(client.transport)
    ward = Clinic(client, manager)
    async with anyio.create_task_group() as group:
        await group.start(ward.run)
        yield ward
        await ward.stop()
