"""JSON paths of printer columns.

`.status.phase`, `.spec.ports[0].port`, `.spec.ports[*].port`, `.metadata.labels['app.kubernetes.io/name']`
and `.status.conditions[?(@.type=="Ready")].status`. Kubernetes' template extensions (ranges, several paths in
one, recursive descent) are left out: columns of an API server do not use them.
"""

import operator
import re
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from attrs import field, frozen

_FIELD = re.compile(r"\.((?:[^.\[\]\\]|\\.)+)")
_QUOTED = re.compile(r"\[\s*(?:'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\")\s*\]")
_INDEX = re.compile(r"\[\s*(-?\d{1,9})\s*\]")
_EVERY = re.compile(r"\[\s*\*\s*\]|\.\*")
_FILTER = re.compile(
    r"\[\?\(\s*@((?:\.(?:[^.\[\]\\=!<>\s()]|\\.)+)+)\s*(?:(==|!=|<=|>=|<|>)\s*('[^']*'|\"[^\"]*\"|[^\s()'\"]+)\s*)?\)\]"
)
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

Step = Callable[[Any], Iterable[Any]]


class BadPath(ValueError):
    """The text is not a JSON path that columns can use."""


@frozen
class JsonPath:
    text: str
    _steps: tuple[Step, ...] = field(repr=False, eq=False)

    def find(self, document: Any) -> list[Any]:
        """All values at the path, in document order."""
        values = [document]
        for step in self._steps:
            values = [found for value in values for found in step(value)]
        return values

    def first(self, document: Any) -> Any:
        found = self.find(document)
        return found[0] if found else None


def compile_path(text: str) -> JsonPath:
    """Compile a path, with or without braces and `$`. Raises BadPath, which quotes the faulty part."""
    inner = text.strip()
    if inner.startswith("{") and inner.endswith("}"):
        inner = inner[1:-1].strip()
    inner = inner.removeprefix("$")
    if inner == ".":
        return JsonPath(text, ())
    steps: list[Step] = []
    position = 0
    while position < len(inner):
        step, position = _step(inner, position, text)
        steps.append(step)
    if not steps:
        raise BadPath(f"{text!r} is not a JSON path: it is empty")
    return JsonPath(text, tuple(steps))


def _step(inner: str, at: int, text: str) -> tuple[Step, int]:
    if found := _EVERY.match(inner, at):
        return _every, found.end()
    if found := _FIELD.match(inner, at):
        return _member(_unescape(found[1])), found.end()
    if found := _QUOTED.match(inner, at):
        return _member(_unescape(found[1] if found[1] is not None else found[2])), found.end()
    if found := _INDEX.match(inner, at):
        return _item(int(found[1])), found.end()
    if found := _FILTER.match(inner, at):
        return _filter(found[1], found[2], found[3]), found.end()
    raise BadPath(f"{text!r} is not a JSON path that columns can use, from {inner[at:]!r} on")


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _every(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _member(name: str) -> Step:
    def step(value: Any) -> Iterable[Any]:
        if isinstance(value, dict) and name in value:
            return (value[name],)
        return ()

    return step


def _item(index: int) -> Step:
    def step(value: Any) -> Iterable[Any]:
        if isinstance(value, list) and -len(value) <= index < len(value):
            return (value[index],)
        return ()

    return step


def _filter(path: str, compare: str | None, literal: str | None) -> Step:
    inside = compile_path(path)
    if compare is None or literal is None:
        return lambda value: [item for item in _every(value) if inside.find(item)]
    holds, expected = _COMPARE[compare], _literal(literal)
    kind = _json_type(expected)

    def matches(item: Any) -> bool:
        found = inside.find(item)
        return bool(found) and _json_type(found[0]) is kind and holds(found[0], expected)

    return lambda value: [item for item in _every(value) if matches(item)]


def _literal(text: str) -> Any:
    if text[0] in "'\"":
        return text[1:-1]
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        raise BadPath(
            f"{text!r} in a filter is neither a quoted string nor a number, true or false"
        ) from None


def _json_type(value: Any) -> type:
    """Values of different types never match: in JSON, true is not 1."""
    return float if type(value) is int else type(value)
