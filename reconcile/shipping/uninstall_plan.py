"""Decides the next step of an uninstall by what is left in the cluster. Pure functions.

All state is in the cluster, so an uninstall that was killed after any write goes on where it was. The
Deployment goes last: its arguments say in which namespaces the operator works, and which Leases are its.

- DELETE: the objects of its kinds are deleted, owners first, while the operator still runs and works off its
  finalizers. Then their definitions are: with that the server refuses new objects, and deletes latecomers.
- KEEP: definitions and objects stay, and lose the operator's finalizers once it has stopped.
- ORPHAN: the operator is stopped first; definitions and objects are deleted without cleanup, and what they
  own stays.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Final

from attrs import field, frozen

from informers import Key
from reconcile.shipping.documents import Document
from reconcile.webhooks.migration_plan import Installed

NAMED: Final = 3
"""How many objects are named of those that are waited for."""


class Mode(Enum):
    DELETE = "delete"
    KEEP = "keep"
    ORPHAN = "orphan"


@frozen
class Item:
    """An object that can be deleted, as its metadata say."""

    resource: str
    """As RBAC writes it: `sites.example.com`."""
    path: str
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    finalizers: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    """The uids of its owners."""
    terminating: bool = False

    @property
    def key(self) -> str:
        return str(Key(self.namespace, self.name))


@frozen
class Seen:
    """What is left of an operator."""

    name: str
    namespace: str
    exists: bool = True
    """Whether the namespace of the operator is there."""
    going: bool = False
    """Whether the namespace of the operator is being deleted, and the operator with it."""
    known_scope: bool = True
    """Whether it is known in which namespaces the operator works. Otherwise `objects` are those that wait for
    its cleanup, and ORPHAN lets them go; no other object is touched."""
    namespaces: Sequence[str] = ()
    """Those that it works in; empty: all."""
    namesakes: Sequence[str] = ()
    """Namespaces in which other operators of this name are: the definitions and policies are also theirs."""
    deployment: Document | None = None
    pods: int = 0
    definitions: Sequence[Document] = ()
    objects: Sequence[Item] = ()
    """Those of its definitions, where it works."""
    others: Sequence[Item] = ()
    """Objects of other kinds that it holds with a finalizer."""
    webhooks: Sequence[Item] = ()
    rest: Sequence[Item] = ()
    """Rights, account, Service, budget, policies, Leases and certificates."""
    finalizers: Mapping[str, frozenset[str]] = field(factory=dict)
    """Its finalizers, by resource."""

    @property
    def stopped(self) -> bool:
        return self.deployment is None or self.deployment["spec"].get("replicas", 1) == 0

    def holds(self, item: Item) -> bool:
        """Whether a finalizer of the operator holds this object."""
        return not self.finalizers.get(item.resource, frozenset()).isdisjoint(item.finalizers)

    def without(self, item: Item) -> Sequence[str]:
        """The finalizers of an object that are not the operator's."""
        return [name for name in item.finalizers if name not in self.finalizers.get(item.resource, ())]


@frozen
class Remove:
    """Delete these objects."""

    items: Sequence[Item]
    propagation: str = "Background"


@frozen
class Release:
    """Take the operator's finalizers off these objects; `uncleaned` if a cleanup is left undone."""

    items: Sequence[Item]
    uncleaned: bool = False


@frozen
class Await:
    """Look again soon; `what` says what is missing."""

    what: str


@frozen
class Rewrite:
    """Store all objects of a definition in its storage version, while the webhook still converts."""

    definition: Document


@frozen
class Unconvert:
    """Serve the storage version alone, without the webhook."""

    definition: Document


@frozen
class Stop:
    """Scale the Deployment to no pods."""


@frozen
class Finished:
    """Nothing is left; `notes` say what stays on purpose."""

    notes: Sequence[str] = ()


@frozen
class Refused:
    """The uninstall cannot go on; `hint` is the next step."""

    problem: str
    hint: str


Step = Remove | Release | Await | Rewrite | Unconvert | Stop | Finished | Refused
Stage = Callable[[Seen, Mode], Step | None]


