"""Few combinations of values in which each two values of two fields meet: a covering array of strength 2.

Built greedily, a row at a time, as in Cohen, Dalal, Fredman and Patton, "The AETG System" (IEEE TSE 1997).
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from attrs import define, field

Row: TypeAlias = Mapping[int, int]
"""For some fields, by number, the number of a value; the others are as in the base."""

Pair: TypeAlias = tuple[int, int, int, int]
"""A field and its value, and a later field and its value."""


@define(eq=False)
class CoveringRows:
    """Iterate to get the rows; `sizes` are how many values each field has.

    `admits` says whether a combination is possible. Pairs that are not, alone or in any row, are
    `impossible`.
    """

    sizes: Sequence[int]
    admits: Callable[[Row], bool]
    _refused: set[Pair] = field(factory=set, init=False)

    @property
    def pairs(self) -> int:
        """How many pairs there are, possible or not."""
        return number_of_pairs(self.sizes)

    @property
    def impossible(self) -> int:
        """How many pairs are not possible, as far as is known."""
        return len(self._refused)

    def __iter__(self) -> Iterator[Row]:
        open_pairs = self._all_pairs()
        self._refused.clear()
        while open_pairs:
            first = next(iter(open_pairs))
            seed = {first[0]: first[1], first[2]: first[3]}
            if not self.admits(seed):
                self._refused.add(first)
                del open_pairs[first]
                continue
            row = self._grown(seed, open_pairs)
            if not self.admits(row):
                row = self._possible_part(row, seed)
            for pair in pairs_of(row):
                open_pairs.pop(pair, None)
                self._refused.discard(pair)  # with a third value it is possible
            yield row

    def _all_pairs(self) -> dict[Pair, None]:
        """In a dict, whose order is the same in every process."""
        return {
            (left, one, right, other): None
            for left, right in itertools.combinations(range(len(self.sizes)), 2)
            for one in range(self.sizes[left])
            for other in range(self.sizes[right])
        }

    def _grown(self, seed: Row, open_pairs: Mapping[Pair, None]) -> Row:
        """The seed with a value for each field, the one that brings most open pairs."""
        still_open: Counter[tuple[int, int]] = Counter()
        for left, one, right, other in open_pairs:
            still_open[left, one] += 1
            still_open[right, other] += 1
        row = dict(seed)
        for number, size in enumerate(self.sizes):
            if number in row or size == 0:
                continue
            gains = [
                (
                    sum(_pair(number, value, other, its) in open_pairs for other, its in row.items()),
                    still_open[number, value],
                )
                for value in range(size)
            ]
            row[number] = gains.index(max(gains))
        return row

    def _possible_part(self, row: Row, seed: Row) -> Row:
        """As much of the row as is possible together, the seed being possible."""
        kept = dict(seed)
        for number, value in row.items():
            if number not in kept and self.admits({**kept, number: value}):
                kept[number] = value
        return kept


def number_of_pairs(sizes: Sequence[int]) -> int:
    """How many pairs fields with so many values have."""
    return (sum(sizes) ** 2 - sum(size**2 for size in sizes)) // 2


def pairs_of(row: Row) -> Iterator[Pair]:
    """The pairs of values that occur in a row."""
    for (left, one), (right, other) in itertools.combinations(sorted(row.items()), 2):
        yield left, one, right, other


def _pair(number: int, value: int, other: int, its: int) -> Pair:
    return (number, value, other, its) if number < other else (other, its, number, value)
