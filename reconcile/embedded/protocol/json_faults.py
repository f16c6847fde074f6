"""What is wrong with JSON, in the words of Go's encoding/json."""

import json
from typing import Any, Final

_LITERALS: Final = {"t": "true", "f": "false", "n": "null"}
_PLACES: Final = {
    "Expecting value": "looking for beginning of value",
    "Expecting property name enclosed in double quotes": "looking for beginning of object key string",
    "Expecting ':' delimiter": "after object key",
    "Extra data": "after top-level value",
    "Invalid control character at": "in string literal",
    "Invalid \\escape": "in string escape code",
}


def json_fault(body: bytes) -> str:
    """Why Go cannot read these bytes."""
    try:
        json.loads(body.decode(errors="replace"), parse_int=str)  # which may have too many digits for int
    except json.JSONDecodeError as error:
        return _described(error)
    except RecursionError:
        return "exceeded max depth"
    return "invalid JSON"


def _described(error: json.JSONDecodeError) -> str:
    text, at = error.doc, error.pos
    rest = text[at:].lstrip(" \t\r\n")
    if not rest or error.msg.startswith("Unterminated string"):
        return "unexpected end of JSON input"
    if error.msg == "Expecting value" and rest[0] in _LITERALS:
        return _in_literal(rest, _LITERALS[rest[0]])
    if error.msg == "Expecting ',' delimiter":
        within = text[:at].rstrip(" \t\r\n")
        pair = within.rfind("{") > within.rfind("[")
        place = "after object key:value pair" if pair else "after array element"
    else:
        place = _PLACES.get(error.msg, "looking for beginning of value")
    return f"invalid character {_quoted(rest[0])} {place}"


def _in_literal(rest: str, literal: str) -> str:
    for got, expected in zip(rest, literal, strict=False):
        if got != expected:
            return f"invalid character {_quoted(got)} in literal {literal} (expecting '{expected}')"
    return "unexpected end of JSON input"


def _quoted(sign: str) -> str:
    return r"'\''" if sign == "'" else f"'{sign}'"


def json_type(value: Any) -> str:
    """The type of a JSON value, as Go names it."""
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case int() | float():
            return "number"
        case dict():
            return "object"
        case list():
            return "array"
    return "null"
