"""How a store is kept equal to a server: a state machine without I/O.

A state says what to do next, an input what came of it:

    Streaming  watch with initial events   -> ItemsRead, and as Watching
    Listing    read one page of a list     -> ItemsRead, PageRead, RequestFailed
    Watching   watch from a version        -> EventRead, BookmarkRead, StreamEnded, RequestFailed
    Resting    wait, then go on to `then`  -> Rested

`step` returns the next state and what to do to the store. A streaming list continues as a watch without a
second request; if it fails, a paged list takes its place. Lists are consistent (the version is unset, never
"0", which may be answered from the past). A watch that ends is resumed; only a version that the server no
longer keeps, or has not reached, costs a new list. There is a rest between two requests, except before the
first of a new list. The values are Structs, as each event needs several and Structs are created fastest.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from informers.api_errors import (
    Expired,
    NotFound,
    ServerError,
    StatusError,
    TooManyRequests,
    TransportError,
)
from informers.resource import Key
from informers.snapshot import Snapshot

# client-go's reflector: 800 ms, doubled up to 30 s, and as much again at random.
FIRST_REST = 0.8
LONGEST_REST = 30.0
MOST_ASKED = 300.0
"""Longest Retry-After (s) that is followed: a proxy must not stop an operator for hours."""
HEALTHY_AFTER = 120.0
"""A stream that lasted this long (s) clears the failures before it, as in client-go's reflector."""
SHORT_STREAM = 1.0
"""A stream that ended sooner (s) counts as a failure: otherwise a broken server would cause a hot loop."""
RECONNECT_JITTER = 1.0
"""Longest pause (s) after the normal end of a stream: streams of many informers tend to end together."""
EMPTY_STREAMS_MEAN_EXPIRED = 3
"""Short empty streams in a row that cost a new list: some servers end an expired watch without a 410."""
ABSENCES_MEAN_GONE = 2
"""404 answers in a row that empty the store: a server that has just started may send one by mistake."""


class Streaming(msgspec.Struct, frozen=True):
    """Watch without a version: the server sends all objects, then a bookmark, then changes."""

    failures: int = 0


class Listing(msgspec.Struct, frozen=True):
    """Read the page after `token` (empty: the first page); `absent` counts the 404s in a row."""

    token: str = ""
    failures: int = 0
    absent: int = 0


class Watching(msgspec.Struct, frozen=True):
    """Watch from `version`; `empty` counts the short empty streams since the last event."""

    version: int
    failures: int = 0
    empty: int = 0


class Resting(msgspec.Struct, frozen=True):
    seconds: float
    then: Streaming | Listing | Watching


State: TypeAlias = Streaming | Listing | Watching | Resting


class ItemsRead(msgspec.Struct, frozen=True):
    """Objects of an incomplete page or initial state."""

    snapshots: Sequence[Snapshot]


class PageRead(msgspec.Struct, frozen=True):
    """A page is complete: the version of the list, and the token of the next page."""

    version: int
    token: str = ""


class EventRead(msgspec.Struct, frozen=True):
    type: Literal["ADDED", "MODIFIED", "DELETED"]
    snapshot: Snapshot


class BookmarkRead(msgspec.Struct, frozen=True):
    """Nothing up to `version` is missing; `whole` ends the initial events."""

    version: int
    whole: bool = False


class StreamEnded(msgspec.Struct, frozen=True):
    """The server closed a watch normally, `seconds` after it was opened."""

    seconds: float
    events: int
    chance: float = 0.0


class RequestFailed(msgspec.Struct, frozen=True):
    """A request failed, or a stream broke; `chance` in [0, 1) draws the jitter of the rest."""

    error: Exception
    chance: float = 0.0
    seconds: float = 0.0


class Rested(msgspec.Struct, frozen=True):
    """The wait is over."""


Input: TypeAlias = ItemsRead | PageRead | EventRead | BookmarkRead | StreamEnded | RequestFailed | Rested


