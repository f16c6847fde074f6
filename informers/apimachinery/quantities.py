"""Quantities (`500m`, `1.5Gi`, `2e3`): their values, and the canonical form in which they are stored.

The rules are those of apimachinery's `resource.Quantity`: nothing finer than a billionth, nothing above 2**63
- 1, and a canonical text with the largest suffix that leaves an integer.
"""

import re
from decimal import ROUND_UP, Context, Decimal
from functools import lru_cache
from typing import Final, Literal, TypeAlias

QuantityFormat: TypeAlias = Literal["decimal", "binary", "exponent"]
"""The family of suffixes in which a quantity is written: `500m`, `5Gi` or `5e3`."""

_TEXT: Final = re.compile(
    r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))(?:([eE][+-]?\d{1,3})|([KMGTPE]i)|([numkMGTPE]))?", re.ASCII
)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIXES: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY: Final = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_LONGEST: Final = 1000
"""Characters of the longest text that is read; every valid value fits in 30."""
_SHOWN: Final = 100
_SMALLEST: Final = Decimal("1e-9")
_LARGEST: Final = Decimal(2**63 - 1)
_ROOM: Final = 40
"""Digits that a suffix and a billionth may add."""


def parse_quantity(text: str) -> tuple[Decimal, QuantityFormat]:
    """The value of a quantity, and the format in which it is written. Raises ValueError.

    As in an API server, less than a billionth is rounded away from zero, and 2**63 - 1 is the maximum.
    """
    return _parsed(text)


@lru_cache(maxsize=1024)
def _parsed(text: str) -> tuple[Decimal, QuantityFormat]:
    match = _TEXT.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise ValueError(f"{text[:_SHOWN]!r} is not a quantity: expected a number such as 2, 500m or 5Gi")
    number, exponent, binary, decimal = match.groups()
    value = Decimal(number)
    exact = Context(prec=len(number) + _ROOM)
    if exponent:
        value = exact.scaleb(value, int(exponent[1:]))
    elif binary:
        value = exact.multiply(value, Decimal(1024 ** _BINARY[binary]))
    elif decimal:
        value = exact.scaleb(value, _DECIMAL[decimal])
    return limited(value), "exponent" if exponent else "binary" if binary else "decimal"


def quantity_value(text: str) -> Decimal:
    """The value of a quantity; see `parse_quantity`. Raises ValueError."""
    return parse_quantity(text)[0]


def canonical_quantity(text: str) -> str:
    """The form in which the API server stores a quantity: no fraction, the largest suffix that fits.

    `1000m` is `1`, `0.5` is `500m`, `1.5Gi` is `1536Mi`. The format stays, except for binary quantities below
    1024 or with a fraction. Raises ValueError if the text is not a quantity.
    """
    return quantity_text(*parse_quantity(text))


def quantity_text(value: Decimal, form: QuantityFormat) -> str:
    """A valid value in its canonical form."""
    return _text(value, form)


@lru_cache(maxsize=1024)
def _text(value: Decimal, form: QuantityFormat) -> str:
    if form == "binary" and abs(value) >= 1024 and value == value.to_integral_value():
        return _binary(int(value))
    _, digits, exponent = value.normalize(_room_for(value)).as_tuple()
    if not isinstance(exponent, int) or not any(digits):
        return "0"
    step = exponent - exponent % 3
    step = step if form == "exponent" else min(step, max(_DECIMAL_SUFFIXES))
    mantissa = int(value.scaleb(-step))
    if form == "exponent":
        return f"{mantissa}e{step}" if step else str(mantissa)
    return f"{mantissa}{_DECIMAL_SUFFIXES[step]}"


def limited(value: Decimal) -> Decimal:
    """The nearest valid value, away from zero."""
    if abs(value) >= _LARGEST:
        return _LARGEST.copy_sign(value)
    exact = _room_for(value)
    return value.quantize(_SMALLEST, rounding=ROUND_UP, context=exact).normalize(exact)


def _room_for(value: Decimal) -> Context:
    return Context(prec=len(value.as_tuple().digits) + _ROOM)


def _binary(value: int) -> str:
    for suffix, power in reversed(_BINARY.items()):
        if value % 1024**power == 0:
            return f"{value // 1024**power}{suffix}"
    return str(value)
