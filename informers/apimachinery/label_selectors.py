"""Label selectors: text or LabelSelector object in, requirements on labels out.

The grammar is that of `k8s.io/apimachinery/pkg/labels`, oddities included, with its error messages: a
selector is accepted here if and only if an API server accepts it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias

from attrs import frozen

from informers.apimachinery.name_rules import label_key_faults, label_value_faults

Operator: TypeAlias = Literal["in", "notin", "exists", "absent", "above", "below"]

# A sign is as long as it can be; `in` and `notin` are words like any other except after a key.
_TOKEN: Final = re.compile(r"[ \t\r\n]*(==|!=|[=!(),<>]|[^ \t\r\n=!(),<>]+)")
_SIGNS: Final = frozenset({"==", "!=", *"=!(),<>"})
_INTEGER: Final = re.compile(r"[-+]?[0-9]+", re.ASCII)
_LARGEST: Final = 2**63
_SHORT: Final = 512
"""Characters of a selector that is remembered; those of a server's clients may be as long as a request."""
_OF_SIGN: Final[Mapping[str, Operator]] = {
    "=": "in",
    "==": "in",
    "!=": "notin",
    "in": "in",
    "notin": "notin",
    ">": "above",
    "<": "below",
}
OPERATORS: Final[Mapping[str, Operator]] = {
    "In": "in",
    "NotIn": "notin",
    "Exists": "exists",
    "DoesNotExist": "absent",
}


@frozen
class Requirement:
    """A condition on the label `key`; an absent label meets `notin` and `absent` alone."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value in self.values
            case "notin":
                return value not in self.values
            case "exists":
                return value is not None
            case "absent":
                return value is None
        number, bound = _integer(value), _integer(self.values[0])
        if number is None or bound is None:
            return False
        return number > bound if self.operator == "above" else number < bound

    def __str__(self) -> str:
        match self.operator:
            case "exists":
                return self.key
            case "absent":
                return f"!{self.key}"
            case "above" | "below":
                return f"{self.key}{'>' if self.operator == 'above' else '<'}{self.values[0]}"
        return f"{self.key} {self.operator} ({','.join(sorted(self.values))})"


def requirement(key: str, operator: Operator, values: Iterable[str] = ()) -> Requirement:
    """A requirement that an API server accepts. Raises ValueError with the reason for any other."""
    made = Requirement(key, operator, tuple(values))
    faults = [f"key: {_invalid(key, '; '.join(found))}"] if (found := label_key_faults(key)) else []
    faults += _value_faults(made)
    if faults:
        raise ValueError(faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]")
    return made


def parse_label_selector(text: str) -> tuple[Requirement, ...]:
    """The requirements of `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1`, all of which must be met.

    Raises ValueError with the server's message for a text that an API server refuses.
    """
    return _remembered(text) if len(text) <= _SHORT else _Parser(text).requirements()


@lru_cache(maxsize=1024)
def _remembered(text: str) -> tuple[Requirement, ...]:
    """Those of a short text: each list and watch brings its selector along, nearly always one seen before."""
    return _Parser(text).requirements()


def requirements_of(selector: Mapping[str, Any]) -> tuple[Requirement, ...]:
    """The requirements of a LabelSelector as manifests write it; none for an empty one, which selects all.

    Raises ValueError for an unknown operator, or a requirement that an API server refuses.
    """
    equal = [requirement(key, "in", (value,)) for key, value in (selector.get("matchLabels") or {}).items()]
    return (*equal, *map(_of_expression, selector.get("matchExpressions") or ()))


def matches_labels(requirements: Iterable[Requirement], labels: Mapping[str, str]) -> bool:
    return all(one.matches(labels) for one in requirements)


def selector_matches(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a LabelSelector selects these labels; an empty one selects all, a refused one none."""
    try:
        return matches_labels(requirements_of(selector), labels)
    except ValueError:
        return False


def _of_expression(expression: Mapping[str, Any]) -> Requirement:
    operator = OPERATORS.get(expression.get("operator", ""))
    if operator is None:
        raise ValueError(f'"{expression.get("operator")}" is not a valid label selector operator')
    return requirement(expression.get("key", ""), operator, expression.get("values") or ())


