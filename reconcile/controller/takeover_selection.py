"""The objects that a takeover has: those with the labels and their descendants; each with traces of kopf."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import frozen

from informers import APIResource, Key, Snapshot
from informers.apimachinery.label_selectors import Requirement, matches_labels
from reconcile.client.client import Client
from reconcile.client.object_selectors import parse_labels
from reconcile.controller.declaration import Controller
from reconcile.controller.event_recorder import Recorder
from reconcile.models import kind_of

if TYPE_CHECKING:
    from reconcile.controller.kopf_takeover import KopfTakeover

DEPTH = 8
"""How many owners are followed upwards: they could form a circle."""


@frozen
class TakeoverSelection:
    """Chooses objects with the labels, and objects controlled by a chosen one of the manager's kinds."""

    labels: Sequence[Requirement]
    kinds: Mapping[tuple[str, str], APIResource]

    async def holds(self, snapshot: Snapshot, client: Client) -> bool:
        """Whether that object is chosen. Raises the errors of requests for owners."""
        here: Snapshot | None = snapshot
        for _ in range(DEPTH):
            if here is None:
                return False
            if matches_labels(self.labels, here.labels):
                return True
            here = await self._controller_of(here, client)
        return False

    async def _controller_of(self, snapshot: Snapshot, client: Client) -> Snapshot | None:
        for owner in snapshot.to_dict()["metadata"].get("ownerReferences") or ():
            group = owner["apiVersion"].rpartition("/")[0]
            resource = self.kinds.get((group, owner["kind"])) if owner.get("controller") else None
            if resource is not None:
                namespace = snapshot.key.namespace if resource.namespaced else ""
                found = await client.raw.snapshot(resource, Key(namespace, owner["name"]))
                return found if found is not None and found.uid == owner["uid"] else None
        return None


def takeover_selection(labels: str, controllers: Iterable[Controller[Any]]) -> TakeoverSelection | None:
    """The selection of a manager by labels; None where it keeps everything. Raises ValueError."""
    if not labels:
        return None
    resources = [kind_of(controller.kind).resource for controller in controllers]
    return TakeoverSelection(parse_labels(labels), {(one.group, one.kind): one for one in resources})


async def takeover_of(
    controller: Controller[Any], client: Client, snapshot: Snapshot, recorder: Recorder
) -> "KopfTakeover | None":
    """What is left to do for one object of an operator on kopf; None where there is none.

    Raises what `KopfTakeover.of` raises; its module is loaded only for a controller that replaces one.
    """
    if controller.predecessor is None or controller.predecessor.traces is None:
        return None
    from reconcile.controller.kopf_takeover import KopfTakeover

    return await KopfTakeover.of(controller, client, snapshot, recorder)
