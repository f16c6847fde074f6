"""Checks before the first write that the operator which a controller replaces is not active any more.

Two operators on one kind undo each other's work for ever, and neither reports it. A controller that
replaces another operator names it (`Controller(predecessor=)`); its manager then starts only if that one is
not active, or with `take_over`. One on kopf may be frozen instead, with `freeze_predecessor`.
"""

import datetime
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from attrs import frozen

from informers import Clock, Forbidden, Key, NotFound, Transport, get_logger
from informers.apimachinery.envelopes import decode_list_page
from reconcile.client.client import Client
from reconcile.client.kopf_peerings import Peering, PeeringNotKept, PeeringReading
from reconcile.client.sender import Sender, json_object
from reconcile.controller.declaration import Controller, Predecessor
from reconcile.controller.kopf_takeover import UnwrittenDraft
from reconcile.manager.option_list import ManagerOptions, followed_namespaces
from reconcile.models import kind_of
from reconcile.predecessors import FREEZE_PRIORITY, PEERINGS, KopfTraces, Peer, traces_on

if TYPE_CHECKING:
    from reconcile.manager.predecessor_freeze import PredecessorFreeze

RECENT_SECONDS = 600.0
"""A field manager that wrote a status within this time is active."""
LEASE_SECONDS = 60.0
"""The holder of a Lease is active if it renewed within this time, or within the duration if that is longer.
"""
PAGE = 500
IDENTITY = 200
"""How many characters of a peer's identity are shown: whoever may write a peering object chooses it."""

_log = get_logger("reconcile")


class PredecessorActive(Exception):
    """The predecessor of a controller is active; the text names the trace that was found."""

    def __init__(
        self, controller: str, predecessor: Predecessor, kind: str, found: str, freezable: bool = False
    ) -> None:
        freeze = ", freeze it with --freeze-predecessor (freeze_predecessor=True)" if freezable else ""
        super().__init__(
            f"{controller}: {predecessor.name} is active on {kind}: {found}. "
            f"Stop it first{freeze}, or start with --take-over (take_over=True)"
        )
        self.controller = controller
        self.predecessor = predecessor
        self.found = found


class _FieldsEntry(msgspec.Struct, rename="camel"):
    manager: str = ""
    subresource: str = ""
    time: datetime.datetime | None = None
    fields_v1: dict[str, msgspec.Raw] | None = msgspec.field(default=None, name="fieldsV1")

    @property
    def wrote_status(self) -> bool:
        """Whether it has fields of the status, which need not be a subresource."""
        return self.subresource == "status" or "f:status" in (self.fields_v1 or ())


