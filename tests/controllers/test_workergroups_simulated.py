"""Worker groups whatever goes wrong: each single fault, and many seeds with restarts, stuck pods and quotas.

SWEEP_RUNS and SWEEP_SEEDS say how much of it is told; `make sweep` tells all.
"""

import itertools
import os
import random
from collections.abc import Iterator
from typing import Any

import pytest
from attrs import evolve

from controllers.workergroups import RayCluster, definition, make_controller
from controllers.workergroups.demo.original import plan_group_like_v1_3_0
from reconcile.kinds import Pod
from reconcile.models import unstructured_kind
from reconcile.simulation import Delays
from reconcile.testing import (
    Apply,
    Broken,
    Delete,
    Kill,
    Release,
    Scenario,
    ScenarioReport,
    Wait,
    World,
    seeds,
    sweep,
)
from reconcile.testing.scenario import ScenarioStep
from tests.helpers.sweeps import sweep_runs
from tests.simulation.bundled_scenarios import DEMO, cluster

RUNS = sweep_runs(5)
SEEDS = int(os.environ.get("SWEEP_SEEDS", "5"))
HELD = "example.com/held"
WORKER = {"ray.io/node-type": "worker"}
ResourceQuota = unstructured_kind("v1", "ResourceQuota")


def sized(replicas: int, hosts: int = 1, **group: Any) -> Apply:
    made = cluster(replicas)
    made["spec"]["workerGroupSpecs"][0] |= {"numOfHosts": hosts, **group}
    return Apply(made)


def quota(pods: int) -> Apply:
    metadata = {"name": "few", "namespace": "default"}
    return Apply(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": metadata,
            "spec": {"hard": {"pods": str(pods)}},
        }
    )


async def hold_workers(world: World) -> None:
    """From now on workers stay Terminating, until somebody lets them go."""
    for pod in await world.user.list(Pod, "default", labels=WORKER):
        await world.user.raw.merge(pod, {"metadata": {"finalizers": [HELD]}}, guard={"uid": pod.uid})


async def finalize(world: World) -> None:
    for pod in await world.user.list(Pod, "default", labels=WORKER):
        if HELD in pod.metadata.finalizers:
            await world.act(Release(pod))


def wanted(world: World) -> Iterator[int]:
    """The sizes that were asked for, in workers, one after the other; 0 once the cluster goes."""
    for happened in world.changes:
        change = happened.change
        if change.resource == ("ray.io", "rayclusters"):
            if change.new is None or change.new.deleting:
                yield 0
                continue
            groups = change.new.decode()["spec"]["workerGroupSpecs"]
            yield sum(group["replicas"] * group.get("numOfHosts", 1) for group in groups)


def one_deletion_for_each_unit(world: World) -> None:
    """Workers go only as sizes went down: never one more, whatever has died meanwhile.

    Those that were made for a cluster that had gone already do not count: that race no controller wins.
    """
    sizes = list(wanted(world))
    allowed = sum(max(0, one - other) for one, other in itertools.pairwise(sizes))
    gone = set(_workers_gone(world))
    assert len(gone) <= allowed, f"{len(gone)} workers went, and sizes went down by {allowed}"


def _workers_gone(world: World) -> Iterator[str]:
    late: set[str] = set()
    there = True
    for happened in world.changes:
        change = happened.change
        if change.resource == ("ray.io", "rayclusters"):
            there = change.new is not None and not change.new.deleting
        state = change.new or change.old
        if state is None or state.labels.get("ray.io/node-type") != "worker":
            continue
        if change.old is None and not there:
            late.add(state.uid)
        if (change.new is None or change.new.deleting) and state.uid not in late:
            yield state.uid


def as_many_as_asked_for(world: World) -> None:
    """At rest: min <= present <= max is implied, since the size asked for is within both."""
    quotas = [int(one.body["spec"]["hard"]["pods"]) for one in world.objects(ResourceQuota)]
    for one in world.objects(RayCluster):
        asked = sum((group.replicas or 0) * group.num_of_hosts for group in one.spec.worker_group_specs)
        present = [pod for pod in world.objects(Pod) if not pod.terminating and _is_worker(pod)]
        assert len(present) == min([asked, *(pods - 1 for pods in quotas)])


