"""Wall time, chance and identity, so that a test can decide all three.

Durations and deadlines are not here: they come from the event loop (`anyio.current_time`), which
the test kit makes virtual.
"""

import datetime
import random
import time
import uuid
from typing import Protocol

from attrs import define


class Clock(Protocol):
    """What no module may take from the standard library by itself."""

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
        """Seconds for which the machine was suspended so far, which the event loop's clock left out."""
        ...


@define
class SystemClock:
    """The machine's own time, chance and identity."""

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
        """Seconds for which the machine was suspended since it started; 0 where the platform cannot tell."""
        boottime = getattr(time, "CLOCK_BOOTTIME", None)
        return 0.0 if boottime is None else time.clock_gettime(boottime) - time.monotonic()
