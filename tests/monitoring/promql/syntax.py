"""Reads the part of PromQL that the rules of this project use; what it does not know is refused."""

import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal, TypeAlias

from attrs import field, frozen

Sign: TypeAlias = Literal["=", "!=", "=~", "!~"]
Kind: TypeAlias = Literal["scalar", "vector", "range", "text"]


class NotKnown(ValueError):
    """PromQL that this evaluator cannot read: wrong, or of a part of the language that no rule uses."""


@frozen
class Matcher:
    """What a label must be, or must not be."""

    label: str
    sign: Sign
    value: str
    _pattern: re.Pattern[str] = field(init=False, eq=False, repr=False)

    @_pattern.default
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self.value if self.sign.endswith("~") else re.escape(self.value), re.DOTALL)

    def accepts(self, value: str) -> bool:
        return (self._pattern.fullmatch(value) is not None) == (self.sign in ("=", "=~"))


@frozen
class Number:
    value: float


@frozen
class Text:
    value: str


@frozen
class Selector:
    """Series by name and labels. `window`: all samples within so many milliseconds, not just the last.

    `offset`: so many milliseconds earlier than what is asked for.
    """

    name: str
    matchers: tuple[Matcher, ...]
    window: int | None = None
    offset: int = 0


@frozen
class Call:
    function: str
    args: tuple["Expr", ...]


@frozen
class Aggregation:
    """`labels` are those that the groups keep, or with `without` those that they lose."""

    operator: str
    of: "Expr"
    labels: tuple[str, ...]
    without: bool


@frozen
class Binary:
    """`labels` are those by which two series match, or unless `on` those that do not matter to it."""

    operator: str
    left: "Expr"
    right: "Expr"
    labels: tuple[str, ...]
    on: bool
    to_bool: bool


Expr: TypeAlias = Number | Text | Selector | Call | Aggregation | Binary

FUNCTIONS: Final[dict[str, tuple[Kind, ...]]] = {
    "rate": ("range",),
    "increase": ("range",),
    "sum_over_time": ("range",),
    "count_over_time": ("range",),
    "min_over_time": ("range",),
    "max_over_time": ("range",),
    "histogram_quantile": ("scalar", "vector"),
    "absent": ("vector",),
    "vector": ("scalar",),
    "label_replace": ("vector", "text", "text", "text", "text"),
}
"""The functions, each with what it takes. All of them make an instant vector."""
AGGREGATIONS: Final = ("sum", "min", "max", "count")
COMPARISONS: Final = ("==", "!=", ">", "<", ">=", "<=")
SETS: Final = ("and", "or", "unless")
_PRECEDENCE: Final = {
    "or": 1,
    **dict.fromkeys(("and", "unless"), 2),
    **dict.fromkeys(COMPARISONS, 3),
    **dict.fromkeys(("+", "-"), 4),
    **dict.fromkeys(("*", "/"), 5),
}
_RESERVED: Final = ("group_left", "group_right", "offset", "by", "without", "on", "ignoring", "bool", *SETS)

_TOKEN = re.compile(
    r"""(?x)\s*(?:
      (?P<comment>\#[^\n]*)
    | (?P<duration>(?:\d+(?:ms|[smhdwy]))+(?![\w.]))
    | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
    | (?P<name>[A-Za-z_:][\w:]*)
    | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<sign>=~|!~|==|!=|>=|<=|[-+*/<>=(){}\[\],])
    )"""
)
_UNITS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_ESCAPES: Final = {"n": "\n", "t": "\t", "\\": "\\", '"': '"', "'": "'"}


def parsed(text: str) -> Expr:
    """The expression that a text is. Raises NotKnown."""
    parser = _Parser(text)
    expr = parser.binary(0)
    parser.expect("end")
    return expr


def kind(expr: Expr) -> Kind:
    """What an expression evaluates to."""
    match expr:
        case Number():
            return "scalar"
        case Text():
            return "text"
        case Selector():
            return "vector" if expr.window is None else "range"
        case Binary():
            return "scalar" if kind(expr.left) == kind(expr.right) == "scalar" else "vector"
    return "vector"


