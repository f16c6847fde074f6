"""Ages and time spans as `kubectl get` prints them: `5s`, `3m12s`, `26h`, `2y11d`."""

import datetime

UNKNOWN = "<unknown>"
INVALID = "<invalid>"

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_YEAR = 365 * _DAY


def human_duration(seconds: float) -> str:
    """The span in at most two units, coarser the longer it is; the thresholds are kubectl's own."""
    if seconds <= -2:
        return INVALID
    whole = max(int(seconds), 0)
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    if whole < 10 * _MINUTE:
        return _two(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _two(whole, _DAY, "d", _HOUR, "h")
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    if whole < 8 * _YEAR:
        return _two(whole, _YEAR, "y", _DAY, "d")
    return f"{whole // _YEAR}y"


def _two(seconds: int, large: int, large_unit: str, small: int, small_unit: str) -> str:
    rest = seconds % large // small
    return f"{seconds // large}{large_unit}{rest}{small_unit}" if rest else f"{seconds // large}{large_unit}"


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
    """How long ago an API timestamp was."""
    if not timestamp:
        return UNKNOWN
    moment = parse_time(timestamp)
    return INVALID if moment is None else human_duration((now - moment).total_seconds())
