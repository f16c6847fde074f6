"""Series of samples as Prometheus keeps them, with the marks that say where a series has ended."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

from attrs import define, field, frozen

from tests.monitoring.promql.syntax import Selector, parsed

NAME: Final = "__name__"
NAMELESS: Final = "_"
"""Stands in texts for the name of a series that has none."""
LOOKBACK: Final = 300_000
"""For how many milliseconds the last sample of a series stands for it."""


@frozen(cache_hash=True)
class Labels:
    """The labels of a series in the order of their names; its name is one. Empty labels do not exist."""

    pairs: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, labels: Mapping[str, str]) -> "Labels":
        return cls(tuple(sorted((name, value) for name, value in labels.items() if value)))

    def get(self, name: str) -> str:
        return next((value for label, value in self.pairs if label == name), "")

    def having(self, **labels: str) -> "Labels":
        return Labels.of({**dict(self.pairs), **labels})

    def __str__(self) -> str:
        inner = ", ".join(f'{name}="{value}"' for name, value in self.pairs if name != NAME)
        return f"{self.get(NAME)}{{{inner}}}"


@lru_cache(maxsize=100_000)
def kept(labels: Labels, names: tuple[str, ...]) -> Labels:
    """Only the labels of these names."""
    return Labels(tuple(pair for pair in labels.pairs if pair[0] in names))


@lru_cache(maxsize=100_000)
def dropped(labels: Labels, names: tuple[str, ...]) -> Labels:
    """All labels but those of these names."""
    return Labels(tuple(pair for pair in labels.pairs if pair[0] not in names))


@define
class Series:
    """Samples of one series in the order of time, in milliseconds. `marks`: when it was found to have ended.

    `resets` are the positions of samples that are smaller than the one before: a counter has started anew.
    """

    labels: Labels
    times: list[int] = field(factory=list)
    values: list[float] = field(factory=list)
    resets: list[int] = field(factory=list)
    marks: list[int] = field(factory=list)

    def add(self, time: int, value: float) -> None:
        if self.values and value < self.values[-1]:
            self.resets.append(len(self.values))
        self.times.append(time)
        self.values.append(value)

    def at(self, time: int) -> float | None:
        """What it is at a time; None if it has ended, or had no sample for too long."""
        last = bisect_right(self.times, time) - 1
        if last < 0 or self.times[last] < time - LOOKBACK:
            return None
        mark = bisect_right(self.marks, time) - 1
        ended = mark >= 0 and self.marks[mark] > self.times[last]
        return None if ended else self.values[last]

    def within(self, start: int, end: int) -> "Window":
        """The samples from `start` to `end`, both included; marks are none."""
        return Window(self, start, end, bisect_left(self.times, start), bisect_right(self.times, end))


@frozen
class Window:
    """The samples of a series from `start` to `end`: at the positions from `first` to before `after`."""

    series: Series
    start: int
    end: int
    first: int
    after: int

    def __len__(self) -> int:
        return self.after - self.first

    @property
    def values(self) -> Sequence[float]:
        return self.series.values[self.first : self.after]

    @property
    def before_resets(self) -> Iterator[float]:
        """How far a counter had come before each of its resets."""
        resets = self.series.resets
        for number in range(bisect_right(resets, self.first), bisect_left(resets, self.after)):
            yield self.series.values[resets[number] - 1]


@define
class Store:
    """All series."""

    _series: dict[Labels, Series] = field(factory=dict)
    _named: dict[str, list[Series]] = field(factory=dict)
    _chosen: dict[Selector, tuple[int, list[Series]]] = field(factory=dict)

    def add(self, labels: Labels, time: int, value: float) -> None:
        self._of(labels).add(time, value)

    def end(self, labels: Labels, time: int) -> None:
        """Mark that a series has ended."""
        self._of(labels).marks.append(time)

    def _of(self, labels: Labels) -> Series:
        series = self._series.get(labels)
        if series is None:
            series = self._series[labels] = Series(labels)
            self._named.setdefault(labels.get(NAME), []).append(series)
        return series

    def chosen(self, selector: Selector) -> Iterable[Series]:
        """The series that a selector is about."""
        named = self._named.get(selector.name, [])
        seen, found = self._chosen.get(selector, (0, []))
        if seen < len(named):
            found = [*found, *(one for one in named[seen:] if _fits(one.labels, selector))]
            self._chosen[selector] = len(named), found
        return found


def _fits(labels: Labels, selector: Selector) -> bool:
    return all(matcher.accepts(labels.get(matcher.label)) for matcher in selector.matchers)


def labels_of(series: str) -> Labels:
    """The labels of a series that is written as `name{label="value"}`."""
    selector = parsed(series)
    assert isinstance(selector, Selector)
    name = {} if selector.name == NAMELESS else {NAME: selector.name}
    return Labels.of({**name, **{one.label: one.value for one in selector.matchers}})
