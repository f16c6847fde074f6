"""Which of the ready keys comes first, and which of the delayed ones is due first."""

import math
from bisect import bisect_left, insort
from collections import Counter, deque
from collections.abc import Hashable, Iterable, Mapping
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Generic, Protocol, TypeVar

from attrs import define, field

K = TypeVar("K", bound=Hashable)

_FEW = 64
"""A heap or a line with no more stale items than this is not swept: a sweep would cost more than it frees."""


class Heap(Generic[K]):
    """Keys by rank, lowest first, then first come. `first` is the lowest rank, infinity without a key."""

    def __init__(self) -> None:
        self.first = math.inf
        self._items: list[tuple[float, int, K]] = []
        self._places: dict[K, int] = {}  # an item whose place is not its key's is stale
        self._next_place = count()

    def __len__(self) -> int:
        return len(self._places)

    def members(self) -> list[K]:
        """All keys, in arbitrary order."""
        return list(self._places)

    def push(self, key: K, rank: float) -> None:
        """Add a key that is not in the heap."""
        place = self._places[key] = next(self._next_place)
        heappush(self._items, (rank, place, key))
        self.first = self._items[0][0]

    def __contains__(self, key: K) -> bool:
        return key in self._places

    def head(self) -> list[K]:
        """The first key; empty without one."""
        return [key for _, _, key in self._items[:1]]

    def remove(self, key: K) -> None:
        del self._places[key]
        self._settle()

    def pop(self) -> K:
        """Remove and return the first key. Raises IndexError without one."""
        _, _, key = heappop(self._items)
        del self._places[key]
        self._settle()
        return key

    def clear(self) -> None:
        self._items.clear()
        self._places.clear()
        self.first = math.inf

    def _settle(self) -> None:
        """Keep a live item at the top, and fewer stale ones than live ones."""
        if not self._places:
            self.clear()  # a dict keeps the table of its largest size until then
        if len(self._items) > 2 * len(self._places) + _FEW:
            self._items = [item for item in self._items if self._places.get(item[2]) == item[1]]
            heapify(self._items)
        while self._items and self._places.get(self._items[0][2]) != self._items[0][1]:
            heappop(self._items)
        self.first = self._items[0][0] if self._items else math.inf


class ReadyOrder(Protocol[K]):
    """The ready keys of a queue, in the order in which they are handed out."""

    def push(self, key: K, priority: int, ready_at: float) -> None:
        """Add a key that is not here, at the tail of its priority."""

    def raised(self, key: K, before: int, priority: int, ready_at: float) -> None:
        """Move a key from priority `before` to the tail of a higher one."""

    def remove(self, key: K, priority: int) -> None:
        """Remove a key of that priority."""

    def pop(self) -> K:
        """Remove and return the first key. Raises IndexError without one."""

    def depths(self) -> Mapping[int, int]:
        """The number of keys of each priority that has any."""

    def heads(self) -> Iterable[K]:
        """The keys among which is the one that has been ready for longest, but for keys that were raised."""

    def clear(self) -> None:
        """Remove all keys."""

    def __len__(self) -> int: ...


@define(eq=False)
class _Class(Generic[K]):
    """The keys of one priority, in line. A raised key leaves a stale place behind.

    A key comes back only at the tail, so of several places of a key the first ones are stale.
    """

    priority: int
    places: deque[K] = field(factory=deque)
    stale: dict[K, int] = field(factory=dict)
    number_of_stale: int = 0

    def __len__(self) -> int:
        return len(self.places) - self.number_of_stale

    def pop(self) -> K:
        key = self.places.popleft()
        while self.stale and self._passes(key):
            key = self.places.popleft()
        return key

    @property
    def head(self) -> K:
        """The key that `pop` would return."""
        while self.stale and self._passes(self.places[0]):
            self.places.popleft()
        return self.places[0]

    def lose(self, key: K) -> None:
        self.stale[key] = self.stale.get(key, 0) + 1
        self.number_of_stale += 1
        if len(self.places) > 2 * len(self) + _FEW:
            self.places = deque(key for key in self.places if not self._passes(key))

    def _passes(self, key: K) -> bool:
        """Whether the foremost place of `key` is stale, and is thereby removed."""
        stale = self.stale.pop(key, 0)
        if stale > 1:
            self.stale[key] = stale - 1
        self.number_of_stale -= stale > 0
        return stale > 0


class StrictOrder(ReadyOrder[K]):
    """Highest priority first, then first come. The cost does not depend on the number of keys."""

    def __init__(self) -> None:
        self._classes: dict[int, _Class[K]] = {}  # none of them empty
        self._priorities: list[int] = []  # those of the classes, ascending

    def __len__(self) -> int:
        return sum(len(members) for members in self._classes.values())

    def push(self, key: K, priority: int, ready_at: float) -> None:
        members = self._classes.get(priority)
        if members is None:
            members = self._classes[priority] = _Class(priority)
            insort(self._priorities, priority)
        members.places.append(key)

    def raised(self, key: K, before: int, priority: int, ready_at: float) -> None:
        self.remove(key, before)
        self.push(key, priority, ready_at)

    def remove(self, key: K, priority: int) -> None:
        members = self._classes[priority]
        members.lose(key)
        if not members:
            self._end(members)

    def pop(self) -> K:
        members = self._classes[self._priorities[-1]]
        key = members.pop()
        if not members:
            self._end(members)
        return key

    def depths(self) -> Mapping[int, int]:
        return {priority: len(self._classes[priority]) for priority in self._priorities}

    def heads(self) -> Iterable[K]:
        return [members.head for members in self._classes.values()]

    def clear(self) -> None:
        self._classes.clear()
        self._priorities.clear()

    def _end(self, members: _Class[K]) -> None:
        del self._classes[members.priority]
        del self._priorities[bisect_left(self._priorities, members.priority)]


class AgeingOrder(ReadyOrder[K]):
    """Highest priority first, where `seconds` of being ready weigh as much as one step of priority.

    All ready keys age alike, so the order of two keys never changes, and no rank has to.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._heap: Heap[tuple[K, int]] = Heap()  # each key with its priority
        self._depths: Counter[int] = Counter()

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, key: K, priority: int, ready_at: float) -> None:
        """Add a key that is not here, behind those of its priority that are as old."""
        self._heap.push((key, priority), ready_at - priority * self._seconds)
        self._depths[priority] += 1

    def raised(self, key: K, before: int, priority: int, ready_at: float) -> None:
        """Move a key from priority `before` to a higher one; it keeps its age."""
        self.remove(key, before)
        self.push(key, priority, ready_at)

    def remove(self, key: K, priority: int) -> None:
        self._heap.remove((key, priority))
        self._leave(priority)

    def pop(self) -> K:
        key, priority = self._heap.pop()
        self._leave(priority)
        return key

    def depths(self) -> Mapping[int, int]:
        return dict(sorted(self._depths.items()))

    def heads(self) -> Iterable[K]:
        return [key for key, _ in self._heap.head()]

    def clear(self) -> None:
        self._heap.clear()
        self._depths.clear()

    def _leave(self, priority: int) -> None:
        self._depths[priority] -= 1
        if not self._depths[priority]:
            del self._depths[priority]
