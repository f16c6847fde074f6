"""Random numbers from a seed, for simulations, which begin many streams and draw few numbers from each."""

import hashlib
import struct
from collections.abc import Sequence
from typing import Any, TypeVar

T = TypeVar("T")

_EIGHT = struct.Struct("<8Q")
_SPAN = 1 << 64
_FRACTION = 2.0**-53


class SeededRandom:
    """The numbers of a `seed`, the same in every process and version; as digests, they are cheap to begin."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._blocks = 0
        self._numbers: list[int] = []

    def bits(self) -> int:
        """A number of 64 bits."""
        if not self._numbers:
            digest = hashlib.blake2b(f"{self._seed}/{self._blocks}".encode()).digest()
            self._numbers = list(_EIGHT.unpack(digest))
            self._blocks += 1
        return self._numbers.pop()

    def random(self) -> float:
        return (self.bits() >> 11) * _FRACTION

    def uniform(self, least: float, most: float) -> float:
        return least + (most - least) * self.random()

    def below(self, end: int) -> int:
        """A whole number from 0 on that is less than `end`."""
        # No modulo bias to speak of: 64 bits are far more than a list has elements.
        return self.bits() * end // _SPAN

    def one_of(self, items: Sequence[T]) -> T:
        """One of the items, of which there must be some."""
        return items[self.below(len(items))]

    def shuffle(self, items: list[Any]) -> None:
        for last in range(len(items) - 1, 0, -1):
            # As `below`, without the call: each round of a loop shuffles.
            other = self.bits() * (last + 1) // _SPAN
            items[last], items[other] = items[other], items[last]
