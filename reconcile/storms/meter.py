"""Meters the writes of each key; takes no memory for keys that do not write."""

from collections import deque
from collections.abc import Sequence

import msgspec
from attrs import define, field

from informers import APIResource, Key, Snapshot
from reconcile.runs.run_request import Cause, Request
from reconcile.runs.write_events import EndedWrite
from reconcile.storms.changes import FieldRef, differences, effects_of, paths_of
from reconcile.storms.detection import WINDOW, FieldWrite, WokenBy

ACTIVE_SECONDS = 120.0
"""Two runs with writes within this many seconds make a key active. Rarer writes are not a storm."""

ACTIVE_KEYS = 1000
"""How many keys are searched for a loop at a time. Others wait until one of these is found to be in a loop,
or comes to rest: if they replaced each other, no key would be followed for long enough."""
FIELDS_A_KEY = 64
WRITES_A_FIELD = 16
"""More than any threshold of `detection`, so that a full history can always prove a loop."""


@define(eq=False)
class ActiveKey:
    """The writes of a key that keeps writing, and the last change of an object that woke it."""

    primary: tuple[APIResource, Key]
    runs: int = 0
    writes: int = 0
    last_write: float = 0.0
    histories: dict[FieldRef, deque[FieldWrite]] = field(factory=dict)
    trigger: tuple[APIResource, Snapshot | None, Snapshot] | None = None
    echo: Cause | None = None
    foreign: Cause | None = None
    spec: Snapshot | None = None
    deleted: deque[tuple[APIResource, Key]] = field(factory=lambda: deque(maxlen=FIELDS_A_KEY))
    written: dict[tuple[APIResource, Key], tuple[str, ...]] = field(factory=dict)
    manager: str = ""
    writes_of: tuple[APIResource, Key] | None = None
    reads: int = 0

    def spec_changed(self, primary: Snapshot) -> bool:
        """Whether the spec has changed in fields that the key itself does not write."""
        before = self.spec
        if before is None:
            return False
        if not before.is_same_object(primary):
            return True
        if before.generation is not None and before.generation == primary.generation:
            return False
        own = {ref.path for ref in self.histories if (ref.resource, ref.key) == self.primary}
        paths = (path for path, _, _ in differences(before, primary))
        return any(path not in own and not path.startswith((".status", ".metadata")) for path in paths)

    def note(self, sent: Sequence[EndedWrite], causes: Sequence[Cause], now: float) -> list[FieldRef]:
        """Note the writes of a run that has ended; returns the fields."""
        causes = [self._owned(cause) for cause in causes]
        self.writes += len(sent)
        self.last_write = now
        effects = [effect for write in sent for effect in effects_of(write)]
        made = any(effect.made for effect in effects)
        self.echo = next((cause for cause in causes if cause.echo), None)
        self.foreign = next((cause for cause in causes if cause.key is not None and not cause.echo), None)
        for effect in effects:
            if effect.ref not in self.histories and len(self.histories) >= FIELDS_A_KEY:
                continue
            history = self.histories.setdefault(effect.ref, deque(maxlen=WRITES_A_FIELD))
            history.append(FieldWrite(now, woken_by_of(causes, effect.ref), effect.after, made))
        self.written = {(write.resource, write.key): paths_of(write) for write in sent}
        self.deleted.extend((write.resource, write.key) for write in sent if write.method == "DELETE")
        for write in sent:
            if (write.resource, write.key) == self.primary and write.written is not None:
                self.spec = write.written
        return [effect.ref for effect in effects]

    def _owned(self, cause: Cause) -> Cause:
        """Mark the end of an object that the key deleted as an echo, which no version shows."""
        if cause.verb == "deleted" and (cause.resource, cause.key) in self.deleted:
            return msgspec.structs.replace(cause, echo=True)
        return cause


def woken_by_of(causes: Sequence[Cause], ref: FieldRef) -> WokenBy:
    """What woke a run, seen from a field that the run then wrote."""
    at_ref = [cause for cause in causes if (cause.resource, cause.key) == (ref.resource, ref.key)]
    if any(not cause.echo for cause in at_ref):
        return "reverted"
    if at_ref:
        return "echo"
    if any(cause.key is not None and not cause.echo for cause in causes):
        return "other"
    if any(cause.echo for cause in causes):
        return "own"
    return "retried" if any(cause.verb == "retried" for cause in causes) else "timed"


@define
class WatchedKey:
    """A key that wrote at `since`, and its writes once it keeps writing."""

    since: float
    active: ActiveKey | None = None


@define(eq=False)
class Meter:
    """The recent writes of each key of a controller."""

    resource: APIResource
    keys: dict[Request, WatchedKey] = field(factory=dict, init=False)
    _active: dict[Request, ActiveKey] = field(factory=dict, init=False)
    _candidates: dict[Request, ActiveKey] = field(factory=dict, init=False)
    _full_until: float = field(default=float("-inf"), init=False)

    @property
    def any_active(self) -> bool:
        return bool(self._active)

    def active(self, request: Request) -> ActiveKey | None:
        return self._active.get(request)

    def quiet(self, request: Request, now: float) -> None:
        watched = self.keys.get(request)
        if watched is None:
            return
        last = watched.since if watched.active is None else watched.active.last_write
        if now - last > (ACTIVE_SECONDS if watched.active is None else WINDOW):
            self.forget(request)
        elif watched.active is not None:
            watched.active.runs += 1

    def wrote(
        self,
        request: Request,
        primary: Snapshot,
        sent: Sequence[EndedWrite],
        causes: Sequence[Cause],
        now: float,
    ) -> list[FieldRef]:
        """Note a run that wrote, on that state of its object; returns the fields, if the key is active."""
        watched = self.keys.get(request)
        if watched is None or self._starts_afresh(watched, primary, now):
            self.forget(request)
            self.keys[request] = WatchedKey(now)
            return []
        active = watched.active
        if active is None:
            if not self._has_room(now):
                watched.since = now
                return []
            active = ActiveKey((self.resource, request.key), runs=1)
            watched.active = self._active[request] = self._candidates[request] = active
        active.runs += 1
        active.spec = primary
        return active.note(sent, causes, now)

    def note_loop(self, request: Request) -> None:
        """Stop searching a key that is in a loop, to make room for another."""
        self._candidates.pop(request, None)

    def _starts_afresh(self, watched: WatchedKey, primary: Snapshot, now: float) -> bool:
        if watched.active is None:
            return now - watched.since > ACTIVE_SECONDS
        return watched.active.spec_changed(primary)

    def forget(self, request: Request) -> None:
        self.keys.pop(request, None)
        self._active.pop(request, None)
        self._candidates.pop(request, None)

    def _has_room(self, now: float) -> bool:
        if len(self._candidates) < ACTIVE_KEYS:
            return True
        if now <= self._full_until:  # writes only get later, so the oldest is not searched again before that
            return False
        oldest = min(self._candidates, key=lambda request: self._candidates[request].last_write)
        self._full_until = self._candidates[oldest].last_write + ACTIVE_SECONDS
        if now <= self._full_until:
            return False
        self.forget(oldest)
        return True