def next_step(seen: Seen, mode: Mode) -> Step:
    """The first step that one of the stages of this mode still has to take."""
    for stage in _stages(seen, mode):
        step = stage(seen, mode)
        if step is not None:
            return step
    return Finished(notes(seen, mode))


def _stages(seen: Seen, mode: Mode) -> Sequence[Stage]:
    last: Sequence[Stage] = (_rest, _deployment)
    if not seen.known_scope:
        if mode is Mode.ORPHAN:
            return (_alone, _webhooks, _conversion, _workload, _release, *last)
        return (_webhooks, _conversion, _workload, *last)
    if mode is Mode.ORPHAN:
        return (_alone, _webhooks, _conversion, _workload, _release, _objects, _definitions, *last)
    if mode is Mode.KEEP:
        return (_settled, _webhooks, _conversion, _workload, _release, *last)
    if seen.stopped or seen.going:
        # No pod answers its webhooks any more: they would refuse the deletions.
        return (_alone, _cleaned, _webhooks, _objects, _definitions, _conversion, _workload, _release, *last)
    return (_alone, _objects, _definitions, _settled, _webhooks, _conversion, _workload, _release, *last)


# --- objects ------------------------------------------------------------------------------------------


def _alone(seen: Seen, mode: Mode) -> Step | None:
    """Before anything is written: of the whole cluster's objects, it is not known whose they are."""
    if not seen.namesakes or not seen.definitions or seen.namespaces:
        return None
    return Refused(
        f"{_names(seen.definitions)} and their objects are also those of the operator {seen.name} in "
        f"{', '.join(seen.namesakes)}",
        f"uninstall that one first, with --namespace {seen.namesakes[0]}, or keep them with --keep-data",
    )


def _cleaned(seen: Seen, mode: Mode) -> Step | None:
    """Before anything is written: with an owner that is deleted goes what it owns."""
    held = [item for item in seen.objects if seen.holds(item)]
    if seen.going or not held:
        return None
    return Refused(
        f"{counted(held)} need a cleanup, and {seen.namespace}/{seen.name} does not run",
        f"start it with kubectl -n {seen.namespace} scale deployment {seen.name} --replicas=1, "
        "or skip the cleanup with --orphan",
    )


def _objects(seen: Seen, mode: Mode) -> Step | None:
    """Delete the objects, owners first: what they own goes with them, and before them."""
    roots = _roots(seen.objects)
    if roots:
        return Remove(roots, "Orphan" if mode is Mode.ORPHAN else "Foreground")
    return _worked_off(seen, [item for item in seen.objects if item.terminating])


def _roots(objects: Sequence[Item]) -> Sequence[Item]:
    """The objects to delete now: those that no other one owns, or, in a circle of owners, all."""
    uids = {item.uid for item in objects}
    live = [item for item in objects if not item.terminating]
    roots = [item for item in live if uids.isdisjoint(item.owners)]
    return roots or (live if len(live) == len(objects) else [])


def _settled(seen: Seen, mode: Mode) -> Step | None:
    """Before it stops, the operator works off what others have deleted."""
    if seen.stopped or seen.going:
        return None
    held = [item for item in (*seen.objects, *seen.others) if item.terminating and seen.holds(item)]
    return _worked_off(seen, held)


def _worked_off(seen: Seen, left: Sequence[Item]) -> Step | None:
    if not left:
        return None
    held = [item for item in left if seen.holds(item)]
    if held and seen.going:
        return Release(held, uncleaned=True)
    return Await(waiting(seen, left))


def _release(seen: Seen, mode: Mode) -> Step | None:
    """The operator has stopped: what it still holds would hang for ever once it is deleted."""
    held = [item for item in (*seen.objects, *seen.others) if seen.holds(item)]
    if not held:
        return None
    return Release(held, uncleaned=any(item.terminating for item in held))


def _definitions(seen: Seen, mode: Mode) -> Step | None:
    if seen.namespaces or seen.objects:
        return None  # others like it may work with these kinds in other namespaces
    live = [definition_item(one) for one in seen.definitions]
    going = [item for item in live if item.terminating]
    if len(going) < len(live):
        return Remove([item for item in live if not item.terminating])
    return Await(f"the server deletes {_named(going)}") if going else None


# --- webhooks and conversion ------------------------------------------------------------------------------


