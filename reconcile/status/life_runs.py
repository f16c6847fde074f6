"""The runs of one object as JSON has them: what woke each, what it read and wrote, and what followed."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from attrs import define, field, frozen

from informers import APIResource, Informer, Key, Snapshot
from reconcile.controller.run_history import ActiveRun, PastRun
from reconcile.controller.runner import Runner
from reconcile.controller.write_details import Place, WriteDetail
from reconcile.ops.debug_state import waiting_place
from reconcile.runs.run_request import Cause
from reconcile.status.life_form import RUNNING
from reconcile.status.object_health import short
from reconcile.status.shown_values import ShownValues, without_pairs
from reconcile.status.write_differences import fields_written

TEXT_CHARACTERS: Final = 400
PROSE_CHARACTERS: Final = 2000
PROSE_SEARCHED: Final = 16_384
"""Characters of a text of an author that are searched for passwords; the rest is cut."""
FIELDS_OF_A_LIFE: Final = 400
"""Changed fields that are shown, of the newest runs first: each takes the manager's loop some 15 µs."""
BYTES_OF_A_LIFE: Final = 1024 * 1024
"""Of the states before and after writes that are compared, of the newest runs first: they take some 10 ms."""

Change: TypeAlias = tuple[APIResource, Key, int]
"""An object at the version that a write gave it."""


class Origin(NamedTuple):
    """The run that a run follows from; `at`: when it did what woke that one (event loop's time)."""

    controller: str
    key: str
    reconcile_id: str
    at: float | None = None

    def shown(self) -> Mapping[str, str]:
        return {"controller": self.controller, "key": self.key, "run": self.reconcile_id}


@define
class FieldRoom:
    """How many more changed fields are to be shown, and how many bytes of objects read to find them."""

    left: int = FIELDS_OF_A_LIFE
    bytes_left: int = BYTES_OF_A_LIFE


@frozen
class RunView:
    """What is needed to show runs. `wall` makes unix seconds of the event loop's, `redact` hides secrets.

    `shown` makes the values of a kind readable, `origins` are the runs that wrote what woke others.
    """

    wall: Callable[[float], float]
    redact: Callable[[str], str]
    shown: Callable[[APIResource], ShownValues]
    informer_of: Callable[[APIResource], Informer | None]
    origins: Mapping[Change, Origin]
    room: FieldRoom = field(factory=FieldRoom)

    def text(self, text: str, most: int = TEXT_CHARACTERS) -> str:
        return short(self.redact(text), most)

    def prose(self, text: str, most: int = PROSE_CHARACTERS) -> str:
        """The same of a text in an author's words: it may have a password that is in no Secret."""
        return short(without_pairs(self.text(text, PROSE_SEARCHED)), most)


def changes_in(causes: Iterable[Cause]) -> Iterator[Change]:
    """The changes of objects among causes."""
    for cause in causes:
        if cause.resource is not None and cause.key is not None and cause.version:
            yield cause.resource, cause.key, cause.version


def origins_of(changes: Iterable[Change], runners: Iterable[Runner[Any]]) -> Mapping[Change, Origin]:
    """The remembered runs of these controllers that made these changes."""
    wanted, found = set(changes), dict[Change, Origin]()
    versions = {version for _, _, version in wanted}
    for runner in runners if wanted else ():
        for request, runs in runner.history.recent():
            for run in runs:
                for write in _details(run) or ():
                    # The version first: of thousands of writes hardly one passes.
                    if write.version in versions:
                        change = (write.resource, write.key, write.version)
                        found[change] = Origin(runner.name, str(request.key), run.reconcile_id, write.ended)
    return {change: origin for change, origin in found.items() if change in wanted}


def states_written(runs: Iterable[PastRun], place: Place) -> Iterator[Snapshot]:
    """The states of an object before and after each write of these runs, as far as they are kept."""
    for run in runs:
        for write in _details(run) or ():
            if (write.resource, write.key) == place:
                yield from (state for state in (write.before, write.after) if state is not None)


def runs_shown(
    past: Sequence[PastRun], active: ActiveRun | None, due_at: float | None, view: RunView, name: Origin
) -> Sequence[Mapping[str, Any]]:
    """The runs of a key, newest first; `name` has its controller and key, `due_at` is when it runs next."""
    shown = []
    if active is not None:
        shown.append(_active_run(active, _woken_by(active, past[-1] if past else None, view, name), view))
    for place, run in reversed(list(enumerate(past))):
        before = past[place - 1] if place else None
        follower = past[place + 1] if place + 1 < len(past) else active
        woken_by = _woken_by(run, None if run.left_out else before, view, name)
        shown.append(_past_run(run, woken_by, _next_at(run, follower, due_at), view))
    return shown


def _past_run(
    run: PastRun, woken_by: Sequence[Mapping[str, Any]], next_at: float | None, view: RunView
) -> Mapping[str, Any]:
    return {
        "id": run.reconcile_id,
        "started": view.wall(run.started),
        "ended": view.wall(run.ended),
        "attempt": run.attempt,
        "result": run.result,
        "error": view.prose(run.error),
        "at": view.text(run.at),
        "next_at": None if next_at is None else view.wall(next_at),
        "left_out": run.left_out,
        "woken_by": woken_by,
        "reads": [_read(resource, key, view) for resource, key in run.reads],
        "writes": list(_writes(run, view)),
    }


