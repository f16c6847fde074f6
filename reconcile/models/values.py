"""Values that JSON writes as text: times and quantities."""

import datetime
import functools
from decimal import Context, Decimal
from typing import Any, Final

from attrs import field, frozen

from informers.apimachinery.quantities import QuantityFormat, limited, parse_quantity, quantity_text

# Digits enough for the largest amount times any count, in units of a billionth.
_EXACT: Final = Context(prec=60)


def parse_time(text: str) -> datetime.datetime:
    """An RFC 3339 time, aware, truncated to microseconds. Raises ValueError."""
    time = datetime.datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError("a time without a time zone means nothing to an API server")
    return time


def format_time(time: datetime.datetime) -> str:
    """A time as the API writes a Time: UTC, whole seconds. Raises ValueError for a naive time."""
    return _in_utc(time).isoformat(timespec="seconds").replace("+00:00", "Z")


def format_micro_time(time: datetime.datetime) -> str:
    """A time as the API writes a MicroTime: UTC, microseconds. Raises ValueError for a naive time."""
    return _in_utc(time).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _in_utc(time: datetime.datetime) -> datetime.datetime:
    if time.tzinfo is None:
        raise ValueError("a time without a time zone means nothing to an API server")
    try:
        return time.astimezone(datetime.UTC)
    except OverflowError:
        raise ValueError("a time in UTC has a year from 1 to 9999") from None


@frozen(order=True)
class Quantity:
    """An amount of a resource: `Quantity("500m")`, `Quantity("1.5Gi")`, `Quantity(2)`.

    Quantities compare by value, and keep their text. Sums and multiples are exact, in the format of their
    first part that is not zero, as in Kubernetes. Raises ValueError for a text that is not a quantity.
    """

    text: str | int | float = field(eq=False)
    value: Decimal = field(init=False, repr=False)
    _format: QuantityFormat = field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        value, form = parse_quantity(str(self.text))
        object.__setattr__(self, "value", value)
        object.__setattr__(self, "_format", form)

    def __str__(self) -> str:
        return str(self.text)

    def __add__(self, other: "Quantity") -> "Quantity":
        return self._of(_EXACT.add(self.value, other.value), self._format if self.value else other._format)

    def __mul__(self, count: int) -> "Quantity":
        return self._of(_EXACT.multiply(self.value, Decimal(count)), self._format)

    @property
    def canonical(self) -> str:
        """The text as an API server stores it: `1` for `1000m`, `1536Mi` for `1.5Gi`."""
        return quantity_text(self.value, self._format)

    @staticmethod
    def _of(value: Decimal, form: QuantityFormat) -> "Quantity":
        made = Quantity(quantity_text(limited(value), form))
        # The canonical text of a binary amount below 1024 does not tell that it is binary.
        object.__setattr__(made, "_format", form)
        return made


def read_quantity(value: Any) -> Quantity:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("a quantity is text or a number")
    return _known_quantity(value)


# Pods of one workload ask for the same few amounts, and to parse one takes longer than to read a container.
_known_quantity = functools.lru_cache(maxsize=1024, typed=True)(Quantity)
