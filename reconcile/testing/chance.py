"""Numbers that a seed decides, cheap to begin: a simulation begins many streams and draws few of each."""

import hashlib
import struct
from typing import Any

_EIGHT = struct.Struct("<8Q")
_SPAN = 1 << 64
_FRACTION = 2.0**-53


class Chance:
    """A stream of numbers that its `seed`, a text, decides: the same in every process and every version.

    Digests of the seed and a count. Python's own generator takes longer to be seeded than a run takes to
    draw all its numbers.
    """

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
        """A number in [0, 1)."""
        return (self.bits() >> 11) * _FRACTION

    def uniform(self, least: float, most: float) -> float:
        """A number between these two."""
        return least + (most - least) * self.random()

    def shuffle(self, items: list[Any]) -> None:
        """Put a list into any order, each as likely as the others."""
        for last in range(len(items) - 1, 0, -1):
            # 64 bits are so many more than the places of a list that no place is likelier than another.
            other = self.bits() * (last + 1) // _SPAN
            items[last], items[other] = items[other], items[last]
