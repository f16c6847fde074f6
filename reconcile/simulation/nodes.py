"""Simulated nodes: pods get scheduled, run, become ready, and end gracefully, without machines.

An ordinary controller on this library, in the place of scheduler and kubelet. What a pod does can
be told by its annotation `simulated.reconcile-runtime/pod`:

    pending           it is never scheduled
    fail              its containers end with exit code 1, and it becomes Failed
    succeed           it runs, its containers end with exit code 0, and it becomes Succeeded
    not-ready         it runs and never becomes Ready
    hang-terminating  once it is being deleted it never ends

How long its end takes, where that is not as for all, can be told by its annotation
`simulated.reconcile-runtime/stop-seconds`.
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
from reconcile.kinds import Node, Pod
from reconcile.models import ObjectMeta
from reconcile.models.codec import format_time
from reconcile.runs.requests import Result, TerminalError

BEHAVIOUR = "simulated.reconcile-runtime/pod"
"""The annotation of a pod that says what it does instead of running (see the top of this module)."""
SOON = 0.001
"""A wait shorter than this (s) is none: it could be too short for a clock to see it pass."""
STOP_SECONDS = "simulated.reconcile-runtime/stop-seconds"
"""The annotation of a pod that says how many seconds it takes to stop."""

Phase = Literal["schedule", "start", "fail", "succeed", "ready", "end", "wait"]


@frozen
class Step:
    """What happens to a pod next, in so many seconds."""

    phase: Phase
    seconds: float = 0.0


@frozen
class Delays:
    """How long things take, in s: from scheduled to Ready or Succeeded, and from deletion to the end."""

    start: float = 0.5
    stop: float = 0.5


def next_step(pod: Pod, delays: Delays, age: float, terminating_for: float) -> Step:
    """What a node does with a pod that it has known for `age` seconds. Pure.

    Raises TerminalError for a pod whose annotation `STOP_SECONDS` is no number of seconds.
    """
    behaviour = pod.metadata.annotations.get(BEHAVIOUR, "")
    if pod.terminating:
        if behaviour == "hang-terminating":
            return Step("wait")
        return Step("end", max(0.0, stop_seconds(pod, delays) - terminating_for))
    if not pod.spec.node_name:
        return Step("wait") if behaviour == "pending" else Step("schedule")
    if pod.status.phase == "Pending":
        return Step("fail" if behaviour == "fail" else "start", max(0.0, delays.start / 2 - age))
    if pod.status.phase == "Running" and not pod.ready and behaviour != "not-ready":
        return Step("succeed" if behaviour == "succeed" else "ready", max(0.0, delays.start - age))
    return Step("wait")


def stop_seconds(pod: Pod, delays: Delays) -> float:
    """How long the pod stays Terminating. Raises TerminalError if its annotation says no such time."""
    said = pod.metadata.annotations.get(STOP_SECONDS)
    if said is None:
        return delays.stop
    try:
        seconds = float(said)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < math.inf:
        raise TerminalError(f"annotation {STOP_SECONDS} of pod {pod.key} is no number of seconds: {said!r}")
    return seconds


class Answers(Protocol):
    """Plays the network of pods that run: with it their addresses are real."""

    async def begin(self, pod: Pod) -> str:
        """The pod runs now; returns its address."""
        ...

    async def end(self, uid: str) -> None:
        """The pod of that uid runs no more. It may never have run."""
        ...


@define
class SimulatedNodes:
    """`count` nodes. Run `controller` in a manager, after `register` has made the Node objects.

    Without `answers` the addresses of pods lead nowhere.
    """

    count: int = 3
    delays: Delays = field(factory=Delays)
    answers: Answers | None = None
    _seen: dict[str, float] = field(factory=dict, init=False)
    _terminating: dict[str, float] = field(factory=dict, init=False)
    _addresses: int = field(default=0, init=False)

    @property
    def names(self) -> Sequence[str]:
        """The names of the nodes."""
        return [f"node-{number}" for number in range(self.count)]

    @property
    def controller(self) -> Controller[Pod]:
        """The controller that plays scheduler and kubelet."""
        return Controller(
            Pod,
            self._keep,
            on_terminating=self._keep,
            on_deleted=None if self.answers is None else self._gone,
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
        """Create the Node objects that are not there yet, and make them Ready."""
        for name in self.names:
            try:
                node = await client.create(
                    Node(metadata=ObjectMeta(name, labels={"kubernetes.io/hostname": name}))
                )
            except AlreadyExists:
                continue
            now = format_time(client.clock.now())
            capacity = {"cpu": "64", "memory": "256Gi", "pods": "110"}
            ready = {"type": "Ready", "status": "True", "reason": "Simulated", "lastTransitionTime": now}
            status = {"capacity": capacity, "allocatable": capacity, "conditions": [ready]}
            await client.merge(node, {"status": status}, guard={"uid": node.uid}, subresource="status")

    async def _keep(self, ctx: Context[Pod]) -> Result | None:
        pod, now = ctx.object, anyio.current_time()
        known_since = self._seen.setdefault(pod.uid, now)
        going_since = self._terminating.setdefault(pod.uid, now) if pod.terminating else now
        step = next_step(pod, self.delays, now - known_since, now - going_since)
        if step.phase == "wait":
            return None
        if step.seconds > SOON:
            return Result(requeue_after=step.seconds)
        await self._take(step.phase, pod, ctx)
        return None

    async def _take(self, phase: Phase, pod: Pod, ctx: Context[Pod]) -> None:
        match phase:
            case "schedule":
                await self._schedule(pod, ctx)
            case "start":
                address = await self._address(pod)
                await self._set_status(pod, ctx, running_status(pod, address, now=_now(ctx), ready=False))
            case "ready":
                address = pod.status.pod_ip or await self._address(pod)
                await self._set_status(pod, ctx, running_status(pod, address, now=_now(ctx), ready=True))
            case "fail":
                await self._set_status(pod, ctx, ended_status(pod, now=_now(ctx), well=False))
            case "succeed":
                await self._set_status(pod, ctx, ended_status(pod, now=_now(ctx), well=True))
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
        await ctx.client.merge(pod, {"status": status}, guard={"uid": pod.uid}, subresource="status")

    async def _gone(self, gone: Deleted[Pod]) -> None:
        if self.answers is not None:
            await self.answers.end(gone.object.uid)

    async def _address(self, pod: Pod) -> str:
        if self.answers is not None:
            return await self.answers.begin(pod)
        self._addresses += 1
        return f"10.244.{self._addresses // 250 % 250}.{self._addresses % 250 + 1}"


async def bind(client: Client, pod: Pod, node: str) -> None:
    """Schedule a pod to a node, as a scheduler does: through the binding subresource."""
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    await client.create_subresource(pod, "binding", binding)


def running_status(pod: Pod, address: str, *, now: str, ready: bool) -> dict[str, Any]:
    """The status of a pod whose containers run."""
    running = {"running": {"startedAt": now}}
    return {
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": now,
        "conditions": _conditions(ready, now),
        "containerStatuses": [_container(c, running, ready=ready) for c in pod.spec.containers],
    }


def ended_status(pod: Pod, *, now: str, well: bool) -> dict[str, Any]:
    """The status of a pod whose containers ended, well or with an error."""
    reason = "Completed" if well else "Error"
    ended = {"terminated": {"exitCode": 0 if well else 1, "reason": reason, "finishedAt": now}}
    return {
        "phase": "Succeeded" if well else "Failed",
        **({} if well else {"reason": reason}),
        "conditions": _conditions(False, now),
        "containerStatuses": [_container(c, ended, ready=False) for c in pod.spec.containers],
    }


def _container(container: Mapping[str, Any], state: Mapping[str, Any], *, ready: bool) -> dict[str, Any]:
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "ready": ready,
        "started": "running" in state,
        "restartCount": 0,
        "state": dict(state),
    }


def _conditions(ready: bool, now: str) -> list[dict[str, Any]]:
    states = {"PodScheduled": True, "Initialized": True, "ContainersReady": ready, "Ready": ready}
    return [{"type": t, "status": str(ok), "lastTransitionTime": now} for t, ok in states.items()]


class _Metadata(msgspec.Struct, rename="camel"):
    uid: str = ""
    deletion_timestamp: str | None = None
    annotations: dict[str, str] | None = None


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str | None = None


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""


class _Status(msgspec.Struct):
    phase: str = ""
    conditions: list[_Condition] | None = None


class _Read(msgspec.Struct):
    """What `next_step` reads of a pod, and nothing else: decoding all of it for every change is dear."""

    metadata: _Metadata
    spec: _Spec
    status: _Status = msgspec.field(default_factory=_Status)


_read = msgspec.json.Decoder(_Read)


def _pod_changed(old: Snapshot, new: Snapshot) -> bool:
    """Whether a pod has changed in what a node goes by. Labels and messages are nothing to it."""
    before, after = _read.decode(old.raw), _read.decode(new.raw)
    for pod in (before, after):
        told = pod.metadata.annotations or {}
        pod.metadata.annotations = {name: told[name] for name in (BEHAVIOUR, STOP_SECONDS) if name in told}
    return before != after


def _now(ctx: Context[Any]) -> str:
    return format_time(ctx.clock.now())
