"""The most that a rule may cost, in the units of a real server, before it runs.

A real server counts while it evaluates; the CEL library here counts only iterations, one of which may read a
megabyte. So the tree of a rule is walked once with the sizes of the values that it will read. The cost of
each function is an upper bound of its cost in cel-go and in Kubernetes' own libraries.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from attrs import define, field, frozen

from reconcile.embedded.schema.cel.syntax import CelCall, CelLoop, Const, Expr, Ident, Made, Select
from reconcile.embedded.schema.patterns import PatternError, compile_pattern, search_cost

A_CHARACTER: Final = 10
"""Characters that one unit reads."""

_ENDLESS: Final = 10**15
_A_LIST: Final = 10
_A_FUNCTION: Final = 10
_COPIED_A_UNIT: Final = 16
# To look up a key costs cel-go one unit, but keys may be long.
_HASHED_A_UNIT: Final = 1_000
_MADE_TEXT: Final = 100
_MAX_RANGE: Final = 10_000
_PER_PATTERN_CHARACTER: Final = 20
# The cost of an authorization check in library/cost.go of k8s.io/apiserver.
_A_CHECK: Final = 350_000

READS_VARIABLE: Final = "variables_"
"""The function that reads a variable of a policy; its bound is given under this and the variable's name."""


class Bound:
    """How large a value may be."""

    size: int
    """Items of a list or a map; characters of a text."""
    text: int
    """Characters, where it may be a text."""
    whole: int
    """Units to read all of it."""

    @property
    def listed(self) -> int:
        """Items, where it may be a list."""
        return self.size

    @property
    def item(self) -> "Bound":
        """The bound of its items, or of the values of a map."""
        return SCALAR

    @property
    def key(self) -> "Bound":
        """The bound of the keys of a map."""
        return SCALAR

    def member(self, name: str) -> "Bound":
        """The bound of a field."""
        return self.item


