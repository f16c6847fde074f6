"""What the tests share: objects of users, schedulers that answer as they are told, and runs by hand."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from attrs import define, field
from daskclusters import (
    GROUP,
    DaskCluster,
    DaskClusterSpec,
    DaskWorkerGroup,
    DaskWorkerGroupSpec,
    Scheduler,
    Workers,
    dask_clusters,
    worker_groups,
)
from schedulers import SchedulerFailed

from reconcile import Controller, ObjectMeta
from reconcile.kinds import Deployment
from reconcile.testing import FakeClient, run_once

RUNS = int(os.environ.get("SWEEP_RUNS", "10")) or None  # of the sweep; 0: all
MANIFESTS = Path(__file__).parent / "manifests"
DEFINITIONS: Sequence[dict[str, Any]] = list(yaml.safe_load_all((MANIFESTS / "definitions.yaml").read_text()))
KOPF = "kopf.zalando.org/"
HANDLED = f"{KOPF}last-handled-configuration"
SERVICE = {
    "selector": {"dask.org/cluster-name": "simple", "dask.org/component": "scheduler"},
    "ports": [
        {"name": "tcp-comm", "port": 9786, "targetPort": "tcp-comm"},
        {"name": "http-dashboard", "port": 9787, "targetPort": "http-dashboard"},
    ],
}


def pod(name: str) -> dict[str, Any]:
    return {"containers": [{"name": name, "image": f"{name}:1"}]}


SIMPLE = DaskCluster(
    metadata=ObjectMeta("simple", "default"),
    spec=DaskClusterSpec(Scheduler(pod("scheduler"), SERVICE), Workers(pod("worker"), 2)),
)
MORE = DaskWorkerGroup(
    metadata=ObjectMeta("more", "default"), spec=DaskWorkerGroupSpec("simple", Workers(pod("more"), 1))
)


@define
class FakeSchedulers:
    """Remembers what was asked, and answers with `desired` workers and `idle`; where it `fails`, with 404."""

    desired: int = 0
    idle: float | None = None
    fails: bool = False
    retired: set[str] = field(factory=set)
    urls: set[str] = field(factory=set)

    def _asked(self, url: str) -> None:
        self.urls.add(url)
        if self.fails:
            raise SchedulerFailed(f"404 from {url}", 404)

    async def retire(self, url: str, workers: Sequence[str]) -> None:
        self._asked(url)
        self.retired |= set(workers)

    async def desired_workers(self, url: str) -> int:
        self._asked(url)
        return self.desired

    async def idle_since(self, url: str) -> float | None:
        self._asked(url)
        return self.idle


def a_cluster(*objects: Any) -> FakeClient:
    return FakeClient(*DEFINITIONS, *objects)


async def run_both(client: FakeClient, schedulers: FakeSchedulers | None = None) -> list[Any]:
    """One run for each cluster and then for each group; returns the writes."""
    writes: list[Any] = []
    schedulers = schedulers or FakeSchedulers()
    for one in await client.list(DaskCluster):
        writes += await ran(dask_clusters(schedulers), one, client)
    for group in await client.list(DaskWorkerGroup):
        writes += await ran(worker_groups(schedulers), group, client)
    return writes


async def ran(controller: Controller[Any], obj: Any, client: FakeClient) -> list[Any]:
    done = await run_once(controller, obj, client)
    assert (done.error, done.undeclared) == (None, [])
    return list(done.writes)


async def workers(client: FakeClient, group: str = "simple-default") -> list[Deployment]:
    return [one for one in await client.list(Deployment) if one.metadata.labels.get(GROUP) == group]


async def scale(client: FakeClient, model: type[Any], name: str, replicas: int) -> None:
    found = await client.get(model, name, "default")
    await client.raw.set_scale(found, replicas, expect=found.spec.worker.replicas)
