"""What two operators of docs/examples write, with 2,000 objects each: counted in virtual time.

Tenants have six children each and share a ConfigMap; CronJobs start a Job each. Counted are the writes until
everything is at rest for the first time, those of a new manager that finds all of it done, and those of one
change: an edit of the ConfigMap that all tenants share, and the minute at which all schedules are due.
"""

import logging
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
from attrs import frozen

from informers.transport import HttpRequest, Response
from reconcile import Controller, Manager, Object, ObjectMeta
from reconcile.embedded import InProcessTransport
from reconcile.kinds import ConfigMap, JobSpec
from reconcile.testing import FakeClient, simulate

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
sys.path += [str(EXAMPLES / name) for name in ("cronjob", "tenant") if str(EXAMPLES / name) not in sys.path]

from cronjobs import CronJob, CronJobSpec, cron_jobs  # noqa: E402
from tenants import SETTINGS, Tenant, TenantSpec, tenants  # noqa: E402

COUNT = 2_000
QUIET = 120.0
"""Without a write for so many seconds everything is at rest; speed limits make a write wait far less."""
READS = frozenset({"GET", "HEAD", "OPTIONS"})
Figures = dict[str, float]


@frozen
class Writes:
    """How many requests that write were sent, for all objects together."""

    first: int
    restart: int
    change: int


class Counting(InProcessTransport):
    writes = 0

    async def request(self, request: HttpRequest) -> Response:
        self.writes += request.method not in READS
        return await super().request(request)

    async def until_quiet(self) -> int:
        """How many writes were sent, since the last time that it was asked, until there were no more."""
        before = -1
        while before != self.writes:
            before = self.writes
            await anyio.sleep(QUIET)
        self.writes = 0
        return before


def figures() -> Figures:
    """Writes of all objects together, and the CPU time that it took to measure them."""
    logging.disable(logging.WARNING)  # the embedded server warns of each quota that it does not enforce
    found: Figures = {}
    for name, measure in (("tenants", tenant_writes), ("cronjobs", cron_job_writes)):
        began = time.process_time()
        writes = measure(COUNT)
        found |= {
            f"operators.{name}_first_writes": writes.first,
            f"operators.{name}_restart_writes": writes.restart,
            f"operators.{name}_change_writes": writes.change,
            f"operators.{name}_measured_s": time.process_time() - began,
        }
    return found


def tenant_writes(count: int) -> Writes:
    """One shared ConfigMap is edited."""

    async def edit(client: FakeClient) -> None:
        source = await client.get(ConfigMap, SETTINGS.name, SETTINGS.namespace)
        await client.raw.merge(source, {"data": {"proxy": "proxy-2"}})

    client = FakeClient(
        ConfigMap(metadata=ObjectMeta(SETTINGS.name, SETTINGS.namespace), data={"proxy": "proxy-1"})
    )
    spec = TenantSpec(admins=("ada",))
    return _writes(
        client, tenants, [Tenant(metadata=ObjectMeta(f"t{n}"), spec=spec) for n in range(count)], edit
    )


def cron_job_writes(count: int) -> Writes:
    """All schedules are due."""

    async def wait(client: FakeClient) -> None:
        await anyio.sleep(24 * 3600)

    pod = {"containers": [{"name": "main", "image": "report:1"}], "restartPolicy": "Never"}
    spec = CronJobSpec("0 12 * * *", JobSpec(template={"spec": pod}))
    made = [CronJob(metadata=ObjectMeta(f"c{n}", "default"), spec=spec) for n in range(count)]
    return _writes(FakeClient(), cron_jobs, made, wait)


def _writes(
    client: FakeClient,
    controller: Controller[Object],
    objects: list[Object],
    change: Callable[[FakeClient], Awaitable[None]],
) -> Writes:
    for obj in objects:
        client.add(obj)

    async def run() -> Writes:
        transport = Counting(client.server)

        def manager() -> Manager:
            return Manager(controller, transport=transport, clock=client.clock, environ={})

        async with anyio.create_task_group() as group:
            group.start_soon(client.server.run)
            async with manager():
                first = await transport.until_quiet()
            async with manager():
                restart = await transport.until_quiet()
                await change(client)
                changed = await transport.until_quiet()
            group.cancel_scope.cancel()
        return Writes(first, restart, changed)

    return simulate(run, seed=1, limit_seconds=100 * 3600)
