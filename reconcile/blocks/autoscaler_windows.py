"""What was measured over the last while: averages and highest values, as values that never change.

Times are in milliseconds of any clock that goes forward. A window is looked at with a time, so what is
too old is gone on reading too, whether or not anything was written since (systems.md, guard 4).
"""

from decimal import Decimal, localcontext
from typing import Literal, Self

from attrs import evolve, field, frozen, validators

SMALLEST_SHARE = 200_000
_PRECISION = Decimal("0.0001")
_MILLION = 1_000_000


@frozen
class _Bucket:
    index: int
    total: int
    count: int


@frozen
class AverageWindow:
    """The average of what was written in the last `length` ms, in steps of `step` ms.

    With `silence` "zero", every step since the first write counts, and one in which nothing was written is
    0: for sources that report each step, as in Knative. With "unknown", only what was written counts.
    """

    length: int = field(validator=validators.gt(0))
    step: int = field(default=1000, validator=validators.gt(0))
    silence: Literal["zero", "unknown"] = "zero"
    _buckets: tuple[_Bucket, ...] = ()
    _first: int = 0

    @property
    def steps(self) -> int:
        """How many steps it has."""
        return -(-self.length // self.step)

    def write(self, at: int, value: int) -> Self:
        """The window with one more value; what comes too late for the window is dropped."""
        index = at // self.step
        if not self._buckets or index - self._buckets[-1].index >= self.steps:
            return evolve(self, buckets=(_Bucket(index, value, 1),), first=index)
        newest = max(index, self._buckets[-1].index)
        if newest - index >= self.steps:
            return self
        there = {bucket.index: bucket for bucket in self._buckets if newest - bucket.index < self.steps}
        old = there.get(index, _Bucket(index, 0, 0))
        there[index] = _Bucket(index, old.total + value, old.count + 1)
        buckets = tuple(there[key] for key in sorted(there))
        return evolve(self, buckets=buckets, first=min(self._first, index))

    def average(self, now: int) -> int | None:
        """The average at that time, rounded; None where nothing that counts was written."""
        if not self._buckets:
            return None
        last = self._buckets[-1].index
        passed = max(0, now // self.step - last)
        if passed >= self.steps:
            return 0 if self.silence == "zero" else None
        oldest = last + passed - self.steps + 1
        kept = [bucket for bucket in self._buckets if bucket.index >= oldest]
        total = sum(bucket.total for bucket in kept)
        if self.silence == "unknown":
            count = sum(bucket.count for bucket in kept)
            return None if count == 0 else _rounded(total, count)
        return _rounded(total, min(self.steps - passed, last - self._first + 1))

    def smoothed(self, now: int) -> int | None:
        """As `average`, but newer values weigh more: each `smoothing_share` of what the newer ones leave."""
        share, newest = smoothing_share(self.steps), now // self.step
        if self.average(now) is None:
            return None
        total = weights = 0
        for bucket in self._buckets:
            back = max(0, newest - bucket.index)
            if back >= self.steps:
                continue
            weight = share * (_MILLION - share) ** back // _MILLION**back
            per_step = bucket.total if self.silence == "zero" else _rounded(bucket.total, bucket.count)
            total, weights = total + weight * per_step, weights + weight
        if self.silence == "zero":
            weights = _MILLION
        return None if weights == 0 else _rounded(total, weights)


def smoothing_share(steps: int) -> int:
    """How much the newest step weighs of so many, in millionths: all but 1/10,000 is within them.

    At least a fifth, as in Knative.
    """
    with localcontext(prec=28):
        rest = (_PRECISION.ln() / steps).exp()
        return max(SMALLEST_SHARE, int(((1 - rest) * _MILLION).to_integral_value()))


@frozen
class MaxWindow:
    """The highest of what was written in the last `steps` steps of `step` ms."""

    steps: int = field(validator=validators.ge(1))
    step: int = field(default=1000, validator=validators.gt(0))
    _entries: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, length: int, step: int) -> Self:
        """For the last `length` ms."""
        return cls(max(1, -(-length // step)), step)

    def write(self, at: int, value: int) -> Self:
        """The window with one more value."""
        index = at // self.step
        kept = tuple((when, old) for when, old in self._entries if index - when < self.steps and old > value)
        return evolve(self, entries=(*kept, (index, value)))

    def highest(self, now: int) -> int | None:
        """The highest at that time; None where nothing that counts was written."""
        index = now // self.step
        return max((value for when, value in self._entries if index - when < self.steps), default=None)


@frozen
class Recommendations:
    """What was thought right in the last while, so that one look at a bad moment decides nothing.

    Going down, the highest of a window counts, going up the lowest of another: the rule of the
    HorizontalPodAutoscaler. `lows` holds what is below 0, so that its highest is the lowest.
    """

    highs: MaxWindow
    lows: MaxWindow
    newest: int | None = None

    @classmethod
    def of(cls, *, up: int = 0, down: int = 0) -> Self:
        """Over windows of so many ms for either direction; without one the newest counts at once."""
        return cls(MaxWindow.of(down, 1), MaxWindow.of(up, 1))

    def over(self, *, up: int, down: int) -> Self:
        """The same over other windows."""
        highs, lows = (evolve(old, steps=max(1, ms)) for old, ms in ((self.highs, down), (self.lows, up)))
        return evolve(self, highs=highs, lows=lows)

    def add(self, at: int, replicas: int) -> Self:
        """With one more."""
        return evolve(
            self, highs=self.highs.write(at, replicas), lows=self.lows.write(at, -replicas), newest=replicas
        )

    def within(self, current: int, now: int) -> int:
        """What to have at that time, from `current`; `current` where nothing was recommended."""
        if self.newest is None:
            return current
        if self.newest > current:
            low = self.lows.highest(now)
            return self.newest if low is None else max(current, min(-low, self.newest))
        high = self.highs.highest(now)
        return self.newest if high is None else min(current, max(high, self.newest))


def _rounded(number: int, divisor: int) -> int:
    """Half up."""
    return (2 * number + divisor) // (2 * divisor)
