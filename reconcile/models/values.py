"""Values that JSON writes as text: times, durations and quantities."""

import datetime
import re
from decimal import Context, Decimal
from typing import Any, Final

from attrs import field, frozen

from informers.apimachinery.quantities import QuantityFormat, limited, parse_quantity, quantity_text

# Digits enough for the largest amount times any count, in units of a billionth.
_EXACT: Final = Context(prec=60)
_DURATION_PART: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_MICROSECONDS: Final = {
    "ns": Decimal("0.001"),
    "us": Decimal(1),
    "µs": Decimal(1),
    "μs": Decimal(1),
    "ms": Decimal(1000),
    "s": Decimal(10**6),
    "m": Decimal(60 * 10**6),
    "h": Decimal(3600 * 10**6),
}


def parse_time(text: str) -> datetime.datetime:
    """An RFC 3339 time, aware; what is finer than a microsecond is cut off. Raises ValueError."""
    time = datetime.datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError("a time without a time zone means nothing to an API server")
    return time


def format_time(time: datetime.datetime) -> str:
    """As the API writes a Time: UTC, whole seconds. Raises ValueError for a naive time."""
    return _in_utc(time).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_micro_time(time: datetime.datetime) -> str:
    """As the API writes a MicroTime: UTC, six digits of a second. Raises ValueError for a naive time."""
    return _in_utc(time).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _in_utc(time: datetime.datetime) -> datetime.datetime:
    if time.tzinfo is None:
        raise ValueError("a time without a time zone means nothing to an API server")
    return time.astimezone(datetime.UTC)


def parse_duration(text: str) -> datetime.timedelta:
    """A duration as Go writes it (`1h30m`, `-1.5s`, `250ms`, `0`). Raises ValueError.

    What is finer than a microsecond is rounded.
    """
    sign = -1 if text.startswith("-") else 1
    rest = text.removeprefix("-").removeprefix("+") if text[:1] in "+-" else text
    if rest == "0":
        return datetime.timedelta()
    parts = list(_DURATION_PART.finditer(rest))
    if not parts or "".join(part.group() for part in parts) != rest:
        raise ValueError("a duration is written like 1h30m or 500ms")
    total = sum((Decimal(part[1]) * _MICROSECONDS[part[2]] for part in parts), Decimal(0))
    try:
        return sign * datetime.timedelta(microseconds=round(total))
    except OverflowError:
        raise ValueError("the duration is too long") from None


def format_duration(duration: datetime.timedelta) -> str:
    """As Go writes it: `1h30m0s`, `1.5s`, `250ms`, `0s`."""
    microseconds = duration // datetime.timedelta(microseconds=1)
    if microseconds == 0:
        return "0s"
    sign, rest = ("-", -microseconds) if microseconds < 0 else ("", microseconds)
    if rest < 1000:
        return f"{sign}{rest}µs"
    if rest < 10**6:
        return f"{sign}{_plain(Decimal(rest) / 1000)}ms"
    minutes, rest = divmod(rest, 60 * 10**6)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{_plain(Decimal(rest) / 10**6)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{seconds}"
    return f"{sign}{minutes}m{seconds}" if minutes else f"{sign}{seconds}"


def _plain(number: Decimal) -> str:
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


@frozen(order=True)
class Quantity:
    """An amount of a resource: `Quantity("500m")`, `Quantity("1.5Gi")`, `Quantity(2)`.

    Equality and order are those of the value, the text stays as it was written. Sums and multiples are exact
    and have the format of their first part that is not zero, as in Kubernetes.

    Raises:
        ValueError: The text is not a quantity.
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
    """A quantity from JSON. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("a quantity is text or a number")
    return Quantity(value)