def milliseconds(duration: str) -> int:
    """How long a duration such as `5m` or `1h30m` is. Raises NotKnown."""
    if re.fullmatch(r"(?:\d+(?:ms|[smhdw]))+", duration) is None:
        raise NotKnown(f"not a duration: {duration!r}")
    return sum(int(number) * _UNITS[unit] for number, unit in re.findall(r"(\d+)(ms|[smhdw])", duration))


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at, end = 0, len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None:
            raise NotKnown(f"cannot read {text[at : at + 20].strip()!r} in {text!r}")
        at = found.end()
        if found.lastgroup != "comment":
            assert found.lastgroup is not None
            yield found.lastgroup, found[found.lastgroup]
    yield "end", ""


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_tokens(text))
        self._at = 0

    @property
    def _next(self) -> str:
        return self._tokens[self._at][1]

    def _refused(self, what: str) -> NotKnown:
        return NotKnown(f"{what} in {self._text!r}")

    def expect(self, *wanted: str) -> str:
        """The next token, which must be one of these, or of one of these sorts."""
        sort, value = self._tokens[self._at]
        if value not in wanted and sort not in wanted:
            raise self._refused(f"{value or sort!r} where this evaluator expects {' or '.join(wanted)}")
        self._at += 1
        return value

    def _took(self, *values: str) -> str | None:
        sort, value = self._tokens[self._at]
        return self.expect(value) if sort in ("name", "sign") and value in values else None

    def binary(self, least: int) -> Expr:
        left = self._operand()
        while _PRECEDENCE.get(self._next, -1) > least:
            operator = self.expect(*_PRECEDENCE)
            to_bool = self._took("bool") is not None
            how = self._took("on", "ignoring")
            labels = self._labels() if how else ()
            right = self.binary(_PRECEDENCE[operator])
            left = self._checked(Binary(operator, left, right, labels, how == "on", to_bool))
        return left

    def _checked(self, made: Binary) -> Binary:
        kinds = {kind(made.left), kind(made.right)}
        if kinds & {"range", "text"}:
            raise self._refused(f"a range vector or a text beside {made.operator}")
        if made.to_bool and made.operator not in COMPARISONS:
            raise self._refused("bool that does not follow a comparison")
        if "scalar" in kinds and (made.operator in SETS or made.labels or made.on):
            raise self._refused(f"a scalar beside {made.operator} that matches series")
        if kinds == {"scalar"} and made.operator in COMPARISONS and not made.to_bool:
            raise self._refused("a comparison of scalars without bool")
        return made

    def _operand(self) -> Expr:
        sort, value = self._tokens[self._at]
        if sort == "number":
            return Number(float(self.expect("number")))
        if sort == "text":
            return Text(_unquoted(self.expect("text")))
        if self._took("("):
            inner = self.binary(0)
            self.expect(")")
            return inner
        if sort != "name" or value in _RESERVED:
            raise self._refused(f"{value or sort!r}, which this evaluator does not know here,")
        name = self.expect("name")
        if name in AGGREGATIONS and self._next in ("(", "by", "without"):
            return self._aggregation(name)
        if self._next == "(":
            return self._call(name)
        return self._selector(name)

    def _call(self, name: str) -> Call:
        wanted = FUNCTIONS.get(name)
        if wanted is None:
            known = ", ".join([*FUNCTIONS, *AGGREGATIONS])
            raise self._refused(
                f"the function {name}, which this evaluator does not know (it knows {known}),"
            )
        self.expect("(")
        args = [self.binary(0)]
        while self._took(","):
            args.append(self.binary(0))
        self.expect(")")
        if tuple(kind(arg) for arg in args) != wanted:
            raise self._refused(f"{name} of something else than {' and '.join(wanted)}")
        if name == "label_replace":
            self._check_replacement(args)
        return Call(name, tuple(args))

    def _check_replacement(self, args: Sequence[Expr]) -> None:
        match args:
            case [_, Text(), Text(new), Text(), Text(pattern)]:
                groups = re.compile(pattern).groups
                plain = re.fullmatch(r"(?:[^$]|\$\d+(?!\w))*", new)
                if plain is None or any(int(one) > groups for one in re.findall(r"\$(\d+)", new)):
                    raise self._refused(f"the replacement {new!r}, which names no group by its number,")

    def _aggregation(self, operator: str) -> Aggregation:
        how = self._took("by", "without")
        labels = self._labels() if how else ()
        self.expect("(")
        of = self.binary(0)
        self.expect(")")
        if not how:
            how = self._took("by", "without")
            labels = self._labels() if how else ()
        if kind(of) != "vector":
            raise self._refused(f"{operator} of something else than a vector")
        return Aggregation(operator, of, labels, how == "without")

    def _labels(self) -> tuple[str, ...]:
        self.expect("(")
        labels: list[str] = []
        while not self._took(")"):
            labels.append(self.expect("name"))
            if not self._took(","):
                self.expect(")")
                break
        return tuple(labels)

    def _selector(self, name: str) -> Selector:
        matchers: list[Matcher] = []
        if self._took("{"):
            while not self._took("}"):
                label, sign = self.expect("name"), self.expect("=", "!=", "=~", "!~")
                value = _unquoted(self.expect("text"))
                matchers.append(Matcher(label, _sign(sign), value))
                if not self._took(","):
                    self.expect("}")
                    break
        window = None
        if self._took("["):
            window = milliseconds(self.expect("duration"))
            self.expect("]")
        offset = milliseconds(self.expect("duration")) if self._took("offset") else 0
        return Selector(name, tuple(matchers), window, offset)


def _sign(text: str) -> Sign:
    match text:
        case "=" | "!=" | "=~" | "!~":
            return text
    raise AssertionError(text)


def _unquoted(text: str) -> str:
    def meant(found: re.Match[str]) -> str:
        if found[1] not in _ESCAPES:
            raise NotKnown(f"the escape {found.group()} in {text}")
        return _ESCAPES[found[1]]

    return re.sub(r"\\(.)", meant, text[1:-1])
