"""The wire format of protobuf messages."""

from collections.abc import Iterator
from typing import Any

_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5


def fields_of(data: bytes) -> Iterator[tuple[int, Any]]:
    """Field numbers and values in order: integers, or else bytes. Raises ValueError for other data."""
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
            raise ValueError(f"field {number} has an unknown wire type")
        if at + size > len(data):
            raise ValueError(f"field {number} is cut off")
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
    raise ValueError("a number is cut off")
