"""Scenarios with simulated workloads: the operator of an example comes to where its pods are ready."""

import importlib
from pathlib import Path
from types import ModuleType

import pytest

from reconcile import ObjectMeta
from reconcile.conditions import is_true
from reconcile.kinds import Deployment, Pod
from reconcile.simulation import Delays
from reconcile.testing import Apply, Delete, Edit, FaultPlan, Scenario, World, replay, sweep
from reconcile.testing.end_state import end_state_of
from tests.helpers.sweeps import sweep_runs

SITE = Path(__file__).parents[2] / "docs" / "examples" / "site"
RUNS = sweep_runs(10)

pytestmark = [pytest.mark.timeout(60 if RUNS else 3600), pytest.mark.rule("workloads-scenario")]


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(SITE)
    return importlib.import_module("sites")


def story(example: ModuleType, *, workloads: bool = True) -> Scenario:
    web = example.Site(metadata=ObjectMeta("web", "default"), spec=example.SiteSpec("nginx:1.29", 2))

    def every_site_is_ready(world: World) -> None:
        for site in world.objects(example.Site):
            assert site.status.ready == site.spec.replicas, f"{site.status.ready} are ready"
            assert is_true(site.status.conditions, "Ready", generation=site.metadata.generation)
            assert len(world.objects(Pod)) == site.spec.replicas

    return Scenario(
        controllers=lambda: example.sites,
        steps=[
            Apply(web),
            Edit(web, {"spec": {"image": "nginx:1.30"}}),
            Edit(web, {"spec": {"replicas": 1}}),
            Delete(web),
        ],
        invariants=[every_site_is_ready] if workloads else [],
        nodes=Delays(),
        workloads=workloads,
    )


def test_a_site_is_ready_after_each_step_under_every_fault(example: ModuleType) -> None:
    print(f"\na site with pods: {sweep(story(example), most=RUNS)}")


def test_without_workloads_there_are_no_pods(example: ModuleType) -> None:
    world = replay(story(example, workloads=False), FaultPlan()).world
    assert all(one.change.resource[1] != "pods" for one in world.changes)


def test_pods_of_workloads_are_not_counted_as_the_operators_work(example: ModuleType) -> None:
    world = replay(story(example), FaultPlan()).world
    assert sum(one.change.resource[1] == "pods" and one.change.old is None for one in world.changes) >= 4
    ending = end_state_of(world, workloads=True)
    assert {subject[0] for subject in ending.creates} == {"sites", "deployments"}
    assert not any(request.path.endswith("/pods") and request.mutating for request in world.requests)


def test_workloads_without_nodes_are_refused() -> None:
    with pytest.raises(ValueError, match="needs nodes="):
        Scenario(controllers=list, kinds=[Deployment], workloads=True)
