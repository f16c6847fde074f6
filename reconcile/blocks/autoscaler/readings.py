"""What an autoscaler counts with: integers in thousandths, and readings that say what they are.

A reading is a value or `Missing`, never a 0 for "not known". A total over all pods and an average per pod are
two types; a number of pods converts them. Thousandths are integers, because in floats ten pods at 0.9 over a
target of 0.5 need 19 (systems.md, guard 4).
"""

import datetime
import functools
import math
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from typing import TypeAlias

from attrs import field, frozen

from informers.apimachinery.go_durations import parse_duration
from reconcile.models import Quantity

MILLI = 1000
_MOST = 10**24


@frozen
class Missing:
    """A value that is not known, and why: one CamelCase word, and a sentence without numbers that change."""

    reason: str
    message: str = ""


@frozen
class Sum:
    """A total over all pods, in thousandths."""

    milli: int


@frozen
class PerPodAverage:
    """An average for each pod, in thousandths."""

    milli: int

    def over(self, pods: int) -> Sum:
        """The total of that many pods."""
        return Sum(self.milli * pods)


@frozen
class Samples:
    """The values of a target's pods, in thousandths; every pod is in one class.

    `known` answered. `missing` (counts by reason) were asked and gave no value, though Ready; `unasked` are
    Ready and not in the sample. `unready` are starting or not created yet; `ignored` are terminating or have
    ended. The sample should have `wanted` values.
    """

    known: Sequence[int] = ()
    missing: Mapping[str, int] = field(factory=dict)
    unasked: int = 0
    unready: int = 0
    ignored: int = 0
    wanted: int = 0

    @property
    def lost(self) -> int:
        """The number of missing values."""
        return sum(self.missing.values())

    @property
    def filled(self) -> bool:
        """Whether the sample has as many values as it should."""
        return len(self.known) >= self.wanted


Reading: TypeAlias = Samples | Sum | PerPodAverage | Missing
"""The value of a source at one time."""


def ceil_div(number: int, divisor: int) -> int:
    return -(-number // divisor)


def milli_of(value: Quantity | str | float | Decimal) -> int:
    """A number, or a quantity of Kubernetes, in thousandths, rounded up. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, Quantity | str | int | float | Decimal):
        raise ValueError("expected a quantity such as 2, 500m or 5Gi")
    return _milli_of(value)


@functools.lru_cache(maxsize=4096)
def _milli_of(value: Quantity | str | float | Decimal) -> int:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError("the number is not finite")
        value = Decimal(repr(value))
    if isinstance(value, str | int):
        value = Quantity(value)
    exact = value.value if isinstance(value, Quantity) else value
    if not exact.is_finite() or abs(exact) > _MOST:
        raise ValueError("the number is too large")
    return int((exact * MILLI).to_integral_value(ROUND_CEILING))


def milliseconds_of(text: str) -> int:
    """A duration of Go (`1m30s`), or a number of seconds, in ms. Raises ValueError below 0."""
    try:
        found = parse_duration(text) // datetime.timedelta(milliseconds=1)
    except ValueError:
        if text.endswith("m"):
            raise  # as a quantity, 10m would be a hundredth of a second
        found = milli_of(text)
    if found < 0:
        raise ValueError("a duration is not negative")
    return found
