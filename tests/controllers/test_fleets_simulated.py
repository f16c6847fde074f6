"""Fleets with their controllers at work, on late watches and in virtual time: the incident and the bounds."""

import os
from typing import Any

import anyio
import pytest

from controllers.fleets import (
    RayClusterFleet,
    RayClusterReplicaSet,
    definition,
    make_controllers,
    set_definition,
)
from controllers.fleets.demo import incident as scaling
from controllers.fleets.demo.original import FleetWithoutScale, without_scale
from controllers.fleets.fleet import make_fleet_controller
from controllers.fleets.replica_set import make_set_controller
from controllers.fleets.replica_set_plan import cluster_of
from controllers.workergroups import RayCluster, make_controller
from controllers.workergroups import definition as clusters
from reconcile import Manager
from reconcile.models import encode
from reconcile.simulation import Delays, IncidentVerdict, Logic, bundled_incidents
from reconcile.testing import (
    Apply,
    Cut,
    Delete,
    Fault,
    FaultPlan,
    FaultyTransport,
    Kill,
    LateTransport,
    Scenario,
    ScenarioReport,
    Wait,
    When,
    World,
    seeds,
    simulate,
    sweep,
)
from tests.controllers.fleets import fleet, rolling
from tests.controllers.world import NAMESPACE, world
from tests.helpers.scenarios import simulated
from tests.helpers.sweeps import sweep_runs

RUNS = sweep_runs(3)
SEEDS = int(os.environ.get("SWEEP_SEEDS", "2"))

QUICK = Delays(start=0.2, stop=0.2)


def play(seed: int, logic: Logic) -> IncidentVerdict:
    async def run() -> IncidentVerdict:
        async with world(seed, clusters(), definition(), set_definition(), delays=QUICK) as here:
            return await scaling.play(here.stage, logic)

    return simulate(run, seed=seed)


@pytest.mark.rule("aibrix-3d-scale")
@pytest.mark.parametrize("seed", range(3))
def test_an_autoscaler_scales_a_fleet_down_to_zero_and_back(seed: int) -> None:
    verdict = play(seed, "ours")
    assert verdict.ok, verdict


@pytest.mark.rule("aibrix-3d-hpa")
@pytest.mark.parametrize(("serves_scale", "word"), [(True, "True"), (False, "False")])
@simulated
async def test_a_horizontal_pod_autoscaler_can_scale_a_fleet(serves_scale: bool, word: str) -> None:
    autoscaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "fleet", "namespace": NAMESPACE},
        "spec": {
            "minReplicas": 2,
            "maxReplicas": 4,
            "scaleTargetRef": {
                "apiVersion": "orchestration.aibrix.ai/v1alpha1", "kind": "RayClusterFleet", "name": "fleet",
            },
        },
    }  # fmt: skip
    defined = definition() if serves_scale else without_scale(definition())
    fleets = make_fleet_controller(RayClusterFleet if serves_scale else FleetWithoutScale)
    async with world(0, clusters(), defined, set_definition(), delays=QUICK) as here:
        manager = Manager(
            fleets, make_set_controller(), make_controller(), transport=here.transport, clock=here.clock
        )
        async with anyio.create_task_group() as group:
            await group.start(manager.run)
            await here.user.create(fleet(1).with_metadata(namespace=NAMESPACE))
            made = await here.user.create(autoscaler)
            await anyio.sleep(60)
            found = await here.user.get(type(made), "fleet", NAMESPACE)
            said = {one["type"]: one["status"] for one in found["status"]["conditions"]}
            assert said["AbleToScale"] == word
            kept = await here.user.get(RayClusterFleet, "fleet", NAMESPACE)
            assert kept.status.available_replicas == (2 if serves_scale else 1)
            group.cancel_scope.cancel()


def test_without_the_scale_subresource_an_autoscaler_finds_nothing() -> None:
    verdict = play(0, "original")
    assert not verdict.ok
    assert "FailedGetScale" in verdict.explanation
    assert "404" in verdict.explanation


def test_the_incident_is_found_by_name() -> None:
    assert bundled_incidents()["fleet-scaled-by-hpa"] is scaling.incident


