"""What a RayCluster's status says. Numbered rows are those of systems.md, table 1d."""

from datetime import UTC, datetime
from typing import Any

import pytest
from attrs import evolve

from controllers.workergroups.models import HeadInfo, RayClusterStatus
from controllers.workergroups.pod_plan import HeadPlan, RayClusterPlan
from controllers.workergroups.ray_pod_view import RayPodView
from controllers.workergroups.raycluster_status import (
    ReplicaFailure,
    differs,
    failure_in_plan,
    is_gpu,
    pod_resources,
    status_of,
    with_times,
)
from controllers.workergroups.raycluster_view import ClusterView, GroupView, HeadView
from controllers.workergroups.suspension import Phase
from reconcile import Condition
from tests.controllers.ray_views import UID
from tests.controllers.ray_views import head as ray_head
from tests.controllers.ray_views import worker as pod


def template(*containers: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": f"c{i}", "resources": one} for i, one in enumerate(containers)]}}


def group(
    name: str = "small", replicas: int | None = 2, low: int = 0, high: int = 5, **changes: Any
) -> GroupView:
    return evolve(GroupView(name, replicas, low, high), **changes)


def cluster(*groups: GroupView, head: dict[str, Any] | None = None) -> ClusterView:
    return ClusterView("ray", "default", UID, head=HeadView(template=head or template({})), groups=groups)


def head(name: str = "ray-head", **changes: Any) -> RayPodView:
    return ray_head(name, **{"ip": "10.0.0.9", **changes})


def condition(status: RayClusterStatus, kind: str) -> Condition:
    (found,) = [one for one in status.conditions if one.type == kind]
    return found


@pytest.mark.rule("kuberay-1d-10")
@pytest.mark.parametrize(
    ("groups", "low", "high"),
    [
        ([group(low=2, high=3)], 2, 3),
        ([group(low=2, high=3, num_of_hosts=4)], 8, 12),
        ([group(low=4, high=4), group("other", low=3, high=3, num_of_hosts=2)], 10, 10),
        ([group(low=2, high=3, suspend=True)], 0, 0),
        ([group(high=2147483647), group("other", high=2147483647)], 0, 2147483647),
    ],
)
def test_the_bounds_of_a_cluster_are_the_sums_of_its_groups(
    groups: list[GroupView], low: int, high: int
) -> None:
    status = status_of(cluster(*groups), [])
    assert (status.min_worker_replicas, status.max_worker_replicas) == (low, high)


def test_running_and_ready_workers_are_counted_separately() -> None:
    pods = [pod("a"), pod("b", ready=False), pod("c", phase="Pending", ready=False), head()]
    status = status_of(cluster(group(replicas=3)), pods)
    assert (
        status.desired_worker_replicas,
        status.available_worker_replicas,
        status.ready_worker_replicas,
    ) == (3, 2, 1)


def test_terminating_finished_and_foreign_workers_are_not_counted() -> None:
    pods = [
        pod("going", terminating=True),
        pod("dead", phase="Failed"),
        pod("foreign", owner_uid="another"),
        pod("abandoned", group="gone"),
    ]
    status = status_of(cluster(group()), pods)
    assert (status.available_worker_replicas, status.ready_worker_replicas) == (0, 0)


def test_the_head_pod_is_named_with_its_address() -> None:
    status = status_of(cluster(), [head(), head(terminating=True, name="old")])
    assert status.head == HeadInfo("ray-head", "10.0.0.9")


@pytest.mark.rule("kuberay-1d-head-ready")
@pytest.mark.parametrize(
    ("heads", "status", "reason"),
    [
        ([], "False", "HeadPodNotFound"),
        ([head()], "True", "HeadPodRunningAndReady"),
        ([head(ready=False, ready_reason="ContainersNotReady")], "False", "ContainersNotReady"),
        ([head(ready=False)], "False", "Unknown"),
        ([head(terminating=True)], "False", "HeadPodNotFound"),
    ],
)
def test_the_head_condition_follows_the_pods(heads: list[RayPodView], status: str, reason: str) -> None:
    found = condition(status_of(cluster(), heads), "HeadPodReady")
    assert (found.status, found.reason) == (status, reason)


def test_a_cluster_is_provisioned_once_all_its_pods_are_ready() -> None:
    whole = cluster(group())
    partly = status_of(whole, [head(), pod("a"), pod("b", ready=False)])
    assert partly.state == ""
    assert condition(partly, "RayClusterProvisioned").reason == "RayClusterPodsProvisioning"
    wholly = status_of(whole, [head(), pod("a"), pod("b")])
    assert wholly.state == "ready"
    assert condition(wholly, "RayClusterProvisioned").reason == "AllPodRunningAndReadyFirstTime"


@pytest.mark.parametrize("extra", [pod("c"), head(name="second")])
def test_a_cluster_with_a_surplus_pod_is_not_ready(extra: RayPodView) -> None:
    assert status_of(cluster(group()), [head(), pod("a"), pod("b"), extra]).state == ""


@pytest.mark.rule("kuberay-1d-14")
def test_a_failure_is_a_condition_and_is_cleared_with_its_cause() -> None:
    failed = status_of(cluster(), [], failure=ReplicaFailure("FailedCreateWorkerPod", "exceeded quota"))
    assert condition(failed, "ReplicaFailure") == Condition(
        "ReplicaFailure", "True", "FailedCreateWorkerPod", "exceeded quota"
    )
    assert (failed.state, failed.reason) == ("failed", "exceeded quota")
    assert condition(status_of(cluster(), []), "ReplicaFailure").status == "False"


def test_a_plan_that_needs_manual_action_is_reported() -> None:
    assert failure_in_plan(RayClusterPlan()) is None
    refused = failure_in_plan(
        RayClusterPlan(refused=("spec.suspend is not supported: later", "spec.a: is bad"))
    )
    assert refused == ReplicaFailure("Refused", "spec.suspend is not supported: later; spec.a: is bad")
    heads = failure_in_plan(RayClusterPlan(head=HeadPlan(surplus=(head(), head(name="second")))))
    assert heads == ReplicaFailure(
        "TooManyHeadPods", "keep one head pod and delete the others: ray-head, second"
    )


def test_the_desired_resources_are_those_of_the_head_and_all_desired_workers() -> None:
    requested = {
        "requests": {"cpu": "500m", "memory": "1Gi"},
        "limits": {"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "1", "google.com/tpu": "4"},
    }
    status = status_of(
        cluster(
            group(replicas=3, template=template(requested, {"limits": {"memory": "512Mi"}})),
            head=template({"limits": {"cpu": "1", "memory": "5Gi"}}),
        ),
        [],
    )
    assert status.desired_cpu == "2500m"
    assert status.desired_memory == "9728Mi"
    assert (status.desired_gpu, status.desired_tpu) == ("3", "12")


def test_a_refused_cluster_whose_amounts_do_not_parse_still_has_a_status() -> None:
    broken = evolve(
        cluster(head=template({"limits": {"cpu": "lots"}})), refused=("spec.suspend is not supported: later",)
    )
    assert status_of(broken, []).desired_cpu == "0"


def test_slices_of_gpus_are_gpus() -> None:
    assert all(is_gpu(name) for name in ("nvidia.com/gpu", "amd.com/gpu", "nvidia.com/mig-1g.5gb"))
    assert not is_gpu("cpu")


# What is written.


def stored(**changes: Any) -> RayClusterStatus:
    return evolve(RayClusterStatus(state="ready", desired_worker_replicas=2), **changes)


NOW = datetime(2025, 5, 3, 12, tzinfo=UTC)


@pytest.mark.rule("kuberay-1d-11")
@pytest.mark.parametrize(
    ("changes", "written"),
    [
        ({}, False),
        ({"last_update_time": NOW}, False),
        ({"observed_generation": 7}, False),
        ({"state_transition_times": {"ready": "2025-05-03T12:00:00Z"}}, False),
        ({"state": "failed"}, True),
        ({"reason": "why"}, True),
        ({"desired_worker_replicas": 3}, True),
        ({"available_worker_replicas": 1}, True),
        ({"min_worker_replicas": 1}, True),
        ({"max_worker_replicas": 1}, True),
        ({"desired_cpu": "2"}, True),
        ({"endpoints": {"client": "10001"}}, True),
        ({"head": HeadInfo("ray-head")}, True),
    ],
)
def test_a_status_is_not_written_if_only_its_times_differ(changes: dict[str, Any], written: bool) -> None:
    assert differs(stored(), stored(**changes)) is written


def test_a_changed_condition_is_written() -> None:
    before = stored(conditions=(Condition("HeadPodReady", "True", reason="Here"),))
    assert not differs(before, evolve(before, conditions=(Condition("HeadPodReady", "True", "Here"),)))
    assert differs(before, evolve(before, conditions=(Condition("HeadPodReady", "False", "Here"),)))
    assert differs(before, evolve(before, conditions=(Condition("HeadPodReady", "True", "There"),)))
    assert differs(before, evolve(before, conditions=(Condition("HeadPodReady", "True", "Here", "and so"),)))
    told = stored(conditions=(Condition("HeadPodReady", "True", reason="Here", message="so"),))
    assert not differs(told, evolve(told, conditions=(Condition("HeadPodReady", "True", "Here", "so"),)))
    assert not differs(before, evolve(told, conditions=(Condition("HeadPodReady", "True", "Here"),)))
    assert differs(before, evolve(before, conditions=(Condition("ReplicaFailure", "False", "NoFailure"),)))


def test_each_state_records_its_transition_time() -> None:
    ready = with_times(stored(state=""), stored(), NOW)
    assert ready.state_transition_times == {"ready": "2025-05-03T12:00:00Z"}
    failed = with_times(ready, evolve(ready, state="failed"), datetime(2025, 5, 4, tzinfo=UTC))
    assert failed.state_transition_times == {
        "ready": "2025-05-03T12:00:00Z",
        "failed": "2025-05-04T00:00:00Z",
    }
    assert failed.last_update_time == datetime(2025, 5, 4, tzinfo=UTC)
    moved = with_times(failed, evolve(failed, reason="other"), datetime(2025, 5, 5, 1, 2, 3, 456, tzinfo=UTC))
    assert moved.state_transition_times == failed.state_transition_times
    assert (moved.reason, moved.last_update_time) == ("other", datetime(2025, 5, 5, 1, 2, 3, tzinfo=UTC))
    assert with_times(stored(state=""), stored(state=""), NOW).state_transition_times is None
    assert with_times(stored(), stored(state=""), NOW).state_transition_times is None


ABSENT = Condition("HeadPodReady", "False", "HeadPodNotFound", "there is no head pod")
NEVER = Condition(
    "RayClusterProvisioned", "False", "RayClusterPodsProvisioning", "not all Ray pods have been ready yet"
)
ONCE = Condition(
    "RayClusterProvisioned",
    "True",
    "AllPodRunningAndReadyFirstTime",
    "all Ray pods are ready for the first time",
)
DELETED = Condition("RayClusterProvisioned", "False", "RayClusterPodsDeleted", "the cluster is suspended")
FINE = Condition("ReplicaFailure", "False", "NoFailure")
SUSPENDING = Condition("RayClusterSuspending", "True", "PodsAreDeleted")
NOT_SUSPENDING = Condition("RayClusterSuspending", "False", "NotSuspending")
SUSPENDED = Condition("RayClusterSuspended", "True", "NoPodsAreLeft")
NOT_SUSPENDED = Condition("RayClusterSuspended", "False", "NotSuspended")


@pytest.mark.parametrize(
    ("phase", "before", "state", "conditions"),
    [
        (None, False, "", (ABSENT, NEVER, FINE)),
        (None, True, "", (ABSENT, ONCE, FINE)),
        ("running", True, "", (ABSENT, ONCE, FINE, NOT_SUSPENDING, NOT_SUSPENDED)),
        ("beginning", True, "", (ABSENT, ONCE, FINE, SUSPENDING, NOT_SUSPENDED)),
        ("suspending", False, "", (ABSENT, NEVER, FINE, SUSPENDING, NOT_SUSPENDED)),
        ("suspended", True, "suspended", (ABSENT, DELETED, FINE, NOT_SUSPENDING, SUSPENDED)),
    ],
)
def test_the_conditions_show_the_progress_of_a_suspension(
    phase: Phase | None, before: bool, state: str, conditions: tuple[Condition, ...]
) -> None:
    status = status_of(cluster(group()), [], provisioned=before, phase=phase)
    assert (status.state, status.conditions) == (state, conditions)


@pytest.mark.parametrize(
    ("phase", "state"),
    [
        (None, "ready"),
        ("running", "ready"),
        ("beginning", ""),
        ("suspending", ""),
        ("suspended", "suspended"),
    ],
)
def test_a_cluster_that_is_being_suspended_is_not_ready(phase: Phase | None, state: str) -> None:
    whole = cluster(group(replicas=1))
    assert status_of(whole, [head(), pod("a")], phase=phase).state == state
    failed = status_of(whole, [head(), pod("a")], phase=phase, failure=ReplicaFailure("Why", "because"))
    assert (failed.state, failed.reason) == ("failed", "because")


def test_the_whole_status_is_derived_from_spec_and_pods() -> None:
    asked = template(
        {"requests": {"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": "1", "amd.com/gpu": "1"}}
    )
    whole = cluster(
        group(replicas=2, low=1, high=3, num_of_hosts=2, template=asked),
        group("large", replicas=1, template=template({"limits": {"google.com/tpu": "4"}})),
        head=template({"limits": {"cpu": "2"}}, {}),
    )
    pods = [
        head(ready_reason="Said", ready_message="so"),
        *(pod(f"s{n}", host_index=n % 2, ready=n > 0) for n in range(4)),
        pod("l", group="large", phase="Pending"),
        pod("of-nothing", node_type=None),
    ]
    assert status_of(whole, pods) == RayClusterStatus(
        desired_worker_replicas=5,
        min_worker_replicas=2,
        max_worker_replicas=11,
        available_worker_replicas=4,
        ready_worker_replicas=4,
        head=HeadInfo("ray-head", "10.0.0.9"),
        desired_cpu="4",
        desired_memory="4Gi",
        desired_gpu="8",
        desired_tpu="4",
        replicas=3,
        selector="",
        conditions=(Condition("HeadPodReady", "True", "Said", "so"), NEVER, FINE),
    )
    assert status_of(whole, [*pods[:1], *(evolve(one, ready=True) for one in pods[1:])]).state == "ready"


def test_a_cluster_without_pods_has_a_status_too() -> None:
    bare = ClusterView("ray", "default", UID, head=HeadView(template={"spec": None}))
    assert status_of(bare, []) == RayClusterStatus(
        desired_cpu="0",
        desired_memory="0",
        desired_gpu="0",
        desired_tpu="0",
        replicas=0,
        selector="",
        conditions=(ABSENT, NEVER, FINE),
    )


def test_of_several_heads_the_status_shows_the_oldest_or_else_the_first_by_name() -> None:
    old, young = datetime(2025, 5, 3, tzinfo=UTC), datetime(2025, 5, 4, tzinfo=UTC)
    heads = [head(name="b", created=young), head(name="z", created=old), head(name="y", created=old)]
    assert status_of(cluster(), heads).head.pod_name == "y"
    not_ready = head(name="x", created=old, ready=False, ready_message="why")
    assert condition(status_of(cluster(), [*heads, not_ready]), "HeadPodReady") == Condition(
        "HeadPodReady", "False", "Unknown", "why"
    )
    assert status_of(cluster(), [heads[0], heads[1]]).state == ""


@pytest.mark.parametrize(
    "workers", [[pod("a")], [pod("a"), pod("b"), pod("c")], [pod("a"), pod("b", group="large")], []]
)
def test_a_cluster_is_ready_only_with_the_desired_number_of_workers_in_each_group(
    workers: list[RayPodView],
) -> None:
    assert status_of(cluster(group(), group("large", replicas=0)), [head(), *workers]).state == ""


def test_a_pod_needs_its_requests_and_its_limits_where_it_has_no_request() -> None:
    spec = template(
        {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "500m"}}, {}, {"requests": {"cpu": "1"}}
    )
    spec["spec"]["containers"].append({"name": "d", "resources": {"limits": None, "requests": None}})
    assert {name: str(amount) for name, amount in pod_resources(spec).items()} == {
        "cpu": "1500m",
        "memory": "1Gi",
    }
    assert pod_resources({"spec": {"containers": None}}) == pod_resources({}) == {}


@pytest.mark.parametrize(
    ("hosts", "replicas", "selector"),
    [
        (1, 3, "ray.io/cluster=ray,ray.io/group=small"),
        (2, 1, "ray.io/cluster=ray,ray.io/group=small,ray.io/replica-host-index=0"),
    ],
)
def test_the_selector_finds_one_pod_for_each_replica(hosts: int, replicas: int, selector: str) -> None:
    pods = [pod("a", host_index=0), pod("b", host_index=1), pod("c", host_index=1)]
    status = status_of(cluster(group(num_of_hosts=hosts)), pods)
    assert (status.replicas, status.selector) == (replicas, selector)
