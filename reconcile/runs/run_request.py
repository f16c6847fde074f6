"""The key of a run, its causes and its result."""

import math
from datetime import timedelta
from typing import Literal, NamedTuple, TypeAlias

import msgspec
from attrs import field, frozen

from informers import APIResource, Key
from reconcile.models import Object


class Request(NamedTuple):
    """The key of the object to reconcile: all that travels through the queue.

    `cluster` names one of `Manager(clusters=)`; it is empty where there is one cluster only.
    """

    namespace: str
    name: str
    cluster: str = ""

    @property
    def key(self) -> Key:
        """The key of the object in a store."""
        return Key(self.namespace, self.name)

    def __str__(self) -> str:
        return f"{self.cluster}:{self.key}" if self.cluster else str(self.key)


Named: TypeAlias = Request | Key | Object | str
"""The name of an object: the object, its key, or `namespace/name` (`name` alone without a namespace)."""


def as_request(named: Named) -> Request:
    """The request for a named object. Raises TypeError or ValueError if it names none."""
    if isinstance(named, Object):
        return Request(named.namespace, named.name)
    if isinstance(named, Request | Key):
        return Request(*named)
    if not isinstance(named, str):
        raise TypeError(f"{named!r} names no object: give a Request, a Key, the object, or namespace/name")
    namespace, _, name = named.rpartition("/")
    if not name or "/" in namespace:
        raise ValueError(f"{named!r} names no object: give namespace/name, or name")
    return Request(namespace, name)


# A Struct, since one is made for each change: a frozen attrs value costs a microsecond more.
CauseVerb: TypeAlias = Literal["added", "updated", "deleted", "resynced", "retried", "scheduled", "triggered"]


class Cause(msgspec.Struct, frozen=True):
    """Why a key runs: what happened to which object, at which version; `note` is for people.

    `echo`: the change is a write of this key's own, and nothing else. `since` is the version before, 0 where
    there was none. `paths` are the changed fields and `manager` is their writer, known only for keys that
    keep running (see `reconcile.storms`).
    """

    verb: CauseVerb
    resource: APIResource | None = None
    key: Key | None = None
    version: int = 0
    note: str = ""
    echo: bool = False
    since: int = 0
    paths: tuple[str, ...] = ()
    manager: str = ""

    def __str__(self) -> str:
        if self.resource is None:
            return _of_itself(self.verb, self.note)
        who = " by this key" if self.echo else f" by {self.manager}" if self.manager else ""
        what = f": {', '.join(self.paths)}" if self.paths else ""
        return f"{self.resource} {self.key} {self.verb} at version {self.version}{who}{what}"


def _of_itself(verb: str, note: str) -> str:
    """A cause other than a change of an object, in the words that follow `woken by`."""
    if verb == "retried":
        return "a retry"
    if verb == "scheduled":
        return {"": "its last run, which asked for it", EVERY: "its timer"}.get(note, note)
    return f"{verb}: {note}" if note else verb


EVERY = "every"
"""The note of a run for which the timer of a controller has asked."""

BY_HAND = Cause("triggered", note="by hand")
"""A person asked for the run."""


def _delay(given: float | timedelta | None) -> float | None:
    return None if given is None else seconds_of(given, "Result(requeue_after=)")


def seconds_of(given: float | timedelta, where: str) -> float:
    """Seconds, not below 0; checked here since the queue would refuse them in a worker."""
    seconds = given.total_seconds() if isinstance(given, timedelta) else given
    if not isinstance(seconds, int | float) or isinstance(seconds, bool):
        raise TypeError(f"{where}: expected a number of seconds or a timedelta, got {seconds!r}")
    if not seconds < math.inf:  # true of NaN too
        raise ValueError(f"{where}: expected a finite number of seconds, got {seconds}")
    return max(0.0, seconds)


@frozen
class Result:
    """What follows a reconcile: nothing, a run `requeue_after` seconds (or a timedelta), or a `requeue`.

    `requeue` is soon, and later each time in a row: 5 ms, doubled up to 1000 s (or as set by `backoff=` of
    the controller), as after failures, which count on. Any other result resets that count. `requeue_after` 0
    or less (a deadline that has passed) is at once, and paced: the key waits 5 ms, as after a first failure,
    each time, and takes its turn behind ready keys. The next run has the priority of this one, unless
    `priority` is given (higher runs first). Raises TypeError for another type of time or priority, ValueError
    for both at once, NaN and infinity.
    """

    requeue_after: float | None = field(default=None, converter=_delay)
    requeue: bool = False
    priority: int | None = None

    @property
    def wants_run(self) -> bool:
        """Whether it asks for another run."""
        return self.requeue or self.requeue_after is not None

    def __attrs_post_init__(self) -> None:
        if self.priority is not None and not isinstance(self.priority, int):
            raise TypeError(f"Result(priority=): expected a whole number, got {self.priority!r}")
        if self.requeue_after is not None and self.requeue:
            raise ValueError("Result: either requeue_after= or requeue=, not both")


class TerminalError(Exception):
    """Raised by a reconciler: trying again will not help until something changes."""


class TemporaryError(Exception):
    """Raised by a reconciler: the run has failed, and is tried again after `delay` seconds (or a timedelta).

    For a failure that says itself when to come back, such as a 429 with a Retry-After; any other error waits
    for the back-off of its key, which this one lengthens too. 0 or less is at once, and paced as the first
    back-off. Where a run raises several in a group, the shortest delay counts. Raises TypeError for another
    type of time, ValueError for NaN and infinity.
    """

    delay: float = 60.0
    """Seconds; also of a subclass that does not call `__init__`."""

    def __init__(self, message: str = "", delay: float | timedelta = 60.0) -> None:
        super().__init__(message)
        self.delay = seconds_of(delay, "TemporaryError(delay=)")
