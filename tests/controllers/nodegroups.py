"""A management cluster with groups of machines, and what it is asked in tests."""

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from controllers.nodegroups import NodeAutoscaler, NodeAutoscalerSpec, ScaleDownSpec, definition
from controllers.nodegroups.cluster_reads import ClusterApi, DiscoveryTerm, find_groups
from controllers.nodegroups.demo.simulated import SimulatedMachines
from controllers.nodegroups.group_annotations import CAPACITY, DELETE_MACHINE, MAX_SIZE, MIN_SIZE, OPTIONS
from controllers.nodegroups.machine import Machine, MachineState
from controllers.nodegroups.node_group import NodeGroup
from reconcile import Client, ObjectMeta, Unstructured
from reconcile.kinds import ConfigMap, Node
from reconcile.models import encode
from tests.controllers.world import NAMESPACE, SAMPLES, World

API = ClusterApi("cluster.x-k8s.io", "v1beta2")
MACHINES = SimulatedMachines(api=API)
CAPACITIES = {CAPACITY + "cpu": "4", CAPACITY + "memory": "8Gi"}
MADE = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
STORED = API.kind("Machine")(metadata=ObjectMeta("m", "stage", uid="m-uid", creation_timestamp=MADE))
"""What a server has stored, where it does not matter what it is."""
POOL = {"pool": "x"}
OFFER = {**CAPACITIES, CAPACITY + "labels": "pool=x"}
QUICK = ScaleDownSpec(delay_after_add=0)
PRIORITIES = "10:\n- .*second$\n50:\n- .*best$\n"
SOON = {OPTIONS + "scaledownunneededtime": "2m"}


def machine_deployments() -> dict[str, Any]:
    """The definition as Cluster API publishes it."""
    path: Path = SAMPLES / "cluster-api" / "crd-machinedeployments.yaml"
    definition: dict[str, Any] = yaml.safe_load(path.read_text())
    return definition


def definitions(*, published: bool = False) -> list[dict[str, Any]]:
    """Of all kinds; that of MachineDeployments as it is published, or one that takes anything, and sooner."""
    if published:
        return [machine_deployments(), *MACHINES.definitions(), definition()]
    return [*MACHINES.definitions(scaled=("MachineDeployment", "MachineSet", "MachinePool")), definition()]


def group(
    name: str,
    replicas: int | None = 1,
    bounds: tuple[str | None, str | None] = ("1", "10"),
    kind: str = "MachineDeployment",
    **annotations: str,
) -> dict[str, Any]:
    """A group with bounds and annotations, as people write it."""
    given = {MIN_SIZE: bounds[0], MAX_SIZE: bounds[1], **annotations}
    template = {
        "clusterName": "one",
        "bootstrap": {"dataSecretName": "boot"},
        "infrastructureRef": {"apiGroup": "infrastructure.example.com", "kind": "Shape", "name": name},
    }
    size = {} if replicas is None else {"replicas": replicas}
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "annotations": {key: value for key, value in given.items() if value is not None},
        },
        "spec": {
            "clusterName": "one",
            "selector": {"matchLabels": {"group": name}},
            "template": {"metadata": {"labels": {"group": name}}, "spec": template},
            **size,
        },
    }


def machine(
    name: str, state: MachineState = "running", *owners: str, created: datetime.datetime = MADE
) -> Machine:
    """A machine as it is read; one that is pending has no instance yet."""
    provider = "" if state == "pending" else f"x:/{name}"
    return Machine(name, name, STORED, created, provider, state=state, owners=owners)


def autoscaler(**spec: Any) -> NodeAutoscaler:
    return NodeAutoscaler(
        metadata=ObjectMeta("all", NAMESPACE), spec=NodeAutoscalerSpec(**{"priorities": NAMESPACE, **spec})
    )