def _webhooks(seen: Seen, mode: Mode) -> Step | None:
    return Remove(seen.webhooks) if seen.webhooks else None


def _conversion(seen: Seen, mode: Mode) -> Step | None:
    for definition in seen.definitions:
        if not calls(definition, seen.namespace) or definition["metadata"].get("deletionTimestamp"):
            continue
        return Unconvert(definition) if Installed(definition).is_clean else Rewrite(definition)
    return None


def calls(definition: Mapping[str, Any], namespace: str) -> bool:
    """Whether the server has a Service of this namespace convert the objects."""
    conversion = definition["spec"].get("conversion") or {}
    config = (conversion.get("webhook") or {}).get("clientConfig") or {}
    return conversion.get("strategy") == "Webhook" and _serves(config, namespace)


def _serves(config: Mapping[str, Any], namespace: str) -> bool:
    return bool((config.get("service") or {}).get("namespace") == namespace)


def is_called(configuration: Mapping[str, Any], namespace: str) -> bool:
    """Whether all webhooks of a configuration are served in this namespace."""
    webhooks = configuration.get("webhooks") or ()
    return bool(webhooks) and all(_serves(one.get("clientConfig") or {}, namespace) for one in webhooks)


def unconverted(definition: Mapping[str, Any]) -> Document:
    """The definition without a webhook. Only the storage version is served: without conversion, writes in
    another one would lose the fields that it does not have."""
    spec = definition["spec"]
    versions = [{**version, "served": bool(version["storage"])} for version in spec["versions"]]
    return {**definition, "spec": {**spec, "versions": versions, "conversion": {"strategy": "None"}}}


# --- workload and the rest --------------------------------------------------------------------------------


def _workload(seen: Seen, mode: Mode) -> Step | None:
    if not seen.stopped:
        return Stop()
    return Await(f"pods of {seen.namespace}/{seen.name} are ending: {seen.pods} left") if seen.pods else None


def _rest(seen: Seen, mode: Mode) -> Step | None:
    left = [item for item in seen.rest if not item.terminating]
    if left:
        return Remove(left)
    return Await(waiting(seen, seen.rest)) if seen.rest else None


def _deployment(seen: Seen, mode: Mode) -> Step | None:
    if seen.deployment is None:
        return None
    item = deployment_item(seen.deployment)
    return Await(waiting(seen, [item])) if item.terminating else Remove([item])


def definition_item(definition: Mapping[str, Any]) -> Item:
    name = definition["metadata"]["name"]
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
    return item_of("customresourcedefinitions.apiextensions.k8s.io", path, definition["metadata"])


def deployment_item(deployment: Mapping[str, Any]) -> Item:
    metadata = deployment["metadata"]
    path = f"/apis/apps/v1/namespaces/{metadata['namespace']}/deployments/{metadata['name']}"
    return item_of("deployments.apps", path, metadata)


def item_of(resource: str, path: str, metadata: Mapping[str, Any]) -> Item:
    return Item(
        resource=resource,
        path=path,
        name=metadata["name"],
        namespace=metadata.get("namespace") or "",
        uid=metadata.get("uid") or "",
        resource_version=metadata.get("resourceVersion") or "",
        finalizers=tuple(metadata.get("finalizers") or ()),
        owners=tuple(owner["uid"] for owner in metadata.get("ownerReferences") or ()),
        terminating=bool(metadata.get("deletionTimestamp")),
    )


# --- words --------------------------------------------------------------------------------------------------


def outline(seen: Seen, mode: Mode) -> Sequence[str]:
    """What an uninstall would do, a line for each part, in its order; none: there is nothing to do."""
    objects, keeps = counted(seen.objects), mode is Mode.KEEP or not seen.known_scope
    held = [item for item in (*seen.objects, *seen.others) if seen.holds(item)]
    stop = [f"stop {seen.namespace}/{seen.name}"] if seen.deployment is not None else []
    delete = [f"delete {objects}{_OWNED[mode]}"] if seen.objects and not keeps else []
    if seen.definitions and not keeps and not seen.namespaces:
        delete.append(f"delete the definitions of {_names(seen.definitions)}")
    converted = [one for one in seen.definitions if calls(one, seen.namespace)]
    calling = [f"delete {_named(seen.webhooks)}"] if seen.webhooks else []
    calling += [f"serve {one['metadata']['name']} without conversion" for one in converted if keeps]
    lets_go = mode is Mode.ORPHAN if not seen.known_scope else keeps
    release = [f"take its finalizers off {counted(held)}"] if held and lets_go else []
    rest = [f"delete {_named([*seen.rest])}"] if seen.rest else []
    rest += [f"delete deployments {seen.name}"] if seen.deployment is not None else []
    parts = [*delete, *calling, *stop, *release, *rest]
    if mode is Mode.ORPHAN:
        parts = [*calling, *stop, *release, *delete, *rest]
    return parts


