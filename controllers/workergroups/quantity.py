"""Kubernetes quantities (`500m`, `5Gi`, `1e3`) as exact numbers.

The rules are those of apimachinery's `resource.Quantity`: a sum keeps the format of its first
non-zero part, and the canonical text has the largest suffix that leaves an integer.
"""

import re
from collections.abc import Iterable
from decimal import ROUND_CEILING, Decimal, InvalidOperation, localcontext
from typing import Literal

from attrs import frozen

Format = Literal["decimal", "binary", "exponent"]

_DECIMAL_SUFFIXES = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY_SUFFIXES = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_TEXT = re.compile(
    r"(?P<number>[+-]?(\d+\.?\d*|\.\d+))(?P<suffix>[numkMGTPE]?|[KMGTPE]i|[eE][+-]?\d+)", re.ASCII
)
_SMALLEST = Decimal("1e-9")
# Enough digits for the largest Ei sum in units of n, so that no step rounds.
_PRECISION = 60


class InvalidQuantity(ValueError):
    """The text is not a Kubernetes quantity."""

    def __init__(self, text: object) -> None:
        super().__init__(
            f"{text!r} is not a quantity; write a number with an optional suffix, such as 500m or 5Gi"
        )
        self.text = text


@frozen
class Quantity:
    """An exact amount and the family of suffixes it is written with."""

    amount: Decimal = Decimal(0)
    format: Format = "decimal"

    def __add__(self, other: "Quantity") -> "Quantity":
        with localcontext(prec=_PRECISION):
            total = self.amount + other.amount
        return Quantity(total, self.format if self.amount else other.format)

    def times(self, count: int) -> "Quantity":
        """This amount `count` times."""
        with localcontext(prec=_PRECISION):
            return Quantity(self.amount * count, self.format)

    def ceiling(self) -> int:
        """The smallest integer that is not less, as Go's `Quantity.Value()`."""
        return int(self.amount.to_integral_value(rounding=ROUND_CEILING))

    def __str__(self) -> str:
        if not self.amount:
            return "0"
        if self.format == "binary" and abs(self.amount) >= 1024:
            return _binary_text(self.ceiling())
        return _decimal_text(self.amount, exponent=self.format == "exponent")


def parse_quantity(text: str | int | float) -> Quantity:
    """The amount that a manifest's value means; plain JSON numbers are quantities too.

    Finer than a billionth is rounded up, as the API server does. Raises `InvalidQuantity`.
    """
    match = _TEXT.fullmatch(str(text))
    if match is None:
        raise InvalidQuantity(text)
    number, suffix = match["number"], match["suffix"]
    with localcontext(prec=_PRECISION):
        try:
            if suffix in _BINARY_SUFFIXES:
                return Quantity(_rounded(Decimal(number) * 1024 ** _BINARY_SUFFIXES[suffix]), "binary")
            if suffix in _DECIMAL_SUFFIXES:
                return Quantity(_rounded(Decimal(number).scaleb(_DECIMAL_SUFFIXES[suffix])), "decimal")
            return Quantity(_rounded(Decimal(number + suffix)), "exponent")
        except InvalidOperation:
            raise InvalidQuantity(text) from None


def total(quantities: Iterable[Quantity]) -> Quantity:
    """The sum; zero when there are none."""
    return sum(quantities, Quantity())


def _rounded(amount: Decimal) -> Decimal:
    return amount.quantize(_SMALLEST, rounding=ROUND_CEILING)


def _binary_text(amount: int) -> str:
    power = 0
    while power < len(_BINARY_SUFFIXES) and amount % 1024 == 0:
        amount, power = amount // 1024, power + 1
    return str(amount) + ["", *_BINARY_SUFFIXES][power]


def _decimal_text(amount: Decimal, *, exponent: bool) -> str:
    with localcontext(prec=_PRECISION):
        power = max(p for p in _DECIMAL_SUFFIXES.values() if _is_integer(amount.scaleb(-p)))
        mantissa = int(amount.scaleb(-power))
    if exponent:
        return f"{mantissa}e{power}" if power else str(mantissa)
    suffix = next(s for s, p in _DECIMAL_SUFFIXES.items() if p == power)
    return f"{mantissa}{suffix}"


def _is_integer(amount: Decimal) -> bool:
    return amount == amount.to_integral_value()
