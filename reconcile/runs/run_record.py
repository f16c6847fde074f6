"""The reads, writes and failures of one run: they decide what may be pruned and which changes are echoes."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from attrs import define, field

from informers import ApiError, APIResource, Key, NotFound, Snapshot
from reconcile.runs.run_request import Cause
from reconcile.runs.tenure import Tenure
from reconcile.runs.write_events import Answered, EndedWrite, Failed, WriteObserver

ObjectRef: TypeAlias = tuple[APIResource, Key | None]
"""An object, or without a key all objects of a resource."""

READS_KEPT = 32
"""Reads that are kept for display: more would make a run that lists for each child expensive."""


@define(eq=False)
class RunRecord(WriteObserver):
    """The reads of a run, the objects that it keeps, and its requests that have not succeeded yet."""

    reads: tuple[ObjectRef, ...] = field(default=(), init=False)
    rendered: dict[tuple[APIResource, Key, str], Any] | None = field(default=None, init=False)
    """The desired state by object and subresource; None where it is not recorded."""
    causes: Sequence[Cause] = field(default=(), init=False)
    primary: Snapshot | None = field(default=None, init=False)
    """The object that the run is for, as it was when the run began."""
    primary_resource: APIResource | None = field(default=None, init=False)
    """The resource of that object."""
    owner_is_there: bool = field(default=False, init=False)
    """Whether the server was asked for that object, and still had it."""
    tenure: Tenure | None = field(default=None, init=False)
    """What the run may write under; None where objects are not shared among replicas."""
    _elsewhere: tuple["RunRecord", ...] = field(default=(), init=False)
    _kept: dict[ObjectRef, Snapshot | None] = field(factory=dict, init=False)
    _failed: set[ObjectRef] = field(factory=set, init=False)
    _flawed: bool = field(default=False, init=False)
    _writes: list[EndedWrite] | None = field(default=None, init=False)

    def elsewhere(self) -> "RunRecord":
        """The record of the same run in another cluster, where a name means another object."""
        self._writes = [] if self._writes is None else self._writes
        other = _RecordElsewhere(self)
        other.rendered, other.causes, other.tenure = self.rendered, self.causes, self.tenure
        other._writes = self._writes
        self._elsewhere += (other,)
        return other

    def note_read(self, resource: APIResource, key: Key | None) -> None:
        if len(self.reads) < READS_KEPT:
            self.reads += ((resource, key),)

    def read_failed(self, resource: APIResource, key: Key | None) -> None:
        self._failed.add((resource, key))

    def read_answered(self, resource: APIResource, key: Key | None) -> None:
        self._failed.discard((resource, key))

    def note_desired(self, resource: APIResource, key: Key, subresource: str, body: Any) -> None:
        if self.rendered is not None:
            self.rendered[resource, key, subresource] = body

    def forget_desired(self, resource: APIResource, key: Key) -> None:
        """Leave an object out of the desired state: its content is random, so two runs may differ in it."""
        if self.rendered is not None:
            self.rendered.pop((resource, key, ""), None)

    def note_kept(self, resource: APIResource, key: Key) -> None:
        """Note that an object is already in its desired state, so nothing is sent."""
        self._keep((resource, key), None)

    def note_failure(self) -> None:
        """Note a failure of something other than a request."""
        self._flawed = True

    def answered(self, answered: Answered) -> None:
        """Keep the object that was created, updated or patched; a deletion keeps nothing."""
        # A name that the server chose is not the one that an earlier, failed attempt is noted under.
        self._failed.discard((answered.resource, answered.sent.key))
        if answered.written is not None or answered.method in ("PATCH", "PUT"):
            self._keep((answered.resource, answered.key), None if answered.dry else answered.written)
        self._append(answered)

    def failed(self, failed: Failed) -> None:
        """Count it, unless it is a cancellation or a deletion of an object that is already gone."""
        sent, error = failed.sent, failed.error
        if not isinstance(error, ApiError):
            return
        if not (sent.method == "DELETE" and isinstance(error, NotFound)):
            self._failed.add((sent.resource, sent.key))
        self._append(EndedWrite(sent))

    @property
    def writes(self) -> Sequence[EndedWrite]:
        return self._writes or ()

    def state_of(self, resource: APIResource, key: Key) -> Snapshot | None:
        """The object in the answer to this run's last write of it, if any."""
        return self._kept.get((resource, key))

    @property
    def flawless(self) -> bool:
        """Whether all requests and blocking calls of the run succeeded."""
        if self._failed or self._flawed:
            return False
        return all(record.flawless for record in self._elsewhere)

    def keeps(self, resource: APIResource, key: Key) -> bool:
        """Whether the run has written this object, so that it is not pruned."""
        return (resource, key) in self._kept

    def _keep(self, place: ObjectRef, state: Snapshot | None) -> None:
        self._kept[place] = state
        self._failed.discard(place)

    def _append(self, write: EndedWrite) -> None:
        # Most runs write nothing: a list for each would cost more than this check.
        if self._writes is None:
            self._writes = []
        self._writes.append(write)


@define(eq=False)
class _RecordElsewhere(RunRecord):
    """Of another cluster than that of the run's object."""

    home: RunRecord

    def note_read(self, resource: APIResource, key: Key | None) -> None:
        self.home.note_read(resource, key)


class NoRun(RunRecord):
    """The record of a client outside of runs: it stays empty, and prunes nothing."""

    def note_read(self, resource: APIResource, key: Key | None) -> None:
        """Keep nothing."""

    def read_failed(self, resource: APIResource, key: Key | None) -> None:
        """Keep nothing."""

    def note_kept(self, resource: APIResource, key: Key) -> None:
        """Keep nothing."""

    @property
    def flawless(self) -> bool:
        """False: the other objects that should exist are unknown."""
        return False


NO_RUN = NoRun()


def describe_read(resource: APIResource, key: Any) -> str:
    return f"{resource.plural} {key}" if key is not None else f"{resource.plural} (list)"


def changed_something(record: RunRecord | None) -> bool:
    """Whether the server accepted a write of a run, and an object is different since."""
    return record is not None and any(map(_is_change, record.writes))


def _is_change(write: EndedWrite) -> bool:
    if write.dry or not isinstance(write, Answered):
        return False
    base, written = write.base, write.written
    if base is None or written is None or base.version != written.version:
        return True
    # The answer to the write that ends an object may have the version from before.
    return base.terminating and not written.finalizers
