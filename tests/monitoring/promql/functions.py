"""What the functions of PromQL make of samples, as Prometheus 2.42 computes it."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tests.monitoring.promql.series import Window

FAR: Final = 1.1
"""A series whose samples are so many usual distances away from the edge of a window begins or ends within."""


def divided(left: float, right: float) -> float:
    """As processors divide."""
    if right != 0:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def increase(window: Window) -> float | None:
    """By how much a counter has risen within a window; None for fewer than two samples.

    The samples seldom reach to both edges of the window, so the rise is extended there: to the edge if
    that is about as far as samples are from each other, else by half of their distance, and never back
    to before the counter was 0. That is why the increase of a counter of whole numbers is seldom one.
    """
    return _extended(window, 1.0)


def rate(window: Window) -> float | None:
    """The increase for each second of the window."""
    return _extended(window, (window.end - window.start) / 1000)


def _extended(window: Window, share: float) -> float | None:
    if len(window) < 2:
        return None
    times, values = window.series.times, window.series.values
    first, last = window.first, window.after - 1
    rise = values[last] - values[first]
    for lost in window.before_resets:
        rise += lost
    to_start = (times[first] - window.start) / 1000
    to_end = (window.end - times[last]) / 1000
    sampled = (times[last] - times[first]) / 1000
    distance = sampled / (last - first)
    if rise > 0 and values[first] >= 0:
        to_start = min(to_start, sampled * (values[first] / rise))
    extended = sampled
    for missing in (to_start, to_end):
        extended += missing if missing < distance * FAR else distance / 2
    return rise * (extended / sampled / share)


def _of_numbers(compute: Callable[[Sequence[float]], float]) -> Callable[[Window], float | None]:
    return lambda window: compute(window.values) if len(window) else None


def smallest(values: Sequence[float]) -> float:
    """NaN only if all are."""
    return min((value for value in values if not math.isnan(value)), default=math.nan)


def largest(values: Sequence[float]) -> float:
    return max((value for value in values if not math.isnan(value)), default=math.nan)


def total(values: Sequence[float]) -> float:
    return math.fsum(values) if all(map(math.isfinite, values)) else sum(values)


OVER_WINDOWS: Final[Mapping[str, Callable[[Window], float | None]]] = {
    "rate": rate,
    "increase": increase,
    "sum_over_time": _of_numbers(total),
    "count_over_time": _of_numbers(len),
    "min_over_time": _of_numbers(smallest),
    "max_over_time": _of_numbers(largest),
}
"""What a function makes of the samples of a series within a window; None: the series has no result."""


def quantile(share: float, buckets: Sequence[tuple[float, float]]) -> float:
    """The value below which `share` of the observations are, by buckets of (upper bound, count up to it).

    Observations are taken as spread evenly within a bucket. In the last bucket, which has no end, the answer
    is where it begins. NaN without a bucket up to +Inf, without a second bucket or without observations.
    """
    if math.isnan(share):
        return math.nan
    if not 0 <= share <= 1:
        return math.copysign(math.inf, share)
    counts: dict[float, float] = {}
    for bound, count in sorted(buckets):
        counts[bound] = counts.get(bound, 0.0) + count
    bounds, most = list(counts), 0.0
    for bound in bounds:
        # A count that falls from one bound to the next comes from scrapes at different times.
        most = counts[bound] = max(most, counts[bound])
    if len(bounds) < 2 or bounds[-1] != math.inf or most == 0:
        return math.nan
    rank = share * most
    found = next(number for number, bound in enumerate(bounds) if counts[bound] >= rank or bound == math.inf)
    if found == len(bounds) - 1:
        return bounds[-2]
    if found == 0:
        return bounds[0] if bounds[0] <= 0 else bounds[0] * divided(rank, counts[bounds[0]])
    start, before = bounds[found - 1], counts[bounds[found - 1]]
    return start + (bounds[found] - start) * divided(rank - before, counts[bounds[found]] - before)
