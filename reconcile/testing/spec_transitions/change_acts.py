"""The acts with which a user gives an object one spec after another, whichever manager owns a field."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reconcile.testing.scenario_acts import Apply, Edit, ScenarioAct
from reconcile.testing.spec_transitions.value_classes import ABSENT

_IDENTITY = ("apiVersion", "kind")


def acts_of(path: str, manifests: Sequence[Mapping[str, Any]]) -> Iterator[ScenarioAct]:
    """Create the first, and turn it into each of the others.

    A change is a merge patch and not an apply, which leaves a list in place that it has once made empty. What
    a merge patch cannot say is null: where there are nulls, a JSON patch replaces the fields at the top. Each
    patch names all fields of all manifests, so that it does not matter whether the server has refused the one
    before.
    """
    yield Apply(manifests[0])
    known: Any = {}
    for manifest in manifests:
        known = _union(known, manifest)
    for manifest in manifests[1:]:
        patch = _replacement(known, manifest) if _has_null(manifest) else _merge(known, manifest)
        yield Edit(path, patch)


def _merge(known: Any, manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    patch = _patch(known, manifest)
    labels = {name: part for name, part in patch["metadata"].items() if name == "labels"}
    changed = {name: part for name, part in patch.items() if name not in (*_IDENTITY, "metadata")}
    return {**changed, "metadata": labels} if labels else changed


def _replacement(known: Any, manifest: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The operations that replace whatever the fields have; a removal is of a field that is there then."""
    fields = {
        f"/{name}": manifest.get(name, ABSENT) for name in known if name not in (*_IDENTITY, "metadata")
    }
    if "labels" in known["metadata"]:
        fields["/metadata/labels"] = manifest["metadata"].get("labels", ABSENT)
    removed = [path for path, value in fields.items() if value is ABSENT]
    added = {**fields, **dict.fromkeys(removed)}
    return [
        *({"op": "add", "path": path, "value": value} for path, value in added.items()),
        *({"op": "remove", "path": path} for path in removed),
    ]


def _union(one: Any, other: Any) -> Any:
    """All fields of both."""
    if not (isinstance(one, Mapping) and isinstance(other, Mapping)):
        return other if one is None or isinstance(other, Mapping) else one
    names = dict.fromkeys((*one, *other))
    return {name: _union(one.get(name), other.get(name)) for name in names}


def _patch(known: Any, target: Any) -> Any:
    """The merge patch that leaves of the fields of `known` those of `target`."""
    if not isinstance(target, Mapping):
        return target
    fields = known if isinstance(known, Mapping) else {}
    gone: dict[str, Any] = {name: None for name in fields if name not in target}
    return {**gone, **{name: _patch(fields.get(name), part) for name, part in target.items()}}


def _has_null(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(part is None or _has_null(part) for part in value.values())
    return isinstance(value, Sequence) and not isinstance(value, str) and any(map(_has_null, value))
