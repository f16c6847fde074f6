"""Splits JSON one level deep, for texts nested too deeply for a recursive decoder.

Much slower than a decoder. Quotes, brackets and separators are checked; the text between them is left to the
decoder that reads it.
"""

import re
from collections.abc import Iterator

import msgspec

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\],:]', re.DOTALL)
_OPENING = b"{["
_string = msgspec.json.Decoder(str)
_value = msgspec.json.Decoder(msgspec.Raw)


def members(text: bytes) -> dict[str, bytes]:
    """The members of a JSON object, as text. Raises msgspec.DecodeError for anything else."""
    found: dict[str, bytes] = {}
    for part in _parts(text, b"{", b"}"):
        name, colon, value = _named(part)
        if not colon or not value.strip():
            raise msgspec.DecodeError("expected a name and a value")
        found[_string.decode(name)] = value.strip()
    return found


def elements(text: bytes) -> list[bytes]:
    """The elements of a JSON array, as text. Raises msgspec.DecodeError for anything else."""
    return [part.strip() for part in _parts(text, b"[", b"]")]


def check_whole(text: bytes) -> None:
    """Raise msgspec.DecodeError for text that is not one JSON value, such as the beginning of one."""
    try:
        _value.decode(text)
    except RecursionError:
        if text.lstrip().startswith(b"{"):
            members(text)
        else:
            elements(text)


def _parts(text: bytes, opening: bytes, closing: bytes) -> Iterator[bytes]:
    text = text.strip()
    if not text.startswith(opening):
        raise msgspec.DecodeError(f"expected {opening.decode()} first")
    depth, start = 0, 1
    for token in _TOKEN.finditer(text):
        sign = token.group()[:1]
        if sign in _OPENING:
            depth += 1
        elif sign in b"}]":
            depth -= 1
        if depth == 0:
            if token.end() != len(text) or sign != closing:
                raise msgspec.DecodeError("text after the end")
            if text[start : token.start()].strip():
                yield text[start : token.start()]
            return
        if depth == 1 and sign == b",":
            yield text[start : token.start()]
            start = token.end()
    raise msgspec.DecodeError("the text ends before its brackets do")


def _named(part: bytes) -> tuple[bytes, bytes, bytes]:
    part = part.strip()
    name = _TOKEN.match(part)
    if name is None or not name.group().startswith(b'"'):
        raise msgspec.DecodeError("expected a name")
    rest = part[name.end() :].lstrip()
    return name.group(), rest[:1] if rest[:1] == b":" else b"", rest[1:]
