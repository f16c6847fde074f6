"""Paths to fields of a schema, as rules and selectable fields write them: `.spec['a.b'].c`."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

# As ValidFieldPath of apiextensions reads them: a quoted text, a delimiter, or anything between delimiters.
_TOKEN: Final = re.compile(r"'(?:[^'\\]|\\.)*'|[.\[\]]|[^.\[\]]+", re.DOTALL)
_UNEXPECTED_END: Final = "unexpected end of JSON path"
_NO_FIELD: Final = "does not refer to a valid field"


class PathFault(Exception):
    """Why a path does not lead to a field; the text says it."""


def field_at(path: str, schema: Mapping[str, Any], *, brackets: bool = True) -> tuple[list[str], Any]:
    """The names on the way, and the schema there. Raises PathFault if it leads nowhere."""
    steps: list[str] = []
    at: Any = schema
    for name in _steps(path, brackets):
        at = _below(at, name)
        steps.append(name)
    return steps, at


def _below(schema: Any, name: str) -> Any:
    if not isinstance(schema, Mapping):
        raise PathFault(_NO_FIELD)
    members = schema.get("properties")
    if members:
        if name not in members:
            raise PathFault(_NO_FIELD)
        return members[name]
    if "additionalProperties" not in schema:
        raise PathFault(_NO_FIELD)
    return schema["additionalProperties"]


def _steps(path: str, brackets: bool) -> Iterator[str]:
    tokens = iter(_TOKEN.findall(path))
    for token in tokens:
        if token == ".":
            yield _next(tokens)
        elif token != "[":
            raise PathFault(f"expected [ or . but got: {token}")
        elif not brackets:
            raise PathFault("array notation is not allowed")
        else:
            yield _quoted_step(tokens)


def _quoted_step(tokens: Iterator[str]) -> str:
    name = _next(tokens)
    if len(name) < 2 or name[0] != "'" or name[-1] != "'":
        raise PathFault(f"expected single quoted string but got {name}")
    end = _next(tokens)
    if end != "]":
        raise PathFault(f"expected ] but got {end}")
    return re.sub(r"\\(.)", r"\1", name[1:-1])


def _next(tokens: Iterator[str]) -> str:
    token = next(tokens, None)
    if token is None:
        raise PathFault(_UNEXPECTED_END)
    return token
