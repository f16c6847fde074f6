"""How a store is kept equal to a server, as a state machine without I/O.

A state says what is to be done next, an input what came of it:

    Listing   read one page of a list           -> PageRead, Failed
    Watching  watch from a version              -> EventRead, BookmarkRead, StreamEnded, Failed
    Resting   wait, then go on with `then`      -> Rested

`step` gives the next state and what to do to the store. Lists are consistent (the version is left
unset, never "0", which may answer from the past). A watch that ends is resumed from the last version;
only a version that the server no longer keeps costs a new list.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from attrs import evolve, frozen

from informers.errors import Expired, ServerError, TooManyRequests, TransportError
from informers.snapshot import Snapshot

FIRST_REST = 0.8
LONGEST_REST = 30.0
HEALTHY_AFTER = 120.0
"""A stream that lived this long (s) clears the failures before it (client-go's reflector)."""
SHORT_STREAM = 1.0
"""A stream that ended sooner (s) without an event is a failure: else a broken server means a hot loop."""
EMPTY_STREAMS_MEAN_EXPIRED = 3
"""So many short empty streams in a row: some servers drop an old version without a 410."""


@frozen
class Listing:
    """Read the page after `token` (empty: the first page)."""

    token: str = ""
    failures: int = 0


@frozen
class Watching:
    """Watch from `version`; `empty` counts the short empty streams since the last event."""

    version: int
    failures: int = 0
    empty: int = 0


@frozen
class Resting:
    """Wait `seconds`, then go on with `then`."""

    seconds: float
    then: "Listing | Watching"


State: TypeAlias = Listing | Watching | Resting


@frozen
class PageRead:
    """A page of a list: its objects, the version of the whole list, the token of the next page."""

    snapshots: Sequence[Snapshot]
    version: int
    token: str = ""


@frozen
class EventRead:
    """An event of a watch."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    snapshot: Snapshot


@frozen
class BookmarkRead:
    """The server says that nothing up to `version` is missing."""

    version: int


@frozen
class StreamEnded:
    """The server closed a watch in the normal way, `seconds` after it was opened."""

    seconds: float
    events: int
    chance: float = 0.0


@frozen
class Failed:
    """A request failed, or a stream broke; `chance` in [0, 1) draws the jitter of the rest."""

    error: Exception
    chance: float = 0.0
    seconds: float = 0.0


@frozen
class Rested:
    """The wait is over."""


Input: TypeAlias = PageRead | EventRead | BookmarkRead | StreamEnded | Failed | Rested


@frozen
class Stage:
    """Keep these objects of an unfinished list aside."""

    snapshots: Sequence[Snapshot]


@frozen
class Commit:
    """The list is whole: make what was staged the content of the store, at `version`."""

    version: int


@frozen
class DropStage:
    """The list cannot be finished: forget what was staged."""


@frozen
class Put:
    """Add or update an object."""

    snapshot: Snapshot


@frozen
class Remove:
    """Forget an object; this is its last state."""

    snapshot: Snapshot


@frozen
class Reach:
    """Nothing up to `version` is missing."""

    version: int


Output: TypeAlias = Stage | Commit | DropStage | Put | Remove | Reach


def step(state: State, given: Input) -> tuple[State, Sequence[Output]]:
    """The next state and what to do to the store. Pure; raises TypeError for an input out of place."""
    match state, given:
        case Watching(), EventRead(kind, snapshot):
            output = Remove(snapshot) if kind == "DELETED" else Put(snapshot)
            return Watching(max(state.version, snapshot.version)), (output,)
        case Watching(), BookmarkRead(version):
            return Watching(max(state.version, version)), (Reach(version),)
        case Watching(), StreamEnded():
            return _after_stream(state, given), ()
        case Watching(), Failed():
            return _after_broken_watch(state, given), ()
        case Listing(), PageRead(snapshots, version, token):
            if token:
                return Listing(token), (Stage(snapshots),)
            return Watching(version), (Stage(snapshots), Commit(version))
        case Listing(), Failed():
            return _after_failed_list(state, given), (DropStage(),)
        case Resting(), Rested():
            return state.then, ()
    raise TypeError(f"{type(given).__name__} does not fit {type(state).__name__}")


def rest(failures: int, chance: float, error: Exception | None = None) -> float:
    """Seconds to wait after so many failures in a row; what the server asks for is the least."""
    seconds = min(FIRST_REST * 2.0 ** min(failures, 10), LONGEST_REST) * (1 + chance)
    if isinstance(error, TooManyRequests) and error.retry_after is not None:
        return max(seconds, error.retry_after)
    return seconds


def _after_stream(state: Watching, ended: StreamEnded) -> State:
    if ended.events or ended.seconds >= SHORT_STREAM:
        return Watching(state.version)
    empty = state.empty + 1
    if empty >= EMPTY_STREAMS_MEAN_EXPIRED:
        return Resting(rest(empty, ended.chance), Listing())
    return Resting(rest(state.empty, ended.chance), evolve(state, empty=empty))


def _after_broken_watch(state: Watching, failed: Failed) -> State:
    if isinstance(failed.error, Expired):
        return Listing()
    failures = 0 if failed.seconds >= HEALTHY_AFTER else state.failures
    again = evolve(state, failures=failures + 1)
    if isinstance(failed.error, TransportError | TooManyRequests | ServerError):
        return Resting(rest(failures, failed.chance, failed.error), again)
    return Resting(rest(failures, failed.chance), Listing(failures=failures + 1))


def _after_failed_list(state: Listing, failed: Failed) -> State:
    if isinstance(failed.error, Expired) and state.token:
        return Listing(failures=state.failures)
    return Resting(rest(state.failures, failed.chance, failed.error), Listing(failures=state.failures + 1))
