"""The structural schema of a type."""

import datetime
import enum
import inspect
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import attrs

from reconcile.models.docs import descriptions_of
from reconcile.models.extra_fields import extra_of
from reconcile.models.fields import (
    UNSET,
    ModelField,
    Rule,
    Schema,
    UnsetType,
    camel_case,
    fields_of,
    split_annotated,
    union_parts,
)
from reconcile.models.objects import Condition, Object, ObjectMeta
from reconcile.models.reading import tag_of
from reconcile.models.values import Quantity
from reconcile.models.writing import to_json

QUANTITY_PATTERN: Final = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|"
    r"([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
INT_OR_STRING: Final[Mapping[str, Any]] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
}
_SCALARS: Final[Mapping[Any, Mapping[str, Any]]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "format": "int64"},
    float: {"type": "number"},
    datetime.datetime: {"type": "string", "format": "date-time"},
    datetime.timedelta: {"type": "string", "format": "duration"},
    Quantity: {**INT_OR_STRING, "pattern": QUANTITY_PATTERN},
}
_ANYTHING: Final[Mapping[str, Any]] = {"x-kubernetes-preserve-unknown-fields": True}
KEYWORDS: Final[Mapping[str, str]] = {
    **{
        attribute.name: camel_case(attribute.name)
        for attribute in attrs.fields(Schema)
        if attribute.name not in ("rules", "required", "wire", "extra")
    },
    "list_type": "x-kubernetes-list-type",
    "list_map_keys": "x-kubernetes-list-map-keys",
    "map_type": "x-kubernetes-map-type",
}
"""The keywords of `Schema` as they are called in a schema."""


def schema_of(annotation: Any, where: str = "", inside: tuple[type[Any], ...] = ()) -> dict[str, Any]:
    """The schema of a type. Raises TypeError, naming `where`, if there is none, as for a recursive class."""
    annotation, extras = split_annotated(annotation)
    schema = _plain_schema(annotation, where, inside)
    for extra in extras:
        if isinstance(extra, Schema):
            if extra.wire:
                raise TypeError(
                    f"{where}: Schema(wire={extra.wire!r}) names a field, and an item has no name"
                )
            schema = _with(schema, extra)
    return schema


def _with(schema: dict[str, Any], more: Schema) -> dict[str, Any]:
    """A schema with keywords; an empty `format` removes that of the type."""
    schema = schema | keywords_of(more)
    if schema.get("format") == "":
        del schema["format"]
    return schema


def _plain_schema(annotation: Any, where: str, inside: tuple[type[Any], ...]) -> dict[str, Any]:
    if annotation in _SCALARS:
        return dict(_SCALARS[annotation])
    if annotation is Any:
        return dict(_ANYTHING)
    if inspect.isclass(annotation) and attrs.has(annotation):
        return object_schema(annotation, inside)
    if inspect.isclass(annotation) and issubclass(annotation, enum.Enum):
        return _choice([member.value for member in annotation], where)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        return _choice(list(arguments), where)
    if len(union_parts(annotation)) > 1:
        return _union_schema(union_parts(annotation), where, inside)
    if origin in (tuple, Sequence):
        return {"type": "array", "items": schema_of(arguments[0], where, inside)}
    if origin is Mapping:
        value = arguments[1]
        values = _ANYTHING if value is Any else {"additionalProperties": schema_of(value, where, inside)}
        return {"type": "object", **values}
    raise TypeError(f"{where or 'the type'}: {annotation!r} has no schema")


def object_schema(cls: type[Any], inside: tuple[type[Any], ...] = ()) -> dict[str, Any]:
    """The schema of a model class: its fields, the required ones, and its docstring."""
    if cls in inside:
        raise TypeError(
            f"{cls.__name__} contains itself: no structural schema says that; use Mapping[str, Any]"
        )
    descriptions = descriptions_of(cls)
    properties: dict[str, Any] = {}
    required: list[str] = []
    for field in fields_of(cls):
        if field.type is ObjectMeta:
            if not issubclass(cls, Object):
                properties[field.wire] = {"type": "object", **_ANYTHING}
            continue
        properties[field.wire] = _property(cls, field, descriptions.get(field.name, ""), (*inside, cls))
        if field.needed if field.schema.required is None else field.schema.required:
            required.append(field.wire)
    schema: dict[str, Any] = {"type": "object"}
    if properties:
        schema["properties"] = properties
    if required:
        schema["required"] = required
    if extra_of(cls) is not None:
        schema |= _ANYTHING
    if description := class_doc(cls):
        schema["description"] = description
    return schema


def class_doc(cls: type[Any]) -> str:
    """The docstring of a class, if an author wrote one."""
    doc = cls.__dict__.get("__doc__") or ""
    return "" if doc.startswith("Method generated by attrs") else inspect.cleandoc(doc)