@pytest.mark.rule("aibrix-fleet-quiet")
@simulated
async def test_a_settled_fleet_gets_no_further_writes_however_often_it_runs() -> None:
    async with world(0, clusters(), definition(), set_definition(), delays=QUICK) as here:
        drops = [Fault(When("watch", nth=number), Cut(3)) for number in range(4, 10)]
        recorded = FaultyTransport(here.transport, FaultPlan(drops))
        fleets, sets = make_controllers()
        late = LateTransport(recorded, 7)
        manager = Manager(fleets, sets, make_controller(), transport=late, clock=here.clock)
        async with anyio.create_task_group() as group:
            await group.start(manager.run)
            await here.user.create(fleet(3).with_metadata(namespace=NAMESPACE))
            await anyio.sleep(60)
            before = len(recorded.writes)
            (made,) = await here.user.list(RayClusterReplicaSet, NAMESPACE)
            for _ in range(20):
                manager.trigger(fleets, f"{NAMESPACE}/fleet")
                manager.trigger(sets, f"{NAMESPACE}/{made.name}")
                await anyio.sleep(30)
            assert [write.path for write in recorded.writes[before:]] == []
            group.cancel_scope.cancel()


# --- the bounds, whatever goes wrong ------------------------------------------------------------------------

FLEET = "/apis/orchestration.aibrix.ai/v1alpha1/namespaces/default/rayclusterfleets/fleet"


def step(**spec: Any) -> Apply:
    manifest = encode(fleet(**spec))
    return Apply({name: value for name, value in manifest.items() if name != "status"})


def within_bounds(surge: int, unavailable: int, replicas: int = 3) -> Any:
    """Never more than may be, and from the first full number on never fewer ready than have to."""

    def check(world: World) -> None:
        if "rayclusters" not in str(world.changes[-1].change.resource):
            return
        found = world.find(RayClusterFleet, "fleet")
        if found is None or found.terminating or found.spec.replicas != replicas:
            return
        live = [cluster_of(one) for one in world.objects(RayCluster) if not one.terminating]
        ready = sum(one.ready for one in live)
        assert len(live) <= replicas + surge, f"{len(live)} clusters"
        reached = world.__dict__.setdefault("reached", False)
        if ready >= replicas:
            world.__dict__["reached"] = True
        assert not reached or ready >= replicas - unavailable, f"{ready} ready"

    return check


def as_many_as_asked_for(world: World) -> None:
    for one in world.objects(RayClusterFleet):
        live = [cluster for cluster in world.objects(RayCluster) if not cluster.terminating]
        assert len(live) == one.spec.replicas
        assert one.status.available_replicas == one.spec.replicas
        images = {cluster.spec.head_group_spec.template["spec"]["containers"][0]["image"] for cluster in live}
        wanted = one.spec.template.spec["headGroupSpec"]["template"]["spec"]["containers"][0]["image"]
        assert images <= {wanted}


def scenario(surge: int, unavailable: int) -> Scenario:
    strategy = rolling(surge, unavailable)
    return Scenario(
        controllers=lambda: (*make_controllers(), make_controller()),
        definitions=[definition(), set_definition(), clusters()],
        steps=[
            step(replicas=3, strategy=strategy),
            step(replicas=3, strategy=strategy, image="ray:2"),
            Wait(1.0),
            Kill(),
            step(replicas=3, strategy=strategy, image="ray:3"),
            step(replicas=1, strategy=strategy, image="ray:3"),
            Delete(FLEET),
        ],
        invariants=[as_many_as_asked_for],
        always=[within_bounds(surge, unavailable)],
        nodes=Delays(),
    )


pytestmark = pytest.mark.timeout(3600 if "SWEEP_RUNS" in os.environ else 60)


def told(what: str, report: ScenarioReport, in_full: str = "") -> None:
    print(f"\nfleets: {what}: {report}{in_full}")


@pytest.mark.rule("aibrix-fleet-bounds")
@pytest.mark.parametrize("bounds", [(1, 0), (0, 1)])
def test_the_bounds_hold_under_every_single_fault(bounds: tuple[int, int]) -> None:
    report = sweep(scenario(*bounds), most=RUNS)
    told("sweep", report)
    assert report.runs == min(report.in_full or 0, RUNS or 10**9)


@pytest.mark.rule("aibrix-fleet-bounds")
def test_the_bounds_hold_on_many_seeds() -> None:
    told("seeds", seeds(scenario(1, 1), SEEDS), " of 2000")
