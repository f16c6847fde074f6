"""Amounts that are a number or a percentage, such as `maxUnavailable`."""

import re
from collections.abc import Iterator
from typing import Final

from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_invalid

_PERCENT: Final = re.compile(r"([0-9]+)%", re.ASCII)
_NUMBER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
# A number with more digits is above every bound, and Python refuses to read one with thousands of them.
_DIGITS: Final = 18


def amount_causes(value: int | str, path: str) -> Iterator[FieldCause]:
    """The faults of a number or percentage (ValidatePositiveIntOrPercent)."""
    if isinstance(value, str):
        if not _PERCENT.fullmatch(value):
            yield value_invalid(
                path, value, "a percentage is a number followed by '%' (e.g. '1%',  or '93%')"
            )
    elif value < 0:
        yield value_invalid(path, value, "must be greater than or equal to 0")


def above_all_causes(value: int | str, path: str) -> Iterator[FieldCause]:
    """The fault of a percentage above 100 % (IsNotMoreThan100Percent)."""
    if isinstance(value, str) and _PERCENT.fullmatch(value) and _number(value[:-1]) > 100:
        yield value_invalid(path, value, "must not be greater than 100%")


def is_nothing(value: int | str | None) -> bool:
    """Whether it is 0 or 0 %; text that is neither counts as 0, as in getIntOrPercentValue."""
    if not isinstance(value, str):
        return not value
    if _PERCENT.fullmatch(value):
        return _number(value[:-1]) == 0
    return not _NUMBER.fullmatch(value) or _number(value.lstrip("+-")) == 0


def _number(digits: str) -> int:
    return int(digits.lstrip("0")[: _DIGITS + 1] or "0")
