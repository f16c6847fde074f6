"""Problems of a model that a server would accept."""

import typing
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
from attrs import frozen

from reconcile.models.definition import definition_of
from reconcile.models.fields import ModelField, fields_by_wire, split_annotated
from reconcile.models.objects import Condition, Object, Unstructured, kind_of


@frozen
class Finding:
    """A problem of a kind at a path, and what to do about it."""

    kind: str
    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.kind} {self.path}: {self.problem}"


def findings(model: type[Object], installed: Mapping[str, Any] | None = None) -> Iterator[Finding]:
    """The problems of a model, and of changes since `installed`. Raises TypeError if it has no definition."""
    definition = definition_of(model)
    if issubclass(model, Unstructured):
        return
    name = kind_of(model).resource.kind
    for path, problem in (*_scale(model), *_status(model), *_conditions(model, "")):
        yield Finding(name, path, problem)
    if installed is not None:
        for path, problem in _newly_required(definition, installed):
            yield Finding(name, path, problem)


def _scale(model: type[Object]) -> Iterator[tuple[str, str]]:
    spec = fields_by_wire(model).get("spec")
    replicas = fields_by_wire(spec.type).get("replicas") if spec else None
    if replicas is not None and replicas.type is int and kind_of(model).scale is None:
        yield ".spec.replicas", "autoscalers cannot size it: declare @resource(..., scale=Scale())"


def _status(model: type[Object]) -> Iterator[tuple[str, str]]:
    status = fields_by_wire(model).get("status")
    if status and attrs.has(status.type) and "observedGeneration" not in fields_by_wire(status.type):
        yield (
            ".status",
            "it does not say which spec it describes: add `observed_generation: int | None = None`",
        )


def _conditions(cls: type[Any], path: str) -> Iterator[tuple[str, str]]:
    for wire, one in fields_by_wire(cls).items():
        here = f"{path}.{wire}"
        item = _item(one)
        if wire == "conditions" and item is not None and not _is_keyed(one):
            yield here, 'writers undo each other: add Schema(list_type="map", list_map_keys=("type",))'
        inner = one.type if item is None else item
        if isinstance(inner, type) and attrs.has(inner) and wire != "metadata":
            yield from _conditions(inner, here)


def _is_keyed(one: ModelField) -> bool:
    is_ours = one.type == tuple[Condition, ...] and one.schema.list_type is None
    return is_ours or (one.schema.list_type == "map" and bool(one.schema.list_map_keys))


def _item(one: ModelField) -> Any:
    """The type of the items of a list; None for any other type."""
    if typing.get_origin(one.type) is not tuple:
        return None
    return split_annotated(typing.get_args(one.type)[0])[0]


def _newly_required(definition: Mapping[str, Any], installed: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Fields that stored objects may lack, because the installed version did not require them."""
    before = {version["name"]: version for version in installed.get("spec", {}).get("versions", ())}
    for version in definition["spec"]["versions"]:
        if version["name"] in before:
            old, new = (v["schema"]["openAPIV3Schema"] for v in (before[version["name"]], version))
            yield from _required_since(old, new, "")


def _required_since(
    before: Mapping[str, Any], after: Mapping[str, Any], path: str
) -> Iterator[tuple[str, str]]:
    for name in after.get("required", ()):
        if name not in before.get("required", ()):
            yield f"{path}.{name}", "it is required now, and stored objects may lack it: give it a default"
    inner = before.get("properties", {})
    for name, one in after.get("properties", {}).items():
        if name in inner:
            yield from _required_since(inner[name], one, f"{path}.{name}")
    for word in ("items", "additionalProperties"):
        if isinstance(before.get(word), Mapping) and isinstance(after.get(word), Mapping):
            yield from _required_since(before[word], after[word], f"{path}[]")
