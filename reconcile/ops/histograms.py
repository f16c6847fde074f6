"""Histograms for what each run is observed in: five of prometheus-client's cost as much as an empty run."""

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence

from attrs import define, field
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString


@define(eq=False)
class HistogramSeries:
    """The observations with one set of labels.

    To be used in one thread: unlike prometheus-client's, it has no locks, and finds its bucket by bisection.
    """

    bounds: Sequence[float]
    """Upper bounds, ascending, the last one infinite."""
    sum: float = field(default=0.0, init=False)
    counts: list[int] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.counts = [0] * len(self.bounds)

    def observe(self, amount: float) -> None:
        self.sum += amount
        self.counts[bisect_left(self.bounds, amount)] += 1


class HistogramFamily(Collector):
    """A histogram as prometheus-client shows its own, apart from the time of its creation."""

    def __init__(
        self,
        name: str,
        text: str,
        labels: Sequence[str],
        buckets: Sequence[float],
        registry: CollectorRegistry,
    ) -> None:
        self._name, self._text, self._labels = name, text, labels
        self._bounds = (*map(float, buckets), math.inf)
        self._series: dict[tuple[str, ...], HistogramSeries] = {}
        registry.register(self)

    def labels(self, *values: str) -> HistogramSeries:
        """The series of these values, made if needed."""
        series = self._series.get(values)
        if series is None:
            series = self._series[values] = HistogramSeries(self._bounds)
        return series

    def describe(self) -> Iterable[HistogramMetricFamily]:
        """Its name alone, by which a registry refuses a second one."""
        return [HistogramMetricFamily(self._name, self._text, labels=self._labels)]

    def collect(self) -> Iterable[HistogramMetricFamily]:
        family = HistogramMetricFamily(self._name, self._text, labels=self._labels)
        names = [_shown(bound) for bound in self._bounds]
        for values, series in list(self._series.items()):
            total, buckets = 0, []
            for name, count in zip(names, list(series.counts), strict=True):
                total += count
                buckets.append((name, float(total)))
            family.add_metric(values, buckets, series.sum)
        return [family]


def _shown(bound: float) -> str:
    """As Prometheus' clients write it, so that a bucket keeps its name."""
    text: str = floatToGoString(bound)  # type: ignore[no-untyped-call]
    return text
