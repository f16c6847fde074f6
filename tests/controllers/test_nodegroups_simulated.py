"""Node groups under every single fault, crashes too, and under many seeds: `make sweep` tells all of them."""

import os
from typing import Any

import pytest

from controllers.nodegroups import NodeGroupSettings, make_controller
from reconcile import Context, Controller, Write
from reconcile.kinds import Pod
from reconcile.models import encode
from reconcile.testing import Apply, Delete, Scenario, ScenarioReport, World, seeds, sweep
from tests.controllers.nodegroups import (
    API,
    MACHINES,
    OFFER,
    POOL,
    QUICK,
    UNSCHEDULABLE,
    autoscaler,
    definitions,
    group,
    pod,
)
from tests.controllers.world import NAMESPACE
from tests.helpers.sweeps import sweep_runs

SEEDS = int(os.environ.get("SWEEP_SEEDS", "2"))
RUNS = sweep_runs(6)

pytestmark = pytest.mark.timeout(60 if RUNS else 3600)

MOST = 3
PRIORITIES = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "cluster-autoscaler-priority-expander", "namespace": NAMESPACE},
    "data": {"priorities": "10:\n- .*second$\n50:\n- .*best$\n"},
}


async def find_no_place(ctx: Context[Pod]) -> None:
    """Plays a scheduler that has no node for any pod."""
    if not ctx.object.status.conditions:
        await ctx.client.raw.merge(ctx.object, {"status": UNSCHEDULABLE}, guard={}, subresource="status")


def sizes(world: World) -> dict[str, int]:
    found = world.objects(API.kind("MachineDeployment"))
    return {one.name: int(one["spec"]["replicas"]) for one in found}


def within_bounds(world: World) -> None:
    assert all(0 <= size <= MOST for size in sizes(world).values()), sizes(world)


def the_best_group_has_a_node_for_each_pod(world: World) -> None:
    found, pods = sizes(world), len(world.objects(Pod))
    assert found["best"] >= min(pods, MOST), found
    assert max(0, pods - MOST) <= found["second"] <= 1, found


def the_second_group_grows_only_when_the_best_is_full(world: World) -> None:
    found = sizes(world)
    assert not found["second"] or found["best"] == MOST, found


def scenario() -> Scenario:
    asking = [pod(name, nodeSelector=POOL) for name in "abcd"]
    sized = encode(autoscaler(expanders=("priority",), scale_down=QUICK))

    def controllers() -> list[Controller[Any]]:
        return [
            make_controller(NodeGroupSettings(API)),
            MACHINES.controller,
            Controller(
                Pod,
                find_no_place,
                writes=[Write(Pod, subresource="status")],
                name="scheduler",
                operator="example.com",
            ),
        ]

    return Scenario(
        controllers=controllers,
        definitions=definitions(),
        kinds=[API.kind("MachineDeployment")],
        objects=[group(name, 0, ("0", str(MOST)), **OFFER) for name in ("best", "second")] + [PRIORITIES],
        steps=[
            Apply(sized),
            *(Apply(one) for one in asking),
            Delete(f"/api/v1/namespaces/{NAMESPACE}/pods/a"),
        ],
        invariants=[the_best_group_has_a_node_for_each_pod],
        always=[within_bounds, the_second_group_grows_only_when_the_best_is_full],
        # Sizes and machines are read from the server in each run, by the stand-in for Cluster API too.
        without=["extra-run"],
    )


def told(what: str, report: ScenarioReport, in_full: str = "") -> None:
    print(f"\nnode groups: {what}: {report}{in_full}")


@pytest.mark.rule("node-groups-simulated")
def test_the_best_group_has_what_pods_need_under_every_single_fault() -> None:
    report = sweep(scenario(), most=RUNS)
    told("sweep", report)
    assert report.runs == min(report.in_full or 0, RUNS or 10**9)


@pytest.mark.rule("node-groups-simulated")
def test_the_best_group_has_what_pods_need_on_many_seeds() -> None:
    told("seeds", seeds(scenario(), SEEDS), " of 2000")