class StageObjects(msgspec.Struct, frozen=True):
    """Keep these objects of an incomplete list aside."""

    snapshots: Sequence[Snapshot]


class UnstageObject(msgspec.Struct, frozen=True):
    """An object of an incomplete list was deleted."""

    key: Key


class Commit(msgspec.Struct, frozen=True):
    """The list is complete: the staged objects become the content of the store, at `version`."""

    version: int


class DropStage(msgspec.Struct, frozen=True):
    """The list cannot be completed: forget what was staged."""


class Clear(msgspec.Struct, frozen=True):
    """The resource no longer exists, nor do its objects."""


class Put(msgspec.Struct, frozen=True):
    snapshot: Snapshot


class Remove(msgspec.Struct, frozen=True):
    """Forget an object; this is its last state."""

    snapshot: Snapshot


class Reach(msgspec.Struct, frozen=True):
    """Nothing up to `version` is missing."""

    version: int


Output: TypeAlias = StageObjects | UnstageObject | Commit | DropStage | Clear | Put | Remove | Reach
Step: TypeAlias = tuple[State, Sequence[Output]]


def step(state: State, given: Input) -> Step:
    """The next state, and what to do to the store. Raises TypeError for an input that does not fit."""
    match state:
        case Watching():
            after = _in_watch(state, given)
        case Streaming():
            after = _in_streaming(state, given)
        case Listing():
            after = _in_list(state, given)
        case Resting():
            after = (state.then, ()) if isinstance(given, Rested) else None
    if after is None:
        raise TypeError(f"{type(given).__name__} does not fit {type(state).__name__}")
    return after


def rested(state: State) -> Streaming | Listing | Watching:
    """The state after the rest, if it is one."""
    return state.then if isinstance(state, Resting) else state


def recovered(state: State) -> State:
    """The state after an outage: without a rest, as if nothing had failed, from a first page."""
    after = rested(state)
    match after:
        case Watching(version):
            return Watching(version)
        case Listing(absent=absent):
            return Listing(absent=absent)
    return Streaming()


def begun_again(state: State) -> State:
    """The state when other objects are to be followed: a list under way does not have them."""
    return Listing("", state.failures, state.absent) if isinstance(state, Listing) else state


def is_gone(state: State) -> bool:
    """Whether the server has no such resource, so that nothing of it is missing."""
    after = rested(state)
    return isinstance(after, Listing) and after.absent >= ABSENCES_MEAN_GONE


def _in_watch(state: Watching, given: Input) -> Step | None:
    match given:
        case EventRead(kind, snapshot):
            return _after_event(state, kind, snapshot)
        case BookmarkRead(version):
            return _after_bookmark(state, version)
        case StreamEnded():
            return _after_watch(state, given), ()
        case RequestFailed():
            return _after_broken_watch(state, given), ()
    return None


def _in_streaming(state: Streaming, given: Input) -> Step | None:
    match given:
        case ItemsRead(snapshots):
            return state, (StageObjects(snapshots),)
        case EventRead("DELETED", snapshot):
            return state, (UnstageObject(snapshot.key),)
        case EventRead(_, snapshot):
            return state, (StageObjects((snapshot,)),)
        case BookmarkRead(version, whole):
            # Objects of the first state come in any order: only the bookmark says of which version they are.
            return (Watching(version, state.failures), (Commit(version),)) if whole else (state, ())
        case StreamEnded():
            return Listing(failures=state.failures), (DropStage(),)
        case RequestFailed():
            return _after_broken_streaming(state, given), (DropStage(),)
    return None


def _in_list(state: Listing, given: Input) -> Step | None:
    match given:
        case ItemsRead(snapshots):
            return state, (StageObjects(snapshots),)
        case PageRead(version, ""):
            return Watching(version, state.failures), (Commit(version),)
        case PageRead(_, token):
            return Listing(token, state.failures), ()
        case RequestFailed():
            return _after_failed_list(state, given)
    return None


