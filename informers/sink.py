"""Applies what a reflector reads to a store and its handlers."""

from collections.abc import Callable, Sequence

from attrs import frozen

from informers.handlers import Handlers
from informers.reflector_state import (
    Clear,
    Commit,
    DropStage,
    Output,
    Put,
    Reach,
    Remove,
    StageObjects,
    UnstageObject,
)
from informers.snapshot import Snapshot
from informers.store import Delta, Store


@frozen(eq=False)
class Sink:
    """One part of a store, and the handlers of its changes.

    `wants` selects objects, `note_change` is called for each change, and `announce` has waiting tasks look
    again.
    """

    part: str
    store: Store
    handlers: Handlers
    wants: Callable[[Snapshot], bool]
    note_change: Callable[[], None]
    announce: Callable[[], None]

    def apply(self, output: Output) -> None:
        """Apply a decision of the state machine to the store, and pass the changes to the handlers."""
        match output:
            case Put(snapshot):
                if self.wants(snapshot):
                    self._publish(self.store.put(snapshot))
                else:
                    self._publish(self.store.leave(snapshot))
            case Remove(snapshot):
                self._publish(self.store.remove(snapshot))
            case Reach(version):
                self.store.reach(version, self.part)
            case StageObjects(snapshots):
                self.store.stage(filter(self.wants, snapshots), self.part)
            case UnstageObject(key):
                self.store.unstage(key, self.part)
            case Commit(version):
                self._publish_all(self.store.commit(version, self.part))
            case Clear():
                self._publish_all(self.store.clear(self.part))
            case DropStage():
                self.store.drop_stage(self.part)

    async def settle(self) -> None:
        if self.handlers.unsettled:
            await self.handlers.settle()

    def _publish(self, delta: Delta | None) -> None:
        if delta is not None:
            self.note_change()
            self.handlers.publish(delta)

    def _publish_all(self, deltas: Sequence[Delta]) -> None:
        if deltas:
            self.note_change()
            self.handlers.publish_all(deltas)
        self.announce()
