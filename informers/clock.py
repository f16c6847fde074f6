"""Wall time, random numbers and UUIDs, which a test can decide. Durations come from `anyio.current_time`."""

import datetime
import random
import time
import uuid
from typing import Protocol

from attrs import define


class Clock(Protocol):
    """Replaces what no module may take from the standard library directly."""

    def now(self) -> datetime.datetime:
        """The wall time, aware, in UTC."""
        ...

    def random(self) -> float:
        """A number in [0, 1)."""
        ...

    def uuid(self) -> uuid.UUID:
        """A fresh version 4 UUID."""
        ...

    def suspended(self) -> float:
        """Seconds for which the machine has been suspended, which the event loop's clock does not count."""
        ...


@define
class SystemClock:
    """The machine's own time, random numbers and UUIDs."""

    def now(self) -> datetime.datetime:
        """The wall time, aware, in UTC."""
        return datetime.datetime.now(datetime.UTC)

    def random(self) -> float:
        """A number in [0, 1)."""
        return random.random()

    def uuid(self) -> uuid.UUID:
        """A fresh version 4 UUID."""
        return uuid.uuid4()

    def suspended(self) -> float:
        """Seconds for which the machine was suspended since its start; 0 where that is unknown."""
        boottime = getattr(time, "CLOCK_BOOTTIME", None)
        return 0.0 if boottime is None else time.clock_gettime(boottime) - time.monotonic()
