"""RayClusters at rest: whatever the watches go through, nothing is asked for. RAYCLUSTERS says how many."""

import os
from collections.abc import Callable
from functools import partial

import anyio
import pytest
from attrs import evolve

from controllers.workergroups import RayCluster, controller, definition
from reconcile import Client, Manager, ObjectMeta, Request
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.kinds import Namespace, Pod
from reconcile.simulation.simulated_nodes import running_status
from reconcile.testing import (
    Cut,
    EndEarly,
    Expire,
    Fault,
    FaultPlan,
    FaultyTransport,
    LateTransport,
    VirtualClock,
    When,
    simulate,
)
from tests.controllers.ray_world import cluster
from tests.controllers.world import NAMESPACE

WORKERS = 10
ALL = 1000
CLUSTERS = int(os.environ.get("RAYCLUSTERS", "8"))
PODS, RAYCLUSTERS = "/api/v1/pods", "*/rayclusters"


def broken(path: str) -> tuple[Fault, ...]:
    """The connection is reset, then 410 comes so that all is listed anew, then the watch ends in order."""
    return (
        Fault(When("watch", path, nth=2), Cut(after=3)),
        Fault(When("watch", path, nth=3), Expire(after=3)),
        Fault(When("watch", path, nth=4), EndEarly(after=3)),
    )


BREAKS = FaultPlan((*broken(PODS), *broken(RAYCLUSTERS)))


@pytest.mark.timeout(3600)
@pytest.mark.rule("kuberay-1d-quiet")
def test_broken_watches_a_resync_and_forced_runs_for_ten_minutes_cause_no_requests() -> None:
    """Requests count, also those that a server would answer without a change."""

    async def run() -> None:
        clock = VirtualClock(1)
        server = ApiServer(clock=clock)
        transport = InProcessTransport(server)
        user = Client(transport, clock=clock)
        recorded = FaultyTransport(transport, BREAKS)
        resyncing = evolve(controller, resync=200.0)
        manager = Manager(resyncing, transport=LateTransport(recorded, 1, lag=(0.05, 0.5)), clock=clock)
        async with anyio.create_task_group() as group:
            group.start_soon(server.run)
            await user.apply(definition())
            await user.create(Namespace(metadata=ObjectMeta(NAMESPACE)))
            await group.start(manager.run)
            for number in range(CLUSTERS):
                made = cluster(WORKERS)
                named = ObjectMeta(f"ray-{number}", NAMESPACE)
                await user.create(RayCluster(metadata=named, spec=made.spec))
            await settled(user, recorded)
            found = await user.list(RayCluster, NAMESPACE)
            assert {(one.status.state, one.status.ready_worker_replicas) for one in found} == {
                ("ready", WORKERS)
            }
            sent, (before,) = len(recorded.writes), manager.status().controllers
            await go_on(user, partial(manager.trigger, resyncing))
            (after,) = manager.status().controllers
            assert [request.path for request in recorded.writes[sent:]] == []
            assert after.runs - before.runs >= CLUSTERS * (1 + 2)  # forced, and two resyncs at least
            assert (after.failures, before.failures) == (0, 0)
            assert len(recorded.applied) == len(BREAKS.faults), recorded.applied
            group.cancel_scope.cancel()

    simulate(run, seed=1, limit_seconds=24 * 3600)
    print(f"clusters at rest: {CLUSTERS} of {ALL}, {WORKERS} workers each")


async def settled(user: Client, recorded: FaultyTransport) -> None:
    """All pods run, and a minute has passed without a request for a change."""
    sent = -1
    while sent != len(recorded.writes):
        sent = len(recorded.writes)
        await anyio.sleep(60)
        for pod in await user.list(Pod, NAMESPACE):
            if pod.status.phase == "Pending":
                status = running_status(pod, "10.1.0.1", now="2026-01-01T00:00:00Z", ready=True)
                await user.raw.merge(pod, {"status": status}, guard={}, subresource="status")


async def go_on(user: Client, trigger: Callable[[Request, str], None]) -> None:
    """Ten minutes, in which others write, so that there are lines on which watches can break."""
    pods = await user.list(Pod, NAMESPACE)
    for number in range(100):
        if number == 50:
            for each in range(CLUSTERS):
                trigger(Request(NAMESPACE, f"ray-{each}"), "forced")
        touch = {"metadata": {"annotations": {"example.com/noise": str(number)}}}
        await user.raw.merge(pods[number % len(pods)], touch, guard={})
        name = ObjectMeta(f"ray-{number % CLUSTERS}", NAMESPACE)
        await user.raw.merge(RayCluster(metadata=name, spec=cluster(0).spec), touch, guard={})
        await anyio.sleep(6)