def whole_replicas(world: World) -> None:
    """At rest no replica is there in part, unless a quota is in its way."""
    quotas = [int(one.body["spec"]["hard"]["pods"]) for one in world.objects(ResourceQuota)]
    if min(quotas, default=9) < 9:
        return
    replicas: dict[str, int] = {}
    for pod in world.objects(Pod):
        if _is_worker(pod) and not pod.terminating:
            name = pod.metadata.labels["ray.io/worker-group-replica-name"]
            replicas[name] = replicas.get(name, 0) + 1
    assert set(replicas.values()) <= {2}, replicas


def _is_worker(pod: Pod) -> bool:
    return pod.metadata.labels.get("ray.io/node-type") == "worker"


def scenario(*steps: ScenarioStep, **options: Any) -> Scenario:
    return Scenario(
        controllers=make_controller,
        definitions=[definition()],
        steps=steps,
        invariants=[as_many_as_asked_for, *options.pop("invariants", ())],
        always=[one_deletion_for_each_unit],
        nodes=Delays(start=0.3, stop=1.0),
        **options,
    )


SCALED_DOWN = scenario(sized(4), sized(3), sized(1), Delete(DEMO))
RESTARTED = scenario(
    sized(4),
    sized(3),
    Wait(0.7),
    Kill(),
    Wait(0.7),
    sized(2),
    Wait(0.4),
    Kill(),
    hold_workers,
    sized(1),
    Wait(1.5),
    Kill(),
    Wait(3.0),
    finalize,
    Delete(DEMO),
    lag=(0.05, 2.0),
)
QUOTA = scenario(
    quota(3), sized(4), quota(9), sized(3), sized(2), Delete(DEMO), lag=(0.05, 1.0), most_failures=200
)
QUOTA_ON_HOSTS = scenario(
    quota(4),
    sized(3, hosts=2),
    quota(9),
    sized(2, hosts=2),
    Delete(DEMO),
    invariants=[whole_replicas],
    most_failures=200,
)
SEVERAL_HOSTS = scenario(
    sized(2, hosts=2), sized(1, hosts=2), sized(2, hosts=2), Delete(DEMO), invariants=[whole_replicas]
)


def told(what: str, report: ScenarioReport, in_full: str = "") -> None:
    print(f"\nworker groups: {what}: {report}{in_full}")


@pytest.mark.rule("kuberay-1d-faults")
@pytest.mark.parametrize("name", ["scaled down", "several hosts"])
def test_no_single_fault_costs_a_worker_too_many(name: str) -> None:
    told(f"sweep, {name}", sweep(SCALED_DOWN if name == "scaled down" else SEVERAL_HOSTS, most=RUNS))


@pytest.mark.rule("kuberay-1d-faults")
def test_restarts_stale_caches_and_stuck_pods_cost_no_worker_too_many() -> None:
    told("seeds with restarts and stuck pods", seeds(RESTARTED, SEEDS), " of 2000")


@pytest.mark.rule("kuberay-1d-faults")
def test_a_quota_costs_no_worker_too_many() -> None:
    told("seeds with a quota", seeds(QUOTA, SEEDS), " of 2000")


@pytest.mark.rule("kuberay-1d-faults")
def test_a_quota_that_interrupts_a_replica_costs_no_worker_either() -> None:
    told("seeds with a quota on hosts", seeds(QUOTA_ON_HOSTS, SEEDS), " of 2000")


def test_the_original_deletes_too_many_workers_there() -> None:
    steps = (sized(4), sized(3), Wait(0.7), Kill(), Wait(6.0))
    planner = plan_group_like_v1_3_0(random.Random(0).random)
    told_of = evolve(scenario(*steps), controllers=lambda: make_controller(planner=planner))
    with pytest.raises(Broken, match="sizes went down by 1"):
        seeds(told_of, 20)
