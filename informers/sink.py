"""Applies what a reflector reads to a store and its handlers."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from attrs import define, field, frozen

from informers.handlers import Handlers
from informers.informer_selection import Matches
from informers.informer_tap import InformerTap
from informers.loop_slices import LoopSlice
from informers.reflector_state import (
    Clear,
    Commit,
    DropStage,
    Put,
    Reach,
    Remove,
    StageObjects,
    UnstageObject,
)
from informers.snapshot import Snapshot
from informers.store import Delta, Store
from informers.store_effects import Drop, Effect, Leave, Merge, StageLeft


@frozen
class _Merged:
    """The objects that `keeps` chooses were read at `version`, which the watch has yet to reach."""

    keeps: Matches
    version: int


@define(eq=False)
class Sink:
    """One part of a store, and the handlers of its changes.

    `wants` selects objects, `note_change` is called for each change, and `announce` has waiting tasks look
    again. `listed` are called when a list has replaced the content. `tap` gets what comes of each decision.
    """

    part: str
    store: Store
    handlers: Handlers
    wants: Matches
    note_change: Callable[[], None]
    announce: Callable[[], None]
    listed: Sequence[Callable[[], None]] = ()
    tap: InformerTap | None = None
    _merged: list[_Merged] = field(factory=list, init=False)

    def apply(self, output: Effect) -> None:
        """Apply a decision of the state machine to the store, and pass the changes to the handlers."""
        if self.tap is not None:
            for effect in self._effects(output):
                self.tap.applied(self.part, effect)
        match output:
            case Put(snapshot):
                if not self.wants(snapshot):
                    self._publish(self.store.leave(snapshot))
                elif self._merged and self._has_ended(snapshot):
                    self.store.reach(snapshot.version, self.part)
                else:
                    self._publish(self.store.put(snapshot))
            case Remove(snapshot):
                self._publish(self.store.remove(snapshot))
            case Reach(version):
                self.store.reach(version, self.part)
            case StageObjects(snapshots):
                for wanted, some in groupby(snapshots, self.wants):
                    (self.store.stage if wanted else self.store.stage_left)(some, self.part)
            case UnstageObject(key):
                self.store.unstage(key, self.part)
            case Commit(version):
                self._merged.clear()
                self._publish_all(self.store.commit(version, self.part))
                self._note_listed()
            case Clear():
                self._merged.clear()
                self._publish_all(self.store.clear(self.part))
            case DropStage():
                self.store.drop_stage(self.part)
            case Leave(snapshot):
                self._publish(self.store.leave(snapshot))
            case StageLeft(snapshots):
                self.store.stage_left(snapshots, self.part)
            case Merge(snapshots, initial):
                self._publish_all(self.store.merge(filter(self.wants, snapshots), initial=initial))
                self._note_listed()
            case Drop(key, missing_at):
                held = self.store.get(key)
                self._publish(None if held is None else self.store.drop(held, missing_at))

    def _effects(self, output: Effect) -> Iterator[Effect]:
        """The effects of a decision on the store, given its share and what was read apart from the list."""
        match output:
            case Put(snapshot) if not self.wants(snapshot):
                yield Leave(snapshot)
            case Put(snapshot) if self.store.is_past(snapshot) or (
                self._merged and self._has_ended(snapshot)
            ):
                yield Reach(snapshot.version)
            case StageObjects(snapshots):
                for wanted, some in groupby(snapshots, self.wants):
                    yield (StageObjects if wanted else StageLeft)(tuple(some))
            case Merge(snapshots, initial):
                yield Merge(tuple(filter(self.wants, snapshots)), initial)
            case _:
                yield output

    # --- a part that is read apart from the list ----------------------------------------------------

    def merge(self, snapshots: Sequence[Snapshot], *, initial: bool) -> None:
        """Take over what is newer than the store, from a list that is not older than the watch."""
        self.apply(Merge(snapshots, initial))

    def _note_listed(self) -> None:
        for call in self.listed:
            call()

    def note_merged(self, keeps: Matches, version: int) -> None:
        """All objects that `keeps` chooses are in the store as they are at `version`.

        The watch repeats how they came to be so. Of objects that do not exist any more it must bring nothing
        back.
        """
        self._merged.append(_Merged(keeps, version))

    async def drop(self, leaves: Matches, missing_at: int | None = None) -> None:
        """Remove, in slices, the objects that `leaves` chooses.

        They are not followed any more, or else a list at that version did not have them.
        """
        pace, gone = LoopSlice(), list[Delta]()
        pace.start()
        for snapshot in self.store.held(self.part):
            delta = self._drop(snapshot, missing_at) if leaves(snapshot) else None
            if delta is not None:
                gone.append(delta)
            if pace.due():
                self._publish_all(gone)
                gone = []
                await self.settle()
                await pace.pause()
        self._publish_all(gone)
        await self.settle()

    def _drop(self, snapshot: Snapshot, missing_at: int | None) -> Delta | None:
        if self.tap is not None and self.store.get(snapshot.key) is snapshot:  # it may have changed meanwhile
            self.tap.applied(self.part, Drop(snapshot.key, missing_at))
        return self.store.drop(snapshot, missing_at)

    def _has_ended(self, snapshot: Snapshot) -> bool:
        """Whether a state is the past of an object that was missing when its part was read."""
        self._merged = [merged for merged in self._merged if merged.version >= snapshot.version]
        return any(merged.keeps(snapshot) for merged in self._merged) and (
            self.store.get(snapshot.key) is None
        )

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
