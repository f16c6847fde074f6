"""Pods and nodes as groups of nodes look at them: what holds a node, what counts, what cannot be read."""

import datetime
from typing import Any

import pytest

from controllers.nodegroups.cluster_reads import priorities_text, read_workload
from controllers.nodegroups.node_view import (
    DISABLED,
    MIRROR,
    SAFE,
    TO_BE_DELETED,
    NodeView,
    PodPlacement,
    as_template,
    occupied,
    read_node,
    read_pod,
    utilisation,
)
from reconcile.blocks import NodeTemplate, Taint, pod_needs
from reconcile.errors import Forbidden
from reconcile.kinds import Node, Pod
from reconcile.models import decode, encode

OWNED = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "set", "uid": "1", "controller": True}]


def pod(
    *, owners: list[dict[str, Any]] | None = None, namespace: str = "default", phase: str = "Running",
    safe: str | None = None, conditions: list[dict[str, Any]] | None = None, **spec: Any,
) -> Pod:  # fmt: skip
    return decode(
        Pod,
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "p",
                "namespace": namespace,
                "annotations": {} if safe is None else {SAFE: safe},
                "ownerReferences": OWNED if owners is None else owners,
            },
            "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
            "status": {"phase": phase, "conditions": conditions or []},
        },
    )


def node(name: str = "n", cpu: str = "4", *taints: dict[str, Any], stored: bool = True) -> dict[str, Any]:
    made = {"creationTimestamp": "2026-01-01T00:00:00Z"} if stored else {}
    amounts = {"cpu": cpu, "memory": "8Gi"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, **made},
        "spec": {"taints": list(taints)},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def test_the_utilisation_of_a_node_with_gpus_is_that_of_its_gpus() -> None:
    asking = {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}
    one = read_pod(pod(containers=[{"name": "c", "image": "i", "resources": asking}]))
    assert one is not None
    manifest = node()
    assert utilisation(read_node(decode(Node, manifest)), [one]) == (250, False)
    for amounts in (manifest["status"]["allocatable"], manifest["status"]["capacity"]):
        amounts["nvidia.com/gpu"] = "2"
    assert utilisation(read_node(decode(Node, manifest)), [one]) == (500, True)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (pod(), ""),
        (pod(safe="false"), "it is marked as not safe to evict"),
        (pod(owners=[]), "no controller would replace it"),
        (pod(owners=[{**OWNED[0], "controller": False}]), "no controller would replace it"),
        (pod(owners=[], safe="true"), ""),
        (pod(namespace="kube-system"), "it is in kube-system"),
        (pod(namespace="kube-system", safe="true"), ""),
        (pod(volumes=[{"name": "v", "emptyDir": {}}]), "it keeps data on the node"),
        (pod(volumes=[{"name": "v", "hostPath": {"path": "/"}}]), "it keeps data on the node"),
        (pod(volumes=[{"name": "v", "configMap": {"name": "c"}}]), ""),
        (pod(owners=[{**OWNED[0], "kind": "DaemonSet"}], namespace="kube-system"), ""),
    ],
)
def test_a_pod_reports_why_it_must_stay(given: Pod, why: str) -> None:
    assert read_pod(given).held == why


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_is_ignored(phase: str) -> None:
    assert read_pod(pod(phase=phase)) is None


