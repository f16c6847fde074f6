"""What RayClusters cost the manager that keeps them, at rest: the time of its passes, and its memory.

The manager, an API server and the clock of both are in one process, in virtual time; the server is filled
first, so that what is measured is what a manager adds that finds everything as it should be.
"""

import gc
import time
import tracemalloc
from collections.abc import Awaitable, Callable

import anyio

from controllers.workergroups import RayCluster, RayClusterSpec, controller, definition
from controllers.workergroups.models import HeadGroupSpec, WorkerGroupSpec
from reconcile import Client, Manager, ObjectMeta, Transport
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.kinds import Namespace, Pod
from reconcile.simulation.simulated_nodes import running_status
from reconcile.testing import VirtualClock, simulate

CLUSTERS = 50
WORKERS = 10
HOURS = 10
NAMESPACE = "bench"
Figures = dict[str, float]
Measure = Callable[[Callable[[], Manager]], Awaitable[float]]


def figures() -> Figures:
    """CPU time of an hour at rest, resyncs included, and memory beside the server's, for each cluster."""
    return {
        "workergroups.cpu_ms_per_idle_cluster_hour": _measured(_cpu),
        "workergroups.bytes_per_cluster": _measured(_memory),
    }


def _measured(measure: Measure) -> float:
    async def run() -> float:
        clock = VirtualClock(1)
        server = ApiServer(clock=clock)
        transport = InProcessTransport(server)
        async with anyio.create_task_group() as group:
            group.start_soon(server.run)
            await _fill(Client(transport, clock=clock), transport, clock)
            found = await measure(lambda: Manager(controller, transport=transport, clock=clock))
            group.cancel_scope.cancel()
        return found / CLUSTERS

    return simulate(run, seed=1, limit_seconds=100 * 3600)


async def _fill(user: Client, transport: Transport, clock: VirtualClock) -> None:
    """Clusters that a manager has brought to rest."""
    await user.apply(definition())
    await user.create(Namespace(metadata=ObjectMeta(NAMESPACE)))
    template = {"spec": {"containers": [{"name": "ray", "image": "rayproject/ray:2.52.0"}]}}
    workers = WorkerGroupSpec("small", template, replicas=WORKERS)
    spec = RayClusterSpec(HeadGroupSpec(template), (workers,))
    for number in range(CLUSTERS):
        await user.create(RayCluster(metadata=ObjectMeta(f"ray-{number}", NAMESPACE), spec=spec))
    async with Manager(controller, transport=transport, clock=clock):
        await anyio.sleep(30)
        for pod in await user.list(Pod, NAMESPACE):
            status = running_status(pod, "10.1.0.1", now="2026-01-01T00:00:00Z", ready=True)
            await user.raw.merge(pod, {"status": status}, guard={}, subresource="status")
        await anyio.sleep(30)
    found = await user.list(RayCluster, NAMESPACE)
    assert {one.status.ready_worker_replicas for one in found} == {WORKERS}


async def _cpu(make: Callable[[], Manager]) -> float:
    """Milliseconds of an hour: a share of `HOURS`, in which everything is resynced once."""
    async with make():
        await anyio.sleep(60)
        gc.collect()
        began = time.process_time()
        await anyio.sleep(HOURS * 3600 * 1.1)
        return (time.process_time() - began) * 1000 / (HOURS * 1.1)


async def _memory(make: Callable[[], Manager]) -> float:
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    async with make():
        await anyio.sleep(60)
        gc.collect()
        used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return used