def _property(
    cls: type[Any], field: ModelField, description: str, inside: tuple[type[Any], ...]
) -> dict[str, Any]:
    schema = schema_of(field.type, f"{cls.__name__}.{field.name}", inside)
    schema = _with(schema, field.schema)
    if field.nullable and field.default is not None and field.type is not Any:
        schema["nullable"] = True
    if field.type == tuple[Condition, ...] and field.schema.list_type is None:
        schema |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
    _refuse_keys(schema, f"{cls.__name__}.{field.name}")
    default = _published(field)
    if default is not UNSET and "default" not in schema:
        schema["default"] = default
    if description:
        schema["description"] = description
    return schema


def _refuse_keys(schema: Mapping[str, Any], where: str) -> None:
    """Refuse keys that items of a list of type map may lack, as a server refuses such a definition."""
    if schema.get("x-kubernetes-list-type") != "map":
        return
    items = schema.get("items", {})
    keys = schema.get("x-kubernetes-list-map-keys", ())
    if not keys:
        raise TypeError(f"{where}: a list of type map needs list_map_keys")
    for key in keys:
        member = items.get("properties", {}).get(key)
        if member is None:
            names = ", ".join(items.get("properties", {}))
            raise TypeError(f"{where}: no item has the key {key!r}; in JSON they have {names or 'nothing'}")
        if key not in items.get("required", ()) and "default" not in member:
            raise TypeError(
                f"{where}: an item may lack its key {key!r}: give it a default, or none and no None"
            )


def _published(field: ModelField) -> Any:
    """The default that the server sets: scalars other than "", which stands for no default."""
    if field.schema.required:
        return UNSET
    default = to_json(field.default) if field.default not in (attrs.NOTHING, UNSET) else UNSET
    return default if isinstance(default, str | int | float | bool) and default != "" else UNSET


def keywords_of(schema: Schema) -> dict[str, Any]:
    """What a Schema adds to the schema of its type."""
    said: dict[str, Any] = {}
    for name, word in KEYWORDS.items():
        value = getattr(schema, name)
        if value not in (None, ()):
            said[word] = list(value) if isinstance(value, tuple) else value
    if schema.rules:
        said["x-kubernetes-validations"] = [rule_of(rule) for rule in schema.rules]
    return {**said, **schema.extra}


def rule_of(rule: Rule) -> dict[str, Any]:
    return {
        camel_case(a.name): value
        for a in attrs.fields(Rule)
        if (value := getattr(rule, a.name)) not in (None, "")
    }


def _choice(values: list[Any], where: str) -> dict[str, Any]:
    for kind, name in ((str, "string"), (bool, "boolean"), (int, "integer")):
        if all(isinstance(value, kind) for value in values):
            return {"type": name, "enum": values}
    raise TypeError(f"{where}: the values of an enum have one type")


def _union_schema(parts: tuple[Any, ...], where: str, inside: tuple[type[Any], ...]) -> dict[str, Any]:
    kept = tuple(part for part in parts if part not in (type(None), UnsetType))
    if type(None) in parts:
        inner = kept[0] if len(kept) == 1 else typing.Union[kept]  # noqa: UP007
        return {**schema_of(inner, where, inside), "nullable": True}
    if set(kept) == {int, str}:
        return dict(INT_OR_STRING)
    if set(kept) == {int, float}:
        return dict(_SCALARS[float])
    try:
        wire, by_value = tag_of(kept)
    except TypeError as error:
        raise TypeError(f"{where}: {error}") from None
    return _tagged_schema(wire, by_value, kept, where, inside)


def _tagged_schema(
    wire: str,
    by_value: Mapping[str, Any],
    classes: tuple[Any, ...],
    where: str,
    inside: tuple[type[Any], ...],
) -> dict[str, Any]:
    """The fields of all variants in one object, as structural schemas demand; rules separate them."""
    properties: dict[str, Any] = {}
    rules: list[dict[str, Any]] = []
    schemas = [object_schema(one, inside) for one in classes]
    for cls, schema in zip(classes, schemas, strict=True):
        for name, one in schema["properties"].items():
            if name != wire and properties.setdefault(name, one) != one:
                raise TypeError(f"{where}: {name!r} is not the same in every class of the union")
        rules += _variant_rules(wire, [v for v, c in by_value.items() if c is cls], schema)
    needed = [set(schema.get("required", ())) for schema in schemas]
    tag = {"type": "string", "enum": list(by_value)}
    return {
        "type": "object",
        "properties": {wire: tag, **properties},
        "required": sorted({wire}.union(set.intersection(*needed))),
        **({"x-kubernetes-validations": rules} if rules else {}),
    }


def _variant_rules(wire: str, values: list[str], schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    other = " && ".join(f"self.{wire} != '{value}'" for value in values)
    needed = [name for name in schema.get("required", ()) if name != wire]
    return [
        {
            "rule": f"({other}) || has(self.{name})",
            "message": f"{name} is required where {wire} is {' or '.join(values)}",
        }
        for name in needed
    ]