def _value_faults(made: Requirement) -> Sequence[str]:
    faults: list[str] = []
    if made.operator in ("exists", "absent"):
        if made.values:
            faults.append("values: values set must be empty for exists and does not exist")
    elif not made.values:
        faults.append("values: for 'in', 'notin' operators, values set can't be empty")
    elif made.operator in ("above", "below") and _integer(made.values[0]) is None:
        problem = "for 'Gt', 'Lt' operators, the value must be an integer"
        faults.append(f"values[0]: {_invalid(made.values[0], problem)}")
    for index, value in enumerate(made.values):
        if found := label_value_faults(value):
            faults.append(f"values[{index}][{made.key}]: {_invalid(value, '; '.join(found))}")
    return faults


def _invalid(value: str, problem: str) -> str:
    return f'Invalid value: "{value}": {problem}'


def _integer(text: str | None) -> int | None:
    """A number as Go's `strconv.ParseInt` reads it in 64 bits, or None."""
    if text is None or len(text) > 64 or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -_LARGEST <= number < _LARGEST else None


class _Parser:
    """Takes the tokens of a selector from the front; the empty token ends the text."""

    def __init__(self, text: str) -> None:
        stripped = text.rstrip(" \t\r\n")
        self._tokens = [match[1] for match in _TOKEN.finditer(stripped)]
        self._at = 0

    def requirements(self) -> tuple[Requirement, ...]:
        found: list[Requirement] = []
        while self._next:
            if self._next in _SIGNS and self._next != "!":
                raise ValueError(f"found '{self._next}', expected: !, identifier, or 'end of string'")
            try:
                found.append(self._requirement())
            except ValueError as error:
                raise ValueError(f"unable to parse requirement: {error}") from None
            after = self._take()
            if after and after != ",":
                raise ValueError(f"found '{after}', expected: ',' or 'end of string'")
            if after and not self._is_word and self._next != "!":
                raise ValueError(f"found '{self._next}', expected: identifier after ','")
        return tuple(found)

    @property
    def _next(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    @property
    def _is_word(self) -> bool:
        return bool(self._next) and self._next not in _SIGNS

    def _take(self) -> str:
        token = self._next
        self._at += 1
        return token

    def _requirement(self) -> Requirement:
        negated = self._next == "!"
        if negated:
            self._take()
        if not self._is_word:
            raise ValueError(f"found '{self._next}', expected: identifier")
        key = self._take()
        if found := label_key_faults(key):
            raise ValueError(f"<nil>: {_invalid(key, '; '.join(found))}")
        if negated or self._next in ("", ","):
            return requirement(key, "absent" if negated else "exists")
        sign = self._take()
        operator = _OF_SIGN.get(sign)
        if operator is None:
            raise ValueError(f"found '{sign}', expected: in, notin, =, ==, !=, gt, lt")
        values = self._set() if sign in ("in", "notin") else [self._value()]
        return requirement(key, operator, sorted(set(values)))

    def _value(self) -> str:
        if self._next in ("", ","):
            return ""
        if not self._is_word:
            raise ValueError(f"found '{self._next}', expected: identifier")
        return self._take()

    def _set(self) -> list[str]:
        """`(a,b)`. As in apimachinery, `()`, `(,a)`, `(a,,b)` and `(a,)` contain the empty value."""
        if self._next != "(":
            raise ValueError(f"found '{self._next}' expected: '('")
        self._take()
        if self._next == ")":
            self._take()
            return [""]
        values: list[str] = []
        while True:
            token = self._take()
            if token == ",":
                values += [""] if not values else []
                if self._next == ",":
                    self._take()
                    values.append("")
                elif self._next == ")":
                    values.append("")
                    break
            elif token and token not in _SIGNS:
                values.append(token)
                if self._next == ")":
                    break
                if self._next != ",":
                    raise ValueError(f"found '{self._next}', expected: ',' or ')'")
            else:
                raise ValueError(f"found '{token}', expected: ',', or identifier")
        self._take()
        return values
