"""Stands in for Cluster API in demos and tests: machines and nodes for MachineDeployments.

An annotation of a MachineDeployment changes what happens to its machines:

    simulated.reconcile-runtime/machines: never    nodes never come
    simulated.reconcile-runtime/machines: fail     machines fail
"""

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import field, frozen

from reconcile import Context, Controller, Object, ObjectMeta, Result, Unstructured, Write, resource
from reconcile import field as model_field
from reconcile.errors import AlreadyExists, NotFound
from reconcile.kinds import Node
from reconcile.models import definition_of, encode

from ... import OPERATOR
from ..cluster_reads import ClusterApi
from ..group_annotations import CAPACITY, CLUSTER_API, DELETE_MACHINE

BEHAVIOUR = "simulated.reconcile-runtime/machines"
DEPLOYMENT = f"{CLUSTER_API}/deployment-name"


@frozen
class SimulatedMachines:
    """Run `controller` in a manager. A node comes `seconds` after its machine was created."""

    seconds: float = 0.3
    api: ClusterApi = field(factory=ClusterApi)

    @property
    def controller(self) -> Controller[Unstructured]:
        """Keeps as many machines as a MachineDeployment has replicas."""
        kind = self.api.kind("MachineDeployment")
        machine = self.api.kind("Machine")
        writes = [
            Write(kind, ("patch",), subresource="status"),
            Write(self.api.kind("MachineSet"), ("get", "create")),
            Write(machine, ("list", "create", "patch", "delete")),
            Write(machine, ("patch",), subresource="status"),
            Write(Node, ("get", "create", "patch", "delete")),
            Write(Node, ("patch",), subresource="status"),
        ]
        return Controller(
            kind, self._keep, writes=writes, name="simulated-machines", operator=OPERATOR, every=30.0
        )

    async def _keep(self, ctx: Context[Unstructured]) -> Result | None:
        deployment = encode(ctx.object)
        owner = await self._set(ctx)
        machines = [one for one in await self._machines(ctx) if not one.terminating]
        wanted = deployment["spec"].get("replicas", 0)
        for _ in range(len(machines), wanted):
            machines.append(await self._make(ctx, owner))
        surplus = sorted(machines, key=_stays)[: max(0, len(machines) - wanted)]
        for machine in surplus:
            await self._remove(ctx, machine)
        rest = [one for one in machines if one not in surplus]
        waiting = [one for one in rest if not (one.body.get("status") or {}).get("nodeRef")]
        behaviour = ctx.object.metadata.annotations.get(BEHAVIOUR)
        now = ctx.clock.now()
        for machine in list(waiting):
            made = machine.metadata.creation_timestamp
            assert made is not None
            if behaviour == "fail":
                failed = {"failureReason": "InsufficientResources", "failureMessage": "no capacity"}
                await ctx.client.raw.merge(machine, {"status": failed}, guard={}, subresource="status")
            elif behaviour != "never" and (now - made).total_seconds() >= self.seconds:
                await self._start(ctx, machine, deployment)
                waiting.remove(machine)
        ctx.status(
            replicas=len(rest),
            readyReplicas=len(rest) - len(waiting),
            upToDateReplicas=len(rest),
            observedGeneration=ctx.object.metadata.generation,
        )
        return Result(requeue_after=max(0.05, self.seconds / 2)) if waiting and behaviour is None else None

    async def _machines(self, ctx: Context[Unstructured]) -> Sequence[Unstructured]:
        labels = {DEPLOYMENT: ctx.object.name}
        return await ctx.client.list(self.api.kind("Machine"), ctx.object.namespace, labels=labels, live=True)

    async def _set(self, ctx: Context[Unstructured]) -> Unstructured:
        name, namespace = f"{ctx.object.name}-set", ctx.object.namespace
        kind = self.api.kind("MachineSet")
        found = await ctx.client.find(kind, name, namespace, live=True)
        if found is not None:
            return found
        try:
            return await ctx.create({**self._head("MachineSet"), "metadata": {"name": name}, "spec": {}})
        except AlreadyExists:
            return await ctx.client.get(kind, name, namespace, live=True)

    async def _make(self, ctx: Context[Unstructured], owner: Unstructured) -> Unstructured:
        name = f"{ctx.object.name}-{ctx.clock.uuid().hex[:6]}"
        owned = {"name": owner.name, "uid": owner.uid, "controller": True}
        return await ctx.client.create(
            {
                **self._head("Machine"),
                "metadata": {
                    "name": name,
                    "namespace": ctx.object.namespace,
                    "labels": {DEPLOYMENT: ctx.object.name},
                    "ownerReferences": [{**self._head("MachineSet"), **owned}],
                },
                "spec": {},
            }
        )

    async def _remove(self, ctx: Context[Unstructured], machine: Unstructured) -> None:
        node = ((machine.body.get("status") or {}).get("nodeRef") or {}).get("name")
        await ctx.client.delete(machine)
        if node and (found := await ctx.client.find(Node, node, live=True)) is not None:
            await ctx.client.delete(found)

    async def _start(
        self, ctx: Context[Unstructured], machine: Unstructured, deployment: Mapping[str, Any]
    ) -> None:
        name = f"{machine.namespace}-{machine.name}"
        provider = f"simulated:///{machine.namespace}/{machine.name}"
        annotations = deployment["metadata"].get("annotations") or {}
        labels = dict(part.split("=") for part in annotations.get(CAPACITY + "labels", "").split(",") if part)
        try:
            node = await ctx.client.create(
                Node(metadata=ObjectMeta(name, labels={**labels, "kubernetes.io/hostname": name}))
            )
        except AlreadyExists:
            node = await ctx.client.get(Node, name, live=True)
        capacity = {"pods": "110", **{one: annotations.get(CAPACITY + one, "4") for one in ("cpu", "memory")}}
        ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": ""}
        try:
            # A cluster removes the taint that keeps pods away once the node is ready.
            await ctx.client.raw.merge(node, {"spec": {"providerID": provider, "taints": None}}, guard={})
            status = {"capacity": capacity, "allocatable": capacity, "conditions": [ready]}
            await ctx.client.raw.merge(node, {"status": status}, guard={}, subresource="status")
            await ctx.client.raw.merge(machine, {"spec": {"providerID": provider}}, guard={})
            ran = {"nodeRef": {"name": name}, "phase": "Running"}
            await ctx.client.raw.merge(machine, {"status": ran}, guard={}, subresource="status")
        except NotFound:
            return

    def _head(self, kind: str) -> dict[str, str]:
        return {"apiVersion": f"{self.api.group}/{self.api.version}", "kind": kind}

    def definitions(self, *, scaled: Sequence[str] = ("MachineSet", "MachinePool")) -> list[dict[str, Any]]:
        """Definitions of Machines and of the `scaled` kinds, which take any fields."""
        return [_definition(self.api, kind, kind in scaled) for kind in dict.fromkeys((*scaled, "Machine"))]


def _stays(machine: Unstructured) -> tuple[bool, bool, str]:
    """Sorts machines to remove first: marked ones, then ones without a node (as Cluster API, shortened)."""
    marked = DELETE_MACHINE in machine.metadata.annotations
    return not marked, bool((machine.body.get("status") or {}).get("nodeRef")), machine.name


@frozen
class _Size:
    replicas: int | None = None
    extra: Mapping[str, Any] = model_field(factory=dict, extra_fields=True)


@frozen
class _SizeStatus(_Size):
    selector: str | None = None


def _definition(api: ClusterApi, kind: str, scaled: bool) -> dict[str, Any]:
    class Sized(Object):
        spec: _Size = _Size()
        status: _SizeStatus = _SizeStatus()

    definition: dict[str, Any] = definition_of(resource(f"{api.group}/{api.version}", kind=kind)(Sized))
    if scaled:
        # Not by Scale, which requires a default: Cluster API accepts groups without replicas.
        definition["spec"]["versions"][0]["subresources"]["scale"] = {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        }
    return definition