@frozen(slots=False)
class Sized(Bound):
    size: int = 1
    text: int = 0
    items: tuple[Bound, ...] = ()

    @property
    def whole(self) -> int:  # type: ignore[override]
        items = self.size * self.item.whole if self.items else 0
        return min(_ENDLESS, 1 + self.text // A_CHARACTER + items)

    @cached_property
    def item(self) -> Bound:
        return largest(self.items)

    @property
    def key(self) -> Bound:
        return self.item


SCALAR: Final = Sized()


def text_of(length: int) -> Bound:
    return Sized(min(length, _ENDLESS), min(length, _ENDLESS))


@frozen(slots=False, eq=False)
class Actual(Bound):
    """Known values, whose sizes are looked up."""

    values: Sequence[Any]

    @cached_property
    def size(self) -> int:  # type: ignore[override]
        return max((len(value) for value in self.values if isinstance(value, str | list | dict)), default=1)

    @cached_property
    def text(self) -> int:  # type: ignore[override]
        return max((len(value) for value in self.values if isinstance(value, str)), default=0)

    @cached_property
    def listed(self) -> int:
        return max((len(value) for value in self.values if isinstance(value, list)), default=0)

    @cached_property
    def whole(self) -> int:  # type: ignore[override]
        return max(map(_whole, self.values), default=1)

    @cached_property
    def item(self) -> Bound:
        return _actual([item for value in self.values for item in _items(value)])

    @cached_property
    def key(self) -> Bound:
        return _actual([key for value in self.values if isinstance(value, dict) for key in value])

    def member(self, name: str) -> Bound:
        return _actual([value[name] for value in self.values if isinstance(value, dict) and name in value])


def _actual(values: Sequence[Any]) -> Bound:
    return Actual(values) if values else SCALAR


def _items(value: Any) -> Sequence[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else ()


def _whole(value: Any) -> int:
    if isinstance(value, str):
        return 1 + len(value) // A_CHARACTER
    if isinstance(value, dict):
        return 1 + sum(1 + len(name) // A_CHARACTER + _whole(member) for name, member in value.items())
    return 1 + sum(map(_whole, value)) if isinstance(value, list) else 1


def largest(bounds: Sequence[Bound]) -> Bound:
    """A bound for any one of them."""
    if len(bounds) == 1:
        return bounds[0]
    if not bounds:
        return SCALAR
    items = tuple(bound.item for bound in bounds if bound.item is not SCALAR and bound is not SCALAR)
    return Sized(max(bound.size for bound in bounds), max(bound.text for bound in bounds), items)


@define(eq=False)
class _Growing(Bound):
    """The list that a loop appends to."""

    size: int = 0
    text: int = 0
    parts: list[Bound] = field(factory=list)

    @property
    def whole(self) -> int:  # type: ignore[override]
        return 1


# --- the walk ---------------------------------------------------------------------------------


def cost(expr: Expr, variables: Mapping[str, Bound]) -> int:
    return min(_ENDLESS, _walk(expr, variables)[0])


def result_bound(expr: Expr, variables: Mapping[str, Bound]) -> Bound:
    """How large the value of an expression may be."""
    return _walk(expr, variables)[1]


def depends_on_sizes(expr: Expr) -> bool:
    """Whether an expression costs more for larger values, other than by comparing variables."""
    if isinstance(expr, CelLoop):
        return True
    if isinstance(expr, CelCall):
        return expr.function not in _CHEAP or any(map(depends_on_sizes, expr.arguments))
    if isinstance(expr, Select):
        return depends_on_sizes(expr.operand)
    return isinstance(expr, Made) and any(map(depends_on_sizes, expr.members))


_CHEAP: Final = frozenset(
    {
        "_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "_&&_", "_||_", "!_", "-_", "_-_", "_*_", "_/_", "_%_",
        "_?_:_", "_[_]", "size", "startsWith", "endsWith", "dyn", "int", "has", "type", "double",
    }
)  # fmt: skip


def _walk(expr: Expr, variables: Mapping[str, Bound]) -> tuple[int, Bound]:
    if isinstance(expr, Const):
        return 0, text_of(len(expr.value)) if isinstance(expr.value, str | bytes) else SCALAR
    if isinstance(expr, Ident):
        return 1, variables.get(expr.name, SCALAR)
    if isinstance(expr, Select):
        units, operand = _walk(expr.operand, variables)
        return units + 1, SCALAR if expr.test else operand.member(expr.field)
    if isinstance(expr, Made):
        walked = [_walk(member, variables) for member in expr.members]
        bounds = tuple(bound for _, bound in walked)
        return _A_LIST + sum(units for units, _ in walked), Sized(len(bounds), 0, bounds)
    if isinstance(expr, CelLoop):
        return _loop(expr, variables)
    return _call(expr, variables)


def _loop(expr: CelLoop, variables: Mapping[str, Bound]) -> tuple[int, Bound]:
    units, items = _walk(expr.items, variables)
    starting, start = _walk(expr.start, variables)
    growing = _Growing()
    collects = isinstance(expr.start, Made) and not expr.start.members
    inner = {**variables, expr.result_name: growing if collects else start}
    # A loop over a map visits keys or, with two names, keys and values; here it may be either.
    item, key = items.item, items.key
    either = largest((item, text_of(key.text))) if key.text else item
    inner |= dict.fromkeys(expr.names, either)
    again = _walk(expr.condition, inner)[0] + _walk(expr.step, inner)[0]
    collected: Bound = start
    if collects:
        each = max((part.size for part in growing.parts), default=0)
        # The library copies the collected list for every item that it appends.
        again += items.size * each // _COPIED_A_UNIT + sum(part.item.whole for part in growing.parts)
        collected = Sized(items.size * each, 0, tuple(part.item for part in growing.parts))
    result = _walk(expr.result, {**variables, expr.result_name: collected})
    return min(_ENDLESS, units + starting + items.size * again + result[0]), result[1]


def _call(expr: CelCall, variables: Mapping[str, Bound]) -> tuple[int, Bound]:
    if expr.function == READS_VARIABLE and isinstance(expr.arguments[0], Const):
        return 1, variables.get(f"{READS_VARIABLE}{expr.arguments[0].value}", SCALAR)
    walked = [_walk(argument, variables) for argument in expr.arguments]
    bounds = [bound for _, bound in walked]
    if expr.function == "_?_:_":
        units = walked[0][0] + max(walked[1][0], walked[2][0])
        growing = [bound for bound in bounds[1:] if isinstance(bound, _Growing)]
        return units + 1, growing[0] if growing else largest(bounds[1:])
    if expr.function == "_+_" and isinstance(bounds[0], _Growing):
        bounds[0].parts.append(bounds[1])
        return sum(units for units, _ in walked) + 1, bounds[0]
    own, bound = _function(expr, bounds)
    return min(_ENDLESS, sum(units for units, _ in walked) + own), bound


def _function(expr: CelCall, bounds: Sequence[Bound]) -> tuple[int, Bound]:
    known = _FUNCTIONS.get(expr.function)
    if known is not None:
        return known(expr, bounds)
    looked = sum(bound.text for bound in bounds) // A_CHARACTER
    size = sum(bound.size for bound in bounds) + _MADE_TEXT
    return _A_FUNCTION + looked, Sized(size, size, tuple(bound.item for bound in bounds))


_Cost = Callable[[CelCall, Sequence[Bound]], tuple[int, Bound]]


def _same(expr: CelCall, bounds: Sequence[Bound]) -> tuple[int, Bound]:
    return 1 + min(bound.whole for bound in bounds), SCALAR


def _among(expr: CelCall, bounds: Sequence[Bound]) -> tuple[int, Bound]:
    # All items of a list are read, but a key of a map is looked up.
    read = bounds[1].listed * min(bounds[0].whole, bounds[1].item.whole)
    return 1 + read + bounds[0].text // _HASHED_A_UNIT, SCALAR


def _at_key(expr: CelCall, bounds: Sequence[Bound]) -> tuple[int, Bound]:
    return 1 + bounds[1].text // _HASHED_A_UNIT, bounds[0].item


def _added(expr: CelCall, bounds: Sequence[Bound]) -> tuple[int, Bound]:
    text, size = sum(bound.text for bound in bounds), sum(bound.size for bound in bounds)
    return 1 + (text or size) // A_CHARACTER, Sized(size, text, tuple(bound.item for bound in bounds))


def _read(expr: CelCall, bounds: Sequence[Bound]) -> tuple[int, Bound]:
    return 1 + bounds[0].text // A_CHARACTER, text_of(bounds[0].text)


def _searched(expr: CelCall, bounds: Sequence[Bound]) -> tuple[int, Bound]:
    # A text is searched for a text, or a list for an item.
    texts = (1 + bounds[0].text // A_CHARACTER) * (1 + bounds[-1].text // A_CHARACTER)
    return texts + (bounds[0].size * bounds[0].item.whole if not bounds[0].text else 0), SCALAR


def _matched(expr: CelCall, bounds: Sequence[Bound]) -> tuple[int, Bound]:
    text, pattern = bounds[0].text, expr.arguments[1]
    found = Sized(text + 1, text, (text_of(text),))
    if isinstance(pattern, Const) and isinstance(pattern.value, str):
        try:
            compiled = compile_pattern(pattern.value)
        except PatternError:
            compiled = None
        if compiled is not None:
            return search_cost(compiled, "") + compiled.programsize * text // 80 + text // A_CHARACTER, found
    return 1 + text * (1 + bounds[1].text * _PER_PATTERN_CHARACTER), found


def _replaced(expr: CelCall, bounds: Sequence[Bound]) -> tuple[int, Bound]:
    made = min(_ENDLESS, (bounds[0].text + 1) * max(1, bounds[2].text))
    return 1 + (bounds[0].text + made) // A_CHARACTER, text_of(made)


def _split(expr: CelCall, bounds: Sequence[Bound]) -> tuple[int, Bound]:
    return 1 + bounds[0].text, Sized(bounds[0].text + 1, 0, (text_of(bounds[0].text),))


def _joined(expr: CelCall, bounds: Sequence[Bound]) -> tuple[int, Bound]:
    between = bounds[1].text if len(bounds) > 1 else 0
    made = min(_ENDLESS, bounds[0].size * (bounds[0].item.text + between))
    return 1 + bounds[0].size + made // A_CHARACTER, text_of(made)


def _formatted(expr: CelCall, bounds: Sequence[Bound]) -> tuple[int, Bound]:
    made = min(_ENDLESS, bounds[0].text * _MADE_TEXT + bounds[1].whole * A_CHARACTER)
    return _A_FUNCTION + made // A_CHARACTER, text_of(made)


def _each(expr: CelCall, bounds: Sequence[Bound]) -> tuple[int, Bound]:
    # All items are read once; the result is an item or a list.
    return 1 + bounds[0].size * bounds[0].item.whole, largest((bounds[0], bounds[0].item))


def _pairs(expr: CelCall, bounds: Sequence[Bound]) -> tuple[int, Bound]:
    # All items are compared with all, of one list or of two.
    other = bounds[-1]
    each = min(bounds[0].item.whole, other.item.whole)
    return min(_ENDLESS, 1 + bounds[0].size * other.size * each), bounds[0]


def _flattened(expr: CelCall, bounds: Sequence[Bound]) -> tuple[int, Bound]:
    size = min(_ENDLESS, bounds[0].size * max(1, bounds[0].item.size))
    return 1 + size, Sized(size, 0, (bounds[0].item.item, bounds[0].item))


def _ranged(expr: CelCall, bounds: Sequence[Bound]) -> tuple[int, Bound]:
    length, size = expr.arguments[0], _MAX_RANGE
    if isinstance(length, Const) and isinstance(length.value, int):
        size = min(length.value, _MAX_RANGE)
    return 1 + size, Sized(size, 0, (SCALAR,))


_FUNCTIONS: Final[Mapping[str, _Cost]] = {
    **dict.fromkeys(
        ("_&&_", "_||_", "!_", "-_", "_-_", "_*_", "_/_", "_%_", "@not_strictly_false", "hasValue"),
        lambda expr, bounds: (1, SCALAR),
    ),
    **dict.fromkeys(("_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"), _same),
    **dict.fromkeys(
        ("dyn", "optional.of", "optional.ofNonZeroValue", "orValue", "or", "value"),
        lambda expr, bounds: (1, largest(bounds)),
    ),
    **dict.fromkeys(("_[_]", "_[?_]", "_?._"), _at_key),
    **dict.fromkeys(("first", "last"), lambda expr, bounds: (1, bounds[0].item)),
    **dict.fromkeys(("size", "startsWith", "endsWith", "substring", "trim", "charAt", "lowerAscii"), _read),
    **dict.fromkeys(("upperAscii", "strings.quote", "string", "bytes", "int", "uint", "double"), _read),
    **dict.fromkeys(("contains", "indexOf", "lastIndexOf", "indexOf_", "lastIndexOf_"), _searched),
    **dict.fromkeys(("matches", "find", "findAll"), _matched),
    **dict.fromkeys(("isSorted", "sum", "min", "max", "slice", "reverse", "transformMap_"), _each),
    **dict.fromkeys(("transformMapEntry_", "sort", "sortBy", "@sortByAssociatedKeys"), _each),
    **dict.fromkeys(("distinct", "sets.contains", "sets.equivalent", "sets.intersects"), _pairs),
    "@in": _among,
    "check": lambda expr, bounds: (_A_CHECK, SCALAR),
    "_+_": _added,
    "flatten": _flattened,
    "format": _formatted,
    "join": _joined,
    "lists.range_": _ranged,
    "lists.range": _ranged,
    "replace": _replaced,
    "split": _split,
}  # fmt: skip
