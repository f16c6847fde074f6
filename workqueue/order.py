"""Which of the ready keys comes first, and which of the delayed ones is due first."""

import math
from bisect import bisect_left, insort
from collections import Counter, deque
from collections.abc import Hashable, Mapping
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Generic, Protocol, TypeVar

from attrs import define, field

from workqueue.entries import Entry

K = TypeVar("K", bound=Hashable)

_FEW = 64
"""A heap with no more stale items than this is not worth a sweep."""


class Heap(Generic[K]):
    """Entries by rank, lowest first, and of one rank by first come. Any entry may leave.

    `first` is the lowest rank, infinity without an entry.
    """

    def __init__(self) -> None:
        self.first = math.inf
        self._items: list[tuple[float, int, Entry[K]]] = []
        self._places: dict[Entry[K], int] = {}  # an item whose place is not its entry's is stale
        self._next_place = count()

    def __len__(self) -> int:
        return len(self._places)

    def entries(self) -> list[Entry[K]]:
        """All entries, in no order that means anything."""
        return list(self._places)

    def push(self, entry: Entry[K], rank: float) -> None:
        """Take in an entry that is not in the heap."""
        place = self._places[entry] = next(self._next_place)
        heappush(self._items, (rank, place, entry))
        self.first = self._items[0][0]

    def remove(self, entry: Entry[K]) -> None:
        """Let an entry of the heap go."""
        del self._places[entry]
        self._settle()

    def pop(self) -> Entry[K]:
        """Take out the first entry. Raises IndexError without one."""
        _, _, entry = heappop(self._items)
        del self._places[entry]
        self._settle()
        return entry

    def clear(self) -> None:
        """Let all entries go."""
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
    """The ready entries of a queue, in the order in which they are handed out."""

    def push(self, entry: Entry[K]) -> None:
        """Take in an entry, at the tail of its priority."""

    def raised(self, entry: Entry[K], before: int) -> None:
        """The priority of an entry here is higher than it was `before`: it moves to the tail of the new."""

    def pop(self) -> Entry[K] | None:
        """Take out the first entry, if there is any."""

    def depths(self) -> Mapping[int, int]:
        """The number of entries of each priority that has any."""

    def clear(self) -> None:
        """Let all entries go."""

    def __len__(self) -> int: ...


@define(eq=False)
class _Class(Generic[K]):
    """The entries of one priority. One that was raised since is not of this class: its item is stale."""

    priority: int
    items: deque[Entry[K]] = field(factory=deque)
    stale: int = 0

    def __len__(self) -> int:
        return len(self.items) - self.stale

    def lose(self) -> None:
        """An entry was raised."""
        self.stale += 1
        if len(self.items) > 2 * len(self) + _FEW:
            self.items = deque(entry for entry in self.items if entry.priority == self.priority)
            self.stale = 0


class StrictOrder(Generic[K]):
    """Highest priority first, then first come. Costs the same however many keys there are."""

    def __init__(self) -> None:
        self._classes: dict[int, _Class[K]] = {}  # none of them empty
        self._priorities: list[int] = []  # those of the classes, ascending

    def __len__(self) -> int:
        return sum(len(members) for members in self._classes.values())

    def push(self, entry: Entry[K]) -> None:
        """Take in an entry, at the tail of its priority."""
        priority = entry.priority
        members = self._classes.get(priority)
        if members is None:
            members = self._classes[priority] = _Class(priority)
            insort(self._priorities, priority)
        members.items.append(entry)

    def raised(self, entry: Entry[K], before: int) -> None:
        """The priority of an entry here is higher than it was `before`: it moves to the tail of the new."""
        members = self._classes[before]
        members.lose()
        if not members:
            self._end(members)
        self.push(entry)

    def pop(self) -> Entry[K] | None:
        """Take out the first entry, if there is any."""
        if not self._priorities:
            return None
        priority = self._priorities[-1]
        members = self._classes[priority]
        items = members.items
        entry = items.popleft()
        while entry.priority != priority:
            members.stale -= 1
            entry = items.popleft()
        if len(items) == members.stale:
            self._end(members)
        return entry

    def depths(self) -> Mapping[int, int]:
        """The number of entries of each priority that has any."""
        return {priority: len(self._classes[priority]) for priority in self._priorities}

    def clear(self) -> None:
        """Let all entries go."""
        self._classes.clear()
        self._priorities.clear()

    def _end(self, members: _Class[K]) -> None:
        del self._classes[members.priority]
        del self._priorities[bisect_left(self._priorities, members.priority)]


class AgeingOrder(Generic[K]):
    """Highest priority first, where `seconds` of being ready weigh as much as one step of priority.

    All ready keys age alike, so of two the same one is ahead at all times: no rank ever changes.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._heap: Heap[K] = Heap()
        self._depths: Counter[int] = Counter()

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, entry: Entry[K]) -> None:
        """Take in an entry, behind those of its priority that are as old."""
        self._heap.push(entry, entry.ready_at - entry.priority * self._seconds)
        self._depths[entry.priority] += 1

    def raised(self, entry: Entry[K], before: int) -> None:
        """The priority of an entry here is higher than it was `before`: it moves up, and keeps its age."""
        self._heap.remove(entry)
        self._leave(before)
        self.push(entry)

    def pop(self) -> Entry[K] | None:
        """Take out the first entry, if there is any."""
        if not self._heap:
            return None
        entry = self._heap.pop()
        self._leave(entry.priority)
        return entry

    def depths(self) -> Mapping[int, int]:
        """The number of entries of each priority that has any."""
        return dict(sorted(self._depths.items()))

    def clear(self) -> None:
        """Let all entries go."""
        self._heap.clear()
        self._depths.clear()

    def _leave(self, priority: int) -> None:
        self._depths[priority] -= 1
        if not self._depths[priority]:
            del self._depths[priority]
