"""Uninstalls an operator, step by step: `uninstall_plan` decides, here the cluster is read and written."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

import anyio
import msgspec
from attrs import define, evolve, field, frozen

from informers import (
    ApiError,
    APIResource,
    Clock,
    Conflict,
    Forbidden,
    NotFound,
    SystemClock,
    Transport,
    Unauthorized,
)
from informers.apimachinery.envelopes import ListPage, decode_list_page
from reconcile.client.patch_types import MERGE
from reconcile.client.sender import JSON, Sender, json_object
from reconcile.runs.supervision import without_groups
from reconcile.sharding.member_lease import RING_LABEL
from reconcile.shipping import uninstall_plan as plan
from reconcile.shipping.documents import Document
from reconcile.shipping.finalizers import NAME, held_of
from reconcile.shipping.installation import metrics_reader
from reconcile.webhooks.certificate_secret import LABELS
from reconcile.webhooks.configurations import WebhookService
from reconcile.webhooks.migration_plan import Installed
from reconcile.webhooks.stored_objects import StoredObjects

PAGE: Final = 500
STRANDS: Final = 8
"""Requests at a time."""
FIRST_WAIT: Final = 1.0
NOTE: Final = 1024
"""Characters that the note of an Event may have."""
LONGEST_WAIT: Final = 10.0
"""Seconds between two looks while something is waited for."""
_METADATA = {"accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"}
_ONE = {"accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"}
_ADMISSION: Final = "admissionregistration.k8s.io/v1"
_RBAC: Final = "rbac.authorization.k8s.io/v1"
_CONFIGURATIONS: Final = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_POLICIES: Final = ("validatingadmissionpolicybindings", "validatingadmissionpolicies")
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_Write: TypeAlias = Callable[[plan.Item], Awaitable[None]]


class UninstallStuck(Exception):
    """An uninstall ended before its end: `problem`, and `hint`, the next step."""

    def __init__(self, problem: str, hint: str) -> None:
        super().__init__(f"{problem}: {hint}")
        self.problem = problem
        self.hint = hint


@frozen
class _Arguments:
    """What the arguments of the Deployment say."""

    namespaces: Sequence[str] = ()
    lease: tuple[str, str] | None = None
    ring: tuple[str, str] | None = None
    service: tuple[str, str] | None = None
    """That of its webhooks, if it makes their certificates."""


@define(eq=False)
class Uninstall:
    """Uninstalls the operator `name` in `namespace`; `tell` gets a line for each step."""

    name: str
    namespace: str
    mode: plan.Mode
    transport: Transport
    clock: Clock = field(factory=SystemClock)
    tell: Callable[[str], None] = lambda line: None
    _sender: Sender = field(init=False)
    _failure: str = field(default="", init=False)
    _told: str = field(default="", init=False)

    def __attrs_post_init__(self) -> None:
        self._sender = Sender(self.transport, self.clock)

    async def run(self, timeout: float) -> plan.Finished:
        """Take all steps. Raises UninstallStuck when `timeout` seconds are over, and where only a person can
        go on."""
        missing = "nothing was read yet"
        known: plan.Seen | None = (
            None  # when the Deployment is gone, it is forgotten where the operator worked
        )
        with anyio.move_on_after(timeout):
            wait = FIRST_WAIT
            while True:
                try:
                    seen = await self.look()
                    step = plan.next_step(seen, self.mode)
                    if isinstance(step, plan.Finished):
                        return step if known is None else plan.Finished(plan.notes(known, self.mode))
                    known = seen if seen.known_scope else known
                    missing = _missing(step)
                    progress = await self._take(seen, step)
                except (Forbidden, Unauthorized) as error:
                    raise UninstallStuck(str(error), "grant that right, and run the command again") from None
                except ApiError as error:
                    self._failure, progress = str(error), False
                wait = FIRST_WAIT if progress else min(2 * wait, LONGEST_WAIT)
                if not progress:
                    await anyio.sleep(wait)
        why = f"; the last error: {self._failure}" if self._failure else ""
        raise UninstallStuck(
            f"not uninstalled within {timeout:g} s: {missing}{why}",
            "run the command again, and see `reconcile doctor` for what holds objects",
        )

    # --- read -------------------------------------------------------------------------------------------

    async def look(self) -> plan.Seen:
        """What is left of the operator. Raises ApiError."""
        home = await self._find(f"/api/v1/namespaces/{self.namespace}")
        deployments = {
            (one["metadata"]["namespace"], one["metadata"]["name"]): one
            async for one in self._listed("/apis/apps/v1/deployments")
        }
        deployment = deployments.get((self.namespace, self.name))
        namesakes = [
            namespace
            for (namespace, _), one in deployments.items()
            if namespace != self.namespace and _is_operator(one)
        ]
        definitions = [one async for one in self._listed(_DEFINITIONS)]
        cluster_wide = ("clusterrolebindings", "clusterroles")
        bindings = await self._grants(f"/apis/{_RBAC}", *cluster_wide, alone=not namesakes)
        stated = _arguments(deployment)
        policies = [] if namesakes else [item async for item in self._policies()]  # or they judge for those
        bound = f"/apis/{_RBAC}/clusterrolebindings/{self.name}"
        known = deployment is not None or any(item.path == bound for item in bindings)
        seen = plan.Seen(
            name=self.name,
            namespace=self.namespace,
            exists=home is not None,
            going=home is not None and "deletionTimestamp" in home["metadata"],
            known_scope=known,
            namespaces=stated.namespaces,
            namesakes=namesakes,
            deployment=deployment,
            pods=await self._pods(),
            definitions=definitions,
            webhooks=[item async for item in self._webhooks()],
            rest=[*policies, *bindings, *[item async for item in self._rest(stated)]],
            finalizers=_finalizers(definitions, deployment),
        )
        if not known:
            return evolve(seen, objects=[item async for item in self._left_behind(seen)])
        objects = [item for one in definitions async for item in self._objects(_stored(one), stated)]
        others = [item async for item in self._others(seen, stated)]
        return evolve(seen, objects=objects, others=others)

    async def _objects(self, resource: APIResource, stated: _Arguments) -> AsyncIterator[plan.Item]:
        for namespace in stated.namespaces or ("",):
            with suppress(NotFound):  # a kind that is not served any more has no objects
                async for metadata in self._pages(resource.path(namespace), {}):
                    where = resource.path(metadata.get("namespace", ""), metadata["name"])
                    yield plan.item_of(resource.name, where, metadata)

    async def _left_behind(self, seen: plan.Seen) -> AsyncIterator[plan.Item]:
        """What waits for an operator that is gone, where it may be let go or keeps a definition."""
        for definition in seen.definitions:
            going = "deletionTimestamp" in definition["metadata"]
            if not going and self.mode is not plan.Mode.ORPHAN:
                continue
            async for item in self._objects(_stored(definition), _Arguments()):
                if item.terminating and seen.holds(item):
                    yield item

    async def _others(self, seen: plan.Seen, stated: _Arguments) -> AsyncIterator[plan.Item]:
        defined = {one["metadata"]["name"] for one in seen.definitions}
        held = [] if seen.deployment is None else held_of(seen.deployment)
        for resource in dict.fromkeys((one.group, one.version, one.plural) for one in held):
            other = APIResource(*resource[:2], "", resource[2])
            if other.name in defined:
                continue
            async for item in self._objects(other, stated):
                if seen.holds(item):
                    yield item

    async def _pods(self) -> int:
        selector = {
            "labelSelector": f"{NAME}={self.name},app.kubernetes.io/instance={self.name}",
            "fieldSelector": "status.phase!=Succeeded,status.phase!=Failed",
        }
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        return len([one async for one in self._pages(path, selector)])

    async def _webhooks(self) -> AsyncIterator[plan.Item]:
        for resource in _CONFIGURATIONS:
            async for one in self._listed(f"/apis/{_ADMISSION}/{resource}"):
                if plan.is_called(one, self.namespace):
                    yield _item(f"/apis/{_ADMISSION}/{resource}", one)

    async def _grants(self, path: str, *kinds: str, alone: bool = False) -> Sequence[plan.Item]:
        """Its bindings and roles, and not those of a namesake in another namespace.

        Who collects its metrics is elsewhere too: that binding is its own where it has no namesake (`alone`).
        """
        own, theirs = [], set()
        reader = metrics_reader(self.name) if alone else ""
        for kind in kinds:
            async for one in self._listed(f"{path}/{kind}"):
                item = _item(f"{path}/{kind}", one)
                subjects = [subject.get("namespace") for subject in one.get("subjects") or ()]
                if subjects and self.namespace not in subjects and item.name != reader:
                    theirs.add(one["roleRef"]["name"])
                elif item.name not in theirs:
                    own.append(item)
        return own

    async def _policies(self) -> AsyncIterator[plan.Item]:
        for resource in _POLICIES:
            async for one in self._listed(f"/apis/{_ADMISSION}/{resource}"):
                yield _item(f"/apis/{_ADMISSION}/{resource}", one)

    async def _rest(self, stated: _Arguments) -> AsyncIterator[plan.Item]:
        for namespace in dict.fromkeys([self.namespace, *stated.namespaces, *(stated.ring or ())[:1]]):
            for item in await self._grants(f"/apis/{_RBAC}/namespaces/{namespace}", "rolebindings", "roles"):
                yield item
        home = f"namespaces/{self.namespace}"
        for path in (
            f"/apis/policy/v1/{home}/poddisruptionbudgets",
            f"/api/v1/{home}/services",
            f"/api/v1/{home}/serviceaccounts",
        ):
            async for one in self._listed(path):
                yield _item(path, one)
        async for item in self._unlabelled(stated):
            yield item

    async def _unlabelled(self, stated: _Arguments) -> AsyncIterator[plan.Item]:
        """What the operator made for itself: Leases, and the Secret of its certificates."""
        if stated.ring is not None:
            namespace, ring = stated.ring
            path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
            async for metadata in self._pages(path, {"labelSelector": f"{RING_LABEL}={ring}"}):
                yield _item(path, {"metadata": metadata})
        if stated.lease is not None:
            namespace, lease = stated.lease
            path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
            found = await self._find(f"{path}/{lease}")
            if found is not None:
                yield _item(path, found)
        if stated.service is not None:
            service = WebhookService(*stated.service)
            secrets = f"/api/v1/namespaces/{service.namespace}/secrets"
            found = await self._find(f"{secrets}/{service.secret}")
            labels = {} if found is None else found["metadata"].get("labels") or {}
            if found is not None and LABELS.items() <= labels.items():
                yield _item(secrets, found)

    async def _listed(self, path: str) -> AsyncIterator[Document]:
        """Objects with the operator's label, in full: what they refer to counts."""
        with suppress(NotFound):  # a server that does not know the kind
            page = await self._page(path, {"labelSelector": f"{NAME}={self.name}"}, JSON)
            for item in page.items or ():
                yield json_object(item)

    async def _pages(self, path: str, query: Mapping[str, str]) -> AsyncIterator[Document]:
        """The metadata of all objects, page by page."""
        after = ""
        while True:
            asked = {**query, "limit": str(PAGE), **({"continue": after} if after else {})}
            page = await self._page(path, asked, _METADATA)
            for item in page.items or ():
                yield json_object(item)["metadata"]
            after = page.metadata.continue_
            if not after:
                return

    async def _page(self, path: str, query: Mapping[str, str], headers: Mapping[str, str]) -> ListPage:
        return await self._sender.send("GET", path, decode_list_page, query, headers)

    async def _find(self, path: str) -> Document | None:
        try:
            return await self._sender.send("GET", path, json_object, headers=_ONE)
        except NotFound:
            return None

    # --- write ------------------------------------------------------------------------------------------

    async def _take(self, seen: plan.Seen, step: plan.Step) -> bool:
        """Whether the step was taken; otherwise it is time to wait."""
        self._say(step)
        try:
            return await self._advance(seen, step)
        except (Conflict, NotFound):
            return True  # others wrote meanwhile: the cluster is read again

    async def _advance(self, seen: plan.Seen, step: plan.Step) -> bool:
        if isinstance(step, plan.Refused):
            raise UninstallStuck(step.problem, step.hint)
        if isinstance(step, plan.Remove):
            return await self._each(step.items, lambda item: self._delete(item, step.propagation))
        if isinstance(step, plan.Release):
            if step.uncleaned and seen.going:
                await self._record(seen, step.items)
            return await self._each(step.items, lambda item: self._release(item, seen.without(item)))
        if isinstance(step, plan.Rewrite):
            await self._rewrite(step.definition)
            return True
        if isinstance(step, plan.Unconvert):
            await self._put(plan.unconverted(step.definition))
            return True
        if isinstance(step, plan.Stop):
            path = f"/apis/apps/v1/namespaces/{self.namespace}/deployments/{self.name}/scale"
            await self._merge(path, {"spec": {"replicas": 0}})
            return True
        return False

    async def _each(self, items: Sequence[plan.Item], write: _Write) -> bool:
        """Write to several objects at a time. What fails does not keep the others back."""
        failed: list[ApiError] = []
        with without_groups():
            async with anyio.create_task_group() as strands:
                rest = iter(items)
                for _ in range(min(STRANDS, len(items))):
                    strands.start_soon(self._strand, rest, write, failed)
        refused = next((error for error in failed if isinstance(error, Forbidden | Unauthorized)), None)
        if refused is not None:
            raise refused
        self._failure = str(failed[0]) if failed else ""
        return not failed

    async def _strand(self, items: Iterator[plan.Item], write: _Write, failed: list[ApiError]) -> None:
        for item in items:
            try:
                await write(item)
            except (Conflict, NotFound):
                pass  # gone, or changed: the cluster is read again
            except ApiError as error:
                failed.append(error)

    async def _delete(self, item: plan.Item, propagation: str) -> None:
        guard = {"preconditions": {"uid": item.uid}}
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation, **guard}
        await self._sender.send("DELETE", item.path, bytes, body=msgspec.json.encode(body))

    async def _release(self, item: plan.Item, left: Sequence[str]) -> None:
        guard = {"uid": item.uid, "resourceVersion": item.resource_version}
        await self._merge(item.path, MERGE.guarded({"metadata": {"finalizers": list(left)}}, guard))

    async def _merge(self, path: str, patch: Mapping[str, Any]) -> None:
        body = msgspec.json.encode(patch)
        await self._sender.send("PATCH", path, bytes, headers=MERGE.headers, body=body)

    async def _put(self, definition: Document, part: str = "") -> None:
        path = f"{_DEFINITIONS}/{definition['metadata']['name']}{part}"
        await self._sender.send("PUT", path, bytes, body=msgspec.json.encode(definition))

    async def _rewrite(self, definition: Document) -> None:
        now = Installed(definition)
        others = [name for name, one in now.versions.items() if one["served"] and name != now.stored]
        has_status = "status" in (now.versions[now.stored].get("subresources") or {})
        objects = StoredObjects(self._sender, _stored(definition), has_status, others)
        rewritten = await objects.rewrite()
        if rewritten.failed:
            raise UninstallStuck(
                f"{rewritten.failed} objects cannot be stored in {now.stored}, and without conversion they "
                f"would be unreadable: {'; '.join(rewritten.failures)}",
                "mend or delete these objects, and run the command again",
            )
        await self._put(
            {**definition, "status": {**definition["status"], "storedVersions": [now.stored]}}, "/status"
        )

    async def _record(self, seen: plan.Seen, items: Sequence[plan.Item]) -> None:
        """An Event of the namespace: in one that is being deleted none can be created."""
        names = ", ".join(f"{item.resource} {item.key}" for item in items)
        count = f"{len(items)} objects were let go without its cleanup"
        note = f"{seen.name} goes with its namespace, so {count}: {names}"
        home = await self._find(f"/api/v1/namespaces/{self.namespace}")
        event = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"generateName": f"{self.namespace}-", "namespace": "default"},
            "eventTime": self.clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": "reconcile-uninstall",
            "reportingInstance": self.name,
            "action": "Uninstall",
            "reason": "LetGo",
            "type": "Warning",
            "note": note[:NOTE],
            "regarding": {
                "apiVersion": "v1",
                "kind": "Namespace",
                "name": self.namespace,
                "uid": "" if home is None else home["metadata"]["uid"],
            },
        }
        path = "/apis/events.k8s.io/v1/namespaces/default/events"
        try:
            await self._sender.send("POST", path, bytes, body=msgspec.json.encode(event))
        except ApiError as error:  # the objects must be let go all the same
            self.tell(f"no Event tells it: {error}")

    def _say(self, step: plan.Step) -> None:
        line = _missing(step)
        if line and line != self._told:
            self._told = line
            self.tell(line)


