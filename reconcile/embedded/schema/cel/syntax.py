"""Expressions as trees, read from the CEL library's output: `cel.expr.CheckedExpr`, serialized."""

from typing import Any

from attrs import frozen
from cel_expr_python import cel

from reconcile.embedded.protocol.protobuf_wire import fields_of


@frozen
class Const:
    """A literal; `value` is a text or a whole number."""

    value: Any


@frozen
class Ident:
    name: str


@frozen
class Select:
    """A field; with `test`, whether it is set."""

    operand: "Expr"
    field: str
    test: bool


@frozen
class CelCall:
    """A call; the value that a method is called on is the first argument."""

    function: str
    arguments: tuple["Expr", ...]


@frozen
class Made:
    """A list, or the values of a map, as a literal."""

    members: tuple["Expr", ...]


@frozen
class CelLoop:
    """A comprehension, to which all macros expand."""

    items: "Expr"
    names: tuple[str, ...]
    result_name: str
    start: "Expr"
    condition: "Expr"
    step: "Expr"
    result: "Expr"


Expr = Const | Ident | Select | CelCall | Made | CelLoop


def tree(expression: cel.Expression) -> Expr:
    wrapped = dict(fields_of(expression.serialize()))  # a google.protobuf.Any
    checked = dict(fields_of(wrapped[2]))
    return _expr(checked[4])


def _expr(data: bytes) -> Expr:
    for number, value in fields_of(data):
        match number:
            case 3:
                return _const(value)
            case 4:
                return Ident(dict(fields_of(value)).get(1, b"").decode())
            case 5:
                parts = dict(fields_of(value))
                return Select(_expr(parts.get(1, b"")), parts.get(2, b"").decode(), bool(parts.get(3)))
            case 6:
                return _call(value)
            case 7:
                return Made(tuple(_expr(part) for field, part in fields_of(value) if field == 1))
            case 8:
                entries = (dict(fields_of(part)) for field, part in fields_of(value) if field == 2)
                return Made(tuple(_expr(entry.get(4, b"")) for entry in entries))
            case 9:
                return _loop(value)
    return Const(0)


def _const(data: bytes) -> Const:
    for number, value in fields_of(data):
        if number == 6:
            return Const(value.decode(errors="replace"))
        if number in (3, 4, 7):
            return Const(value)
    return Const(0)


def _call(data: bytes) -> CelCall:
    parts = list(fields_of(data))
    function = dict(parts).get(2, b"").decode()
    # 1 is the target, which comes before the arguments.
    return CelCall(function, tuple(_expr(value) for number, value in parts if number in (1, 3)))


def _loop(data: bytes) -> CelLoop:
    parts = dict(fields_of(data))
    names = tuple(parts[number].decode() for number in (1, 8) if parts.get(number))
    accumulator = parts.get(3, b"").decode()
    start, condition, step, result = (_expr(parts.get(number, b"")) for number in (4, 5, 6, 7))
    return CelLoop(_expr(parts.get(2, b"")), names, accumulator, start, condition, step, result)
