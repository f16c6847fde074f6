"""Label selectors: the text that a query has, and the LabelSelector that an object has."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from reconcile.embedded.protocol.api_failure import ApiFailure
from reconcile.embedded.protocol.names import label_key_faults, label_value_faults

LabelTest = Callable[[Mapping[str, str]], bool]

_INTEGER = re.compile(r"-?\d{1,19}", re.ASCII)
_TOKEN = re.compile(r"\s*(==|!=|=|!|\(|\)|,|<|>|[^\s=!(),<>]+)")


def parse_labels(text: str) -> tuple[LabelTest, ...]:
    """`a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1`: all must hold."""
    if not text:
        return ()
    tokens = _tokens(text)
    tests: list[LabelTest] = []
    while tokens:
        tests.append(_requirement(tokens))
        if tokens and tokens.pop(0) != ",":
            raise _unparsable(text)
        if not tokens and text.rstrip().endswith(","):
            raise _unparsable(text)
    return tuple(tests)


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    at = 0
    stripped = text.rstrip()
    while at < len(stripped):
        match = _TOKEN.match(stripped, at)
        if match is None:
            raise _unparsable(text)
        tokens.append(match[1])
        at = match.end()
    return tokens


def _requirement(tokens: list[str]) -> LabelTest:
    first = tokens.pop(0)
    if first == "!":
        key = _label_key(tokens.pop(0) if tokens else "")
        return lambda labels: key not in labels
    key = _label_key(first)
    if not tokens or tokens[0] == ",":
        return lambda labels: key in labels
    operator = tokens.pop(0)
    if operator in ("in", "notin"):
        values = _value_set(tokens)
        if operator == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: key not in labels or labels[key] not in values
    value = tokens.pop(0) if tokens and tokens[0] != "," else ""
    if operator in ("=", "=="):
        wanted = _label_value(value)
        return lambda labels: labels.get(key) == wanted
    if operator == "!=":
        unwanted = _label_value(value)
        return lambda labels: labels.get(key) != unwanted
    if operator in ("<", ">"):
        return _comparison(key, operator, value)
    raise _unparsable(f"{key} {operator}")


def _comparison(key: str, operator: str, value: str) -> LabelTest:
    if not _INTEGER.fullmatch(value):
        raise _unreadable(f'unable to parse requirement: "{value}": for \'Gt\', \'Lt\' operators, '
                          "the value must be an integer")  # fmt: skip
    bound = int(value)

    def compare(labels: Mapping[str, str]) -> bool:
        found = labels.get(key, "")
        if not _INTEGER.fullmatch(found):
            return False
        return int(found) > bound if operator == ">" else int(found) < bound

    return compare


def _value_set(tokens: list[str]) -> frozenset[str]:
    if not tokens or tokens.pop(0) != "(":
        raise _unreadable("unable to parse requirement: found '', expected: '('")
    if tokens[:1] == [")"]:
        raise _unreadable(
            "unable to parse requirement: for 'in', 'notin' operators, values set can't be empty"
        )
    values: set[str] = set()
    expect_value = True
    while tokens:
        token = tokens.pop(0)
        if token in (")", ","):
            if expect_value:
                values.add("")
            if token == ")":
                return frozenset(values)
            expect_value = True
        elif expect_value:
            values.add(_label_value(token))
            expect_value = False
        else:
            raise _unreadable(f"unable to parse requirement: found '{token}', expected: ',' or ')'")
    raise _unreadable("unable to parse requirement: found '', expected: ',', or ')'")


def _label_key(key: str) -> str:
    if label_key_faults(key):
        raise _unparsable(key)
    return key


def _label_value(value: str) -> str:
    if label_value_faults(value):
        raise _unparsable(value)
    return value


def _unparsable(text: str) -> Exception:
    return _unreadable(f"unable to parse requirement: found '{text}', expected: a label selector")


def _unreadable(why: str) -> ApiFailure:
    return ApiFailure(400, "BadRequest", why)


# --- LabelSelector ------------------------------------------------------------------------------


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a LabelSelector chooses an object of these labels; an empty one chooses all."""
    wanted = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(_holds(expression, labels) for expression in selector.get("matchExpressions") or ())


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = expression.get("key", ""), expression.get("values") or ()
    match expression.get("operator"):
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case _:
            return False
