"""The bundled controllers under all schedules of small worlds: some runs, or all of them with LABORATORY."""

import os
from collections.abc import Callable

import pytest
from attrs import evolve, frozen

from controllers import fleets as fleet_controllers
from controllers import nodegroups as node_groups
from controllers.autoscaling import make_controller as make_autoscaler
from controllers.workergroups import RayCluster
from reconcile.blocks import AllowedHosts
from reconcile.kinds import Deployment
from reconcile.models import encode
from reconcile.testing import Apply, Scenario, World, explore
from tests.controllers import fleets, nodegroups
from tests.controllers import test_autoscaling_simulated as autoscaling
from tests.controllers import test_fleets_simulated as simulated_fleets
from tests.simulation.bundled_scenarios import cluster, pipeline, registry_secrets, source, worker_groups

IN_FULL = "LABORATORY" in os.environ
SECONDS = 3_600.0


@frozen
class SmallWorld:
    """A scenario that can be explored whole, with a crash and so many lost answers."""

    make: Callable[[], Scenario]
    runs: int
    """So many of them in the suite."""
    lost_answers: int = 1


def one_secret_and_one_copy() -> Scenario:
    return evolve(registry_secrets(), steps=[Apply(source("one")), Apply(pipeline("test"))])


def one_cluster_with_one_worker() -> Scenario:
    """Its status keeps when it was last `failed`, as a lost answer makes it: so end states differ."""
    told = worker_groups()
    return evolve(told, steps=[Apply(cluster(1))], nodes=None, without=["end-state"])


def one_deployment_that_grows() -> Scenario:
    """With nothing that makes pods. A crash between the new size and the status loses when it was given."""
    told = autoscaling.scenario()
    return evolve(
        told,
        controllers=lambda: make_autoscaler(every=2.0, fetch=autoscaling.Pages, hosts=AllowedHosts(["*"])),
        steps=told.steps[:1],
        nodes=None,
        invariants=[as_large_as_the_load],
        # Each of its runs reads the scale of the target, which nothing can tell it.
        without=["extra-run", "end-state"],
    )


def as_large_as_the_load(world: World) -> None:
    (target,) = world.objects(Deployment)
    assert target.spec.replicas == autoscaling.LOAD


def one_group_that_grows() -> Scenario:
    """A pod without a place, and nothing that plays Cluster API: a crash loses when the group last grew."""
    waiting = {**nodegroups.pod("a", nodeSelector=nodegroups.POOL), "status": nodegroups.UNSCHEDULABLE}
    settings = node_groups.NodeGroupSettings(nodegroups.API)
    return Scenario(
        controllers=lambda: node_groups.make_controller(settings),
        definitions=nodegroups.definitions(),
        kinds=[nodegroups.API.kind("MachineDeployment")],
        objects=[nodegroups.group("best", 0, ("0", "3"), **nodegroups.OFFER), waiting],
        steps=[Apply(encode(nodegroups.autoscaler(scale_down=nodegroups.QUICK)))],
        invariants=[grown_by_one],
        without=["extra-run", "end-state"],
    )


def grown_by_one(world: World) -> None:
    (group,) = world.objects(nodegroups.API.kind("MachineDeployment"))
    assert group["spec"]["replicas"] == 1


def one_fleet_of_one_cluster() -> Scenario:
    """With its sets, and without the controller of RayClusters, so its cluster never gets ready."""
    return evolve(
        simulated_fleets.scenario(1, 0),
        controllers=fleet_controllers.make_controllers,
        steps=[simulated_fleets.step(replicas=1, strategy=fleets.rolling(1, 0))],
        nodes=None,
        invariants=[one_live_cluster],
        always=[],
    )


def one_live_cluster(world: World) -> None:
    assert len(world.objects(RayCluster)) == 1


WORLDS = {
    "registry-secrets": SmallWorld(one_secret_and_one_copy, 10),
    "worker-groups": SmallWorld(one_cluster_with_one_worker, 6),
    "autoscaling": SmallWorld(one_deployment_that_grows, 6),
    "node-groups": SmallWorld(one_group_that_grows, 10),
    "fleets": SmallWorld(one_fleet_of_one_cluster, 6, lost_answers=0),
}


@pytest.mark.rule("sim-explore")
@pytest.mark.timeout(2 * SECONDS if IN_FULL else 60)
@pytest.mark.parametrize("name", WORLDS)
def test_no_schedule_breaks_a_bundled_controller(name: str) -> None:
    world = WORLDS[name]
    most = None if IN_FULL else world.runs
    report = explore(
        world.make(), objects=10, crashes=1, lost_answers=world.lost_answers, seconds=SECONDS, most=most
    )
    print(f"\n{name}: {report}")
    assert report.exhaustive if IN_FULL else report.runs == most
    assert report.sees_all
