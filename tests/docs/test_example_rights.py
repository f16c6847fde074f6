"""The examples work under the roles that their declarations make, from the first run to the deletion."""

from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from backups import Backup, BackupSpec, Restore, RestoreSpec, backups, restores
from clustersecrets import ClusterSecret, cluster_secrets
from cronjobs import CronJob, CronJobSpec, cron_jobs
from daskautoscalers import DaskAutoscaler, DaskAutoscalerSpec, dask_autoscalers
from daskclusters import (
    DaskCluster,
    DaskClusterSpec,
    DaskWorkerGroup,
    DaskWorkerGroupSpec,
    Scheduler,
    Workers,
    dask_clusters,
    worker_groups,
)
from daskjobs import DaskJob, DaskJobSpec, JobCluster, Runner, dask_jobs
from notebooks import Notebook, NotebookSpec, notebooks
from tenants import SETTINGS, Tenant, TenantSpec, tenants
from test_backups import FakeStorage

from reconcile import Client, Controller, Manager, Object, ObjectMeta
from reconcile.controller.permissions import permissions_of, predecessor_permissions
from reconcile.embedded import InProcessTransport, service_account
from reconcile.kinds import ConfigMap, Job, JobSpec
from reconcile.testing import FakeClient, simulate

ACCOUNT = service_account("default", "operator")
GROUP = "rbac.authorization.k8s.io"
POD = {"containers": [{"name": "main", "image": "report:1"}], "restartPolicy": "Never"}
WORKER = {"containers": [{"name": "main", "image": "dask:1"}]}
SERVICE = {"ports": [{"name": "tcp-comm", "port": 8786}]}
DASK = DaskClusterSpec(Scheduler(WORKER, SERVICE), Workers(WORKER))
STORAGE = FakeStorage()
HERE = ObjectMeta("a", "default")
NOON = "2026-01-01T12:00:00Z"
DONE = {
    "startTime": NOON,
    "completionTime": NOON,
    "conditions": [{"type": kind, "status": "True"} for kind in ("SuccessCriteriaMet", "Complete")],
}
CASES: dict[str, tuple[list[Controller[Any]], list[Object]]] = {
    "cronjob": (
        [cron_jobs],
        [
            CronJob(
                metadata=HERE,
                spec=CronJobSpec("* * * * *", JobSpec(template={"spec": POD}), keep_succeeded=0),
            )
        ],
    ),
    "backup": (
        [backups(STORAGE), restores(STORAGE)],
        [Backup(metadata=HERE, spec=BackupSpec("a")), Restore(metadata=HERE, spec=RestoreSpec("a", "b"))],
    ),
    "cluster-secret": ([cluster_secrets()], [ClusterSecret(metadata=ObjectMeta("a"), data={"a": "MQ=="})]),
    "dask": (
        [dask_clusters(), worker_groups(), dask_jobs, dask_autoscalers()],
        [
            DaskCluster(metadata=HERE, spec=DASK),
            DaskWorkerGroup(
                metadata=ObjectMeta("b", "default"), spec=DaskWorkerGroupSpec("a", Workers(WORKER))
            ),
            DaskAutoscaler(metadata=HERE, spec=DaskAutoscalerSpec("a", 0, 3)),
            DaskJob(metadata=ObjectMeta("c", "default"), spec=DaskJobSpec(Runner(WORKER), JobCluster(DASK))),
        ],
    ),
    "notebook": ([notebooks], [Notebook(metadata=HERE, spec=NotebookSpec("jupyter:1"))]),
    "tenant": (
        [tenants],
        [
            ConfigMap(metadata=ObjectMeta(SETTINGS.name, SETTINGS.namespace)),
            Tenant(metadata=ObjectMeta("a"), spec=TenantSpec(admins=("ada",))),
        ],
    ),
}


def role_of(controllers: Sequence[Controller[Any]]) -> list[dict[str, Any]]:
    rights = [*permissions_of(controllers), *predecessor_permissions(controllers)]
    head = {"apiVersion": f"{GROUP}/v1", "metadata": {"name": "operator"}}
    subject = {"kind": "ServiceAccount", "name": "operator", "namespace": "default"}
    reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": "operator"}
    return [
        {**head, "kind": "ClusterRole", "rules": [right.rule() for right in rights]},
        {**head, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]},
    ]


@pytest.mark.parametrize("example", CASES)
def test_an_example_is_refused_nothing_from_the_first_run_to_the_deletion(example: str) -> None:
    controllers, objects = CASES[example]
    client = FakeClient(*role_of(controllers), *objects, user=ACCOUNT)
    model = type(objects[-1])

    async def play() -> None:
        admin = Client(InProcessTransport(client.server, settle=True), clock=client.clock)
        async with Manager(*controllers, transport=client.transport, clock=client.clock, environ={}):
            await anyio.sleep(130)
            STORAGE.end()
            for job in await admin.list(Job):
                if not job.finished:
                    await admin.raw.merge(job, {"status": DONE}, subresource="status")
            await anyio.sleep(60)
            for obj in reversed(objects):
                await admin.delete(await admin.get(type(obj), obj.name, obj.namespace))
            await anyio.sleep(60)
        assert await admin.list(model) == []

    simulate(play)
    requests = client.transport.requests
    assert [str(request) for request in requests if request.server_status == 403] == []
    assert any(request.mutating for request in requests)