_OWNED: Final = {
    Mode.DELETE: " and what they own, while the operator cleans up",
    Mode.ORPHAN: " without cleanup; what they own stays",
    Mode.KEEP: "",
}


def waiting(seen: Seen, left: Sequence[Item]) -> str:
    """How many objects of each kind are left, and for which finalizers they wait."""
    lines = []
    for resource in dict.fromkeys(item.resource for item in left):
        items = [item for item in left if item.resource == resource]
        reasons = Counter(name for item in items for name in item.finalizers)
        why = ", ".join(_reason(seen, resource, name, count) for name, count in reasons.items())
        names = ", ".join(item.key for item in items[:NAMED])
        more = ", ..." if len(items) > NAMED else ""
        lines.append(f"{len(items)} {_short(resource)} left ({names}{more}){': ' if why else ''}{why}")
    return "; ".join(lines)


_OF_KUBERNETES: Final = {
    "foregroundDeletion": "the deletion of what they own",
    "orphan": "the garbage collector, to keep what they own",
}


def _reason(seen: Seen, resource: str, finalizer: str, count: int) -> str:
    return f"{count} wait{'s' if count == 1 else ''} for {_whose(seen, resource, finalizer)}"


def _whose(seen: Seen, resource: str, finalizer: str) -> str:
    if finalizer in seen.finalizers.get(resource, ()):
        return f"{finalizer} of this operator"
    return _OF_KUBERNETES.get(finalizer) or f"{finalizer} of another operator"


def notes(seen: Seen, mode: Mode) -> Sequence[str]:
    """What stays on purpose, and why."""
    stay = f"the definitions of {_names(seen.definitions)}"
    lines = []
    if seen.objects and not seen.known_scope and mode is not Mode.ORPHAN:
        lines.append(
            f"{counted(seen.objects)} wait for a cleanup, and no Deployment {seen.namespace}/{seen.name} is "
            "there to do it: --orphan lets them go"
        )
    elif seen.definitions and not seen.known_scope:
        lines.append(
            f"{stay} and their objects stay, as no Deployment {seen.namespace}/{seen.name} says in which "
            f"namespaces it worked: kubectl delete crd {_names(seen.definitions, ' ')} deletes both"
        )
    elif seen.definitions and mode is Mode.KEEP:
        lines.append(f"{stay} and {counted(seen.objects) or 'their objects'} stay")
    elif seen.definitions and seen.namespaces:
        lines.append(
            f"{stay} stay: others may use them in other namespaces than {', '.join(seen.namespaces)}"
        )
    return [*lines, f"the namespace {seen.namespace} stays"] if seen.exists and not seen.going else lines


def counted(items: Iterable[Item]) -> str:
    """How many objects of each kind."""
    counts = Counter(_short(item.resource) for item in items)
    return ", ".join(f"{count} {resource}" for resource, count in sorted(counts.items()))


def _named(items: Sequence[Item]) -> str:
    by_resource: dict[str, list[str]] = {}
    for item in items:
        by_resource.setdefault(_short(item.resource), []).append(item.name)
    return "; ".join(f"{resource} {', '.join(names)}" for resource, names in by_resource.items())


def _short(resource: str) -> str:
    """A kind of Kubernetes without its group."""
    plural, _, group = resource.partition(".")
    return plural if group.endswith(".k8s.io") or group in ("apps", "policy") else resource


def _names(definitions: Iterable[Mapping[str, Any]], between: str = ", ") -> str:
    return between.join(definition["metadata"]["name"] for definition in definitions)
