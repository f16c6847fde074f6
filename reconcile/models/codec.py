"""Objects to JSON and back, by readers and writers that are created once per class.

A field that is UNSET, or None with None as its default, is left out; everything else is written, explicit
zeros included. Absence means the default, and so does `null` for a field that may not be None. Fields that
the class lacks are not read, and not lost either, because writes are patches of what changed.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeVar, cast

import attrs
import msgspec

from informers import Snapshot
from reconcile.models.fields import fields_of
from reconcile.models.frozen import FrozenMapping
from reconcile.models.objects import Object, ObjectMeta, Unstructured, kind_of
from reconcile.models.reading import DecodeError, reader_of
from reconcile.models.writing import Write, to_json

T = TypeVar("T")
O = TypeVar("O", bound=Object)  # noqa: E741

_METADATA: Final = frozenset(field.wire for field in fields_of(ObjectMeta))

_NO_METADATA: Final = ObjectMeta()
_HEAD: Final = ("apiVersion", "kind", "metadata")


def decode(model: type[O], raw: bytes | Mapping[str, Any]) -> O:
    """An object of that class from its JSON, or from a decoded mapping. Raises DecodeError."""
    return decode_parsed(model, _json(raw) if isinstance(raw, bytes) else to_json(raw))


def decode_parsed(model: type[O], body: Mapping[str, Any]) -> O:
    """An object from JSON that is parsed already, and that nothing changes later. Raises DecodeError."""
    if issubclass(model, Unstructured):
        kind = kind_of(model).resource
        body = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
        metadata = _read(ObjectMeta, body.get("metadata") or {})
        return cast(O, model(metadata=metadata, body=FrozenMapping(body)))
    return _read(model, body)


def decode_snapshot(model: type[O], snapshot: Snapshot) -> O:
    """The object of a snapshot. Raises DecodeError."""
    return decode(model, snapshot.raw)


def encode(obj: Object) -> dict[str, Any]:
    """The JSON of an object as a new mapping, with apiVersion and kind."""
    return encode_with(obj, to_json)


def encode_with(obj: Object, write: Write) -> dict[str, Any]:
    """The same, by `to_json` or a SharedJson."""
    kind = kind_of(obj).resource
    head = {"apiVersion": kind.api_version, "kind": kind.kind}
    if not isinstance(obj, Unstructured):
        return {**head, **write(obj)}
    body: dict[str, Any] = write(obj.body)
    rest = {name: value for name, value in body.get("metadata", {}).items() if name not in _METADATA}
    return {**body, **head, "metadata": {**rest, **write(obj.metadata)}}


def encode_body(obj: Object, write: Write) -> dict[str, Any]:
    """The JSON of an object without metadata, apiVersion and kind, as a new mapping."""
    bare: Any = obj
    encoded = encode_with(attrs.evolve(bare, metadata=_NO_METADATA), write)
    return {name: value for name, value in encoded.items() if name not in _HEAD}


def structure(cls: type[T], value: Any) -> T:
    """A value of any model class from decoded JSON. Raises DecodeError."""
    return _read(cls, to_json(value))


def _read(cls: type[T], value: Any) -> T:
    try:
        annotation: Any = cls
        return cast(T, reader_of(annotation)(value))
    except DecodeError as error:
        raise DecodeError(f"cannot read a {cls.__name__}: {error}", error.errors) from None


def unstructure(value: Any) -> Any:
    """The JSON of any value, as mappings, lists and scalars."""
    return to_json(value)


def _json(raw: bytes) -> Mapping[str, Any]:
    body = msgspec.json.decode(raw)
    if not isinstance(body, dict):
        raise DecodeError(f"expected a JSON object, got {type(body).__name__}")
    return body
