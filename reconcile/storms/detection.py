"""Finds loops: pure functions over the writes of one key."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from attrs import evolve, frozen

from informers import APIResource, Key
from reconcile.storms.changes import ABSENT, PRESENT, WHOLE, FieldRef

WINDOW = 600.0
"""Seconds of history that count. A key that writes less than once a minute harms nothing."""

# The thresholds are where 200 simulated storms are all found within 14 runs, and none of 200 busy but healthy
# controllers is taken for one (rollouts, scaling, resyncs, rotations): docs/explanation/storms.md.
OWN_REWRITES = 8
"""Writes to one field in runs that a write to the same object woke."""
OTHER_REWRITES = 12
"""The same where a write to another object woke it: more, since a rollout reports on its objects."""
REVERTS = 6
"""Writes that put back a value that another writer has changed."""
FLIPS = 8
"""Writes of a few values in turn, whatever woke the run."""
UNMADE = 6
"""Objects of one kind that the key created and deleted again."""
VALUES = 3
"""The most values that count as a cycle: ever new values are progress, such as those of a counter."""

WokenBy: TypeAlias = Literal["echo", "own", "reverted", "other", "timed", "retried"]
"""What woke the run of a write. `echo`: the key's own write to that very object. `own`: its own write to
another one. `reverted`: a foreign change of that object. `other`: a foreign change of another one. `timed`:
the author asked for it. `retried`: a failure; its back-off slows it, so it never counts."""


class FieldWrite(NamedTuple):
    """One write to one field: when (event loop's seconds), after what, and the fingerprint of the value."""

    at: float
    woken_by: WokenBy
    after: int
    made: bool
    """The same run created or deleted objects, so it may be making progress."""


LoopKind: TypeAlias = Literal["rewritten", "fought", "flipping", "churning"]


@frozen
class WakeLoop:
    """A key that wakes itself, or that is in a fight.

    `rewritten`: its writes wake it to write again. `fought`: another writer undoes its writes. `flipping`: it
    writes the same few values in turn. `churning`: it creates objects and deletes them again, each under a
    new name; `key` is one of them.
    """

    kind: LoopKind
    resource: APIResource
    key: Key
    paths: Sequence[str]
    values: int
    writes: int

    def includes(self, ref: FieldRef) -> bool:
        if self.kind == "churning":
            return ref.resource == self.resource and ref.path == WHOLE
        if (ref.resource, ref.key) != (self.resource, self.key):
            return False
        return not self.paths or ref.path in self.paths


Histories: TypeAlias = Mapping[FieldRef, Iterable[FieldWrite]]


def find_loop(
    histories: Histories, now: float, primary: tuple[APIResource, Key] | None = None
) -> WakeLoop | None:
    """The worst loop of a key, with all its paths; `histories` begin with the last change of its spec."""
    best: WakeLoop | None = None
    for ref, history in histories.items():
        writes = [write for write in history if write.at > now - WINDOW and write.woken_by != "retried"]
        kind = _kind(ref, writes, primary)
        if kind is not None and (best is None or best.writes < len(writes)):
            values = len({write.after for write in writes})
            best = WakeLoop(kind, ref.resource, ref.key, (), values, len(writes))
    if best is None:
        return _churning(histories, now)
    return evolve(best, paths=_paths(histories, best, now))


def _kind(
    ref: FieldRef, writes: Sequence[FieldWrite], primary: tuple[APIResource, Key] | None
) -> LoopKind | None:
    cycling = len({write.after for write in writes}) <= VALUES
    reverted = sum(write.woken_by == "reverted" for write in writes)
    if cycling and reverted >= REVERTS:
        return "fought"
    # A run that also makes or deletes objects counts only while the values repeat: else it may get somewhere.
    own = [write for write in writes if write.woken_by in ("echo", "own") and (cycling or not write.made)]
    if sum(write.woken_by == "echo" for write in own) >= OWN_REWRITES or len(own) >= OTHER_REWRITES:
        return "rewritten"
    # The status of the key's own object reports on other objects, so it may well flip when they do.
    is_report = primary == (ref.resource, ref.key) and ref.path.startswith(".status")
    flips = sum(not (is_report and write.woken_by in ("other", "reverted")) for write in writes)
    return "flipping" if cycling and flips >= FLIPS else None


def _churning(histories: Histories, now: float) -> WakeLoop | None:
    """Objects of one kind that the key both created and deleted, in runs that its own writes woke."""
    unmade: dict[APIResource, list[Key]] = {}
    for ref, history in histories.items():
        own = {w.after for w in history if w.at > now - WINDOW and w.woken_by in ("echo", "own")}
        if ref.path == WHOLE and own == {ABSENT, PRESENT}:
            unmade.setdefault(ref.resource, []).append(ref.key)
    for resource, keys in unmade.items():
        if len(keys) >= UNMADE:
            return WakeLoop("churning", resource, keys[-1], (), len(keys), 2 * len(keys))
    return None


def _paths(histories: Histories, loop: WakeLoop, now: float) -> tuple[str, ...]:
    """The fields of the object that are written at least half as often as the worst one."""
    return tuple(
        sorted(
            ref.path
            for ref, history in histories.items()
            if (ref.resource, ref.key) == (loop.resource, loop.key)
            and 2 * sum(write.at > now - WINDOW for write in history) >= loop.writes
            and ref.path != WHOLE
        )
    )