def _active_run(run: ActiveRun, woken_by: Sequence[Mapping[str, Any]], view: RunView) -> Mapping[str, Any]:
    """A run under way: what it does is known once it has ended."""
    return {
        "id": "",
        "started": view.wall(run.started),
        "ended": None,
        "attempt": run.attempt,
        "result": RUNNING,
        "error": "",
        "at": "" if run.task is None else view.text(waiting_place(run.task)),
        "next_at": None,
        "left_out": 0,
        "woken_by": woken_by,
        "reads": [],
        "writes": [],
    }


def _next_at(run: PastRun, follower: PastRun | ActiveRun | None, due_at: float | None) -> float | None:
    """When the run was to be followed by another one, if by itself (event loop's time)."""
    if follower is None:
        return due_at
    if run.requeue_after is not None:
        return run.ended + run.requeue_after
    if isinstance(follower, PastRun) and follower.left_out:
        return None
    is_next_try = any(cause.verb in ("retried", "scheduled") for cause in follower.causes)
    return follower.started if is_next_try else None


# --- what woke a run ----------------------------------------------------------------------------------


def _woken_by(
    run: PastRun | ActiveRun, before: PastRun | None, view: RunView, name: Origin
) -> Sequence[Mapping[str, Any]]:
    shown = []
    for cause in run.causes:
        origin = _origin(cause, before, view, name)
        shown.append(
            {
                "what": view.text(str(cause)),
                "at": None if origin is None or origin.at is None else view.wall(origin.at),
                "verb": cause.verb,
                "kind": "" if cause.resource is None else cause.resource.kind,
                "key": "" if cause.key is None else view.text(str(cause.key)),
                "from": None if origin is None else origin.shown(),
            }
        )
    return shown


def _origin(cause: Cause, before: PastRun | None, view: RunView, name: Origin) -> Origin | None:
    change = next(changes_in([cause]), None)
    if change is not None:
        return view.origins.get(change)
    # A retry and what a Result asked for follow from the run before; timers and the storm guard do not.
    follows = cause.verb == "retried" or (cause.verb == "scheduled" and not cause.note)
    if before is None or not before.reconcile_id or not follows:
        return None
    return name._replace(reconcile_id=before.reconcile_id, at=before.ended)


# --- what a run read and wrote ------------------------------------------------------------------------


def _read(resource: APIResource, key: Key | None, view: RunView) -> Mapping[str, Any]:
    """An object, or with an empty key a list."""
    return {"kind": resource.kind, "key": "" if key is None else view.text(str(key))}


def _writes(run: PastRun, view: RunView) -> Iterator[Mapping[str, Any]]:
    details = _details(run)
    if details is None:
        yield from (_write_in_words(text, view) for text in run.writes)
        return
    latest: dict[tuple[APIResource, Key], Snapshot] = {}
    for text, write in zip(run.writes, details, strict=False):
        place = (write.resource, write.key)
        yield _write(text, write, _state_before(write, latest.get(place)), view)
        if write.after is not None:
            latest[place] = write.after


def _details(run: PastRun) -> Sequence[WriteDetail] | None:
    return None if run.details is None else run.details.writes


def _state_before(write: WriteDetail, earlier: Snapshot | None) -> Snapshot | None:
    """What the cache had, or the answer to an earlier write of the run that the cache did not show yet."""
    if earlier is None or (write.before is not None and write.before.version >= earlier.version):
        return write.before
    return earlier


def _write(text: str, write: WriteDetail, before: Snapshot | None, view: RunView) -> Mapping[str, Any]:
    fields = _fields(write, before, view)
    return {
        "verb": text.partition(" ")[0],
        "kind": write.resource.kind,
        "key": view.text(str(write.key)),
        "at": view.wall(write.started),
        "seconds": round(write.ended - write.started, 6),
        "text": view.text(text),
        "secret": write.secret,
        "fields": None if fields is None else list(fields),
    }


def _fields(write: WriteDetail, before: Snapshot | None, view: RunView) -> Sequence[Mapping[str, str]] | None:
    if view.room.left <= 0 or view.room.bytes_left <= 0:
        return None
    if not write.secret and write.after is not None:
        view.room.bytes_left -= len(write.after.raw) + (0 if before is None else len(before.raw))
    informer = view.informer_of(write.resource)
    store = None if informer is None else informer.store
    fields = fields_written(write, before, store, view.shown(write.resource))
    view.room.left -= len(fields or ())
    return fields


def _write_in_words(text: str, view: RunView) -> Mapping[str, Any]:
    """A write of which only the words are left: `apply configmaps default/shop: .data.size -> version 12`."""
    verb, plural, key = [*text.split(" ", 3)[:3], "", ""][:3]
    return {
        "verb": verb,
        "kind": view.text(plural),
        "key": view.text(key.removesuffix(":")),
        "at": None,
        "seconds": None,
        "text": view.text(text),
        "secret": False,
        "fields": None,
    }
