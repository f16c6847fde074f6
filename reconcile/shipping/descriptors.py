"""What OLM's catalogues and consoles show of the kinds of an operator. Pure functions."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from reconcile.controller.declaration import Controller
from reconcile.models import kind_of
from reconcile.shipping.artifact_hub import description_of, served_versions, words_of
from reconcile.shipping.documents import Document

DEPTH: Final = 2
"""A descriptor for `spec.a` and for `spec.a.b`. Deeper fields would bury the ones that are set by hand."""
_WIDGETS: Final = {"boolean": "booleanSwitch", "integer": "number", "number": "number", "string": "text"}
_WIDGET: Final = "urn:alm:descriptor:com.tectonic.ui"
_CONDITIONS: Final = "urn:alm:descriptor:io.kubernetes.conditions"


def owned_definitions(
    definitions: Sequence[Document], controllers: Sequence[Controller[Any]]
) -> Sequence[Document]:
    """An entry for each served version of each definition: `customresourcedefinitions.owned`."""
    return [
        _owned(definition, version, controllers)
        for definition in definitions
        for version in served_versions(definition)
    ]


def _owned(
    definition: Document, version: Mapping[str, Any], controllers: Sequence[Controller[Any]]
) -> Document:
    kind = definition["spec"]["names"]["kind"]
    properties = _schema(version).get("properties") or {}
    resources = _children(definition, controllers)
    shown = {
        "specDescriptors": list(_descriptors(properties.get("spec") or {}, writable=True)),
        "statusDescriptors": list(_descriptors(properties.get("status") or {}, writable=False)),
    }
    return {
        "name": definition["metadata"]["name"],
        "version": version["name"],
        "kind": kind,
        "displayName": words_of(kind),
        "description": description_of(definition, version),
        **({"resources": resources} if resources else {}),
        **{name: descriptors for name, descriptors in shown.items() if descriptors},
    }


def _schema(version: Mapping[str, Any]) -> Mapping[str, Any]:
    schema: Mapping[str, Any] = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    return schema


def _children(definition: Document, controllers: Sequence[Controller[Any]]) -> list[Document]:
    """The kinds that the controllers of a kind own. The names are those of any object, so they are empty."""
    spec = definition["spec"]
    owned = [
        kind_of(child).resource
        for controller in controllers
        if (keeps := kind_of(controller.kind).resource).group == spec["group"]
        and keeps.plural == spec["names"]["plural"]
        for child in controller.owns
    ]
    resources = [{"kind": one.kind, "name": "", "version": one.version} for one in owned]
    return [one for number, one in enumerate(resources) if one not in resources[:number]]


def _descriptors(
    schema: Mapping[str, Any], *, writable: bool, inside: str = "", depth: int = 1
) -> Iterator[Document]:
    for name, field in (schema.get("properties") or {}).items():
        if "." in name:  # a path cannot name it
            continue
        path = f"{inside}{name}"
        hints = _hints(name, field, writable)
        yield {
            "path": path,
            "displayName": words_of(name),
            **({"description": field["description"]} if field.get("description") else {}),
            **({"x-descriptors": hints} if hints else {}),
        }
        if depth < DEPTH:
            yield from _descriptors(field, writable=writable, inside=f"{path}.", depth=depth + 1)


def _hints(name: str, field: Mapping[str, Any], writable: bool) -> Sequence[str]:
    if not writable:
        return [_CONDITIONS] if name == "conditions" and field.get("type") == "array" else []
    if field.get("enum") and field.get("type") == "string":
        return [f"{_WIDGET}:select:{value}" for value in field["enum"]]
    widget = _WIDGETS.get(field.get("type") or "")
    return [f"{_WIDGET}:{widget}"] if widget else []
