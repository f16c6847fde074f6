"""What empties a node, as the server has it afterwards."""

from datetime import UTC, datetime
from typing import Any

import pytest

from controllers.nodegroups.group_writes import evict, taint, untaint
from controllers.nodegroups.node_view import PodPlacement, read_node, read_pod
from reconcile.errors import ApiError
from reconcile.kinds import Node, Pod
from reconcile.testing import FakeClient

SECOND = 1767225600
OTHER = {"key": "gpu", "value": "yes", "effect": "NoExecute"}


async def server(*taints: dict[str, str]) -> FakeClient:
    client = FakeClient()
    await client.create(
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {"taints": [*taints]}}
    )
    client.request("PATCH", "/api/v1/nodes/n", {"spec": {"taints": [*taints]}})  # it is ready
    return client


async def taints_of(client: FakeClient) -> Any:
    return (await client.get(Node, "n", live=True)).spec.extra.get("taints")


@pytest.mark.parametrize("others", [(), (OTHER,)])
async def test_a_node_to_be_removed_is_tainted_with_the_second_and_can_be_released(
    others: tuple[dict[str, str], ...],
) -> None:
    client = await server(*others)
    for second in (SECOND, SECOND + 1):
        await taint(client, read_node(await client.get(Node, "n", live=True)), second)
        leaving = {"key": "ToBeDeletedByClusterAutoscaler", "value": str(second), "effect": "NoSchedule"}
        assert await taints_of(client) == [*others, leaving]
    tainted = read_node(await client.get(Node, "n", live=True))
    assert tainted.draining == datetime.fromtimestamp(SECOND + 1, UTC)
    await untaint(client, tainted)
    assert await taints_of(client) == ([*others] or None)


LABELS = {"app": "web"}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "default", "labels": LABELS},
    "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
    "status": {"phase": "Running"},
}
BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "b", "namespace": "default"},
    "spec": {"maxUnavailable": 0, "selector": {"matchLabels": LABELS}},
}


async def a_pod(client: FakeClient) -> PodPlacement:
    client.add(POD)
    view = read_pod(await client.get(Pod, "p", "default", live=True))
    assert view is not None
    return view


async def test_a_pod_is_evicted_and_one_that_is_missing_is_not_an_error() -> None:
    client = await server()
    pod = await a_pod(client)
    assert await evict(client, pod) is True
    (sent,) = [one for one in client.transport.writes if one.path.endswith("/pods/p/eviction")]
    assert sent.body == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "p", "namespace": "default"},
        "deleteOptions": {"preconditions": {"uid": pod.pod.uid}},
    }
    while (left := await client.find(Pod, "p", "default", live=True)) is not None:
        await client.delete(left, grace_seconds=0)
    assert await evict(client, pod) is True


async def test_a_pod_protected_by_its_budget_stays_and_is_tried_again_later() -> None:
    client = await server()
    pod = await a_pod(client)
    client.add(BUDGET)
    assert await evict(client, pod) is False
    assert not (await client.get(Pod, "p", "default", live=True)).terminating


async def test_a_recreated_pod_is_left_alone() -> None:
    client = await server()
    pod = await a_pod(client)
    await client.delete(pod.pod, grace_seconds=0)
    again = await a_pod(client)
    with pytest.raises(ApiError):
        await evict(client, pod)
    assert not (await client.get(Pod, "p", "default", live=True)).terminating
    assert again.pod.uid != pod.pod.uid