@pytest.mark.parametrize(
    ("spec", "waits"),
    [
        ({}, True),
        ({"nodeName": "n"}, False),
        ({"schedulingGates": [{"name": "g"}]}, False),
        ({"owners": [{**OWNED[0], "kind": "DaemonSet"}]}, False),
        ({"conditions": []}, False),
        ({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulerError"}]}, False),
    ],
)
def test_a_pod_waits_for_a_node_if_the_scheduler_marks_it_unschedulable(
    spec: dict[str, Any], waits: bool
) -> None:
    unschedulable = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    view = read_pod(pod(**{"phase": "Pending", "conditions": unschedulable, **spec}))
    assert view.is_waiting is waits


@pytest.mark.parametrize(("value", "second"), [("1767225600", 1767225600), ("soon", 0), ("", 0), (None, 0)])
def test_the_removal_taint_has_the_time_and_is_not_in_the_template(value: str | None, second: int) -> None:
    leaving = {"key": TO_BE_DELETED, "effect": "NoSchedule", **({} if value is None else {"value": value})}
    view = read_node(decode(Node, node("n", "4", leaving, {"key": "gpu", "effect": "NoSchedule"})))
    assert view.draining == datetime.datetime.fromtimestamp(second, datetime.UTC)
    assert view.template.taints == (Taint("gpu", "", "NoSchedule"),)


def test_a_node_that_was_never_stored_has_no_age() -> None:
    with pytest.raises(ValueError, match=r"^a node that no server has stored$"):
        read_node(decode(Node, node(stored=False)))


class Server:
    """Answers with what no embedded server would store, and refuses to be asked for a single object."""

    def __init__(self, *objects: Any) -> None:
        self.objects = objects

    async def list(self, kind: type[Any]) -> list[Any]:
        return [one for one in self.objects if isinstance(one, kind)]

    async def find(self, *_: Any) -> None:
        raise Forbidden(403, "Forbidden", "no")


async def test_objects_that_cannot_be_read_are_reported_and_left_out() -> None:
    greedy = pod(containers=[{"name": "c", "image": "i", "resources": {"requests": {"cpu": "many"}}}])
    odd = decode(Node, node("odd", "many"))
    client: Any = Server(decode(Node, node("good")), odd, pod(), pod(phase="Failed"), greedy)
    workload = await read_workload(client)
    assert [one.name for one in workload.nodes] == ["good"]
    assert [one.pod for one in workload.pods] == [pod()]
    assert workload.troubles == ("node odd cannot be read", "pod default/p cannot be read")


async def test_priorities_that_cannot_be_read_are_absent() -> None:
    client: Any = Server()
    assert await priorities_text(client, "default") is None


# Whole views.

CREATED = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
GI = 1000 * 2**30


def condition(kind: str, status: str, **more: str) -> dict[str, str]:
    return {"type": kind, "status": status, **more}


def asking(*containers: dict[str, str], **given: Any) -> PodPlacement:
    requests = [{"name": "c", "image": "i", "resources": {"requests": one}} for one in containers]
    view = read_pod(pod(containers=requests, **given))
    assert view is not None
    return view


def test_all_fields_of_a_node_are_read() -> None:
    manifest = node()
    manifest["metadata"] |= {"labels": {"a": "b"}, "annotations": {DISABLED: "true"}}
    leaving = {"key": TO_BE_DELETED, "value": "1767225600", "effect": "NoSchedule"}
    taints = [{"key": "gpu", "value": "yes", "effect": "NoExecute"}, leaving]
    manifest["spec"] = {"providerID": "x:///n", "unschedulable": True, "taints": taints}
    manifest["status"] |= {"conditions": [condition("DiskPressure", "False"), condition("Ready", "True")]}
    one = decode(Node, manifest)
    assert read_node(one) == NodeView(
        "n",
        "x:/n",
        CREATED,
        True,
        NodeTemplate({"cpu": 4000, "memory": 8 * GI}, {"a": "b"}, (Taint("gpu", "yes", "NoExecute"),)),
        one,
        cordoned=True,
        disabled=True,
        draining=CREATED,
    )


@pytest.mark.parametrize(
    "conditions",
    [[], [condition("Ready", "False")], [condition("Ready", "Unknown")], [condition("DiskPressure", "True")]],
)
def test_a_node_without_conditions_is_unready_and_may_be_removed(conditions: list[dict[str, str]]) -> None:
    manifest = node()
    manifest["metadata"]["annotations"] = {DISABLED: "false"}
    del manifest["spec"]
    manifest["status"]["conditions"] = conditions
    one = decode(Node, manifest)
    template = NodeTemplate({"cpu": 4000, "memory": 8 * GI})
    assert read_node(one) == NodeView("n", "", CREATED, False, template, one)


def test_all_fields_of_a_pod_are_read() -> None:
    controlled = [{**OWNED[0], "controller": False}, {**OWNED[0], "uid": "2", "kind": "StatefulSet"}]
    one = pod(owners=controlled, nodeName="n")
    assert read_pod(one) == PodPlacement(pod_needs(one), "n", one)
    held = pod(safe="false", phase="Pending", conditions=[])
    assert read_pod(held) == PodPlacement(pod_needs(held), "", held, held="it is marked as not safe to evict")
    scheduled = condition("PodScheduled", "False", reason="Unschedulable")
    waiting = pod(phase="Pending", conditions=[condition("Ready", "False"), scheduled])
    view = read_pod(waiting)
    assert view == PodPlacement(pod_needs(waiting), "", waiting, is_waiting=True)
    assert view.name == "default/p"


@pytest.mark.parametrize("of", ["DaemonSet", "the node"])
def test_a_daemon_set_or_mirror_pod_is_local_and_never_holds_its_node(of: str) -> None:
    owners = [] if of == "the node" else [{**OWNED[0], "kind": "DaemonSet"}]
    one = pod(owners=owners, safe="false", nodeName="n")
    if of == "the node":
        one = one.with_metadata(annotations={**one.metadata.annotations, MIRROR: "x"})
    assert read_pod(one) == PodPlacement(pod_needs(one), "n", one, is_local=True)


def test_a_terminating_pod_does_not_wait_for_a_node() -> None:
    manifest = encode(
        pod(phase="Pending", conditions=[condition("PodScheduled", "False", reason="Unschedulable")])
    )
    manifest["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert not read_pod(decode(Pod, manifest)).is_waiting


def test_a_node_template_omits_the_name_the_state_and_movable_pods() -> None:
    taints = [
        {"key": "gpu", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
        {"key": "node.cloudprovider.kubernetes.io/uninitialized", "effect": "NoSchedule"},
        {"key": "node.cluster.x-k8s.io/uninitialized", "effect": "NoSchedule"},
        {"key": "my-node.kubernetes.io/kept", "effect": "NoSchedule"},
        {"key": TO_BE_DELETED, "effect": "NoSchedule"},
    ]
    manifest = node("n", "4", *taints)
    manifest["metadata"]["labels"] = {"kubernetes.io/hostname": "n", "pool": "a"}
    view = read_node(decode(Node, manifest))
    daemon = asking({"cpu": "1"}, owners=[{**OWNED[0], "kind": "DaemonSet"}])
    kept = (Taint("gpu", "", "NoSchedule"), Taint("my-node.kubernetes.io/kept", "", "NoSchedule"))
    left = {"cpu": 3000, "memory": 8 * GI}
    assert as_template(view, [asking({"cpu": "2"}), daemon]) == NodeTemplate(left, {"pool": "a"}, kept)
    assert occupied(view, [asking({"cpu": "2"}), daemon]).free == {**left, "cpu": 1000}


@pytest.mark.parametrize(
    ("offered", "asked", "used"),
    [
        ({"cpu": "4", "memory": "8Gi"}, [], (0, False)),
        ({"cpu": "4", "memory": "8Gi"}, [{"cpu": "1"}, {"cpu": "1", "memory": "1Gi"}], (500, False)),
        ({"cpu": "4", "memory": "8Gi"}, [{"cpu": "1", "memory": "6Gi"}], (750, False)),
        ({"cpu": "3", "memory": "8Gi"}, [{"cpu": "1"}], (334, False)),
        ({"cpu": "3", "memory": "8Gi"}, [{"cpu": "6"}], (2000, False)),
        ({"memory": "8Gi"}, [{"cpu": "1"}], (0, False)),
        ({"cpu": "0", "memory": "8Gi"}, [{"cpu": "1", "memory": "2Gi"}], (250, False)),
        ({"cpu": "4", "amd.com/gpu": "4"}, [{"cpu": "4"}], (0, True)),
        ({"cpu": "4", "amd.com/gpu": "4", "nvidia.com/gpu": "2"}, [{"nvidia.com/gpu": "1"}], (500, True)),
        ({"cpu": "4", "amd.com/gpu": "0"}, [{"cpu": "1"}], (250, False)),
        ({"cpu": "4", "example.com/gpu.shared": "4"}, [{"cpu": "1"}], (250, False)),
        ({}, [{"cpu": "1"}], (0, False)),
    ],
)
def test_the_utilisation_of_a_node_is_the_largest_requested_share_rounded_up(
    offered: dict[str, str], asked: list[dict[str, str]], used: tuple[int, bool]
) -> None:
    pods = [asking(one) for one in asked]
    manifest = node()
    manifest["status"] = {"allocatable": offered, "capacity": {**offered, "cpu": "100"}}
    if offered:
        assert utilisation(read_node(decode(Node, manifest)), pods) == used
    manifest["status"] = {"capacity": offered}
    assert utilisation(read_node(decode(Node, manifest)), pods) == used
