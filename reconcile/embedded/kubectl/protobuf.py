"""Protobuf bodies, which `kubectl create configmap` and its like send and cannot be talked out of.

Only reading, only the kinds and fields of `protobuf_messages`; anything else is refused by name, because an
unread field would be a lost one. Answers are always JSON, which every client takes.
"""

import base64
import datetime
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
from attrs import frozen

from reconcile.embedded.kubectl.protobuf_messages import KINDS, MESSAGES
from reconcile.embedded.protocol.api_failure import Failure

CONTENT_TYPE = "application/vnd.kubernetes.protobuf"

_MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5


class _Malformed(ValueError):
    """The bytes are no protobuf message."""


class _Unread(Exception):
    """A kind or a field that is not in the table."""


@frozen
class _Field:
    """One field of a message; without a name, what is in it stands in the message itself."""

    name: str
    type: str
    pointer: bool = False
    repeated: bool = False
    mapped: bool = False


def to_json(body: bytes) -> bytes:
    """The JSON of an object sent as Kubernetes protobuf.

    Raises Failure: 400 for bytes that are no such thing, 415 for a kind or a field that is not read.
    """
    if not body.startswith(_MAGIC):
        raise Failure(
            400, "BadRequest", "the body is not Kubernetes protobuf: it does not begin with k8s\\x00"
        )
    try:
        return msgspec.json.encode(_object(body[len(_MAGIC) :]))
    except _Unread as unread:
        raise _unsupported(str(unread)) from None
    except (ValueError, OverflowError) as malformed:
        raise Failure(400, "BadRequest", f"the body cannot be read as protobuf: {malformed}") from None


def _object(data: bytes) -> dict[str, Any]:
    envelope = _message("Unknown", data)
    meta = envelope.get("typeMeta", {})
    kind, api_version = meta.get("kind", ""), meta.get("apiVersion", "")
    message = KINDS.get((api_version, kind))
    if message is None:
        raise _Unread(f"{api_version} {kind}")
    return {"kind": kind, "apiVersion": api_version} | _message(
        message, base64.b64decode(envelope.get("raw", ""))
    )


def _unsupported(what: str) -> Failure:
    return Failure(
        415,
        "UnsupportedMediaType",
        f"the embedded server does not read {what} as protobuf: send JSON, as kubectl apply -f does",
    )


@cache
def _fields(message: str) -> dict[int, _Field]:
    return {number: _field(*text.split(":")) for number, text in MESSAGES[message].items()}


def _field(name: str, kind: str) -> _Field:
    if kind.startswith("["):
        return _Field(name, kind[1:-1], repeated=True)
    if kind.startswith("{"):
        return _Field(name, kind[1:-1], mapped=True)
    return _Field(name, kind.removeprefix("*"), pointer=kind.startswith("*"))


def _message(name: str, data: bytes) -> dict[str, Any]:
    fields = _fields(name)
    found: dict[str, Any] = {}
    for number, raw in _wire(data):
        field = fields.get(number)
        if field is None:
            raise _Unread(f"field {number} of {name}")
        if field.repeated:
            found.setdefault(field.name, []).append(_value(field.type, raw))
        elif field.mapped:
            key, value = _entry(field.type, raw)
            found.setdefault(field.name, {})[key] = value
        elif not field.name:
            found |= _message(field.type, _bytes(raw))
        else:
            value = _value(field.type, raw)
            if field.pointer or value not in ("", 0, False, None, {}):  # as Go's omitempty
                found[field.name] = value
    return found


def _entry(kind: str, raw: int | bytes) -> tuple[str, Any]:
    parts = dict(_wire(_bytes(raw)))
    value = parts.get(2, b"")
    return _bytes(parts.get(1, b"")).decode(), _value(kind, value)


def _value(kind: str, raw: int | bytes) -> Any:
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
            return _bytes(dict(_wire(_bytes(raw))).get(1, b"")).decode()
        case "int-or-string":
            return _int_or_string(_bytes(raw))
        case "time":
            return _time(_bytes(raw))
        case _:
            return _message(kind, _bytes(raw))


def _int_or_string(data: bytes) -> int | str:
    parts = dict(_wire(data))
    if parts.get(1, 0):
        return _bytes(parts.get(3, b"")).decode()
    return _signed(_integer(parts.get(2, 0)))


def _time(data: bytes) -> str | None:
    if not data:
        return None
    seconds = _signed(_integer(dict(_wire(data)).get(1, 0)))
    moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _bytes(raw: int | bytes) -> bytes:
    if isinstance(raw, int):
        raise _Malformed("a number stands where a text is expected")
    return raw


def _integer(raw: int | bytes) -> int:
    if isinstance(raw, bytes):
        raise _Malformed("a text stands where a number is expected")
    return raw


def _wire(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The numbers and raw values of a message's fields, in order."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, form = tag >> 3, tag & 7
        if form == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if form == _DELIMITED:
            size, at = _varint(data, at)
        elif form in (_FIXED64, _FIXED32):
            size = 8 if form == _FIXED64 else 4
        else:
            raise _Malformed(f"field {number} has an unknown wire type")
        if at + size > len(data):
            raise _Malformed(f"field {number} is cut off")
        yield number, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, at
        shift += 7
    raise _Malformed("a number is cut off")
