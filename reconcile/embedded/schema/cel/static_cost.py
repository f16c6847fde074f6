"""What a rule may cost at most by the schema alone, as a real server estimates it to refuse costly rules.

The rules of cel-go's checker/cost.go; `library_costs` has those of Kubernetes' functions.
"""

from collections.abc import Sequence
from typing import Final

from attrs import define, field, frozen

from reconcile.embedded.schema.cel.checked_tree import CelKind, TypedExpr
from reconcile.embedded.schema.cel.declared import Declared
from reconcile.embedded.schema.cel.library_costs import library_cost
from reconcile.embedded.schema.cel.sizes import (
    ENDLESS,
    PATTERN_FACTOR,
    TEXT_FACTOR,
    UNKNOWN,
    Node,
    Size,
    added,
    multiplied,
    scaled,
)

_A_LIST, _A_MAP, _A_MESSAGE = 10, 30, 40
_SCALARS: Final = frozenset({"bool", "double", "duration", "int", "timestamp", "uint"})
_RESULTS: Final = ("__result__", "@result")
_RELATIONS: Final = ("_<_", "_<=_", "_>_", "_>=_")
_TEXTS: Final = ("string", "bytes")


@frozen
class _Entry:
    """The sizes of the keys and values of a list or a map."""

    of_list: bool
    key: Size
    value: Size

    def union(self, other: "_Entry | None") -> "_Entry | None":
        if other is None:
            return None
        return _Entry(self.of_list, self.key.union(other.key), self.value.union(other.value))


@frozen
class _Local:
    path: tuple[str, ...]
    size: Size | None
    entry: _Entry | None = None


def static_cost(expr: TypedExpr, root: Declared) -> int:
    """The most units for an object of the type; ENDLESS or less."""
    return _Coster(root).cost(expr)


