"""Reads the peering objects of operators on kopf, and signs there so that those operators pause.

An operator on kopf pauses within moments of an entry with a higher priority, ends the handlers that run, and
goes on when the entry expires or is removed. It does not confirm that it has paused.
"""

import datetime
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec
from attrs import field, frozen

from informers import APIResource, Clock, NotFound
from informers.apimachinery.envelopes import decode_list_page
from reconcile.client.patch_types import MERGE
from reconcile.client.sender import Sender, json_object
from reconcile.predecessors import FREEZE_PRIORITY, PEERINGS, Peer, entry_of, peers_in

OWN: Final = "reconcile/"
"""What our entries begin with. Pods have no such names, so no operator on kopf signs with one."""
FIELD_MANAGER: Final = "reconcile-freeze"


class PeeringNotKept(Exception):
    """A peering object does not keep an entry that was written, so nothing would pause."""

    def __init__(self, peering: "Peering") -> None:
        super().__init__(
            f"{peering} keeps no entries: its definition needs x-kubernetes-preserve-unknown-fields in status"
        )


@frozen
class Peering:
    """A peering object, and the peers that signed in it, dead ones too."""

    resource: APIResource
    namespace: str
    name: str
    peers: tuple[Peer, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        return f"{self.resource.kind} {f'{self.namespace}/{self.name}'.lstrip('/')}"

    def operators(self, now: datetime.datetime) -> Sequence[Peer]:
        """The operators on kopf that are alive."""
        return [peer for peer in self.peers if peer.is_alive(now) and not peer.identity.startswith(OWN)]


@frozen
class PeeringReading:
    """Finds the peering objects of one name. `namespaces` are those of the operator; empty: all."""

    sender: Sender
    name: str
    namespaces: Sequence[str] = ()

    async def peerings(self, kinds: Iterable[APIResource] = PEERINGS) -> Sequence[Peering]:
        """Those that are there; none where a kind is not served. Raises ApiError."""
        found: list[Peering] = []
        for resource in kinds if self.name else ():
            for namespace in (self.namespaces if resource.namespaced else ()) or ("",):
                found += await self._in(resource, namespace)
        return found

    async def _in(self, resource: APIResource, namespace: str) -> Sequence[Peering]:
        query = {"fieldSelector": f"metadata.name={self.name}"}
        try:
            page = await self.sender.send("GET", resource.path(namespace), decode_list_page, query)
        except NotFound:
            return []
        documents = [json_object(item) for item in page.items or ()]
        return [
            Peering(resource, one["metadata"].get("namespace", ""), self.name, peers_in(one))
            for one in documents
            if one["metadata"]["name"] == self.name
        ]


@frozen
class Signature:
    """Our entry `identity` in peering objects; it holds for `lifetime` seconds by the operators' clocks."""

    sender: Sender
    clock: Clock
    identity: str
    lifetime: int

    async def sign(self, peering: Peering) -> None:
        """Write the entry, or renew it. Raises PeeringNotKept, ApiError; NotFound: the object has gone."""
        entry = entry_of(FREEZE_PRIORITY, self.lifetime, self.clock.now())
        if await self._patch(peering, entry) == entry:
            return
        # kopf's definitions have no subresource for the status; one that has drops it from the first write.
        try:
            kept = await self._patch(peering, entry, "/status")
        except NotFound:
            kept = None
        if kept != entry:
            raise PeeringNotKept(peering)

    async def remove(self, peering: Peering) -> None:
        """Remove the entry, upon which operators on kopf go on. Raises ApiError."""
        with suppress(NotFound):
            if await self._patch(peering, None) is not None:
                await self._patch(peering, None, "/status")

    async def _patch(self, peering: Peering, entry: Mapping[str, Any] | None, part: str = "") -> object:
        """The entry that the server has then. Raises ApiError."""
        path = peering.resource.path(peering.namespace, peering.name) + part
        body = msgspec.json.encode({"status": {self.identity: entry}})
        query = {"fieldManager": FIELD_MANAGER}
        answer = await self.sender.send("PATCH", path, json_object, query, MERGE.headers, body)
        return (answer.get("status") or {}).get(self.identity)


async def lift_freezes(reading: PeeringReading, clock: Clock) -> Sequence[str]:
    """Remove all our entries from the peering objects that are found; says from which. Raises ApiError."""
    lifted = []
    for peering in await reading.peerings():
        own = [peer.identity for peer in peering.peers if peer.identity.startswith(OWN)]
        for identity in own:
            await Signature(reading.sender, clock, identity, 0).remove(peering)
        lifted += [str(peering)] if own else []
    return lifted
