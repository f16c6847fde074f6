"""Objects to JSON and back, by compiled hooks that are made once per class.

Rules of the wire: a Python name is its camelCase; a field that is None and has None as its default
is left out, everything else is written, explicit zeros included; `null` and absence of a field that
may not be None both mean its default; fields that the class does not have are not seen here, and
are not lost either, because writes are patches of what changed.
"""

import datetime
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import attrs
import cattrs
import msgspec
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override
from cattrs.strategies import configure_union_passthrough

from informers import Snapshot
from reconcile.models.objects import WIRE_NAME, Object, ObjectMeta, Unstructured, kind_of

T = TypeVar("T")
O = TypeVar("O", bound=Object)  # noqa: E741


class DoesNotFit(ValueError):
    """JSON that a class has no room for; the message names the paths, never values."""


def camel_case(name: str) -> str:
    """`pull_secret` is `pullSecret`; a trailing underscore (`from_`) is dropped."""
    head, *rest = name.strip("_").split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest)


def wire_name(attribute: "attrs.Attribute[Any]") -> str:
    """The name of a field in JSON."""
    return cast("str | None", attribute.metadata.get(WIRE_NAME)) or camel_case(attribute.name)


def parse_time(text: str) -> datetime.datetime:
    """An RFC 3339 time, aware. Raises ValueError."""
    return datetime.datetime.fromisoformat(text)


def format_time(time: datetime.datetime) -> str:
    """As the API writes times: UTC, whole seconds. Raises ValueError for a naive time."""
    if time.tzinfo is None:
        raise ValueError("a time without a time zone means nothing to an API server")
    return time.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def decode(model: type[O], raw: bytes | Mapping[str, Any]) -> O:
    """An object of that class from its JSON, or from the mapping it decodes to. Raises DoesNotFit."""
    body = _json(raw) if isinstance(raw, bytes) else raw
    if issubclass(model, Unstructured):
        kind = kind_of(model).resource
        body = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
        metadata = structure(ObjectMeta, body.get("metadata") or {})
        return cast(O, model(metadata=metadata, body=body))
    return structure(model, body)


def decode_snapshot(model: type[O], snapshot: Snapshot) -> O:
    """An object of that class as it was at a version. Raises DoesNotFit."""
    return decode(model, snapshot.raw)


def encode(obj: Object) -> dict[str, Any]:
    """The JSON of an object as a mapping, apiVersion and kind included."""
    kind = kind_of(obj).resource
    body = dict(obj.body) if isinstance(obj, Unstructured) else unstructure(obj)
    body.pop("apiVersion", None), body.pop("kind", None)
    metadata = {**body.pop("metadata", {}), **unstructure(obj.metadata)}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **body}


def structure(cls: type[T], value: Any) -> T:
    """A value of any model class from decoded JSON. Raises DoesNotFit."""
    try:
        return _converter.structure(value, cls)
    except Exception as error:
        faults = "; ".join(cattrs.transform_error(error, path="", format_exception=_fault))
        raise DoesNotFit(f"this is no {cls.__name__}: {faults}") from None


def unstructure(value: Any) -> Any:
    """The JSON of any value, as mappings, lists and scalars."""
    return _converter.unstructure(value)


def _json(raw: bytes) -> Mapping[str, Any]:
    body = msgspec.json.decode(raw)
    if not isinstance(body, dict):
        raise DoesNotFit("an object was expected")
    return body


def _fault(error: BaseException, _: type | None) -> str:
    if isinstance(error, KeyError):
        return f"{error.args[0]} is missing"
    return "has the wrong type" if isinstance(error, TypeError) else "has a value that is not allowed"


def _may_be_none(annotation: Any) -> bool:
    return annotation is Any or annotation is None or type(None) in typing.get_args(annotation)


def _structure_attrs(cls: type[Any]) -> Callable[[Any, Any], Any]:
    """As cattrs would, under wire names; `null` where a field may not be None means absence."""
    attrs.resolve_types(cls)
    fields = attrs.fields(cls)
    renames = {f.name: override(rename=wire_name(f)) for f in fields}
    inner = make_dict_structure_fn(cls, _converter, **renames)  # type: ignore[arg-type]
    never_null = frozenset(wire_name(f) for f in fields if not _may_be_none(f.type))

    def structure_one(value: Any, _: Any) -> Any:
        if not isinstance(value, Mapping):
            raise TypeError(cls.__name__)
        if None in value.values():
            value = {k: v for k, v in value.items() if v is not None or k not in never_null}
        return inner(value, cls)

    return structure_one


def _unstructure_attrs(cls: type[Any]) -> Callable[[Any], dict[str, Any]]:
    attrs.resolve_types(cls)
    fields = attrs.fields(cls)
    sparse = cls is ObjectMeta
    renames = {
        f.name: override(rename=wire_name(f), omit_if_default=sparse or f.default is None) for f in fields
    }
    return make_dict_unstructure_fn(cls, _converter, **renames)  # type: ignore[arg-type]


def _scalar(kinds: tuple[type, ...]) -> Callable[[Any, Any], Any]:
    def check(value: Any, _: Any) -> Any:
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise TypeError(kinds[-1].__name__)
        return value

    return check


def _structure_time(value: Any, _: Any) -> datetime.datetime:
    if isinstance(value, datetime.datetime):
        return value
    return parse_time(value)


def _is_plain_union(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (types.UnionType, typing.Union) and all(
        part in (int, str, float, bool, type(None)) for part in typing.get_args(annotation)
    )


def _make_converter() -> cattrs.Converter:
    converter = cattrs.Converter(unstruct_collection_overrides={tuple: list})
    converter.register_structure_hook(str, _scalar((str,)))
    converter.register_structure_hook(int, _scalar((int,)))
    converter.register_structure_hook(bool, _scalar((bool,)))
    converter.register_structure_hook(float, _scalar((int, float)))
    converter.register_structure_hook(datetime.datetime, _structure_time)
    converter.register_unstructure_hook(datetime.datetime, format_time)
    configure_union_passthrough(str | int | float | bool | None, converter)
    converter.register_structure_hook_factory(attrs.has, _structure_attrs)
    converter.register_unstructure_hook_factory(attrs.has, _unstructure_attrs)
    return converter


_converter = _make_converter()
