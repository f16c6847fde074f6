"""The CustomResourceDefinition of a model class, and of several versions of one kind."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from reconcile.models.conversions import are_convertible
from reconcile.models.objects import Column, Kind, Object, Unstructured, kind_of
from reconcile.models.schemas import object_schema, rule_of

_AGE: Final = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}

PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_NO_CONSTRAINT: Final = frozenset(
    {"description", "default", "properties", "required", "items", "additionalProperties"}
)
"""Keywords that may differ between schemas of the same objects, or are compared one by one."""


def definition_of(
    model: type[Object], *older: type[Object], conversion: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The CustomResourceDefinition with which an API server serves the kind of `model`.

    The version of `model` is stored. `older` are further versions. Unless functions convert (`converts`),
    they must have the same fields, since a write in one version loses what only another has; defaults may
    differ, and so may a version that `@resource` declares `as_installed`. With such functions the versions
    may differ, and the definition needs `conversion`, the `spec.conversion` that leads to them.

    The status subresource is enabled if the class has a `status`. Raises TypeError for a field whose type has
    no schema, for versions that differ, and for a `conversion` that is missing or leads nowhere.
    """
    kind = kind_of(model)
    check_conversion((model, *older), conversion)
    versions = [_version(one, stored=one is model) for one in (model, *older)]
    for one, version in zip(older, versions[1:], strict=True):
        _refuse_other_kind(kind, kind_of(one))
        if conversion is None and not (kind.as_installed or kind_of(one).as_installed):
            refuse_loss(kind.resource.kind, versions[0], version)
    resource = kind.resource
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.name},
        "spec": {
            "group": resource.group,
            "names": _names(kind),
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": versions,
            **({} if conversion is None else {"conversion": dict(conversion)}),
        },
    }


def check_conversion(versions: Sequence[type[Object]], conversion: Mapping[str, Any] | None) -> None:
    """Raise TypeError if versions are converted without a `spec.conversion`, or the other way round."""
    convertible = len(versions) > 1 and are_convertible(versions)
    kind = kind_of(versions[0]).resource.kind
    if convertible and conversion is None:
        raise TypeError(
            f"{kind}: @converts declares functions between its versions, which API servers reach by a "
            "webhook alone: give conversion=, or print the definition with "
            "`reconcile crds --webhook-service NAMESPACE/NAME`"
        )
    if conversion is not None and not convertible:
        raise TypeError(
            f"{kind}: conversion= leads to no functions: declare one each way between neighbouring versions "
            "with @converts, or leave it out"
        )


def _names(kind: Kind) -> dict[str, Any]:
    names: dict[str, Any] = {
        "plural": kind.resource.plural,
        "singular": kind.singular,
        "kind": kind.resource.kind,
        "listKind": f"{kind.resource.kind}List",
    }
    if kind.short_names:
        names["shortNames"] = list(kind.short_names)
    if kind.categories:
        names["categories"] = list(kind.categories)
    return names


def _version(model: type[Object], *, stored: bool) -> dict[str, Any]:
    kind = kind_of(model)
    schema = _schema(model, kind)
    version: dict[str, Any] = {
        "name": kind.resource.version,
        "served": True,
        "storage": stored,
        "schema": {"openAPIV3Schema": schema},
    }
    if kind.deprecated is not None:
        version["deprecated"] = True
        if kind.deprecated:
            version["deprecationWarning"] = kind.deprecated
    if subresources := _subresources(kind, schema, issubclass(model, Unstructured)):
        version["subresources"] = subresources
    if kind.columns:
        columns = [_column(title, column, schema) for title, column in kind.columns]
        shows_age = any(column["jsonPath"] == _AGE["jsonPath"] for column in columns)
        version["additionalPrinterColumns"] = columns if shows_age else [*columns, dict(_AGE)]
    return version


def _schema(model: type[Object], kind: Kind) -> dict[str, Any]:
    if issubclass(model, Unstructured):
        return {"type": "object", PRESERVE: True}
    schema = object_schema(model)
    if kind.scale is not None:
        _let_default_be_reached(schema, kind.scale.replicas)
    if kind.rules:
        schema["x-kubernetes-validations"] = [rule_of(rule) for rule in kind.rules]
    return schema


