"""Examples of every field of a model, to tell a name that is read from one that is not."""

import datetime
import inspect
import typing
from collections.abc import Mapping
from typing import Any, Literal

import attrs

from reconcile import Quantity
from reconcile.models import UnsetType, structure, unstructure
from reconcile.models.fields import fields_of, split_annotated, union_parts


def check_wire_names(cls: type[Any]) -> None:
    """See that each field of a class is read and written under its own name, with a value of its own."""
    body = {f.wire: other_than_default(f.type, f.default) for f in fields_of(cls)}
    value = structure(cls, body)
    assert unstructure(value) == body
    for one in fields_of(cls):
        if body[one.wire] != one.default:  # a Literal of one value has no other
            assert getattr(value, one.name) != one.default, one.name


def classes_in(annotation: Any, seen: set[type[Any]]) -> set[type[Any]]:
    plain, _ = split_annotated(annotation)
    if inspect.isclass(plain) and attrs.has(plain) and plain is not Quantity and plain not in seen:
        seen.add(plain)
        for one in fields_of(plain):
            classes_in(one.type, seen)
    for part in typing.get_args(plain):
        if not isinstance(part, str | int):
            classes_in(part, seen)
    return seen


def other_than_default(annotation: Any, default: Any) -> Any:
    """JSON of a type that is not its default."""
    plain, extras = split_annotated(annotation)
    parts = [part for part in union_parts(plain) if part not in (type(None), UnsetType)]
    if len(parts) > 1:
        return other_than_default(parts[-1], default)
    plain = parts[0]
    if plain is datetime.datetime:
        return "2026-01-02T03:04:05.000006Z" if "micro" in extras else "2026-01-02T03:04:05Z"
    if plain is datetime.timedelta:
        return "1h2m3s"
    if plain is Quantity:
        return "1500m"
    if plain is bool:
        return not default
    if plain in (int, float):
        return 7 if default != 7 else 8
    if plain in (str, Any):
        return "odd" if default != "odd" else "other"
    if inspect.isclass(plain) and attrs.has(plain):
        return {f.wire: other_than_default(f.type, f.default) for f in fields_of(plain)}
    if typing.get_origin(plain) is Literal:
        values = typing.get_args(plain)
        return next((value for value in values if value != default), values[0])
    arguments = typing.get_args(plain)
    if typing.get_origin(plain) is tuple:
        return [other_than_default(arguments[0], None)]
    if typing.get_origin(plain) is Mapping:
        return {"some-key": other_than_default(arguments[1], None)}
    raise AssertionError(f"no example of {plain}")
