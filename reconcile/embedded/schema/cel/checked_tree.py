"""Checked expressions as trees with types, read from the CEL library's output: `cel.expr.CheckedExpr`."""

from typing import Any, Final

from attrs import frozen
from cel_expr_python import cel

from reconcile.embedded.protocol.protobuf_wire import fields_of

_PRIMITIVES: Final = {1: "bool", 2: "int", 3: "uint", 4: "double", 5: "string", 6: "bytes"}
_WELL_KNOWN: Final = {1: "dyn", 2: "timestamp", 3: "duration"}


@frozen
class CelKind:
    """A type: a kind as in CEL, with the types within."""

    name: str
    inner: tuple["CelKind", ...] = ()


DYN: Final = CelKind("dyn")


@frozen(eq=False)
class TypedExpr:
    """One node; which of the parts it has follows from `form`."""

    number: int
    form: str
    """const, ident, select, test, call, list, map, struct, loop."""
    kind: CelKind
    name: str = ""
    """Of a variable, a field or a function; of the result of a loop."""
    value: Any = None
    """Of a constant; the names of a loop."""
    target: "TypedExpr | None" = None
    """What a method is called on, or a field is of."""
    parts: tuple["TypedExpr", ...] = ()
    """Arguments, items, or keys and values; of a loop: range, start, condition, step and result."""


def checked_tree(expression: cel.Expression) -> TypedExpr:
    wrapped = dict(fields_of(expression.serialize()))  # a google.protobuf.Any
    checked = list(fields_of(wrapped[2]))
    entries = (dict(fields_of(value)) for number, value in checked if number == 3)
    kinds = {entry.get(1, 0): _kind(entry.get(2, b"")) for entry in entries}
    return _expr(dict(checked)[4], kinds)


def _kind(data: bytes) -> CelKind:
    for number, value in fields_of(data):
        match number:
            case 2:
                return CelKind("null")
            case 3 | 4:
                return CelKind(_PRIMITIVES.get(value, "dyn"))
            case 5:
                return CelKind(_WELL_KNOWN.get(value, "dyn"))
            case 6:
                return CelKind("list", tuple(_kind(part) for _, part in fields_of(value)) or (DYN,))
            case 7:
                parts = dict(fields_of(value))
                return CelKind("map", (_kind(parts.get(1, b"")), _kind(parts.get(2, b""))))
            case 9:
                return CelKind("struct", (CelKind(value.decode()),))
            case 10:
                return CelKind("param")
            case 14:
                inner = tuple(_kind(part) for field, part in fields_of(value) if field == 2)
                return CelKind(dict(fields_of(value)).get(1, b"").decode(), inner)
    return DYN


def _expr(data: bytes, kinds: dict[int, CelKind]) -> TypedExpr:
    parts = dict(fields_of(data))
    number = parts.get(2, 0)
    kind = kinds.get(number, DYN)
    for field, value in parts.items():
        match field:
            case 3:
                return TypedExpr(number, "const", kind, value=_constant(value))
            case 4:
                return TypedExpr(number, "ident", kind, dict(fields_of(value)).get(1, b"").decode())
            case 5:
                found = dict(fields_of(value))
                form, name = "test" if found.get(3) else "select", found.get(2, b"").decode()
                return TypedExpr(number, form, kind, name, target=_expr(found.get(1, b""), kinds))
            case 6:
                return _call(number, kind, value, kinds)
            case 7:
                items = tuple(_expr(part, kinds) for at, part in fields_of(value) if at == 1)
                return TypedExpr(number, "list", kind, parts=items)
            case 8:
                return _made(number, kind, value, kinds)
            case 9:
                return _loop(number, kind, value, kinds)
    return TypedExpr(number, "const", kind)


def _constant(data: bytes) -> Any:
    for number, value in fields_of(data):
        if number == 6:
            return value.decode(errors="replace")
        if number in (3, 4, 7):
            return value
    return None


def _call(number: int, kind: CelKind, data: bytes, kinds: dict[int, CelKind]) -> TypedExpr:
    found = list(fields_of(data))
    target = dict(found).get(1)
    return TypedExpr(
        number,
        "call",
        kind,
        dict(found).get(2, b"").decode(),
        target=None if target is None else _expr(target, kinds),
        parts=tuple(_expr(value, kinds) for at, value in found if at == 3),
    )


def _made(number: int, kind: CelKind, data: bytes, kinds: dict[int, CelKind]) -> TypedExpr:
    found = list(fields_of(data))
    entries = [dict(fields_of(value)) for at, value in found if at == 2]
    parts = tuple(_expr(entry[at], kinds) for entry in entries for at in (3, 4) if at in entry)
    return TypedExpr(number, "struct" if dict(found).get(1) else "map", kind, parts=parts)


def _loop(number: int, kind: CelKind, data: bytes, kinds: dict[int, CelKind]) -> TypedExpr:
    found = dict(fields_of(data))
    names = tuple(found[at].decode() for at in (1, 8) if found.get(at))
    parts = tuple(_expr(found.get(at, b""), kinds) for at in (2, 4, 5, 6, 7))
    return TypedExpr(number, "loop", kind, found.get(3, b"").decode(), value=names, parts=parts)
