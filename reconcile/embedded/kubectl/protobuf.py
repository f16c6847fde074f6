"""Protobuf bodies, which commands such as `kubectl create configmap` always send.

Only kinds and fields of `BuiltInKind.messages` are read; others are refused by name, because an unread field
would be lost. Answers are always JSON, which every client takes.
"""

import base64
import datetime
from collections.abc import Mapping
from typing import Any

import msgspec
from attrs import frozen

from reconcile.embedded.protocol.api_failure import ApiFailure
from reconcile.embedded.protocol.protobuf_wire import fields_of

CONTENT_TYPE = "application/vnd.kubernetes.protobuf"

_MAGIC = b"k8s\x00"

Message = Mapping[int, str]
"""One message: `name:type` by field number. Types are `string`, `int`, `bool`, `bytes`, `time`, `quantity`,
`int-or-string` and names of other messages; `[x]` is a list of them, `{x}` a map from strings. `*` marks a
pointer in Go, which is sent only if it was set, so that a zero means zero. A field without a name is an
embedded struct: its fields belong to the message around it."""
Messages = dict[str, Message]
"""Messages by name."""

_SCALARS = frozenset({"bool", "bytes", "int", "int-or-string", "quantity", "string", "time"})
_SHARED: Messages = {
    "Unknown": {1: "typeMeta:TypeMeta", 2: "raw:bytes", 3: "contentEncoding:string", 4: "contentType:string"},
    "TypeMeta": {1: "apiVersion:string", 2: "kind:string"},
    "ObjectMeta": {
        1: "name:string", 2: "generateName:string", 3: "namespace:string", 4: "selfLink:string",
        5: "uid:string", 6: "resourceVersion:string", 7: "generation:int", 8: "creationTimestamp:time",
        9: "deletionTimestamp:*time", 10: "deletionGracePeriodSeconds:*int", 11: "labels:{string}",
        12: "annotations:{string}", 13: "ownerReferences:[OwnerReference]", 14: "finalizers:[string]",
    },
    "OwnerReference": {
        1: "kind:string", 3: "name:string", 4: "uid:string", 5: "apiVersion:string", 6: "controller:*bool",
        7: "blockOwnerDeletion:*bool",
    },
    "LabelSelector": {1: "matchLabels:{string}", 2: "matchExpressions:[LabelSelectorRequirement]"},
    "LabelSelectorRequirement": {1: "key:string", 2: "operator:string", 3: "values:[string]"},
    "LocalObjectReference": {1: "name:string"},
    "ObjectReference": {
        1: "kind:string", 2: "namespace:string", 3: "name:string", 4: "uid:string", 5: "apiVersion:string",
        6: "resourceVersion:string", 7: "fieldPath:string",
    },
    "Nothing": {},
}  # fmt: skip


class _Unread(Exception):
    """A kind or a field without a message."""


@frozen
class _Field:
    name: str
    type: str
    pointer: bool = False
    repeated: bool = False
    mapped: bool = False


