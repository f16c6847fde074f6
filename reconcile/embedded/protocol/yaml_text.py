"""YAML 1.1 as the real server reads it, to JSON, with limits on depth, size and aliases.

It is built from the parser's events, so that limits apply before anything grows. Keys become text as in the
real server.
"""

import base64
import math
import re
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final

import yaml
from attrs import define, field

from informers.apimachinery.yaml_scalars import plain_scalar, tagged_scalar

YamlError = yaml.YAMLError

# Values and keys in one document; more have to be sent as JSON, which is ten times as fast to read.
MAX_NODES: Final = 40_000
# Bytes of all texts of a document, each counted as often as aliases repeat it.
MAX_BYTES: Final = 3 * 1024 * 1024
_PARSER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG: Final = "tag:yaml.org,2002:"
_SURROGATE = re.compile("[\ud800-\udfff]")


class TooDeep(Exception):
    """The document is nested too deeply."""


class TooLarge(Exception):
    """The document, with aliases expanded, is too large; the text names the limit."""


def load(text: bytes, duplicates: list[str] | None = None, max_depth: int = 200) -> Any:
    """The only document in `text`; `duplicates` receives duplicate keys.

    Raises:
        YamlError: The text is not YAML, or JSON cannot hold its value.
        TooDeep: It is nested more than `max_depth` deep.
        TooLarge: It has too many values or bytes.
    """
    events = yaml.parse(text, Loader=_PARSER)
    return _YamlReader(events, max_depth, [] if duplicates is None else duplicates).document()


@define
class _Known:
    """The value of an anchor, and what each repetition adds."""

    value: Any
    nodes: int
    size: int
    depth: int


@define
class _YamlReader:
    """Reads one document; `_nodes` and `_size` count what has been read."""

    _events: Iterator[Any]
    _max_depth: int
    _duplicates: list[str]
    _anchors: dict[str, _Known | None] = field(factory=dict)
    """None for an anchor whose value is still being read."""
    _nodes: int = 0
    _size: int = 0
    _deepest: int = 0

    def document(self) -> Any:
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                break
        else:
            return None
        value, _ = self._value(next(self._events), 0)
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                raise YamlError("expected a single document in the stream")
        return value

    def _value(self, event: Any, depth: int) -> tuple[Any, str]:
        """The value that begins with an event, and its kind if it is a scalar."""
        anchor: str = event.anchor
        if isinstance(event, yaml.AliasEvent):
            return self._repeated(anchor, depth), ""
        nodes, size, deepest = self._nodes, self._size, self._deepest
        if anchor:
            self._anchors[anchor] = None
            self._deepest = depth
        value, tag = self._made(event, depth)
        if anchor:
            known = _Known(value, self._nodes - nodes, self._size - size, self._deepest - depth)
            self._anchors[anchor] = known
            self._deepest = max(deepest, self._deepest)
        return value, tag

    def _made(self, event: Any, depth: int) -> tuple[Any, str]:
        if isinstance(event, yaml.ScalarEvent):
            self._count(1, len(event.value))
            return _scalar(event)
        if depth >= self._max_depth:
            raise TooDeep
        self._deepest = max(self._deepest, depth + 1)
        self._count(1, 0)
        if isinstance(event, yaml.SequenceStartEvent):
            _expect(event.tag, "seq")
            return self._sequence(depth + 1), ""
        _expect(event.tag, "map")
        return self._mapping(depth + 1), ""

    def _count(self, nodes: int, size: int) -> None:
        self._nodes += nodes
        self._size += size
        if self._nodes > MAX_NODES:
            raise TooLarge(f"YAML of more than {MAX_NODES} values and keys; send it as JSON")
        if self._size > MAX_BYTES:
            raise TooLarge(f"YAML of more than {MAX_BYTES} bytes once its aliases are filled in")

    def _repeated(self, anchor: str, depth: int) -> Any:
        if anchor not in self._anchors:
            raise YamlError(f"found undefined alias {anchor!r}")
        known = self._anchors[anchor]
        if known is None:
            raise YamlError(f"anchor {anchor!r} value contains itself")
        self._count(known.nodes, known.size)
        if depth + known.depth > self._max_depth:
            raise TooDeep
        self._deepest = max(self._deepest, depth + known.depth)
        return deepcopy(known.value)

    def _sequence(self, depth: int) -> list[Any]:
        items: list[Any] = []
        for event in self._events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            items.append(self._value(event, depth)[0])
        return items

    def _mapping(self, depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        merged: list[dict[str, Any]] = []
        for event in self._events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            key, kind = self._value(event, depth)
            value, _ = self._value(next(self._events), depth)
            if kind == "merge":
                merged += _mappings(value)
                continue
            name = _name(key)
            if name in made:
                self._duplicates.append(name)
            made[name] = value
        if not merged:
            return made
        # Each member is copied once, however many there are.
        result: dict[str, Any] = {}
        for mapping in (*reversed(merged), made):
            result.update(mapping)
        return result


def _scalar(event: Any) -> tuple[Any, str]:
    """The value of a scalar, and its kind."""
    text: str = event.value
    if _SURROGATE.search(text):
        raise YamlError("found half of a surrogate pair")
    try:
        kind, value = _read(event.tag, text, event.implicit[0])
    except ValueError as error:
        raise YamlError(str(error)) from None
    return (_number(value, text) if kind in ("int", "float") else value), kind


def _read(tag: str | None, text: str, plain: bool) -> tuple[str, Any]:
    """The kind and the value of a scalar. Raises ValueError."""
    if tag in (None, "!"):
        return plain_scalar(text) if plain else ("str", text)
    kind = str(tag).removeprefix(_TAG)
    if kind in ("str", "merge"):
        return kind, text
    if kind == "binary":
        return kind, base64.decodebytes(text.encode("ascii")).decode(errors="replace")
    if kind in ("bool", "float", "int", "null"):
        return kind, tagged_scalar(kind, text)
    raise ValueError(f"could not determine a constructor for the tag {tag!r}")


def _number(value: Any, text: str) -> float:
    """As in the real server, an integer of more than 64 bits becomes a float."""
    try:
        number = value if isinstance(value, int) and -(2**63) <= value < 2**64 else float(value)
    except OverflowError:
        number = math.inf
    if isinstance(number, float) and not math.isfinite(number):
        raise YamlError(f"JSON has no number for {text!r}")
    return number


def _expect(tag: str | None, kind: str) -> None:
    if tag not in (None, "!", f"{_TAG}{kind}"):
        raise YamlError(f"could not determine a constructor for the tag {tag!r}")


def _mappings(value: Any) -> list[dict[str, Any]]:
    """The mappings of a `<<`; the first of them has precedence."""
    parts = value if isinstance(value, list) else [value]
    if not all(isinstance(part, dict) for part in parts):
        raise YamlError("map merge requires map or sequence of maps as the value")
    return list(parts)


def _name(key: Any) -> str:
    """Numbers and booleans become text keys, as in the real server."""
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int):
        return str(key)
    if isinstance(key, float):
        return f"{key:g}"
    raise YamlError(f"a key has to be a text, a number or a truth value, not {_KIND_NAMES[type(key)]}")


_KIND_NAMES: Final = {dict: "a mapping", list: "a sequence", type(None): "null"}
