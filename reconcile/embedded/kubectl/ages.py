"""Ages and time spans as `kubectl get` prints them: `5s`, `3m12s`, `26h`, `2y11d`."""

import datetime
import math

UNKNOWN = "<unknown>"
INVALID = "<invalid>"

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_YEAR = 365 * _DAY


_SPANS = (
    (2 * _MINUTE, 1, "s", None, ""),
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", None, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (2 * _DAY, _HOUR, "h", None, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", None, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
    (math.inf, _YEAR, "y", None, ""),
)
"""Up to how many seconds a span is shown in which unit, and in which second one; as kubectl has it."""


def human_duration(seconds: float) -> str:
    """A time span in at most two units; the longer, the coarser."""
    if seconds <= -2:
        return INVALID
    whole = max(int(seconds), 0)
    large, unit, small, rest_unit = next(row[1:] for row in _SPANS if whole < row[0])
    rest = whole % large // small if small else 0
    return f"{whole // large}{unit}{rest}{rest_unit}" if rest else f"{whole // large}{unit}"


def parse_time(text: object) -> datetime.datetime | None:
    """The moment of an API timestamp; None for any other value."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else None


def age(timestamp: object, now: datetime.datetime) -> str:
    if not timestamp:
        return UNKNOWN
    moment = parse_time(timestamp)
    return INVALID if moment is None else human_duration((now - moment).total_seconds())
