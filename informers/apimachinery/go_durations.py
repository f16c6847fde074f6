"""Go's durations: `1h30m`, `-1.5s`, `250ms`, `0`. Why not durationpy: docs/explanation/dependencies.md."""

import datetime
import re
from decimal import Decimal
from typing import Final

_PART: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
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


def parse_duration(text: str) -> datetime.timedelta:
    """A duration as Go's `time.ParseDuration` reads it, rounded to microseconds.

    Raises ValueError if the text is not a duration, or one longer than a timedelta can hold.
    """
    sign = -1 if text.startswith("-") else 1
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return datetime.timedelta()
    parts = list(_PART.finditer(rest))
    if not parts or "".join(part.group() for part in parts) != rest:
        raise ValueError(f"expected a duration such as 1h30m or 500ms, got {text[:100]!r}")
    total = sum((Decimal(part[1]) * _MICROSECONDS[part[2]] for part in parts), Decimal(0))
    try:
        return sign * datetime.timedelta(microseconds=round(total))
    except OverflowError:
        raise ValueError("the duration is too long") from None


def format_duration(duration: datetime.timedelta) -> str:
    """The duration as Go writes it: `1h30m0s`, `1.5s`, `250ms`, `0s`."""
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
