"""Objects as rules read them: fields under their escaped names, times as times, bytes as bytes."""

import base64
import datetime
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from reconcile.embedded.schema.cel.cel_types import OBJECT_FIELDS, escaped
from reconcile.embedded.schema.json_values import is_number, list_key

Convert = Callable[[Any], Any]

_SECONDS: Final = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86400.0,
    "w": 604800.0,
}
_DURATION_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h|d|w)", re.ASCII)


def converter(schema: Mapping[str, Any], *, is_object: bool = False) -> Convert | None:
    """The conversion of a value for rules; None if they read the value itself."""
    kind = schema.get("type", "")
    if kind == "object":
        return _object_converter(schema, is_object=is_object)
    if kind == "array":
        inner = converter(schema["items"]) if isinstance(schema.get("items"), Mapping) else None
        return None if inner is None else lambda items: [_applied(inner, item) for item in items]
    if kind == "number":
        return lambda value: float(value) if is_number(value) else value
    if kind == "string":
        return _FORMATS.get(schema.get("format", ""))
    return None


def _applied(convert: Convert, value: Any) -> Any:
    return None if value is None else convert(value)


def _object_converter(schema: Mapping[str, Any], *, is_object: bool) -> Convert | None:
    additional = schema.get("additionalProperties")
    if isinstance(additional, Mapping):
        inner = converter(additional)
        if inner is None:
            return None
        return lambda members: {name: _applied(inner, member) for name, member in members.items()}
    known = dict(schema.get("properties", {}))
    if is_object or schema.get("x-kubernetes-embedded-resource"):
        known |= OBJECT_FIELDS
    changed: dict[str, tuple[str, Convert]] = {}
    for name, member in known.items():
        spelled, convert = escaped(name), converter(member)
        if name == "metadata" and member is OBJECT_FIELDS["metadata"]:
            convert = _name_only
        if spelled is not None and (spelled != name or convert is not None):
            changed[name] = spelled, convert or _same
    return None if not changed else lambda members: _renamed(members, changed)


def _renamed(members: Mapping[str, Any], changed: Mapping[str, tuple[str, Convert]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, member in members.items():
        spelled, convert = changed.get(name) or (name, _same)
        result[spelled] = _applied(convert, member)
    return result


def _same(value: Any) -> Any:
    return value


def _name_only(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {name: metadata[name] for name in ("name", "generateName") if name in metadata}


def _moment(text: str) -> Any:
    # A time that Python cannot parse stays text, and the rule that compares it fails.
    try:
        return timestamp_of(datetime.datetime.fromisoformat(text))
    except ValueError:
        return text


def timestamp_of(moment: datetime.datetime) -> Timestamp:
    timestamp = Timestamp()
    timestamp.FromDatetime(moment)
    return timestamp


def duration_of(span: datetime.timedelta) -> Duration:
    duration = Duration()
    duration.FromTimedelta(span)
    return duration


def _duration(text: str) -> Any:
    parts = _DURATION_PART.findall(text)
    if "".join(number + unit for number, unit in parts) != text.lstrip("+-"):
        return text
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    return duration_of(datetime.timedelta(seconds=-seconds if text.startswith("-") else seconds))


_FORMATS: Final[Mapping[str, Convert]] = {
    "byte": lambda text: base64.b64decode(text),
    "date": _moment,
    "date-time": _moment,
    "duration": _duration,
}


def aligned(schema: Mapping[str, Any], old: Any, new: Any) -> Any:
    """`old` with its sets and keyed lists in the order of `new`, since their order has no meaning."""
    if isinstance(old, dict) and isinstance(new, dict):
        return {
            name: aligned(_member(schema, name), member, new[name]) if name in new else member
            for name, member in old.items()
        }
    if isinstance(old, list) and isinstance(new, list):
        return _aligned_items(schema, old, new)
    return old


def _member(schema: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = schema.get("properties", {}).get(name) or schema.get("additionalProperties")
    return found if isinstance(found, Mapping) else {}


def _aligned_items(schema: Mapping[str, Any], old: list[Any], new: list[Any]) -> list[Any]:
    inner = schema.get("items") or {}
    kind = schema.get("x-kubernetes-list-type", "atomic")
    if kind not in ("map", "set"):
        return [
            aligned(inner, item, new[index]) if index < len(new) else item for index, item in enumerate(old)
        ]
    keys = schema.get("x-kubernetes-list-map-keys", ())
    places = {list_key(keys, item): index for index, item in enumerate(new)}
    ordered = sorted(old, key=lambda item: places.get(list_key(keys, item), len(new)))
    return [
        aligned(inner, item, new[places[key]]) if (key := list_key(keys, item)) in places else item
        for item in ordered
    ]
