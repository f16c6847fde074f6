"""Checks before the first write that the operator which a controller replaces is not active any more.

Two operators on one kind undo each other's work for ever, and neither reports it. A controller that
replaces another operator names it (`Controller(predecessor=)`); its manager then starts only if that one is
not active, or with `take_over`.
"""

import datetime
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from attrs import frozen

from informers import Clock, Forbidden, NotFound, Transport, get_logger
from informers.apimachinery.envelopes import decode_list_page
from reconcile.client.client import Client
from reconcile.client.sender import Sender
from reconcile.controller.declaration import Controller, Predecessor
from reconcile.manager.option_list import ManagerOptions, followed_namespaces
from reconcile.models import kind_of
from reconcile.predecessors import PEERINGS, KopfTraces, peers_in

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

    def __init__(self, controller: str, predecessor: Predecessor, kind: str, found: str) -> None:
        super().__init__(
            f"{controller}: {predecessor.name} is active on {kind}: {found}. "
            "Stop it first, or start with --take-over (take_over=True)"
        )
        self.controller = controller
        self.predecessor = predecessor
        self.found = found


class _FieldsEntry(msgspec.Struct):
    manager: str = ""
    subresource: str = ""
    time: datetime.datetime | None = None


class _TraceMetadata(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    managed_fields: list[_FieldsEntry] = []


class _PredecessorTrace(msgspec.Struct):
    metadata: _TraceMetadata
    spec: dict[str, Any] = {}
    status: Any = None


_decode_trace = msgspec.json.Decoder(_PredecessorTrace).decode


@frozen
class PredecessorCheck:
    """Looks for active predecessors; `own` are this operator's field managers. Raises errors of requests."""

    transport: Transport
    clock: Clock
    own: frozenset[str]
    namespaces: Sequence[str] = ()
    selector: str = ""

    async def check(self, controllers: Iterable[Controller[Any]]) -> None:
        """Raises PredecessorActive for the first predecessor that is active."""
        candidates = list(controllers)
        own = self.own.union(*map(_own_names, candidates))
        for controller in candidates:
            predecessor = controller.predecessor
            if predecessor is None:
                continue
            resource = kind_of(controller.kind).resource
            known, found = own, ""
            if predecessor.traces is not None:
                signs, found = await self._peer(predecessor.traces)
                # What kopf wrote last says less than its own sign of life: an operator that has ended would
                # count as active for minutes, and nobody would keep the objects meanwhile.
                if signs or predecessor.deployments or predecessor.images:
                    known = own.union(predecessor.traces.field_managers)
            for namespace in self.namespaces or ("",):
                found = found or await self._status_writer(resource.path(namespace), known)
            found = found or await self._lease(predecessor) or await self._deployment(predecessor)
            if found:
                raise PredecessorActive(controller.name, predecessor, resource.name, found)

    async def _status_writer(self, path: str, own: frozenset[str]) -> str:
        query = {"labelSelector": self.selector} if self.selector else {}
        async for item in self._items(path, query):
            for entry in item.metadata.managed_fields:
                foreign = entry.subresource == "status" and entry.manager not in own
                if foreign and self._recent(entry.time):
                    name = f"{item.metadata.namespace}/{item.metadata.name}".lstrip("/")
                    when = self._ago(entry.time)
                    return f"field manager {entry.manager!r} wrote the status of {name} {when}"
        return ""

    async def _peer(self, traces: KopfTraces) -> tuple[bool, str]:
        """Whether there is a peering object of that name, and the sign of a peer that is alive."""
        now, signs = self.clock.now(), False
        for peering in PEERINGS if traces.peering else ():
            for namespace in (self.namespaces if peering.namespaced else ()) or ("",):
                async for item in self._items(peering.path(namespace), {}):
                    if item.metadata.name != traces.peering:
                        continue
                    signs = True
                    for peer in peers_in({"status": item.status}):
                        if peer.is_alive(now):
                            left = f"{peer.seconds_left(now):.0f} s"
                            where = f"{peering.kind} {traces.peering!r}"
                            return True, f"peer {peer.identity[:IDENTITY]!r} in {where} is alive for {left}"
        return signs, ""

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
            replicas = item.spec.get("replicas", 1)
            named = item.metadata.name in predecessor.deployments
            if replicas and (named or _runs(item.spec, predecessor.images)):
                return f"Deployment {item.metadata.namespace}/{item.metadata.name} has {replicas} replicas"
        return ""

    def _recent(self, time: datetime.datetime | None, seconds: float = RECENT_SECONDS) -> bool:
        return time is not None and (self.clock.now() - time).total_seconds() <= seconds

    def _ago(self, time: datetime.datetime | None) -> str:
        seconds = 0.0 if time is None else (self.clock.now() - time).total_seconds()
        return f"{max(0.0, seconds):.0f} s ago"

    async def _items(self, path: str, query: Mapping[str, str]) -> AsyncIterator[_PredecessorTrace]:
        sender, after = Sender(self.transport, self.clock), ""
        while True:
            page_query = {**query, "limit": str(PAGE), **({"continue": after} if after else {})}
            try:
                page = await sender.send("GET", path, _read_page, page_query)
            except NotFound:
                return
            except Forbidden as error:
                _log.warning("cannot check for a predecessor", error=str(error))
                return
            items, after = page
            for item in items:
                yield item
            if not after:
                return


def _read_page(body: bytes) -> tuple[list[_PredecessorTrace], str]:
    page = decode_list_page(body)
    return [_decode_trace(item) for item in page.items or ()], page.metadata.continue_


def _own_names(controller: Controller[Any]) -> Iterable[str]:
    return (controller.field_manager, *controller.former_field_managers)


def predecessor_check_of(
    options: ManagerOptions, client: Client, controllers: Iterable[Controller[Any]]
) -> PredecessorCheck | None:
    """The check of a manager with those controllers; None in shadow, and where it takes over anyway."""
    if options["dry_run"] or options["take_over"]:
        return None
    own = frozenset((client.field_manager,)).union(*map(_own_names, controllers))
    namespaces = followed_namespaces(options)
    return PredecessorCheck(client.transport, client.clock, own, namespaces, options["selector"])


def _runs(spec: Mapping[str, Any], images: Sequence[str]) -> bool:
    pod = (spec.get("template") or {}).get("spec") or {}
    used = [container.get("image") or "" for container in pod.get("containers") or ()]
    return any(part in image for image in used for part in images)


def _time(text: Any) -> datetime.datetime | None:
    return datetime.datetime.fromisoformat(text) if isinstance(text, str) and text else None
