"""Where a reflector puts what it reads."""

from collections.abc import Sequence
from typing import Protocol

from informers.resource import Key
from informers.snapshot import Snapshot


class Sink(Protocol):
    """One part of a store, and the handlers of its changes."""

    def put(self, snapshot: Snapshot) -> None:
        """An object was added or changed."""

    def remove(self, snapshot: Snapshot) -> None:
        """An object is gone; this is its last state."""

    def reach(self, version: int) -> None:
        """Nothing up to that version is missing."""

    def stage(self, snapshots: Sequence[Snapshot]) -> None:
        """Objects of an unfinished list."""

    def unstage(self, key: Key) -> None:
        """An object of an unfinished list is gone again."""

    def drop_stage(self) -> None:
        """The list was not finished."""

    def commit(self, version: int) -> None:
        """The list is whole."""

    def clear(self) -> None:
        """There are no objects any more."""

    def announce(self) -> None:
        """Something may have changed: waiting tasks look again."""

    async def settle(self) -> None:
        """Hand queued changes to the handlers."""
