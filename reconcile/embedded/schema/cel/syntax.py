"""Expressions as trees, out of what the CEL library makes of a text: `cel.expr.CheckedExpr`, serialized."""

from collections.abc import Iterator
from typing import Any, Final

from attrs import frozen
from cel_expr_python import cel


@frozen
class Const:
    """A literal; `value` is its text, or its number where it is whole."""

    value: Any


@frozen
class Ident:
    """A variable."""

    name: str


@frozen
class Select:
    """A field, or with `test` whether it is there."""

    operand: "Expr"
    field: str
    test: bool


@frozen
class CelCall:
    """A function; the value that it is called on is the first argument."""

    function: str
    arguments: tuple["Expr", ...]


@frozen
class Made:
    """A list, or the values of a map that is spelt out."""

    members: tuple["Expr", ...]


@frozen
class CelLoop:
    """A comprehension, which is what all macros become."""

    items: "Expr"
    names: tuple[str, ...]
    result_name: str
    start: "Expr"
    condition: "Expr"
    step: "Expr"
    result: "Expr"


Expr = Const | Ident | Select | CelCall | Made | CelLoop

_EXPRESSION_IN_CHECKED: Final = 4


def tree(expression: cel.Expression) -> Expr:
    """The tree of a compiled expression."""
    wrapped = dict(_fields(expression.serialize()))  # a google.protobuf.Any
    checked = dict(_fields(wrapped[2]))
    return _expr(checked[_EXPRESSION_IN_CHECKED])


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a protobuf message: numbers as they are, the rest as bytes."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        match key & 7:
            case 0:
                value, at = _varint(data, at)
                yield key >> 3, value
            case 1:
                yield key >> 3, data[at : at + 8]
                at += 8
            case 2:
                size, at = _varint(data, at)
                yield key >> 3, data[at : at + size]
                at += size
            case _:
                yield key >> 3, data[at : at + 4]
                at += 4


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _expr(data: bytes) -> Expr:
    for number, value in _fields(data):
        match number:
            case 3:
                return _const(value)
            case 4:
                return Ident(dict(_fields(value)).get(1, b"").decode())
            case 5:
                parts = dict(_fields(value))
                return Select(_expr(parts.get(1, b"")), parts.get(2, b"").decode(), bool(parts.get(3)))
            case 6:
                return _call(value)
            case 7:
                return Made(tuple(_expr(part) for field, part in _fields(value) if field == 1))
            case 8:
                entries = (dict(_fields(part)) for field, part in _fields(value) if field == 2)
                return Made(tuple(_expr(entry.get(4, b"")) for entry in entries))
            case 9:
                return _loop(value)
    return Const(0)


def _const(data: bytes) -> Const:
    for number, value in _fields(data):
        if number == 6:
            return Const(value.decode(errors="replace"))
        if number in (3, 4):
            return Const(value)
        if number == 7:
            return Const(value)
    return Const(0)


def _call(data: bytes) -> CelCall:
    target: tuple[Expr, ...] = ()
    function = ""
    arguments: list[Expr] = []
    for number, value in _fields(data):
        if number == 1:
            target = (_expr(value),)
        elif number == 2:
            function = value.decode()
        elif number == 3:
            arguments.append(_expr(value))
    return CelCall(function, (*target, *arguments))


def _loop(data: bytes) -> CelLoop:
    parts = dict(_fields(data))
    names = tuple(parts[number].decode() for number in (1, 8) if parts.get(number))
    accumulator = parts.get(3, b"").decode()
    start, condition, step, result = (_expr(parts.get(number, b"")) for number in (4, 5, 6, 7))
    return CelLoop(_expr(parts.get(2, b"")), names, accumulator, start, condition, step, result)