@define
class _Coster:
    _root: Declared
    _paths: dict[int, tuple[str, ...]] = field(factory=dict)
    _sizes: dict[int, Size] = field(factory=dict)
    _entries: dict[int, _Entry] = field(factory=dict)
    _locals: dict[str, list[_Local]] = field(factory=dict)

    def cost(self, expr: TypedExpr) -> int:
        match expr.form:
            case "ident":
                local = self._local(expr.name)
                self._paths[expr.number] = (expr.name,) if local is None else local.path
                return 1
            case "select":
                return self._select(expr)
            case "test":
                return 0 if expr.target is None else self.cost(expr.target)
            case "call":
                return self._call(expr)
            case "list" | "map":
                return self._made(expr)
            case "struct":
                return added(_A_MESSAGE, *map(self.cost, expr.parts))
            case "loop":
                return self._loop(expr)
        return 0

    # --- what is known of a value ---

    def _local(self, name: str) -> _Local | None:
        held = self._locals.get(name)
        return held[-1] if held else None

    def _path(self, expr: TypedExpr) -> tuple[str, ...]:
        local = self._local(expr.name) if expr.form == "ident" else None
        return self._paths.get(expr.number, ()) if local is None else local.path

    def declared(self, path: tuple[str, ...]) -> Declared | None:
        """The type at a path, whose first step is a variable: all of them are objects of the same type."""
        return self._root.at(path[1:]) if path else None

    def _kind(self, expr: TypedExpr) -> CelKind:
        # Types within types are not all known to the checker here; the schema knows them.
        found = self.declared(self._path(expr)) if expr.kind.name in ("dyn", "param") else None
        return expr.kind if found is None else _kind_of(found)

    def _size(self, expr: TypedExpr) -> Size | None:
        known = self._sizes.get(expr.number) or _literal_size(expr)
        if known is not None:
            return known
        found = self.declared(self._path(expr))
        if found is not None:
            self._sizes[expr.number] = size = Size(0, found.most)
            return size
        if _is_scalar(self._kind(expr)):
            return Size(1, 1)
        local = self._local(expr.name) if expr.form == "ident" else None
        return None if local is None else local.size

    def _known_size(self, expr: TypedExpr) -> Size:
        return self._size(expr) or UNKNOWN

    def _entry(self, expr: TypedExpr) -> _Entry | None:
        known = self._entries.get(expr.number)
        local = self._local(expr.name) if expr.form == "ident" else None
        return known or (None if local is None else local.entry)

    def _node(self, expr: TypedExpr) -> Node:
        path = self._path(expr)
        if path and path[0] in _RESULTS:
            path = ()
        return Node(self._kind(expr), path, self._size(expr), expr.value if expr.form == "const" else None)

    # --- the forms of expressions ---

    def _select(self, expr: TypedExpr) -> int:
        if expr.target is None:
            return 0
        units = self.cost(expr.target)
        if self._kind(expr.target).name in ("map", "struct", "param"):
            units = added(units, 1)
        self._paths[expr.number] = (*self._path(expr.target), expr.name)
        return units

    def _made(self, expr: TypedExpr) -> int:
        units = added(_A_LIST if expr.form == "list" else _A_MAP, *map(self.cost, expr.parts))
        step = 1 if expr.form == "list" else 2
        values = [self._known_size(part) for part in expr.parts[step - 1 :: step]]
        keys = [self._known_size(part) for part in expr.parts[::2]] if step == 2 else [Size(1, 1)]
        self._entries[expr.number] = _Entry(step == 1, _union(keys), _union(values))
        return units

    def _loop(self, expr: TypedExpr) -> int:
        items, start, condition, step, result = expr.parts
        if _is_bind(expr):
            return self._bind(expr)
        units = added(self.cost(items), self.cost(start))
        self._push(expr.name, _Local(self._path(start), self._size(start), self._entry(start)))
        names = list(self._push_items(expr.value, items))
        each = added(self.cost(condition), self.cost(step))
        for name in names:
            self._locals[name].pop()
        units = added(units, self.cost(result))
        self._locals[expr.name].pop()
        size = self._known_size(items)
        if start.form == "const" and (started := self._size(start)) is not None:
            self._sizes[expr.number] = started
        elif start.form in ("list", "map"):
            self._sizes[expr.number] = size
            if (entry := self._entry(step)) is not None:
                self._entries[expr.number] = entry
        return added(units, multiplied(size.most, each))

    def _bind(self, expr: TypedExpr) -> int:
        items, start, _, _, result = expr.parts
        units = added(self.cost(items), self.cost(start))
        self._push(expr.name, _Local(self._path(start), self._size(start), self._entry(start)))
        units = added(units, self.cost(result))
        self._locals[expr.name].pop()
        self._copy(expr, result)
        return units

    def _copy(self, expr: TypedExpr, of: TypedExpr) -> None:
        if (size := self._size(of)) is not None:
            self._sizes[expr.number] = size
        if (entry := self._entry(of)) is not None:
            self._entries[expr.number] = entry

    def _push(self, name: str, local: _Local) -> None:
        self._locals.setdefault(name, []).append(local)

    def _push_items(self, names: Sequence[str], items: TypedExpr) -> Sequence[str]:
        entry, path = self._entry(items), self._path(items)
        is_list = entry.of_list if entry is not None else self._kind(items).name == "list"
        of_keys, of_values = (None, None) if entry is None else (entry.key, entry.value)
        key = _Local((*path, "@indices" if is_list and len(names) > 1 else "@keys"), of_keys)
        value = _Local((*path, "@items" if is_list else "@values"), of_values)
        pushed = (key, value) if len(names) > 1 else (value if is_list else key,)
        for name, local in zip(names, pushed, strict=True):
            self._push(name, local)
        return names

    def _call(self, expr: TypedExpr) -> int:
        if expr.name == "dyn" and expr.parts:
            units = added(1, self.cost(expr.parts[0]))
            self._copy(expr, expr.parts[0])
            return units
        of_arguments = [self.cost(part) for part in expr.parts]
        units = 0 if expr.target is None else self.cost(expr.target)
        own, size = self._function(expr, of_arguments)
        if expr.name == "_[_]" and expr.parts:
            entry = self._entry(expr.parts[0])
            size = entry.value if entry is not None else None
            step = "@values" if self._kind(expr.parts[0]).name == "map" else "@items"
            self._paths[expr.number] = (*self._path(expr.parts[0]), step)
        size = size or self._size(expr)
        if size is not None:
            self._sizes[expr.number] = size
        return added(units, own)

    def _function(self, expr: TypedExpr, costs: Sequence[int]) -> tuple[int, Size | None]:
        """The units of a call with its arguments, and the size of its result if it follows from theirs."""
        arguments = [self._node(part) for part in expr.parts]
        target = None if expr.target is None else self._node(expr.target)
        name = expr.name.removesuffix("_") if expr.name.endswith("Of_") else expr.name
        known = library_cost(name, target, arguments, self.declared)
        if known is not None:
            return added(known[0], *costs), known[1]
        match name, len(arguments):
            case (("_||_" | "_&&_"), 2):
                return added(*costs), None
            case "_?_:_", 3:
                return self._conditional(expr, costs)
            case "_+_", 2:
                return self._addition(expr, arguments, costs)
        return added(_standard(name, target, arguments), *costs), _result_size(name, arguments)

    def _conditional(self, expr: TypedExpr, costs: Sequence[int]) -> tuple[int, Size]:
        _, yes, no = expr.parts
        entry = self._entry(yes)
        if entry is not None and (both := entry.union(self._entry(no))) is not None:
            self._entries[expr.number] = both
        size = self._known_size(yes).union(self._known_size(no))
        return added(costs[0], max(costs[1:])), size

    def _addition(
        self, expr: TypedExpr, arguments: Sequence[Node], costs: Sequence[int]
    ) -> tuple[int, Size | None]:
        names = {argument.kind.name for argument in arguments} - {"dyn", "param"}
        if names & (_SCALARS | {"null"}):
            return added(1, *costs), None
        size = arguments[0].known_size.plus(arguments[1].known_size)
        entry = self._entry(expr.parts[0])
        if entry is not None and (both := entry.union(self._entry(expr.parts[1]))) is not None:
            self._entries[expr.number] = both
        units = 1 if names == {"list"} else scaled(size.most, TEXT_FACTOR)
        return added(units, *costs), size


