"""Values that JSON writes as text: times, durations and quantities."""

import datetime
import re
from decimal import Context, Decimal
from typing import Any, Final

from attrs import field, frozen

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
_QUANTITY: Final = re.compile(
    r"([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d{1,3})|([KMGTPE]i)|([numkMGTPE]))?", re.ASCII
)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_EXACT: Final = Context(prec=200)


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


def _quantity_value(text: str) -> Decimal:
    found = _QUANTITY.fullmatch(text)
    if found is None:
        raise ValueError("a quantity is written like 500m or 1.5Gi")
    number, exponent, binary, decimal = found.groups()
    value = Decimal(number)
    if binary:
        return _EXACT.multiply(value, Decimal(1024 ** _BINARY[binary]))
    shift = int(exponent) if exponent else _DECIMAL[decimal] if decimal else 0
    return _EXACT.scaleb(value, shift)


@frozen(order=True)
class Quantity:
    """An amount of a resource: `Quantity("500m")`, `Quantity("1.5Gi")`, `Quantity(2)`.

    Equality and order are those of the value, the text stays as it was written. Raises ValueError
    for what is no quantity.
    """

    text: str | int | float = field(eq=False)
    value: Decimal = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "value", _quantity_value(str(self.text)))

    def __str__(self) -> str:
        return str(self.text)


def read_quantity(value: Any) -> Quantity:
    """A quantity from JSON. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("a quantity is text or a number")
    return Quantity(value)
