"""Parts of a collection that a reflector has yet to read again, apart from its list."""

import asyncio
from collections import deque
from collections.abc import Callable, Container, Mapping

from attrs import define, field

from informers.informer_selection import Matches
from informers.resource import Key
from informers.snapshot import Snapshot


@define(eq=False)
class OwedPart:
    """The objects that `keeps` chooses, as `selectors` do on the server; `initial`: for the first time."""

    keeps: Matches
    selectors: Mapping[str, str]
    initial: bool = False
    version: int = 0
    """At which they were read, if apart from the list."""
    done: bool = False
    """Whether the store has them, and the handlers too."""

    def misses(self, listed: Container[Key], version: int, held: Snapshot) -> bool:
        """Whether an object of the part is not among those listed at a version."""
        return held.key not in listed and held.version <= version and self.keeps(held)


@define(eq=False)
class OwedParts:
    """They are read one after the other, new parts last; a complete list stands for all.

    They outlast the run of a reflector.
    """

    failures: int = 0
    _waiting: deque[OwedPart] = field(factory=deque, init=False)
    _read: list[OwedPart] = field(factory=list, init=False)
    _rest: asyncio.TimerHandle | None = field(default=None, init=False)

    @property
    def next(self) -> OwedPart | None:
        """The part to read now."""
        return self._waiting[0] if self._waiting and self._rest is None else None

    def add(self, part: OwedPart) -> None:
        """Owe a further part, which ends a rest. What is read again goes first, as work waits for it."""
        at = len(self._waiting) if part.initial else sum(1 for one in self._waiting if not one.initial)
        self._waiting.insert(at, part)
        self.end_rest()

    def rest(self, seconds: float, wake: Callable[[], None]) -> None:
        """After a failure, have `wake` called when the next part is to be tried again."""

        def end() -> None:
            self._rest = None
            wake()

        self.end_rest()
        self.failures += 1
        self._rest = asyncio.get_running_loop().call_later(seconds, end)

    def end_rest(self) -> None:
        """The next part may be tried now."""
        rest, self._rest = self._rest, None
        if rest is not None:
            rest.cancel()

    def forgive(self) -> None:
        """Go on as if nothing had failed."""
        self.failures = 0
        self.end_rest()

    def note_read(self, part: OwedPart, version: int) -> None:
        """A part is in the store, as it is at a version."""
        part.version = version
        self._waiting.remove(part)
        self._read.append(part)
        self.forgive()

    def note_all_read(self) -> None:
        """The whole collection is in the store, or is gone from the server."""
        self._read += self._waiting
        self._waiting.clear()
        self.forgive()

    def note_heard(self) -> bool:
        """The handlers have what was read; returns whether that is news."""
        read, self._read = self._read, []
        for part in read:
            part.done = True
        return bool(read)
