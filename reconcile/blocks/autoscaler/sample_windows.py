"""Averages and maxima of recent values, as immutable windows.

Times are in ms of any clock. Values expire although nothing is written (systems.md, guard 4).
"""

from collections.abc import Sequence
from typing import Literal, Self

from attrs import evolve, field, frozen, validators

SMALLEST_SHARE = 200_000
_REST = 0.0001
_MILLION = 1_000_000


@frozen
class _WindowStep:
    index: int
    total: int
    count: int


@frozen
class AverageWindow:
    """The average of the values written in the last `length` ms, in steps of `step` ms.

    With `silence` "zero", every step since the first write counts, as 0 if nothing was written: for sources
    that report each step, as in Knative. With "unknown", only written values count.
    """

    length: int = field(validator=validators.gt(0))
    step: int = field(default=1000, validator=validators.gt(0))
    silence: Literal["zero", "unknown"] = "zero"
    _buckets: tuple[_WindowStep, ...] = ()
    _first: int = 0

    @property
    def steps(self) -> int:
        return -(-self.length // self.step)

    def write(self, at: int, value: int) -> Self:
        """The window with one more value; one too old for the window is dropped."""
        index = at // self.step
        if not self._buckets or index - self._buckets[-1].index >= self.steps:
            return evolve(self, buckets=(_WindowStep(index, value, 1),), first=index)
        newest = max(index, self._buckets[-1].index)
        if newest - index >= self.steps:
            return self
        there = {bucket.index: bucket for bucket in self._buckets}
        old = there.get(index, _WindowStep(index, 0, 0))
        there[index] = _WindowStep(index, old.total + value, old.count + 1)
        buckets = tuple(there[key] for key in sorted(there))
        return evolve(self, buckets=buckets[-self.steps :], first=min(self._first, index))

    def average(self, now: int) -> int | None:
        """The average at that time, rounded; None without values."""
        kept = self._kept(now)
        if not kept:
            return self._without_any()
        total = sum(bucket.total for bucket in kept)
        if self.silence == "unknown":
            return _rounded(total, sum(bucket.count for bucket in kept))
        last = kept[-1].index
        return _rounded(total, min(last - self._newest(now) + self.steps, last - self._first + 1))

    def smoothed(self, now: int) -> int | None:
        """As `average`, but newer values weigh more: each `smoothing_share` of what newer ones leave."""
        kept = self._kept(now)
        if not kept:
            return self._without_any()
        share = smoothing_share(self.steps)
        if self.silence == "zero":
            newest = self._newest(now)
            return _rounded(
                sum(_weight(share, newest - bucket.index) * bucket.total for bucket in kept), _MILLION
            )
        weighed = [(_weight(share, kept[-1].index - bucket.index), bucket) for bucket in kept]
        total = sum(weight * _rounded(bucket.total, bucket.count) for weight, bucket in weighed)
        return _rounded(total, sum(weight for weight, _ in weighed))

    def _without_any(self) -> int | None:
        return 0 if self._buckets and self.silence == "zero" else None

    def _kept(self, now: int) -> Sequence[_WindowStep]:
        return [bucket for bucket in self._buckets if self._newest(now) - bucket.index < self.steps]

    def _newest(self, now: int) -> int:
        return max(now // self.step, self._buckets[-1].index)


def smoothing_share(steps: int) -> int:
    """The newest step's weight in millionths: all steps hold all but 1/10,000. At least 1/5 (Knative)."""
    rest: float = _REST ** (1 / steps)
    return max(SMALLEST_SHARE, round((1 - rest) * _MILLION))


def _weight(share: int, back: int) -> int:
    """The weight of the step that is `back` before the newest, in millionths."""
    left: float = (1 - share / _MILLION) ** back
    return round(share * left)


@frozen
class MaxWindow:
    steps: int = field(validator=validators.ge(1))
    step: int = field(default=1000, validator=validators.gt(0))
    _entries: tuple[tuple[int, int], ...] = ()

    def write(self, at: int, value: int) -> Self:
        index = at // self.step
        kept = tuple((when, old) for when, old in self._entries if index - when < self.steps and old > value)
        return evolve(self, entries=(*kept, (index, value)))

    def highest(self, now: int) -> int | None:
        index = now // self.step
        return max((value for when, value in self._entries if index - when < self.steps), default=None)


@frozen
class Recommendations:
    """The recent recommendations: going down, the highest of a window counts, going up the lowest of another.

    As in the HorizontalPodAutoscaler, so that one bad measurement decides nothing. `lows` are negated.
    """

    highs: MaxWindow
    lows: MaxWindow
    newest: int | None = None

    @classmethod
    def of(cls, *, up: int, down: int) -> Self:
        """With a window in ms for each direction; with 0 the newest counts at once."""
        return cls(MaxWindow(max(1, down), 1), MaxWindow(max(1, up), 1))

    def over(self, *, up: int, down: int) -> Self:
        highs, lows = (evolve(old, steps=max(1, ms)) for old, ms in ((self.highs, down), (self.lows, up)))
        return evolve(self, highs=highs, lows=lows)

    def add(self, at: int, replicas: int) -> Self:
        return evolve(
            self, highs=self.highs.write(at, replicas), lows=self.lows.write(at, -replicas), newest=replicas
        )

    def within(self, current: int, now: int) -> int:
        """The replicas to have at that time; `current` without recommendations."""
        if self.newest is None:
            return current
        low, high = self.lows.highest(now), self.highs.highest(now)
        lowest = self.newest if low is None else -low
        highest = self.newest if high is None else high
        return min(max(current, lowest), highest)


def _rounded(number: int, divisor: int) -> int:
    """Half up."""
    return (2 * number + divisor) // (2 * divisor)
