"""Simulated nodes: pods are scheduled, run, become ready and end gracefully, without machines.

A controller of this library, in the place of scheduler and kubelet. The annotation
`simulated.reconcile-runtime/pod` of a pod changes what it does:

    pending           it is never scheduled
    fail              its containers end with exit code 1, and it becomes Failed
    succeed           it runs, its containers end with exit code 0, and it becomes Succeeded
    not-ready         it runs and never becomes Ready
    hang-terminating  once it is being deleted it never ends

Its annotation `simulated.reconcile-runtime/stop-seconds` changes how long it takes to end.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import anyio
import msgspec
from attrs import define, field, frozen

from informers import AlreadyExists, Snapshot
from reconcile.client.client import Client
from reconcile.controller.context import Context
from reconcile.controller.declaration import Controller, Write
from reconcile.controller.tombstones import Deleted
from reconcile.kinds import Container, Node, Pod
from reconcile.models import ObjectMeta
from reconcile.models.values import format_time
from reconcile.runs.run_request import Result, TerminalError

BEHAVIOUR = "simulated.reconcile-runtime/pod"
"""The annotation of a pod that says what it does instead of running (see the top of this module)."""
SOON = 0.001
"""A wait shorter than this (s) is skipped: added to the loop's time, a float may not change by it."""
STOP_SECONDS = "simulated.reconcile-runtime/stop-seconds"
"""The annotation of a pod that says how many seconds it takes to stop."""

NodeAction = Literal["schedule", "start", "fail", "succeed", "ready", "end", "wait"]


@frozen
class PodStep:
    """What happens next to a pod, in `seconds`."""

    action: NodeAction
    seconds: float = 0.0


@frozen
class Delays:
    """How many seconds a pod takes from scheduled to Ready or Succeeded, and from deletion to its end."""

    start: float = 0.5
    stop: float = 0.5


def next_step(pod: Pod, delays: Delays, age: float, terminating_for: float) -> PodStep:
    """What a node does with a pod known for `age` seconds. Raises TerminalError for wrong `STOP_SECONDS`."""
    behaviour = pod.metadata.annotations.get(BEHAVIOUR, "")
    if pod.terminating:
        if behaviour == "hang-terminating":
            return PodStep("wait")
        return PodStep("end", max(0.0, stop_seconds(pod, delays) - terminating_for))
    if not pod.spec.node_name:
        return PodStep("wait") if behaviour == "pending" else PodStep("schedule")
    if pod.status.phase == "Pending":
        return PodStep("fail" if behaviour == "fail" else "start", max(0.0, delays.start / 2 - age))
    if pod.status.phase == "Running" and not pod.ready and behaviour != "not-ready":
        return PodStep("succeed" if behaviour == "succeed" else "ready", max(0.0, delays.start - age))
    return PodStep("wait")


def stop_seconds(pod: Pod, delays: Delays) -> float:
    """How long the pod stays Terminating. Raises TerminalError for a wrong annotation."""
    text = pod.metadata.annotations.get(STOP_SECONDS)
    if text is None:
        return delays.stop
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < math.inf:
        raise TerminalError(
            f"annotation {STOP_SECONDS} of pod {pod.key}: expected a number of seconds, got {text!r}"
        )
    return seconds


class PodNetwork(Protocol):
    """Gives running pods addresses on which something answers."""

    async def begin(self, pod: Pod) -> str:
        """Answer for a pod that begins to run; returns its address."""
        ...

    async def end(self, uid: str) -> None:
        """Stop answering for the pod of that uid, which may never have run."""
        ...


_MACHINE_LABELS = {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}
"""By which pods ask for a machine (nodeSelector); every kubelet sets them."""


