"""What looks on while an informer works: for a recording of what the server has sent, and when."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from informers.snapshot import Snapshot
from informers.store_effects import Effect


class InformerTap(Protocol):
    """Called in the event loop, for each object: an implementation only notes what it gets."""

    def read(self, raw: bytes, snapshot: Snapshot) -> None:
        """The JSON of an object was read; what becomes of `snapshot` comes next, unless it is thrown away."""

    def applied(self, part: str, effect: Effect) -> None:
        """The store is about to change so, in the part of that namespace."""

    async def look(self) -> None:
        """The running task is about to read the store; it reads when this returns."""

    async def wait(self, wait: Callable[[], Awaitable[None]]) -> None:
        """Carry out a wait of the running task for the store; it goes on when this returns."""
