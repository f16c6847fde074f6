"""Quantities: `500m`, `1.5Gi`, `2e3`. What they are worth, and the one form in which they are stored."""

import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Final

_SHAPE = re.compile(
    r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))(?:([eE][+-]?\d{1,3})|([KMGTPE]i)|([numkMGTPE]))?", re.ASCII
)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIXES: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY: Final = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_LONGEST: Final = 1000
"""Characters of the longest text that is read; what it is worth fits in 30."""
_SHOWN: Final = 100
_SMALLEST: Final = Decimal("1e-9")
_LARGEST: Final = Decimal(2**63 - 1)
_ROOM: Final = 40
"""Digits that a suffix and a billionth may add."""


def quantity_value(text: str) -> Decimal:
    """What a quantity is worth.

    As in a real server less than a billionth is rounded away from zero, and the largest is 2**63 - 1.

    Raises:
        ValueError: It is no quantity.
    """
    found = _SHAPE.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None:
        raise ValueError(f"{text[:_SHOWN]!r} is not a quantity")
    number, exponent, binary, decimal = found.groups()
    value = Decimal(number)
    exact = Context(prec=len(number) + _ROOM)
    if exponent:
        value = exact.scaleb(value, int(exponent[1:]))
    elif binary:
        value = exact.multiply(value, Decimal(1024 ** _BINARY[binary]))
    elif decimal:
        value = exact.scaleb(value, _DECIMAL[decimal])
    if abs(value) >= _LARGEST:
        return _LARGEST.copy_sign(value)
    rounding = ROUND_CEILING if value > 0 else ROUND_FLOOR
    return value.quantize(_SMALLEST, rounding=rounding, context=exact).normalize(exact)


def canonical_quantity(text: str) -> str:
    """The form in which the API server stores a quantity: no fraction, the largest suffix that fits.

    `1000m` is `1`, `0.5` is `500m`, `1.5Gi` is `1536Mi`. The kind of suffix stays, but for binary ones
    below 1024.

    Raises:
        ValueError: It is no quantity.
    """
    value = quantity_value(text)
    if text.endswith("i") and abs(value) >= 1024 and value == value.to_integral_value():
        return _binary(int(value))
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or not any(digits):
        return "0"
    step = exponent - exponent % 3
    written = any(sign in text for sign in "eE") and not text.endswith("E")
    step = step if written else min(step, max(_DECIMAL_SUFFIXES))
    mantissa = int(value.scaleb(-step))
    if written:
        return f"{mantissa}e{step}" if step else str(mantissa)
    return f"{mantissa}{_DECIMAL_SUFFIXES[step]}"


def _binary(value: int) -> str:
    for suffix, power in reversed(_BINARY.items()):
        if value % 1024**power == 0:
            return f"{value // 1024**power}{suffix}"
    return str(value)
