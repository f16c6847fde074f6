"""JSON fields that a class does not have, and that its objects carry along."""

from collections.abc import Mapping
from typing import Any

import attrs
from attrs import frozen

from reconcile.models.fields import EXTRA, field


@frozen(kw_only=True)
class ExtraFields:
    """Base of classes that carry any further fields: `PodSpec(extra={"hostNetwork": True})`.

    `extra` holds the read fields without a field of the class, by their JSON names, and is written with the
    rest. The schema of such a class keeps unknown fields.
    """

    extra: Mapping[str, Any] = field(factory=dict, extra_fields=True)


def extra_of(cls: type[Any]) -> str | None:
    """The extra fields' field, if any. Raises TypeError for two, or one that is no mapping with a default."""
    attrs.resolve_types(cls)
    found = [one for one in attrs.fields(cls) if one.metadata.get(EXTRA)]
    if not found:
        return None
    names: list[str] = [one.name for one in found]
    name, *others = names
    if others:
        raise TypeError(f"{cls.__name__} has two fields for further ones: {name} and {others[0]}")
    if found[0].type != Mapping[str, Any] or found[0].default is attrs.NOTHING:
        said = "Mapping[str, Any] = field(factory=dict, extra_fields=True)"
        raise TypeError(f"{cls.__name__}.{name} holds further fields: make it `{name}: {said}`")
    return name


def heading_of(cls: type[Any]) -> frozenset[str]:
    """The fields at the head of API objects, which their class implies."""
    return frozenset({"apiVersion", "kind"} if hasattr(cls, "__kind__") else ())