def _let_default_be_reached(schema: Mapping[str, Any], path: str) -> None:
    """Give defaults to the objects around a field, without which the server never sets its default."""
    *around, _ = path.strip(".").split(".")
    for step in around:
        inner = schema["properties"][step]
        if step not in schema.get("required", ()):
            inner.setdefault("default", {})
        schema = inner


def _subresources(kind: Kind, schema: Mapping[str, Any], anything: bool) -> dict[str, Any]:
    subresources: dict[str, Any] = {}
    has_status = anything or "status" in schema.get("properties", {})
    if has_status if kind.has_status is None else kind.has_status:
        subresources["status"] = {}
    if kind.scale is not None:
        subresources["scale"] = {
            "specReplicasPath": kind.scale.replicas,
            "statusReplicasPath": kind.scale.status,
            "labelSelectorPath": kind.scale.selector,
        }
    return subresources


def _column(title: str, column: Column, schema: Mapping[str, Any]) -> dict[str, Any]:
    said = {"description": column.description, "format": column.format, "priority": column.priority}
    return {
        "name": title,
        "type": column.type or _column_type(schema, column.path),
        "jsonPath": column.path,
        **{name: value for name, value in said.items() if value},
    }


def _column_type(schema: Mapping[str, Any], path: str) -> str:
    node = schema_at(schema, path)
    if node.get("format") == "date-time" or path == _AGE["jsonPath"]:
        return "date"
    kind = node.get("type", "string")
    return kind if kind in ("integer", "number", "boolean") else "string"


def schema_at(schema: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    """The schema at a path such as `.spec.replicas`; empty if there is none."""
    for step in path.strip(".").split("."):
        schema = schema.get("properties", {}).get(step, {})
    return schema


def _refuse_other_kind(kind: Kind, other: Kind) -> None:
    mine, its = (attrs.evolve(one.resource, version="") for one in (kind, other))
    if mine != its:
        raise TypeError(
            f"{other.resource} is not a version of {kind.resource}: group, kind, plural and scope are one"
        )
    if other.resource.version == kind.resource.version:
        raise TypeError(f"two classes are {kind.resource.api_version} {kind.resource.kind}")


def refuse_loss(kind: str, stored: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    """Raise TypeError if one of two versions of a definition would lose fields of the other."""
    schemas = (stored["schema"]["openAPIV3Schema"], other["schema"]["openAPIV3Schema"])
    if problem := difference(*schemas, names=(stored["name"], other["name"])):
        raise TypeError(
            f"{kind}: {stored['name']} and {other['name']} cannot be served side by side without conversion: "
            f"{problem}: give both versions the same fields, declare functions "
            "between them with @converts, or keep one version"
        )


def difference(
    one: Mapping[str, Any],
    other: Mapping[str, Any],
    path: str = "",
    names: tuple[str, str] = ("one", "the other"),
) -> str:
    """What makes objects of one schema incomplete or invalid in the other, called by `names`; else empty."""
    here = path or "."
    for word in sorted((one.keys() | other.keys()) - _NO_CONSTRAINT):
        if one.get(word) != other.get(word):
            return f"{here} has another {word}"
    mine, its = one.get("properties", {}), other.get("properties", {})
    if not one.get(PRESERVE):
        for name in [*mine, *its]:
            if name not in mine or name not in its:
                has, lacks = names if name in mine else reversed(names)
                return f"only {has} has {path}.{name}, which a write in {lacks} loses"
    if apart := set(one.get("required", ())) ^ set(other.get("required", ())):
        return f"{path}.{min(apart)} is required in one and optional in the other"
    inner: Sequence[tuple[Any, Any, str]] = [(mine[n], its[n], f"{path}.{n}") for n in mine if n in its]
    for word in ("items", "additionalProperties"):
        if isinstance(one.get(word), Mapping) and isinstance(other.get(word), Mapping):
            inner = [*inner, (one[word], other[word], f"{path}[]")]
        elif one.get(word) != other.get(word):
            return f"{here} has another {word}"
    return next((found for a, b, where in inner if (found := difference(a, b, where, names))), "")