class _TraceMetadata(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    managed_fields: list[_FieldsEntry] = []


class _PredecessorTrace(msgspec.Struct):
    metadata: _TraceMetadata
    spec: dict[str, Any] = {}
    status: msgspec.Raw = msgspec.Raw(b"{}")


class _DeploymentStatus(msgspec.Struct, rename="camel"):
    replicas: int | None = None
    terminating_replicas: int | None = None
    """Pods that are being deleted, which `replicas` does not count (KEP-3973, by default from 1.35 on)."""


_decode_status = msgspec.json.Decoder(_DeploymentStatus | None).decode
_decode_trace = msgspec.json.Decoder(_PredecessorTrace).decode


@frozen
class PredecessorCheck:
    """Looks for active predecessors; `own` are this operator's field managers. Raises errors of requests.

    With `freeze`, those on kopf that sign in a peering object are frozen instead, if nothing else stands
    against it.
    """

    transport: Transport
    clock: Clock
    own: frozenset[str]
    namespaces: Sequence[str] = ()
    selector: str = ""
    freeze: "PredecessorFreeze | None" = None

    async def check(self, controllers: Iterable[Controller[Any]]) -> None:
        """Raises PredecessorActive for the first predecessor that is active; then none is frozen.

        Raises UnwrittenDraft for a draft that would take objects over.
        """
        candidates = list(controllers)
        for one in candidates:
            await self._check_written(one)
        own = self.own.union(*map(_own_names, candidates))
        replacing = [(one, one.predecessor) for one in candidates if one.predecessor is not None]
        peerings = [await self._of(controller, predecessor, own) for controller, predecessor in replacing]
        if self.freeze is None:
            return
        for (controller, predecessor), found in zip(replacing, peerings, strict=True):
            try:
                await self.freeze.begin(found)
            except PeeringNotKept as error:
                resource = kind_of(controller.kind).resource
                raise PredecessorActive(controller.name, predecessor, resource.name, str(error)) from None

    async def _check_written(self, controller: Controller[Any]) -> None:
        """Raises UnwrittenDraft for a draft in a cluster with objects of the operator that it replaces."""
        predecessor = controller.predecessor
        if predecessor is None or predecessor.traces is None or not predecessor.unwritten:
            return
        resource = controller.resource
        for namespace in self.namespaces or ("",):
            async for item in self._documents(resource.path(namespace), self._selected):
                obj = json_object(item)
                if traces_on(obj, predecessor.traces):
                    metadata = obj["metadata"]
                    key = Key(metadata.get("namespace", ""), metadata["name"])
                    raise UnwrittenDraft(controller, key)

    @property
    def _selected(self) -> Mapping[str, str]:
        return {"labelSelector": self.selector} if self.selector else {}

    async def _of(
        self, controller: Controller[Any], predecessor: Predecessor, own: frozenset[str]
    ) -> Sequence[Peering]:
        """The peering objects of a predecessor that is not active, or that can be frozen."""
        resource = kind_of(controller.kind).resource
        peerings, now = await self._peerings(predecessor.traces), self.clock.now()
        alive = [(peering, peer) for peering in peerings for peer in peering.operators(now)]
        freezable = all(peer.priority < FREEZE_PRIORITY for _, peer in alive)
        if alive and (self.freeze is None or not freezable):
            sign = self._sign_of_life(*max(alive, key=lambda one: one[1].priority))
            raise PredecessorActive(controller.name, predecessor, resource.name, sign, freezable)
        known, found = own, ""
        # What kopf wrote last says less than its own sign of life: an operator that has ended would count as
        # active for minutes, and nobody would keep the objects meanwhile.
        if predecessor.traces is not None and (peerings or predecessor.deployments or predecessor.images):
            known = own.union(predecessor.traces.field_managers)
        for namespace in self.namespaces or ("",):
            found = found or await self._status_writer(resource.path(namespace), known)
        found = found or await self._lease(predecessor)
        # The pods of one that is frozen may stay: those of a rollout do, until the new ones are ready.
        found = found or ("" if alive else await self._deployment(predecessor))
        if found:
            raise PredecessorActive(controller.name, predecessor, resource.name, found)
        return peerings

    async def _peerings(self, traces: KopfTraces | None) -> Sequence[Peering]:
        if traces is None:
            return ()
        reading = PeeringReading(Sender(self.transport, self.clock), traces.peering, self.namespaces)
        found: list[Peering] = []
        for kind in PEERINGS:
            try:
                found += await reading.peerings((kind,))
            except Forbidden as error:
                _log.warning("cannot check for a predecessor", error=str(error))
        return found

    def _sign_of_life(self, peering: Peering, peer: Peer) -> str:
        left = f"{peer.seconds_left(self.clock.now()):.0f} s"
        return f"peer {peer.identity[:IDENTITY]!r} in {peering} is alive for {left}"

    async def _status_writer(self, path: str, own: frozenset[str]) -> str:
        async for item in self._items(path, self._selected):
            for entry in item.metadata.managed_fields:
                if entry.wrote_status and entry.manager not in own and self._recent(entry.time):
                    name = f"{item.metadata.namespace}/{item.metadata.name}".lstrip("/")
                    when = self._ago(entry.time)
                    return f"field manager {entry.manager!r} wrote the status of {name} {when}"
        return ""

    async def _lease(self, predecessor: Predecessor) -> str:
        if not predecessor.leases:
            return ""
        async for item in self._items("/apis/coordination.k8s.io/v1/leases", {}):
            renewed = _time(item.spec.get("renewTime"))
            seconds = max(LEASE_SECONDS, item.spec.get("leaseDurationSeconds") or 0)
            held = item.spec.get("holderIdentity") and self._recent(renewed, seconds)
            if item.metadata.name in predecessor.leases and held:
                return (
                    f"Lease {item.metadata.namespace}/{item.metadata.name} was renewed {self._ago(renewed)}"
                )
        return ""

    async def _deployment(self, predecessor: Predecessor) -> str:
        if not (predecessor.deployments or predecessor.images):
            return ""
        async for item in self._items("/apis/apps/v1/deployments", {}):
            named = item.metadata.name in predecessor.deployments
            if not named and not _runs(item.spec, predecessor.images):
                continue
            place = f"Deployment {item.metadata.namespace}/{item.metadata.name}"
            if replicas := item.spec.get("replicas", 1):
                return f"{place} has {replicas} replicas"
            status = _decode_status(item.status) or _DeploymentStatus()
            if pods := (status.replicas or 0) + (status.terminating_replicas or 0):
                return f"{place} has no replicas, and pods that have not ended: {pods}"
        return ""

    def _recent(self, time: datetime.datetime | None, seconds: float = RECENT_SECONDS) -> bool:
        return time is not None and (self.clock.now() - time).total_seconds() <= seconds

    def _ago(self, time: datetime.datetime | None) -> str:
        seconds = 0.0 if time is None else (self.clock.now() - time).total_seconds()
        return f"{max(0.0, seconds):.0f} s ago"

    async def _items(self, path: str, query: Mapping[str, str]) -> AsyncIterator[_PredecessorTrace]:
        async for item in self._documents(path, query):
            yield _decode_trace(item)

    async def _documents(self, path: str, query: Mapping[str, str]) -> AsyncIterator[msgspec.Raw]:
        sender, after = Sender(self.transport, self.clock), ""
        while True:
            page_query = {**query, "limit": str(PAGE), **({"continue": after} if after else {})}
            try:
                page = await sender.send("GET", path, decode_list_page, page_query)
            except NotFound:
                return
            except Forbidden as error:
                _log.warning("cannot check for a predecessor", error=str(error))
                return
            for item in page.items or ():
                yield item
            after = page.metadata.continue_
            if not after:
                return


def _own_names(controller: Controller[Any]) -> Iterable[str]:
    return (controller.field_manager, *controller.former_field_managers)


def predecessor_check_of(
    options: ManagerOptions,
    client: Client,
    controllers: Iterable[Controller[Any]],
    transport: Transport,
) -> PredecessorCheck | None:
    """The check of a manager with those controllers; None in shadow, and where it takes over anyway.

    Through `transport` predecessors are frozen: neither guarded by leadership nor recorded.
    """
    if options["dry_run"] or options["take_over"]:
        return None
    own = frozenset((client.field_manager,)).union(*map(_own_names, controllers))
    namespaces = followed_namespaces(options)
    freeze = None
    if options["freeze_predecessor"]:
        from reconcile.manager.predecessor_freeze import freeze_of

        freeze = freeze_of(transport, client.clock, options["name"])
    return PredecessorCheck(client.transport, client.clock, own, namespaces, options["selector"], freeze)


def _runs(spec: Mapping[str, Any], images: Sequence[str]) -> bool:
    pod = (spec.get("template") or {}).get("spec") or {}
    used = [container.get("image") or "" for container in pod.get("containers") or ()]
    return any(part in image for image in used for part in images)


def _time(text: Any) -> datetime.datetime | None:
    return datetime.datetime.fromisoformat(text) if isinstance(text, str) and text else None