def pod(name: str, cpu: str = "2500m", memory: str = "100Mi", **spec: Any) -> dict[str, Any]:
    """A pod that no node of SimulatedNodes takes."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "annotations": {"simulated.reconcile-runtime/pod": "pending"},
        },
        "spec": {
            "containers": [
                {"name": "a", "image": "a", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
            ],
            **spec,
        },
    }


UNSCHEDULABLE = {
    "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": ""}]
}


async def wait_in_vain(user: Client, manifest: Mapping[str, Any]) -> None:
    """A pod for which the scheduler has found no place."""
    made = await user.create(manifest)
    await user.raw.merge(made, {"status": UNSCHEDULABLE}, guard={}, subresource="status")


async def size_of(user: Client, name: str) -> int:
    found = await user.get(API.kind("MachineDeployment"), name, NAMESPACE, live=True)
    return int(found["spec"]["replicas"])


async def add_machines(
    user: Client, owner: str, names: Sequence[str], kind: str = "MachineDeployment", **status: Any
) -> None:
    """Machines of a group, each with an instance, owned as Cluster API owns them."""
    above = await user.get(API.kind(kind), owner, NAMESPACE, live=True)
    if kind == "MachineDeployment":
        made = await user.find(API.kind("MachineSet"), f"{owner}-set", NAMESPACE, live=True)
        above = made or await user.create(
            {
                "apiVersion": "cluster.x-k8s.io/v1beta2",
                "kind": "MachineSet",
                "metadata": {
                    "name": f"{owner}-set",
                    "namespace": NAMESPACE,
                    "ownerReferences": [_reference(kind, above)],
                },
                "spec": {"replicas": len(names)},
            }
        )
    for name in names:
        metadata = {
            "name": name,
            "namespace": NAMESPACE,
            "ownerReferences": [_reference("MachineSet", above)],
        }
        spec = {"providerID": f"x:///{name}"}
        machine = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": metadata}
        stored = await user.create({**machine, "spec": spec})
        if status:
            await user.raw.merge(stored, {"status": status}, guard={}, subresource="status")


def _reference(kind: str, owner: Unstructured) -> dict[str, Any]:
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
    }


async def groups_of(user: Client) -> dict[str, NodeGroup]:
    """The groups as a run finds them, by name."""
    found = await find_groups(user, API, [DiscoveryTerm(NAMESPACE)])
    return {one.name: one for one in found.groups}


async def marked(user: Client) -> set[str]:
    """The machines that are marked to go."""
    found = await user.list(API.kind("Machine"), NAMESPACE, live=True)
    return {one.name for one in found if DELETE_MACHINE in one.metadata.annotations}


async def say(here: World, text: str) -> None:
    name = ObjectMeta("cluster-autoscaler-priority-expander", NAMESPACE)
    found = await here.user.find(ConfigMap, name.name, NAMESPACE)
    if found is None:
        await here.user.create(ConfigMap(metadata=name, data={"priorities": text}))
    else:
        await here.user.raw.merge(found, {"data": {"priorities": text}}, guard={})


async def ask(here: World, *names: str, **spec: Any) -> None:
    for name in names:
        await wait_in_vain(here.user, pod(name, **{"nodeSelector": POOL, **spec}))


async def status_of(here: World) -> dict[str, Any]:
    found: dict[str, Any] = encode(await here.user.get(NodeAutoscaler, "all", NAMESPACE))["status"]
    return found


async def condition(here: World, name: str) -> tuple[str, str]:
    found = {one["type"]: one for one in (await status_of(here))["conditions"]}[name]
    return found["status"], found.get("message", "")


async def bind(
    here: World, name: str, node: str, *, owned: bool = True, cpu: str = "1", **labels: str
) -> None:
    manifest = pod(name, cpu, nodeSelector=POOL)
    manifest["metadata"]["labels"] = labels
    manifest["spec"]["nodeName"] = node
    if owned:
        owner = (await groups_of(here.user))["g"]  # of whatever kind: it only has to be there
        reference = {
            "apiVersion": "cluster.x-k8s.io/v1beta2",
            "kind": owner.kind,
            "name": owner.name,
            "uid": owner.uid,
            "controller": True,
        }
        manifest["metadata"]["ownerReferences"] = [reference]
    made = await here.user.create(manifest)
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await here.user.raw.merge(made, {"status": ready}, guard={}, subresource="status")


async def nodes(here: World) -> list[str]:
    return sorted(one.name for one in await here.user.list(Node) if one.metadata.labels.get("pool") == "x")
