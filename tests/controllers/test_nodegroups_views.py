"""Pods and nodes as groups of nodes look at them: what holds a node, what counts, what cannot be read."""

import datetime
from typing import Any

import pytest

from controllers.nodegroups.look import look_at, priorities_text
from controllers.nodegroups.views import LEAVING, SAFE, read_node, read_pod, utilisation
from reconcile import Forbidden
from reconcile.blocks import Taint
from reconcile.kinds import Node, Pod
from reconcile.models import decode

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


def test_of_a_node_with_gpus_the_use_is_that_of_its_gpus() -> None:
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
        (pod(safe="false"), "it is not safe to evict"),
        (pod(owners=[]), "nothing would make it again"),
        (pod(owners=[{**OWNED[0], "controller": False}]), "nothing would make it again"),
        (pod(owners=[], safe="true"), ""),
        (pod(namespace="kube-system"), "it belongs to the system"),
        (pod(namespace="kube-system", safe="true"), ""),
        (pod(volumes=[{"name": "v", "emptyDir": {}}]), "it keeps data on the node"),
        (pod(volumes=[{"name": "v", "hostPath": {"path": "/"}}]), "it keeps data on the node"),
        (pod(volumes=[{"name": "v", "configMap": {"name": "c"}}]), ""),
        (pod(owners=[{**OWNED[0], "kind": "DaemonSet"}], namespace="kube-system"), ""),
    ],
)
def test_a_pod_says_why_it_must_stay(given: Pod, why: str) -> None:
    view = read_pod(given)
    assert view is not None
    assert view.held == why


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_counts_nowhere(phase: str) -> None:
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
def test_a_pod_waits_for_a_node_when_the_scheduler_says_so(spec: dict[str, Any], waits: bool) -> None:
    unschedulable = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    view = read_pod(pod(**{"phase": "Pending", "conditions": unschedulable, **spec}))
    assert view is not None
    assert view.is_waiting is waits


@pytest.mark.parametrize(("value", "second"), [("1767225600", 1767225600), ("soon", 0), ("", 0), (None, 0)])
def test_since_when_a_node_leaves_stands_in_its_taint_which_is_none_of_the_template(
    value: str | None, second: int
) -> None:
    leaving = {"key": LEAVING, "effect": "NoSchedule", **({} if value is None else {"value": value})}
    view = read_node(decode(Node, node("n", "4", leaving, {"key": "gpu", "effect": "NoSchedule"})))
    assert view.draining == datetime.datetime.fromtimestamp(second, datetime.UTC)
    assert view.template.taints == (Taint("gpu", "", "NoSchedule"),)


def test_a_node_that_no_server_has_stored_has_no_age() -> None:
    with pytest.raises(ValueError, match="no server has stored"):
        read_node(decode(Node, node(stored=False)))


class Server:
    """Answers with what no embedded server would store, and refuses to be asked for a single object."""

    def __init__(self, *objects: Any) -> None:
        self.objects = objects

    async def list(self, kind: type[Any]) -> list[Any]:
        return [one for one in self.objects if isinstance(one, kind)]

    async def find(self, *_: Any) -> None:
        raise Forbidden(403, "Forbidden", "no")


async def test_what_makes_no_sense_is_named_and_left_out() -> None:
    greedy = pod(containers=[{"name": "c", "image": "i", "resources": {"requests": {"cpu": "many"}}}])
    odd = decode(Node, node("odd", "many"))
    client: Any = Server(decode(Node, node("good")), odd, pod(), pod(phase="Failed"), greedy)
    workload = await look_at(client)
    assert [one.name for one in workload.nodes] == ["good"]
    assert [one.pod for one in workload.pods] == [pod()]
    assert workload.troubles == ("node odd cannot be read", "pod default/p cannot be read")


async def test_priorities_that_cannot_be_read_are_none() -> None:
    client: Any = Server()
    assert await priorities_text(client, "default") is None
