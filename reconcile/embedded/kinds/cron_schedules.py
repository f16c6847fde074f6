"""Schedules and time zones of CronJobs."""

import re
from functools import cache
from typing import Final
from zoneinfo import available_timezones

from attrs import frozen

from informers.apimachinery.go_durations import parse_duration

_NUMBER: Final = re.compile(r"\+?[0-9]{1,9}", re.ASCII)
_DESCRIPTORS: Final = frozenset(
    {"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}
)
_EVERY: Final = "@every "
_ZONE_PART: Final = re.compile(r"[A-Za-z._0-9+][A-Za-z._0-9+-]{0,13}", re.ASCII)


@frozen
class _Field:
    first: int
    last: int
    names: tuple[str, ...] = ()  # of its numbers, from the first

    def number(self, text: str) -> int:
        """Raises ValueError for what is neither a number nor a name."""
        if text.lower() in self.names:
            return self.first + self.names.index(text.lower())
        return _number(text)


_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_FIELDS: Final = (
    _Field(0, 59),
    _Field(0, 23),
    _Field(1, 31),
    _Field(1, 12, _MONTHS),
    _Field(0, 6, ("sun", "mon", "tue", "wed", "thu", "fri", "sat")),
)
"""Minute, hour, day of the month, month, day of the week."""


def schedule_fault(schedule: str) -> str:
    """What is wrong with a schedule, by the grammar of robfig/cron; empty if nothing is."""
    if schedule.startswith(("TZ=", "CRON_TZ=")):
        zone, _, schedule = schedule.partition(" ")
        if fault := unknown_zone(zone.partition("=")[2]):
            return fault
    try:
        _check(schedule.strip())
    except ValueError as fault:
        return str(fault)
    return ""


def _check(schedule: str) -> None:
    if schedule.startswith("@"):
        if schedule.startswith(_EVERY):
            parse_duration(schedule.removeprefix(_EVERY))
        elif schedule not in _DESCRIPTORS:
            raise ValueError(f"unrecognized descriptor: {schedule}")
        return
    fields = schedule.split()
    if len(fields) != len(_FIELDS):
        raise ValueError(f"expected exactly 5 fields, found {len(fields)}: {fields}")
    for text, field in zip(fields, _FIELDS, strict=True):
        for part in filter(None, text.split(",")):
            _check_range(part, field)


def _check_range(text: str, field: _Field) -> None:
    bounds, *steps = text.split("/")
    low, *high = bounds.split("-")
    first, last = field.first, field.last
    if low not in ("*", "?"):
        if len(high) > 1:
            raise ValueError(f"too many hyphens: {text}")
        first = field.number(low)
        last = field.number(high[0]) if high else field.last if steps else first
    if len(steps) > 1:
        raise ValueError(f"too many slashes: {text}")
    step = _number(steps[0]) if steps else 1
    if first < field.first:
        raise ValueError(f"beginning of range ({first}) below minimum ({field.first}): {text}")
    if last > field.last:
        raise ValueError(f"end of range ({last}) above maximum ({field.last}): {text}")
    if first > last:
        raise ValueError(f"beginning of range ({first}) beyond end of range ({last}): {text}")
    if step == 0:
        raise ValueError(f"step of range should be a positive number: {text}")


def _number(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"failed to parse int from {text}")
    return int(text)


# --- time zones -------------------------------------------------------------------------------


def zone_faults(zone: str) -> list[str]:
    """What is wrong with the time zone of a CronJob."""
    if not zone:
        return ["timeZone must be nil or non-empty string"]
    if any(part in (".", "..") or not _ZONE_PART.fullmatch(part) for part in zone.split("/")):
        return [f"unknown time zone {zone}"]
    faults: list[str] = []
    if zone.lower() == "local":
        faults.append("timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones")
    if fault := unknown_zone(zone):
        faults.append(fault)
    return faults


def unknown_zone(zone: str) -> str:
    """The fault of a name that Go cannot load; any name will do on a machine without time zones."""
    known = _zones()
    return "" if not known or zone in ("", "UTC", "Local") or zone in known else f"unknown time zone {zone}"


@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())
