"""The bundled controllers carry out every change of a spec: a part here, all of it in `make laboratory`."""

import os
from collections.abc import Callable, Sequence

import pytest
from attrs import evolve, field, frozen

from controllers.autoscaling import make_controller as make_autoscaler
from controllers.nodegroups import NodeGroupSettings, make_controller
from reconcile import Controller
from reconcile.blocks import AllowedHosts, FetchFailed
from reconcile.kinds import Deployment, Pod
from reconcile.models import encode
from reconcile.testing import Apply, Scenario, transitions
from tests.controllers.nodegroups import API, MACHINES, OFFER, QUICK, autoscaler, definitions, group
from tests.controllers.test_autoscaling_simulated import Pages, run_pods
from tests.controllers.test_autoscaling_simulated import scenario as autoscaling
from tests.controllers.test_fleets_simulated import scenario as fleets
from tests.simulation.bundled_scenarios import registry_secrets, worker_groups

MOST_PODS = 12 * 12 * 6
"""Hosts of replicas of groups that one spec can ask for: each is a request."""
SECONDS = float(os.environ.get("TRANSITION_SECONDS", "0"))
"""Within how long all changes of each controller are to be played; 0: some fields alone, for some seconds."""

pytestmark = pytest.mark.timeout(60 + 4 * SECONDS)


@frozen
class KnownPages(Pages):
    """No other host answers: endpoints are made up too."""

    async def page(self, url: str, most_bytes: int) -> bytes:
        if "gauge.example.com" in url or url.startswith("http://10.244."):
            return await super().page(url, most_bytes)
        raise FetchFailed("NameResolution", "there is no such host")


def autoscalers() -> Scenario:
    pods = Controller(Deployment, run_pods, owns=(Pod,), name="deployments", operator="example.com")
    scaled = make_autoscaler(every=2.0, fetch=KnownPages, hosts=AllowedHosts(["*"]))
    return evolve(autoscaling(), controllers=lambda: (scaled, pods))


def node_groups() -> Scenario:
    sized = encode(autoscaler(scale_down=QUICK))
    return Scenario(
        controllers=lambda: [make_controller(NodeGroupSettings(API)), MACHINES.controller],
        definitions=definitions(),
        kinds=[API.kind("MachineDeployment")],
        objects=[group("best", 0, ("0", "3"), **OFFER)],
        steps=[Apply(sized)],
    )


@frozen
class Bundled:
    """A controller in a world, what may depend on the past and why, and the fields that the suite plays."""

    name: str
    scenario: Callable[[], Scenario]
    part: str
    only: str = "*"
    one_way: Sequence[str] = field(default=())
    without: Sequence[str] = field(default=())
    skip: Sequence[str] = field(default=())

    def __str__(self) -> str:
        return self.name


RAY_PODS = (
    "pods.metadata",
    "pods.spec",
    "rayclusters.status.stateTransitionTimes",
    "rayclusters.status.conditions",
)
BUNDLED = (
    # Namespaces are never deleted, and a copy stays where its source is not there any more.
    Bundled("registry-secrets", registry_secrets, "spec.reviewapps", one_way=["namespaces", "secrets"]),
    # As in KubeRay, pods stay as they were made, and observedGeneration is written with other changes only
    # (docs/reference/compatibility.md). Conditions tell what has been once. What another controller manages
    # stays as it is.
    Bundled(
        "worker-groups",
        worker_groups,
        "spec.suspend",
        one_way=RAY_PODS,
        without=["observed"],
        skip=["spec.managedBy", "spec.enableInTreeAutoscaling"],
    ),
    # Where Ray's autoscaler decides, only workers that it names are deleted, whatever the spec was before, so
    # there are no pairs. A head pod that runs the autoscaler goes on to need what it is allowed to do.
    Bundled(
        "worker-groups-with-autoscaler",
        worker_groups,
        "spec.enableInTreeAutoscaling",
        only="spec.enableInTreeAutoscaling",
        one_way=[
            *RAY_PODS,
            "pods.status.containerStatuses",
            "pods.status.qosClass",
            "roles",
            "rolebindings",
            "serviceaccounts",
        ],
        without=["observed"],
    ),
    # As in Deployments, an old replica set stays for a rollback, and tells the size that it had; what is
    # paused stays as it is.
    Bundled(
        "fleets",
        lambda: fleets(1, 0),
        "spec.revisionHistoryLimit",
        one_way=[
            "pods.metadata",
            "pods.spec",
            "rayclusterreplicasets",
            "rayclusterfleets.metadata.annotations",
        ],
        skip=["spec.paused"],
    ),
    # An autoscaler stays where it is without a metric, and its target stays as it is without an autoscaler.
    Bundled(
        "autoscaling",
        autoscalers,
        "spec.minReplicas",
        one_way=["pods", "deployments", "podautoscalers.status"],
    ),
    # Machines come and go with load and time, and while a spec is invalid the last report stays.
    Bundled(
        "node-groups",
        node_groups,
        "spec.discovery",
        one_way=["machinesets", "machines", "machinedeployments", "nodes", "nodeautoscalers.status"],
    ),
)


@pytest.mark.rule("transitions-library")
@pytest.mark.parametrize("bundled", BUNDLED, ids=str)
def test_each_change_of_a_spec_is_carried_out(bundled: Bundled) -> None:
    report = transitions(
        evolve(bundled.scenario(), limit_seconds=600, most_requests=MOST_PODS),
        budget=SECONDS or 600,
        only=bundled.only if SECONDS else bundled.part,
        one_way=bundled.one_way,
        skip=bundled.skip,
        without=bundled.without,
    )
    print(f"\n{bundled}: {report}")
    assert report.transitions > 0
    assert report.complete