class Protobuf:
    """Reads bodies of the kinds that it has messages for; `bodies` names these by apiVersion and kind."""

    def __init__(self, messages: Messages, bodies: Mapping[tuple[str, str], str]) -> None:
        known = {**_SHARED, **messages}
        self._fields = {name: _fields(name, message, known) for name, message in known.items()}
        self._bodies = bodies

    def to_json(self, body: bytes) -> bytes:
        """The JSON of an object sent as Kubernetes protobuf.

        Raises ApiFailure: 400 for malformed bytes, 415 for a kind or a field that is not read.
        """
        if not body.startswith(_MAGIC):
            raise ApiFailure(
                400, "BadRequest", "the body is not Kubernetes protobuf: it does not begin with k8s\\x00"
            )
        try:
            return msgspec.json.encode(self._object(body[len(_MAGIC) :]))
        except _Unread as unread:
            raise _unsupported(str(unread)) from None
        except (ValueError, OverflowError) as malformed:
            raise ApiFailure(400, "BadRequest", f"the body cannot be read as protobuf: {malformed}") from None

    def _object(self, data: bytes) -> dict[str, Any]:
        envelope = self._message("Unknown", data)
        meta = envelope.get("typeMeta", {})
        kind, api_version = meta.get("kind", ""), meta.get("apiVersion", "")
        message = self._bodies.get((api_version, kind))
        if message is None:
            raise _Unread(f"{api_version} {kind}")
        members = self._message(message, base64.b64decode(envelope.get("raw", "")))
        return {"kind": kind, "apiVersion": api_version} | members

    def _message(self, name: str, data: bytes) -> dict[str, Any]:
        fields = self._fields[name]
        found: dict[str, Any] = {}
        for number, raw in fields_of(data):
            field = fields.get(number)
            if field is None:
                raise _Unread(f"field {number} of {name}")
            if field.repeated:
                found.setdefault(field.name, []).append(self._value(field.type, raw))
            elif field.mapped:
                key, value = self._entry(field.type, raw)
                found.setdefault(field.name, {})[key] = value
            elif not field.name:
                found |= self._message(field.type, _bytes(raw))
            else:
                value = self._value(field.type, raw)
                if field.pointer or value not in ("", 0, False, None, {}):  # as Go's omitempty
                    found[field.name] = value
        return found

    def _entry(self, kind: str, raw: int | bytes) -> tuple[str, Any]:
        parts = dict(fields_of(_bytes(raw)))
        value = parts.get(2, b"")
        return _bytes(parts.get(1, b"")).decode(), self._value(kind, value)

    def _value(self, kind: str, raw: int | bytes) -> Any:
        match kind:
            case "string":
                return _bytes(raw).decode()
            case "bytes":
                return base64.b64encode(_bytes(raw)).decode()
            case "int":
                return _signed(_integer(raw))
            case "bool":
                return bool(_integer(raw))
            case "quantity":
                return _bytes(dict(fields_of(_bytes(raw))).get(1, b"")).decode()
            case "int-or-string":
                return _int_or_string(_bytes(raw))
            case "time":
                return _time(_bytes(raw))
            case _:
                return self._message(kind, _bytes(raw))


def _fields(name: str, message: Message, known: Messages) -> dict[int, _Field]:
    """The fields of a message by number. Raises ValueError for a field whose type has no message."""
    fields = {number: _field(*text.split(":")) for number, text in message.items()}
    for number, field in fields.items():
        if field.type not in known and field.type not in _SCALARS:
            raise ValueError(
                f"protobuf message {name}: field {message[number]!r} is of a type that has no message"
            )
    return fields


def _unsupported(what: str) -> ApiFailure:
    return ApiFailure(
        415,
        "UnsupportedMediaType",
        f"the embedded server does not read {what} as protobuf: send JSON, as kubectl apply -f does",
    )


def _field(name: str, kind: str) -> _Field:
    if kind.startswith("["):
        return _Field(name, kind[1:-1], repeated=True)
    if kind.startswith("{"):
        return _Field(name, kind[1:-1], mapped=True)
    return _Field(name, kind.removeprefix("*"), pointer=kind.startswith("*"))


def _int_or_string(data: bytes) -> int | str:
    parts = dict(fields_of(data))
    if parts.get(1, 0):
        return _bytes(parts.get(3, b"")).decode()
    return _signed(_integer(parts.get(2, 0)))


def _time(data: bytes) -> str | None:
    if not data:
        return None
    seconds = _signed(_integer(dict(fields_of(data)).get(1, 0)))
    moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _bytes(raw: int | bytes) -> bytes:
    if isinstance(raw, int):
        raise ValueError("a number stands where a text is expected")
    return raw


def _integer(raw: int | bytes) -> int:
    if isinstance(raw, bytes):
        raise ValueError("a text stands where a number is expected")
    return raw
