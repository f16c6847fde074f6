"""Simulated nodes: scheduled, running, ready, gone; or not, when told so."""

import anyio
import pytest

from reconcile import Client, ObjectMeta
from reconcile.errors import TerminalError
from reconcile.kinds import Node, Pod, PodCondition, PodSpec, PodStatus
from reconcile.simulation import BEHAVIOUR, STOP_SECONDS, Delays
from reconcile.simulation.simulated_nodes import next_step
from reconcile.testing import VirtualClock
from tests.helpers.pods import pod
from tests.helpers.scenarios import in_world
from tests.simulation.nodes_world import played


@pytest.mark.parametrize("seed", range(3))
@in_world(played)
async def test_pods_become_ready_on_the_emptiest_nodes(client: Client, seed: int) -> None:
    for number in range(6):
        await client.create(pod(f"p{number}"))
        await anyio.sleep(2)
    await anyio.sleep(3)
    pods = await client.list(Pod)
    assert all(p.ready and p.status.phase == "Running" for p in pods)
    assert sorted(p.spec.node_name or "" for p in pods) == [
        "node-0",
        "node-0",
        "node-1",
        "node-1",
        "node-2",
        "node-2",
    ]
    assert len({p.status.pod_ip for p in pods}) == 6


@in_world(played)
async def test_nodes_say_what_machine_they_are(client: Client) -> None:
    nodes = await client.list(Node)
    assert [node.metadata.labels for node in nodes] == [
        {"kubernetes.io/hostname": node.name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
        for node in nodes
    ]


@in_world(played)
async def test_ready_nodes_have_no_taint(client: Client) -> None:
    assert [node.spec.extra.get("taints") for node in await client.list(Node)] == [None] * 3


@in_world(played)
async def test_a_deleted_pod_is_terminating_for_a_while_and_then_gone(client: Client) -> None:
    await client.create(pod())
    await anyio.sleep(5)
    await client.delete(await client.get(Pod, "p", "default"))
    await anyio.sleep(1)
    assert (await client.get(Pod, "p", "default")).terminating
    await anyio.sleep(5)
    assert await client.find(Pod, "p", "default") is None


@in_world(played)
async def test_a_finalizer_keeps_a_pod_beyond_its_termination(client: Client) -> None:
    await client.create(pod(finalizers=("example.com/hold",)))
    await anyio.sleep(5)
    await client.delete(await client.get(Pod, "p", "default"))
    await anyio.sleep(30)
    held = await client.get(Pod, "p", "default")
    await client.raw.merge(held, {"metadata": {"finalizers": None}}, guard={})
    await anyio.sleep(5)
    assert await client.find(Pod, "p", "default") is None


@pytest.mark.parametrize(
    ("behaviour", "phase", "ready"),
    [
        ("", "Running", True),
        ("pending", "Pending", False),
        ("fail", "Failed", False),
        ("succeed", "Succeeded", False),
        ("not-ready", "Running", False),
    ],
)
@in_world(played)
async def test_a_pod_behaves_as_its_annotation_specifies(
    client: Client, behaviour: str, phase: str, ready: bool
) -> None:
    await client.create(pod(annotations={BEHAVIOUR: behaviour}))
    await anyio.sleep(10)
    found = await client.get(Pod, "p", "default")
    assert (found.status.phase, found.ready) == (phase, ready)


@in_world(played)
async def test_a_pod_that_hangs_stays_terminating(client: Client) -> None:
    await client.create(pod(annotations={BEHAVIOUR: "hang-terminating"}))
    await anyio.sleep(5)
    await client.delete(await client.get(Pod, "p", "default"))
    await anyio.sleep(600)
    assert (await client.get(Pod, "p", "default")).terminating


@in_world(played)
async def test_a_cordoned_node_takes_no_pods(client: Client) -> None:
    for name in ("node-0", "node-1"):
        node = await client.get(Node, name)
        await client.raw.merge(node, {"spec": {"unschedulable": True}}, guard={})
    await anyio.sleep(2)
    for number in range(3):
        await client.create(pod(f"p{number}"))
    await anyio.sleep(5)
    assert {p.spec.node_name for p in await client.list(Pod)} == {"node-2"}


DELAYS = Delays(start=4, stop=10)
READY = PodStatus(phase="Running", conditions=(PodCondition("Ready", "True"),))


@pytest.mark.parametrize(
    ("given", "age", "step"),
    [
        (Pod(spec=PodSpec()), 0, ("schedule", 0)),
        (Pod(spec=PodSpec(node_name="n"), status=PodStatus("Pending")), 0.5, ("start", 1.5)),
        (Pod(spec=PodSpec(node_name="n"), status=PodStatus("Running")), 1, ("ready", 3)),
        (Pod(spec=PodSpec(node_name="n"), status=READY), 9, ("wait", 0)),
        (Pod(spec=PodSpec(node_name="n"), status=PodStatus("Failed")), 9, ("wait", 0)),
    ],
)
def test_the_next_step_of_a_pod(given: Pod, age: float, step: tuple[str, float]) -> None:
    decided = next_step(given, DELAYS, age, 0)
    assert (decided.action, decided.seconds) == step


def test_a_pod_can_set_its_termination_time() -> None:
    leaving = Pod(
        metadata=ObjectMeta("p", annotations={STOP_SECONDS: "3"}, deletion_timestamp=VirtualClock().now())
    )
    assert next_step(leaving, DELAYS, 0, 1).seconds == 2


def test_an_invalid_termination_time_is_an_error_that_names_the_pod() -> None:
    leaving = Pod(
        metadata=ObjectMeta("p", annotations={STOP_SECONDS: "soon"}, deletion_timestamp=VirtualClock().now())
    )
    with pytest.raises(TerminalError, match="'soon'"):
        next_step(leaving, DELAYS, 0, 1)