def rest(failures: int, chance: float, error: Exception | None = None) -> float:
    """Seconds to wait after that many failures in a row, and no less than the server asks for, up to 300."""
    seconds = min(FIRST_REST * 2.0 ** min(failures, 10), LONGEST_REST) * (1 + chance)
    if isinstance(error, StatusError) and error.retry_after is not None:
        return max(seconds, min(error.retry_after, MOST_ASKED))
    return seconds


def _after_event(state: Watching, kind: str, snapshot: Snapshot) -> Step:
    version = snapshot.version
    if version > state.version:
        output = Remove(snapshot) if kind == "DELETED" else Put(snapshot)
        return Watching(version, state.failures), (output,)
    if kind == "DELETED":
        # A deletion is final, and some servers send it with the version of the last change.
        return state, (Remove(snapshot),)
    return (state if version == state.version else _after_going_back(state)), ()


def _after_bookmark(state: Watching, version: int) -> Step:
    if version < state.version:
        return _after_going_back(state), ()
    return Watching(version, state.failures, state.empty), (Reach(version),)


def _after_going_back(state: Watching) -> State:
    """After an event older than the version reached, from a server that was restored or repeats itself.

    Only a list can tell which.
    """
    return Resting(rest(state.failures, 0.0), Listing(failures=state.failures + 1))


def _after_watch(state: Watching, ended: StreamEnded) -> State:
    if ended.seconds >= SHORT_STREAM:
        failures = 0 if ended.seconds >= HEALTHY_AFTER else state.failures
        return Resting(RECONNECT_JITTER * ended.chance, Watching(state.version, failures))
    again = Watching(state.version, state.failures + 1, 0 if ended.events else state.empty + 1)
    wait = rest(state.failures, ended.chance)
    if again.empty >= EMPTY_STREAMS_MEAN_EXPIRED:
        return Resting(wait, Streaming(again.failures))
    return Resting(wait, again)


def _after_broken_watch(state: Watching, failed: RequestFailed) -> State:
    failures = 0 if failed.seconds >= HEALTHY_AFTER else state.failures
    wait = rest(failures, failed.chance, failed.error)
    if isinstance(failed.error, Expired):
        # The first 410 costs no rest: compaction is normal, and the store is stale until the next list.
        return Streaming(1) if not failures else Resting(wait, Streaming(failures + 1))
    if _not_reached_yet(failed.error):
        # This server lags behind the one that gave the version, or was restored: a list shows what it has.
        return Resting(wait, Listing(failures=failures + 1))
    if isinstance(failed.error, TransportError | TooManyRequests | ServerError):
        return Resting(wait, Watching(state.version, failures + 1, state.empty))
    return Resting(wait, Listing(failures=failures + 1))


def _after_broken_streaming(state: Streaming, failed: RequestFailed) -> State:
    """A server that refuses is asked for pages at once: without WatchList (KEP-3157) it answers 422."""
    error = failed.error
    if isinstance(error, StatusError) and not isinstance(error, TooManyRequests | ServerError):
        return Listing(failures=state.failures)
    return Resting(rest(state.failures, failed.chance, error), Listing(failures=state.failures + 1))


def _after_failed_list(state: Listing, failed: RequestFailed) -> Step:
    if isinstance(failed.error, Expired) and state.token and not state.failures:
        # The pages took longer than etcd keeps a version (5 min): begin again, but rest if it recurs.
        return Listing(failures=1), (DropStage(),)
    absent = state.absent + 1 if isinstance(failed.error, NotFound) else 0
    then = Listing(failures=state.failures + 1, absent=absent)
    output = Clear() if absent == ABSENCES_MEAN_GONE else DropStage()
    return Resting(rest(state.failures, failed.chance, failed.error), then), (output,)


def _not_reached_yet(error: Exception) -> bool:
    """Whether the server has not reached the requested version; the cause is kube-apiserver's word for it."""
    return isinstance(error, StatusError) and any(
        cause.reason == "ResourceVersionTooLarge" for cause in error.causes
    )
