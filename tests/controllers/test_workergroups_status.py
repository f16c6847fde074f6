"""What a RayCluster's status says. Numbered rows are those of systems.md, table 1d."""

from datetime import UTC, datetime
from typing import Any

import pytest
from attrs import evolve

from controllers.workergroups.clusters import ClusterView, GroupView, HeadView, Unsupported
from controllers.workergroups.models import HeadInfo, RayClusterStatus
from controllers.workergroups.plan import HeadPlan, Plan
from controllers.workergroups.status import (
    ClusterStatus,
    ConditionValue,
    Failure,
    differs,
    failure_of,
    is_gpu,
    status_of,
    with_times,
)
from controllers.workergroups.views import PodView
from reconcile import Condition

UID = "cluster-uid"


def template(*containers: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": f"c{i}", "resources": one} for i, one in enumerate(containers)]}}


def group(
    name: str = "small", replicas: int | None = 2, low: int = 0, high: int = 5, **changes: Any
) -> GroupView:
    return evolve(GroupView(name, replicas, low, high), **changes)


def cluster(*groups: GroupView, head: dict[str, Any] | None = None) -> ClusterView:
    return ClusterView("ray", "default", UID, head=HeadView(template=head or template({})), groups=groups)


def pod(name: str, **changes: Any) -> PodView:
    ready = PodView(
        name=name,
        namespace="default",
        uid=f"uid-of-{name}",
        created=datetime(2025, 5, 3, tzinfo=UTC),
        owner_uid=UID,
        node_type="worker",
        group="small",
        phase="Running",
        ready=True,
    )
    return evolve(ready, **changes)


def head(**changes: Any) -> PodView:
    return evolve(pod("ray-head", node_type="head", group="headgroup", ip="10.0.0.9"), **changes)


def condition(status: ClusterStatus, kind: str) -> ConditionValue:
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


def test_running_and_ready_workers_are_counted_apart() -> None:
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
    assert (status.head_pod_name, status.head_pod_ip) == ("ray-head", "10.0.0.9")


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
def test_the_head_condition_follows_the_pods(heads: list[PodView], status: str, reason: str) -> None:
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


def test_provisioned_stays_true_after_a_worker_turns_not_ready() -> None:
    status = status_of(cluster(group()), [head(), pod("a"), pod("b", ready=False)], provisioned=True)
    assert condition(status, "RayClusterProvisioned").status == "True"
    assert status.state == ""


@pytest.mark.parametrize("extra", [pod("c"), head(name="second")])
def test_a_cluster_with_a_pod_too_many_is_not_ready(extra: PodView) -> None:
    assert status_of(cluster(group()), [head(), pod("a"), pod("b"), extra]).state == ""


@pytest.mark.rule("kuberay-1d-14")
def test_a_failure_is_a_condition_and_ends_with_its_cause() -> None:
    failed = status_of(cluster(), [], failure=Failure("FailedCreateWorkerPod", "exceeded quota"))
    assert condition(failed, "ReplicaFailure") == ConditionValue(
        "ReplicaFailure", "True", "FailedCreateWorkerPod", "exceeded quota"
    )
    assert (failed.state, failed.reason) == ("failed", "exceeded quota")
    assert condition(status_of(cluster(), []), "ReplicaFailure").status == "False"


def test_a_plan_that_needs_a_person_says_so() -> None:
    assert failure_of(Plan()) is None
    refused = failure_of(Plan(refused=(Unsupported("spec.suspend", "later"),)))
    assert refused == Failure("Refused", "spec.suspend is not supported: later")
    heads = failure_of(Plan(head=HeadPlan(surplus=(head(), head(name="second")))))
    assert heads == Failure("TooManyHeadPods", "keep one head pod and delete the others: ray-head, second")


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
        cluster(head=template({"limits": {"cpu": "lots"}})), refused=(Unsupported("spec.suspend", "later"),)
    )
    assert status_of(broken, []).desired_cpu == "0"


def test_slices_of_gpus_are_gpus() -> None:
    assert [is_gpu(name) for name in ("nvidia.com/gpu", "amd.com/gpu", "nvidia.com/mig-1g.5gb", "cpu")] == [
        True,
        True,
        True,
        False,
    ]


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
def test_a_status_is_written_only_for_more_than_its_times(changes: dict[str, Any], written: bool) -> None:
    assert differs(stored(), stored(**changes), ()) is written


def test_a_condition_that_is_another_is_written() -> None:
    known = Condition("HeadPodReady", "True", reason="Here")
    before = stored(conditions=(known,))
    assert not differs(before, before, [ConditionValue("HeadPodReady", "True", "Here")])
    assert differs(before, before, [ConditionValue("HeadPodReady", "False", "Here")])
    assert differs(before, before, [ConditionValue("ReplicaFailure", "False", "NoFailure")])


def test_the_entry_into_each_state_has_its_time() -> None:
    ready = with_times(stored(state=""), stored(), NOW)
    assert ready.state_transition_times == {"ready": "2025-05-03T12:00:00Z"}
    failed = with_times(ready, evolve(ready, state="failed"), datetime(2025, 5, 4, tzinfo=UTC))
    assert failed.state_transition_times == {
        "ready": "2025-05-03T12:00:00Z",
        "failed": "2025-05-04T00:00:00Z",
    }
    assert failed.last_update_time == datetime(2025, 5, 4, tzinfo=UTC)


def test_a_suspended_cluster_says_so_and_is_provisioned_no_more() -> None:
    status = status_of(cluster(group()), [], provisioned=True, phase="suspended")
    assert status.state == "suspended"
    assert condition(status, "RayClusterSuspended").status == "True"
    assert condition(status, "RayClusterProvisioned") == ConditionValue(
        "RayClusterProvisioned", "False", "RayClusterPodsDeleted", "it is suspended"
    )
    going = status_of(cluster(group()), [pod("a")], phase="suspending")
    assert (condition(going, "RayClusterSuspending").status, going.state) == ("True", "")


@pytest.mark.parametrize(
    ("hosts", "replicas", "selector"),
    [(1, 3, "ray.io/cluster=ray,ray.io/group=small"), (2, 1, ",ray.io/replica-host-index=0")],
)
def test_the_selector_finds_one_pod_for_each_replica(hosts: int, replicas: int, selector: str) -> None:
    pods = [pod("a", host_index=0), pod("b", host_index=1), pod("c", host_index=1)]
    status = status_of(cluster(group(num_of_hosts=hosts)), pods)
    assert (status.replicas, status.selector.endswith(selector)) == (replicas, True)