# --- functions of the language ------------------------------------------------------------------


def _standard(name: str, target: Node | None, arguments: Sequence[Node]) -> int:
    """The units of a function of the language, without those of its arguments."""
    if name in ("_==_", "_!=_") and len(arguments) == 2:
        return scaled(min(arguments[0].known_size.most, arguments[1].known_size.most), TEXT_FACTOR)
    if name in _RELATIONS and any(argument.kind.name in (*_TEXTS, "dyn") for argument in arguments):
        units = scaled(min(arguments[0].known_size.most, arguments[1].known_size.most), TEXT_FACTOR)
        return max(1, units) if any(argument.kind.name == "dyn" for argument in arguments) else units
    if name == "@in" and arguments[1].kind.name != "map":
        return (
            max(1, arguments[1].known_size.most)
            if arguments[1].kind.name == "dyn"
            else arguments[1].known_size.most
        )
    if target is not None and arguments:
        if name in ("startsWith", "endsWith"):
            return scaled(arguments[0].known_size.most, TEXT_FACTOR)
        if name == "contains":
            sizes = (scaled(node.known_size.most, TEXT_FACTOR) for node in (target, arguments[0]))
            return multiplied(*sizes)
        if name == "matches":
            text = scaled(added(target.known_size.most, 1), TEXT_FACTOR)
            return multiplied(text, scaled(arguments[0].known_size.most, PATTERN_FACTOR))
        if name == "format":
            return scaled(target.known_size.most, TEXT_FACTOR)
    if len(arguments) == 1 and (name, arguments[0].kind.name) in (("bytes", "string"), ("string", "bytes")):
        return scaled(arguments[0].known_size.most, TEXT_FACTOR)
    if name == "strings.quote":
        return scaled(arguments[0].known_size.most, TEXT_FACTOR)
    return 1


def _result_size(name: str, arguments: Sequence[Node]) -> Size | None:
    if len(arguments) != 1:
        return None
    size = arguments[0].known_size
    match name, arguments[0].kind.name:
        case "bytes", "string":
            return Size(size.least, multiplied(size.most, 4))
        case "string", "bytes":
            return Size(size.least // 4, size.most)
        case "strings.quote", _:
            return Size(size.least + 2, added(multiplied(size.most, 2), 2))
    return None


def _kind_of(found: Declared) -> CelKind:
    return CelKind(found.kind, () if found.inner is None else (_kind_of(found.inner),))


def _is_scalar(kind: CelKind) -> bool:
    if kind.name == "optional_type" and kind.inner:
        return _is_scalar(kind.inner[0])
    return kind.name in _SCALARS


def _literal_size(expr: TypedExpr) -> Size | None:
    match expr.form:
        case "const":
            length = len(expr.value) if isinstance(expr.value, str | bytes) else 1
            return Size(length, length)
        case "list":
            return Size(len(expr.parts), len(expr.parts))
        case "map":
            return Size(len(expr.parts) // 2, len(expr.parts) // 2)
    return None


def _union(sizes: Sequence[Size]) -> Size:
    found = Size(ENDLESS if sizes else 0, 0)
    for size in sizes:
        found = found.union(size)
    return found


def _is_bind(expr: TypedExpr) -> bool:
    items, _, condition, _, _ = expr.parts
    return (
        items.form == "list"
        and not items.parts
        and condition.form == "const"
        and condition.kind.name == "bool"
        and not condition.value
        and expr.name not in _RESULTS
    )
