"""Reads what an audit needs, page by page: each page is counted and forgotten."""

from collections.abc import AsyncIterator, Awaitable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec
from attrs import frozen

from informers import ApiError, APIResource, Clock, Expired, Forbidden, NotFound, Unauthorized
from informers.api_errors import is_unreachable
from informers.apimachinery.envelopes import decode_list_page
from informers.apimachinery.label_selectors import requirements_of
from reconcile.adoption.adopted_kinds import AdoptedKind, CustomKind
from reconcile.adoption.audit import Audit, SeenDeployment, SeenPeer
from reconcile.adoption.kopf_handlers import ResourceNames
from reconcile.adoption.tally import NAMES, TEXT, Tally
from reconcile.client.kopf_peerings import OWN
from reconcile.client.sender import Sender, json_object
from reconcile.doctor.findings import Unread
from reconcile.predecessors import PEERINGS, peers_in

FIRST_PAGE: Final = 50
LARGEST_PAGE: Final = 500
PAGE_BYTES: Final = 4 * 1024 * 1024
"""How large a page should be: the next one has as many objects as make this at the size of the last ones."""
LISTS: Final = 3
"""How often a list is begun that goes too slowly for the server's history."""
WEBHOOKS: Final = ".kopf.dev"
"""What the names of webhook configurations end in that kopf's documentation suggests: `auto.kopf.dev`."""
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
_CONFIGURATIONS: Final = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
_DEPLOYMENTS: Final = APIResource("apps", "v1", "Deployment", "deployments")
_PODS: Final = APIResource("", "v1", "Pod", "pods")
_NOT_ENDED: Final = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}
_PEERING_GROUPS: Final = frozenset(resource.group for resource in PEERINGS)

R = TypeVar("R")


class _Object(msgspec.Struct):
    """What is looked at of an object; the rest, its spec above all, is skipped."""

    metadata: dict[str, Any]
    status: Any = None


_decode_object = msgspec.json.Decoder(_Object).decode


