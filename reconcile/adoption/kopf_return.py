"""What an object needs before an operator on kopf keeps it again. Pure functions.

kopf takes an object for new that has no copy of what it handled last, and calls its `create` handlers. So the
copy is written again, of the object as it is now, together with kopf's finalizer in place of the new
operator's: in one write, guarded by uid and resourceVersion.

Source: kopf 1.45, `_cogs/configs/diffbase.py`, `_core/intents/causes.py`.
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from enum import Enum
from typing import Any, Final, TypeAlias

import msgspec
from attrs import field, frozen

from informers import APIResource
from reconcile.controller.declaration import Controller
from reconcile.predecessors import KopfTraces, prefixes_in_use, traces_on
from reconcile.predecessors.kopf_names import LAST_HANDLED
from reconcile.predecessors.kopf_traces import MARKER, OF_DEPLOYMENT

_KUBECTL: Final = "kubectl.kubernetes.io/last-applied-configuration"

Path: TypeAlias = tuple[str, ...]


@frozen
class ReturnedKind:
    """A kind that goes back to kopf.

    `names` are those of the operator on kopf; `finalizers` and `managers` the finalizers and field managers
    of the operator that kept it since. `fields` are the fields outside of the spec, the labels and the
    annotations that handlers of kopf are for (`@kopf.on.field(field="status.phase")`): kopf's copy has them
    too. `namespaces`: where objects are; empty: in all.
    """

    resource: APIResource
    names: KopfTraces = field(factory=KopfTraces)
    finalizers: tuple[str, ...] = ()
    managers: frozenset[str] = frozenset()
    fields: tuple[Path, ...] = ()
    namespaces: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, controller: Controller[Any], fields: Iterable[Path] = (), namespaces: Iterable[str] = ()
    ) -> "ReturnedKind | None":
        """The kind of a controller that took it over from an operator on kopf; None of another one."""
        if controller.predecessor is None or controller.predecessor.traces is None:
            return None
        names = controller.predecessor.traces
        return cls(
            controller.resource,
            names,
            tuple(name for name in controller.finalizers if name != names.finalizer),
            frozenset((controller.field_manager, *controller.former_field_managers)),
            tuple(fields),
            tuple(namespaces),
        )

    @property
    def paths(self) -> Sequence[str]:
        """The paths of the lists that have all its objects."""
        if not self.resource.namespaced:
            return [self.resource.path()]
        return [self.resource.path(namespace) for namespace in self.namespaces or ("",)]


class Fate(Enum):
    """What becomes of an object."""

    HANDED = "handed back: kopf resumes it"
    CHANGED = "handed back and changed since its last run: kopf calls its update handlers"
    KEPT = "still as kopf left it, or new: kopf goes on with it"
    UNTRACED = "without a trace of either operator: kopf calls its create handlers"
    DELETING = "being deleted and held by the new operator: a server takes no finalizer of kopf any more"


@frozen
class Decision:
    """The fate of an object, and the merge patch for it; empty: none."""

    fate: Fate
    patch: Mapping[str, Any] = field(factory=dict)


def decision_for(obj: Mapping[str, Any], kind: ReturnedKind, *, untraced: bool = False) -> Decision:
    """What an object needs, given as its whole JSON.

    An object without a trace of either operator is left alone unless `untraced`: it may be new, or the new
    operator may leave nothing on objects.
    """
    metadata = obj["metadata"]
    finalizers = metadata.get("finalizers") or []
    held = [name for name in finalizers if name in kind.finalizers]
    if "deletionTimestamp" in metadata:
        return Decision(Fate.DELETING if held else Fate.KEPT)
    traces = traces_on(obj, kind.names)
    change: dict[str, Any] = {}
    if held:
        others = [name for name in finalizers if name not in (*kind.finalizers, kind.names.finalizer)]
        change["finalizers"] = [*others, kind.names.finalizer]
    ours = bool(held) or _written_by(metadata, kind.managers)
    # Where kopf's own records are left, they say how to go on: a change or a creation that it began, too.
    if traces.last_handled or traces.progress or (traces.finalizer and not ours):
        return Decision(Fate.HANDED, {"metadata": change}) if change else Decision(Fate.KEPT)
    if not (ours or untraced):
        return Decision(Fate.UNTRACED)
    missed = is_behind(obj)
    change["annotations"] = _annotations(obj, {} if missed else last_handled(obj, kind.fields), kind.names)
    return Decision(Fate.CHANGED if missed else Fate.HANDED, {"metadata": change})


def last_handled(obj: Mapping[str, Any], fields: Iterable[Path] = ()) -> dict[str, Any]:
    """kopf's copy of an object: what it has outside of metadata and status, labels, annotations, `fields`.

    Annotations of operators on kopf and of kubectl are left out, and so is what would be empty.
    """
    copy = {
        name: value for name, value in obj.items() if name not in ("apiVersion", "kind", "metadata", "status")
    }
    metadata, prefixes = obj["metadata"], prefixes_in_use(obj)
    annotations = {
        name: value
        for name, value in (metadata.get("annotations") or {}).items()
        if name != _KUBECTL and not any(name.startswith(f"{prefix}/") for prefix in prefixes)
    }
    kept = {"labels": metadata.get("labels"), "annotations": annotations}
    copy["metadata"] = {name: value for name, value in kept.items() if value}
    copy = deepcopy(copy)
    for path in fields:
        _pick(obj, copy, path)
    return {name: value for name, value in copy.items() if value or name not in ("metadata", "status")}


def is_behind(obj: Mapping[str, Any]) -> bool:
    """Whether the status says that the last run was for an earlier generation. False if it says nothing."""
    status = obj.get("status")
    if not isinstance(status, Mapping):
        return False
    conditions = status.get("conditions")
    parts = [status, *(conditions if isinstance(conditions, list) else ())]
    seen = [part.get("observedGeneration") for part in parts if isinstance(part, Mapping)]
    known = [number for number in seen if isinstance(number, int)]
    return bool(known) and max(known) < obj["metadata"].get("generation", 0)


def _annotations(obj: Mapping[str, Any], copy: Mapping[str, Any], names: KopfTraces) -> dict[str, str]:
    text = msgspec.json.encode(copy).decode() + "\n"
    name = LAST_HANDLED + (OF_DEPLOYMENT if _is_of_deployment(obj) else "")
    annotations = dict.fromkeys(names.names_of(name), text)
    if not names.prefix.startswith("kopf."):
        annotations[f"{names.prefix}/{MARKER}"] = "yes"
    return annotations


def _is_of_deployment(obj: Mapping[str, Any]) -> bool:
    owners = obj["metadata"].get("ownerReferences") or ()
    return obj.get("kind") == "ReplicaSet" and any(owner.get("kind") == "Deployment" for owner in owners)


def _written_by(metadata: Mapping[str, Any], managers: frozenset[str]) -> bool:
    return any(entry.get("manager") in managers for entry in metadata.get("managedFields") or ())


def _pick(source: Mapping[str, Any], target: dict[str, Any], path: Path) -> None:
    """Copy the value at `path`, if there is one."""
    value: Any = source
    for name in path:
        if not isinstance(value, Mapping) or name not in value:
            return
        value = value[name]
    *parents, last = path
    for name in parents:
        target = target.setdefault(name, {})
    target[last] = deepcopy(value)