@define
class SimulatedNodes:
    """`count` nodes: run `controller` in a manager after `register`. Pods answer only on a `network`."""

    count: int = 3
    delays: Delays = field(factory=Delays)
    network: PodNetwork | None = None
    _seen: dict[str, float] = field(factory=dict, init=False)
    _terminating: dict[str, float] = field(factory=dict, init=False)
    _addresses: int = field(default=0, init=False)

    @property
    def names(self) -> Sequence[str]:
        """The names of the nodes."""
        return [f"node-{number}" for number in range(self.count)]

    @property
    def controller(self) -> Controller[Pod]:
        """The controller in the place of scheduler and kubelet."""
        return Controller(
            Pod,
            self._keep,
            on_terminating=self._keep,
            on_deleted=None if self.network is None else self._stop_answering,
            writes=[
                Write(Pod, ("get", "delete")),
                Write(Pod, ("patch",), subresource="status"),
                Write(Pod, ("create",), subresource="binding"),
            ],
            name="simulated-nodes",
            operator="reconcile-runtime.dev",
            wakes=_pod_changed,
            workers=20,
        )

    async def register(self, client: Client) -> None:
        """Create the Node objects that do not exist yet, and make them Ready."""
        for name in self.names:
            labels = {"kubernetes.io/hostname": name, **_MACHINE_LABELS}
            try:
                node = await client.create(Node(metadata=ObjectMeta(name, labels=labels)))
            except AlreadyExists:
                continue
            now = format_time(client.clock.now())
            capacity = {"cpu": "64", "memory": "256Gi", "pods": "110"}
            ready = {"type": "Ready", "status": "True", "reason": "Simulated", "lastTransitionTime": now}
            status = {
                "capacity": capacity,
                "allocatable": capacity,
                "conditions": [ready],
                "nodeInfo": {"architecture": "amd64", "operatingSystem": "linux"},
            }
            guard = {"uid": node.uid}
            await client.raw.merge(node, {"status": status}, guard=guard, subresource="status")
            # A cluster removes the taint that keeps pods away once the node is ready.
            await client.raw.merge(node, {"spec": {"taints": None}}, guard=guard)

    async def _keep(self, ctx: Context[Pod]) -> Result | None:
        pod, now = ctx.object, anyio.current_time()
        seen = self._seen.setdefault(pod.uid, now)
        terminating = self._terminating.setdefault(pod.uid, now) if pod.terminating else now
        step = next_step(pod, self.delays, now - seen, now - terminating)
        if step.action == "wait":
            return None
        if step.seconds > SOON:
            return Result(requeue_after=step.seconds)
        await self._take(step.action, pod, ctx)
        return None

    async def _take(self, action: NodeAction, pod: Pod, ctx: Context[Pod]) -> None:
        match action:
            case "schedule":
                await self._schedule(pod, ctx)
            case "start" | "ready":
                ready, ip = action == "ready", pod.status.pod_ip
                address = ip if ready and ip else await self._address(pod)
                await self._set_status(pod, ctx, running_status(pod, address, now=_now(ctx), ready=ready))
            case "fail" | "succeed":
                success = action == "succeed"
                await self._set_status(pod, ctx, ended_status(pod, now=_now(ctx), success=success))
            case "end":
                self._seen.pop(pod.uid, None)
                self._terminating.pop(pod.uid, None)
                await ctx.client.delete(pod, grace_seconds=0)

    async def _schedule(self, pod: Pod, ctx: Context[Pod]) -> None:
        load = dict.fromkeys(self.names, 0)
        for node in await ctx.client.list(Node):
            if node.spec.unschedulable:
                load.pop(node.name, None)
        for other in await ctx.client.list(Pod):
            if other.spec.node_name in load:
                load[other.spec.node_name] += 1
        if not load:
            ctx.log.warning("no node takes pods")
            return
        await bind(ctx.client, pod, min(load, key=lambda name: (load[name], name)))

    @staticmethod
    async def _set_status(pod: Pod, ctx: Context[Pod], status: Mapping[str, Any]) -> None:
        await ctx.client.raw.merge(pod, {"status": status}, guard={"uid": pod.uid}, subresource="status")

    async def _stop_answering(self, deleted: Deleted[Pod]) -> None:
        if self.network is not None:
            await self.network.end(deleted.object.uid)

    async def _address(self, pod: Pod) -> str:
        if self.network is not None:
            return await self.network.begin(pod)
        self._addresses += 1
        return f"10.244.{self._addresses // 250 % 250}.{self._addresses % 250 + 1}"


async def bind(client: Client, pod: Pod, node: str) -> None:
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    await client.raw.create_subresource(pod, "binding", binding)


def running_status(pod: Pod, address: str, *, now: str, ready: bool) -> dict[str, Any]:
    running = {"running": {"startedAt": now}}
    return {
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": now,
        "conditions": _conditions(ready, now),
        "containerStatuses": [_container(c, running, ready=ready) for c in pod.spec.containers],
    }


def ended_status(pod: Pod, *, now: str, success: bool) -> dict[str, Any]:
    reason = "Completed" if success else "Error"
    ended = {"terminated": {"exitCode": 0 if success else 1, "reason": reason, "finishedAt": now}}
    return {
        "phase": "Succeeded" if success else "Failed",
        **({} if success else {"reason": reason}),
        "conditions": _conditions(False, now),
        "containerStatuses": [_container(c, ended, ready=False) for c in pod.spec.containers],
    }


def _container(container: Container, state: Mapping[str, Any], *, ready: bool) -> dict[str, Any]:
    return {
        "name": container.name,
        "image": container.image,
        "imageID": "",
        "ready": ready,
        "started": "running" in state,
        "restartCount": 0,
        "state": dict(state),
    }


def _conditions(ready: bool, now: str) -> list[dict[str, Any]]:
    states = {"PodScheduled": True, "Initialized": True, "ContainersReady": ready, "Ready": ready}
    return [{"type": t, "status": str(ok), "lastTransitionTime": now} for t, ok in states.items()]


class _PodMetadata(msgspec.Struct, rename="camel"):
    uid: str = ""
    deletion_timestamp: str | None = None
    annotations: dict[str, str] | None = None


class _PodSpec(msgspec.Struct, rename="camel"):
    node_name: str | None = None


class _PodCondition(msgspec.Struct):
    type: str = ""
    status: str = ""


class _PodStatus(msgspec.Struct):
    phase: str = ""
    conditions: list[_PodCondition] | None = None


class _PodFields(msgspec.Struct):
    """The fields that `next_step` reads: decoding whole pods for every change would be slow."""

    metadata: _PodMetadata
    spec: _PodSpec
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


_read = msgspec.json.Decoder(_PodFields)


def _pod_changed(old: Snapshot, new: Snapshot) -> bool:
    before, after = _read.decode(old.raw), _read.decode(new.raw)
    for pod in (before, after):
        given = pod.metadata.annotations or {}
        pod.metadata.annotations = {name: given[name] for name in (BEHAVIOUR, STOP_SECONDS) if name in given}
    return before != after


def _now(ctx: Context[Any]) -> str:
    return format_time(ctx.clock.now())
