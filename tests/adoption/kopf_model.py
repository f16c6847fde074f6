"""What an operator on kopf does that concerns a switch, in virtual time: peering, finalizers, creations.

As in kopf 1.45, what it does with an object while it is frozen ends, and nothing begins: not the handler of
an object that got its finalizer just before, and no further attempt of a handler that failed.
"""

import datetime
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
from attrs import define, field

from informers import Key, NotFound, Snapshot
from reconcile import Client, Object, resource
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.kinds import Deployment, Pod
from reconcile.models import definition_of, kind_of
from reconcile.predecessors import PEERINGS, entry_of, peers_in
from reconcile.testing import VirtualClock
from tests.adoption.kopf_objects import FINALIZER, PREFIX
from tests.clients.gadgets import deployment
from tests.helpers.definitions import definition
from tests.helpers.pods import pod

PEERING = PEERINGS[0]
PLACE, OPERATOR, IDENTITY = "default", "operator", "me@host/1"
LAST_HANDLED = f"{PREFIX}/last-handled-configuration"
PROGRESS = f"{PREFIX}/make"
LOOK = 0.25
LIFETIME = 60
GRACE = 3.0
"""Seconds that a pod takes to end."""


@resource("switch.example.com/v1")
class Part(Object):
    size: int = 1


PARTS = kind_of(Part).resource


@define
class Handler:
    """The handler of creation for one object: each call takes `seconds`, and the first `failures` fail."""

    seconds: float = 0.0
    failures: int = 0
    delay: float = 5.0


@define(eq=False)
class Operator:
    """`calls` are the outside effects, `cut_off` the objects whose handler ran when the process ended."""

    client: Client
    clock: VirtualClock
    handlers: Mapping[str, Handler]
    calls: list[str] = field(factory=list)
    cut_off: list[str] = field(factory=list)
    busy: set[str] = field(factory=set)
    paused: bool = False

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._sign)
            tasks.start_soon(self._watch_peers)
            while True:
                await anyio.sleep(LOOK)
                for one in [] if self.paused else await self.client.raw.snapshots(PARTS, live=True):
                    if one.key.name not in self.busy:
                        tasks.start_soon(self._handle, one)

    async def _sign(self) -> None:
        try:
            while True:
                await self._patch_peering(dict(entry_of(0, LIFETIME, self.clock.now())))
                await anyio.sleep(LIFETIME - 8)
        finally:
            with anyio.CancelScope(shield=True):
                await self._patch_peering(None)

    async def _patch_peering(self, entry: dict[str, Any] | None) -> None:
        with suppress(NotFound):
            patch = {"status": {IDENTITY: entry}}
            await self.client.raw.patch(PEERING, Key("", "default"), patch, guard={})

    async def _watch_peers(self) -> None:
        while True:
            found = await self.client.raw.snapshot(PEERING, Key("", "default"), live=True)
            peers = peers_in({} if found is None else found.to_dict())
            now = self.clock.now()
            self.paused = any(peer.is_alive(now) and peer.priority > 0 for peer in peers)
            await anyio.sleep(LOOK)

    async def _handle(self, seen: Snapshot) -> None:
        metadata, name = seen.to_dict()["metadata"], seen.key.name
        annotations = metadata.get("annotations") or {}
        if LAST_HANDLED in annotations or "deletionTimestamp" in metadata:
            return
        self.busy.add(name)
        try:
            if FINALIZER not in (metadata.get("finalizers") or ()):
                await self._patch(seen, {"finalizers": [FINALIZER]})
            else:
                await self._call(seen, json.loads(annotations.get(PROGRESS, "{}")))
        finally:
            self.busy.discard(name)

    async def _call(self, seen: Snapshot, record: dict[str, Any]) -> None:
        name, now = seen.key.name, self.clock.now()
        if record and datetime.datetime.fromisoformat(record["delayed"]) > now:
            return
        handler, retries = self.handlers.get(name, Handler()), record.get("retries", 0)
        try:
            await anyio.sleep(handler.seconds)
        except anyio.get_cancelled_exc_class():
            self.cut_off.append(name)
            raise
        if retries < handler.failures:
            delayed = (self.clock.now() + datetime.timedelta(seconds=handler.delay)).isoformat()
            begun = {"started": now.isoformat(), "purpose": "create", **record}
            await self._note(seen, json.dumps({**begun, "retries": retries + 1, "delayed": delayed}), None)
        else:
            self.calls.append(name)
            await self._note(seen, None, '{"spec":{}}')

    async def _note(self, seen: Snapshot, progress: str | None, handled: str | None) -> None:
        await self._patch(seen, {"annotations": {PROGRESS: progress, LAST_HANDLED: handled}})

    async def _patch(self, seen: Snapshot, metadata: Mapping[str, Any]) -> None:
        with suppress(NotFound):
            await self.client.raw.patch(PARTS, seen.key, {"metadata": metadata}, guard={})


@define(eq=False)
class Town:
    """A cluster with such an operator, its Deployment, and what ends its process when that is scaled to 0."""

    handlers: Mapping[str, Handler] = field(factory=dict)
    peering: bool = True
    clock: VirtualClock = field(factory=lambda: VirtualClock(0))
    server: ApiServer = field(init=False)
    transport: InProcessTransport = field(init=False)
    client: Client = field(init=False)
    operator: Operator = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.server = ApiServer(clock=self.clock)
        self.transport = InProcessTransport(self.server)
        self.client = Client(self.transport, clock=self.clock)
        self.operator = Operator(self.client, self.clock, self.handlers)

    @asynccontextmanager
    async def lives(self) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.server.run)
            await self._build()
            tasks.start_soon(self._kubelet)
            yield
            tasks.cancel_scope.cancel()

    async def _build(self) -> None:
        await self.client.apply(definition_of(Part))
        if self.peering:
            peerings = definition(PEERING.kind, group=PEERING.group, subresources={})
            peerings["spec"]["scope"] = "Cluster"
            await self.client.create(peerings)
            head = {"apiVersion": PEERING.api_version, "kind": PEERING.kind, "metadata": {"name": "default"}}
            await self.client.create(head)
        await self.client.create(deployment(OPERATOR, "operator:1"))
        await self.client.create(pod(OPERATOR, "Running", labels={"a": OPERATOR}))

    async def _kubelet(self) -> None:
        async with anyio.create_task_group() as process:
            process.start_soon(self.operator.run)
            while (await self.client.get(Deployment, OPERATOR, PLACE)).spec.replicas:
                await anyio.sleep(LOOK)
            await anyio.sleep(LOOK)
            process.cancel_scope.cancel()
        await anyio.sleep(GRACE)
        await self.client.delete(await self.client.get(Pod, OPERATOR, PLACE))

    async def parts(self) -> Mapping[str, Mapping[str, Any]]:
        found = await self.client.raw.snapshots(PARTS, live=True)
        return {one.key.name: one.to_dict()["metadata"] for one in found}

    async def half_created(self) -> Sequence[str]:
        """What kopf has begun to create, or may have, and not handled to the end."""
        return [
            name
            for name, metadata in (await self.parts()).items()
            if "finalizers" in metadata and LAST_HANDLED not in metadata.get("annotations", {})
        ]

    async def signs(self) -> Sequence[str]:
        found = await self.client.raw.snapshot(PEERING, Key("", "default"), live=True)
        return [] if found is None else [peer.identity for peer in peers_in(found.to_dict())]