def _missing(step: plan.Step) -> str:
    """A step in words."""
    match step:
        case plan.Remove(items):
            return f"delete {plan.counted(items)}"
        case plan.Release(items, uncleaned):
            return f"let go of {plan.counted(items)}{' without cleanup' if uncleaned else ''}"
        case plan.Rewrite(definition):
            return f"store all {definition['metadata']['name']} in one version"
        case plan.Unconvert(definition):
            return f"serve {definition['metadata']['name']} without conversion"
        case plan.Stop():
            return "stop the operator"
        case plan.Await(what):
            return what
        case _:
            return ""


def _item(collection: str, document: Mapping[str, Any]) -> plan.Item:
    """An object of a collection whose path is given."""
    parts = collection.split("/")
    group = parts[2] if parts[1] == "apis" else ""
    metadata = document["metadata"]
    return plan.item_of(f"{parts[-1]}.{group}".rstrip("."), f"{collection}/{metadata['name']}", metadata)


def _stored(definition: Mapping[str, Any]) -> APIResource:
    """The kind of a definition in the version in which it is read: the stored one if that is served."""
    spec = definition["spec"]
    served = [one for one in spec["versions"] if one["served"]] or spec["versions"]
    version = next((one for one in served if one["storage"]), served[0])
    names, namespaced = spec["names"], spec["scope"] == "Namespaced"
    return APIResource(spec["group"], version["name"], names["kind"], names["plural"], namespaced)


