"""What plain scalars of YAML are worth, as kubectl and API servers read them (sigs.k8s.io/yaml, goyaml.v2).

That is YAML 1.1 with exceptions. `12:30` is text, and no number of base 60; so are days and times, `=`, and
numbers that no float64 holds. `1e3`, `08` and `0o17` are numbers, and `y` is true.
"""

import math
import re
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from yaml import CSafeLoader, SafeLoader, ScalarNode
    from yaml.resolver import BaseResolver

    Loader: TypeAlias = type[SafeLoader] | type[CSafeLoader]

Scalar: TypeAlias = str | int | float | None
"""A scalar as JSON has it; a whole number is an int, also if it was written as `1.0` or `1e3`."""

_TAG: Final = "tag:yaml.org,2002:"
_TRUE: Final = frozenset({"y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})
_FALSE: Final = frozenset({"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})
_NAMED: Final[dict[str, tuple[str, Scalar]]] = {
    **dict.fromkeys(_TRUE, ("bool", True)),
    **dict.fromkeys(_FALSE, ("bool", False)),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), ("null", None)),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), ("float", math.nan)),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), ("float", math.inf)),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), ("float", -math.inf)),
    "<<": ("merge", "<<"),
}
_INT: Final = re.compile("[-+]?(0[bB][01]+|0[xX][0-9a-fA-F]+|0[oO]?[0-7]+|[1-9][0-9]*|0)")
_OCTAL: Final = re.compile("[-+]?0[0-7]+")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_FIRST_OF_NUMBERS: Final = frozenset("0123456789+-.")
_LONGEST_NUMBER: Final = 400
"""Digits: more than any float64 has. Python reads decimal numbers in quadratic time."""


def plain_scalar(text: str) -> tuple[str, Scalar]:
    """The kind and the value of a scalar without quotes and tag: bool, null, int, float, merge, or else str.

    Raises ValueError for a number of more than 400 digits.
    """
    if text in _NAMED:
        return _NAMED[text]
    if text[0] not in _FIRST_OF_NUMBERS:
        return "str", text
    digits = text if text.startswith("._") else text.replace("_", "")
    if not (whole := _INT.fullmatch(digits)) and not _FLOAT.fullmatch(digits):
        return "str", text
    if len(digits) > _LONGEST_NUMBER:
        raise ValueError(f"JSON has no number for {text[:_LONGEST_NUMBER]!r}")
    if whole:
        return "int", int(digits, 8 if _OCTAL.fullmatch(digits) else 0)
    value = float(digits)
    if math.isinf(value):
        return "str", text
    return "float", int(value) if value.is_integer() and abs(value) < 2**63 else value


def is_plain_text(text: str) -> bool:
    """Whether `text` is read as itself without quotes, as far as its worth decides that."""
    try:
        return plain_scalar(text)[0] == "str"
    except ValueError:
        return False


def tagged_scalar(kind: str, text: str) -> Scalar:
    """The value of a scalar whose tag says bool, null, int or float. Raises ValueError for another one."""
    found, value = plain_scalar(text)
    if found == kind or (kind, found) == ("float", "int"):
        return value
    raise ValueError(f"expected {kind}, got {text[:_LONGEST_NUMBER]!r}")


def loader_on(base: "Loader") -> "Loader":
    """A subclass of `base`, a loader of PyYAML, that reads scalars so. It raises yaml.YAMLError."""
    import yaml  # it takes longer than the rest of this package together

    def scalar(loader: "SafeLoader | CSafeLoader", node: "ScalarNode") -> Scalar:
        try:
            return tagged_scalar(node.tag.removeprefix(_TAG), str(loader.construct_scalar(node)))
        except ValueError as error:
            raise yaml.constructor.ConstructorError(None, None, str(error), node.start_mark) from None

    def resolve(self: "BaseResolver", kind: type, value: Any, implicit: tuple[bool, bool]) -> str:
        if kind is not yaml.ScalarNode or not implicit[0]:
            return str(base.resolve(self, kind, value, implicit))  # type: ignore[no-untyped-call]
        try:
            return _TAG + plain_scalar(value)[0]
        except ValueError:
            return f"{_TAG}int"  # its construction raises the error, with the place

    made: Loader = type("KubectlLoader", (base,), {"resolve": resolve})
    for kind in ("bool", "float", "int", "null"):
        made.add_constructor(_TAG + kind, scalar)
    return made
