"""The clock of a simulation: virtual wall time, and random numbers and UUIDs from a seed."""

import asyncio
import datetime
import uuid

from attrs import define, field

from reconcile.testing.seeded_random import SeededRandom
from reconcile.testing.virtual_time import VirtualTimeLoop

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


@define(eq=False)
class VirtualClock:
    """An `informers.clock.Clock` for simulations; same seed, same numbers and same UUIDs.

    Under a `VirtualTimeLoop`, `now()` is `start` plus the loop's time. Without a running loop it stands
    still; under any other loop it follows that loop's time. It never goes back, even if it outlives
    several loops. Raises ValueError for a start without a time zone.
    """

    seed: int = 0
    start: datetime.datetime = START
    suspended_seconds: float = field(default=0.0, init=False)
    _base: float = field(default=0.0, init=False)
    _seen: float = field(default=0.0, init=False)
    _origin: float = field(default=0.0, init=False)
    _loop: asyncio.AbstractEventLoop | None = field(default=None, init=False, repr=False)
    _chance: SeededRandom = field(init=False, repr=False)
    _identity: SeededRandom = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        if self.start.tzinfo is None:
            raise ValueError("start needs a time zone: datetime.datetime(…, tzinfo=datetime.UTC)")
        self.start = self.start.astimezone(datetime.UTC)
        # Two streams, so that one more UUID does not change the random numbers.
        self._chance = SeededRandom(f"{self.seed}/chance")
        self._identity = SeededRandom(f"{self.seed}/identity")

    def now(self) -> datetime.datetime:
        """The virtual wall time, aware, in UTC."""
        self._follow_running_loop()
        self._look()
        return self.start + datetime.timedelta(seconds=self._base + self._seen)

    def random(self) -> float:
        """A number in [0, 1)."""
        return self._chance.random()

    def uuid(self) -> uuid.UUID:
        """A version 4 UUID that this clock has not given before."""
        return uuid.UUID(int=self._identity.bits() << 64 | self._identity.bits(), version=4)

    def suspended(self) -> float:
        """`suspended_seconds`, to which a test adds to suspend the machine."""
        return self.suspended_seconds

    def advance(self, seconds: float) -> None:
        """Move the wall time ahead without moving timers. Raises ValueError for seconds below 0."""
        if seconds < 0:
            raise ValueError(f"a clock that never goes back cannot advance by {seconds} s")
        self._follow_running_loop()
        self._base += seconds

    def _follow_running_loop(self) -> None:
        loop = asyncio._get_running_loop()
        if loop is None or loop is self._loop:
            return
        self._look()
        self._base += self._seen
        self._seen = 0.0
        self._loop = loop
        # A virtual loop starts at time 0, also if this clock is first read later.
        self._origin = 0.0 if isinstance(loop, VirtualTimeLoop) else loop.time()

    def _look(self) -> None:
        """Read the loop's time. A real loop that has ended is not read: its time would go on."""
        if self._loop is None:
            return
        if isinstance(self._loop, VirtualTimeLoop) or self._loop.is_running():
            self._seen = self._loop.time() - self._origin