def _finalizers(definitions: Sequence[Document], deployment: Document | None) -> Mapping[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for document in definitions:
        for held in held_of(document):
            if held.resource == document["metadata"]["name"]:
                found.setdefault(held.resource, set()).add(held.finalizer)
    for held in () if deployment is None else held_of(deployment):
        found.setdefault(held.resource, set()).add(held.finalizer)
    return {resource: frozenset(names) for resource, names in found.items()}


def _arguments(deployment: Document | None) -> _Arguments:
    containers = [] if deployment is None else deployment["spec"]["template"]["spec"]["containers"]
    texts = [text for container in containers for text in container.get("args") or ()]
    flags = dict(text[2:].split("=", 1) for text in texts if text.startswith("--") and "=" in text)
    namespaces = [name for name in flags.get("namespaces", "").split(",") if name]
    places = (_place(flags.get(name)) for name in ("leader-election", "sharding", "webhook-service"))
    return _Arguments(namespaces, *places)


def _is_operator(deployment: Document) -> bool:
    """Whether it runs a manager: others have the label too."""
    stated = _arguments(deployment)
    return stated.lease is not None or stated.ring is not None


def _place(text: str | None) -> tuple[str, str] | None:
    namespace, _, name = (text or "").partition("/")
    return (namespace, name) if namespace and name else None