@frozen
class ClusterReading:
    """Reads with GET alone, objects of `sender`'s server."""

    sender: Sender
    clock: Clock

    async def audit(
        self,
        kinds: Iterable[AdoptedKind],
        *,
        peerings: Collection[str] = (),
        deployments: Collection[str] = (),
        only_with_traces: bool = False,
        unread: Sequence[Unread] = (),
    ) -> Audit:
        """Everything; what cannot be read is in `unread`. Raises ApiError if no server answers.

        `peerings` are names of peering objects, empty: all. `only_with_traces` leaves kinds out of which no
        object has traces. The `unread` that is given comes first.
        """
        left = list(unread)
        read = [await self._attempt(kind.resource.name, self.tally(kind), left) for kind in kinds]
        tallies = [tally for tally in read if tally is not None]
        return Audit(
            tallies=[tally for tally in tallies if tally.shows_kopf or not only_with_traces],
            looked_at=len(tallies),
            peers=await self._attempt("the peering objects", self.peers(peerings), left) or (),
            deployments=await self._attempt("the Deployments", self.deployments(deployments), left) or (),
            webhooks=await self._attempt("the webhook configurations", self.webhooks(), left) or (),
            unread=left,
        )

    async def _attempt(self, what: str, reading: Awaitable[R], unread: list[Unread]) -> R | None:
        try:
            return await reading
        except (Forbidden, Unauthorized) as error:
            unread.append(Unread(what, str(error), "grant that right, and run the command again"))
        except ApiError as error:
            if is_unreachable(error):
                raise
            unread.append(Unread(what, str(error), "run the command again"))
        return None

    async def tally(self, kind: AdoptedKind) -> Tally:
        """What is on the objects of a kind; nothing if it is not served. Raises ApiError."""
        attempt = 1
        while True:
            tally = Tally(kind)
            try:
                for path in kind.paths:
                    async for item in self._items(path):
                        obj = _decode_object(item)
                        tally.add({"metadata": obj.metadata, "status": obj.status})
                return tally
            except Expired:
                if attempt == LISTS:
                    raise
            attempt += 1

    async def custom_kinds(self) -> Sequence[CustomKind]:
        """The kinds of all definitions, but kopf's own. Raises ApiError."""
        found = []
        async for item in self._items(_DEFINITIONS):
            definition = json_object(item)
            spec = definition["spec"]
            served = [version for version in spec["versions"] if version["served"]]
            if served and spec["group"] not in _PEERING_GROUPS:
                version = next((one for one in served if one["storage"]), served[0])["name"]
                names = ResourceNames.of_definition(definition)
                namespaced = spec["scope"] == "Namespaced"
                resource = APIResource(names.group, version, names.kind, names.plural, namespaced)
                found.append(CustomKind(resource, names))
        return found

    async def peers(self, names: Collection[str]) -> Sequence[SeenPeer]:
        """The operators on kopf that sign in the peering objects of these names; empty: in any.

        Raises ApiError.
        """
        found: list[SeenPeer] = []
        for resource in PEERINGS:
            async for item in self._items(resource.path()):
                peering = json_object(item)
                if names and peering["metadata"]["name"] not in names:
                    continue
                now, where = self.clock.now(), f"{resource.kind} {_place(peering)}"
                found += [
                    SeenPeer(where, peer.identity[:TEXT], peer.priority, round(peer.seconds_left(now)))
                    for peer in peers_in(peering)
                    if peer.is_alive(now) and not peer.identity.startswith(OWN)
                ][: NAMES - len(found)]
        return found

    async def deployments(self, names: Collection[str]) -> Sequence[SeenDeployment]:
        """Those of these names, `NAME` in any namespace or `NAMESPACE/NAME`, with pods. Raises ApiError."""
        found: list[SeenDeployment] = []
        for name in dict.fromkeys(names):
            namespace, _, short = name.rpartition("/")
            query = {"fieldSelector": f"metadata.name={short}"}
            async for item in self._items(_DEPLOYMENTS.path(namespace), query):
                document = json_object(item)
                replicas, pods = document["spec"].get("replicas", 1), await self._live_pods(document)
                found.append(SeenDeployment(_place(document), replicas, pods))
        return list(dict.fromkeys(found))

    async def _live_pods(self, deployment: Mapping[str, Any]) -> int:
        """How many pods have not ended, by a list of them.

        The status does not count those that are being deleted (before Kubernetes 1.35, or at all), and the
        process of such a pod works until it has gone.
        """
        selector = ",".join(map(str, requirements_of(deployment["spec"]["selector"])))
        path, count = _PODS.path(deployment["metadata"]["namespace"]), 0
        async for _ in self._items(path, {**_NOT_ENDED, "labelSelector": selector}):
            count += 1
        return count

    async def webhooks(self) -> Sequence[str]:
        """The webhook configurations with kopf's name. Raises ApiError."""
        found: list[str] = []
        for kind in _CONFIGURATIONS:
            async for item in self._items(f"{_ADMISSION}/{kind.lower()}s"):
                name = json_object(item)["metadata"]["name"]
                if name.endswith(WEBHOOKS) and len(found) < NAMES:
                    found.append(f"{kind} {name}")
        return found

    async def _items(self, path: str, query: Mapping[str, str] = {}) -> AsyncIterator[msgspec.Raw]:
        """The JSON of all objects of a list; none where the kind is not served. Raises ApiError."""
        after, limit, read, size = "", FIRST_PAGE, 0, 0
        while True:
            asked = {**query, "limit": str(limit), **({"continue": after} if after else {})}
            try:
                page = await self.sender.send("GET", path, decode_list_page, asked)
            except NotFound:
                return
            for item in page.items or ():
                read, size = read + 1, size + len(memoryview(item))
                yield item
            after = page.metadata.continue_
            if not after:
                return
            limit = next_limit(read, size)


def next_limit(read: int, size: int) -> int:
    """How many objects the next page has, after `read` objects of `size` bytes in all."""
    fitting = PAGE_BYTES * read // max(size, 1)
    return max(1, min(LARGEST_PAGE, fitting))


def _place(document: Mapping[str, Any]) -> str:
    metadata = document["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}".lstrip("/")
