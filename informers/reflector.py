"""Keeps part of a store equal to a collection of a server: executes what `reflector_state` decides."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from itertools import islice
from typing import Literal

import anyio
import msgspec
import structlog
from attrs import define

from informers.api_errors import (
    ApiError,
    BadRequest,
    Invalid,
    MalformedAnswer,
    NotFound,
    OutcomeUnknown,
    is_unreachable,
)
from informers.clock import Clock
from informers.collection import Collection
from informers.line_splitter import LineSplitter
from informers.listing import ListParser, Read
from informers.loop_slices import LoopSlice, collector_paused
from informers.owed_parts import OwedPart, OwedParts
from informers.reachability import Reachability
from informers.reflector_state import (
    BookmarkRead,
    Commit,
    DropStage,
    EventRead,
    Input,
    ItemsRead,
    Listing,
    PageRead,
    RequestFailed,
    Rested,
    Resting,
    State,
    StreamEnded,
    Streaming,
    Watching,
    begun_again,
    is_gone,
    recovered,
    rest,
    rested,
    step,
)
from informers.resource import Key
from informers.silence import WatchDeadline
from informers.sink import Sink
from informers.snapshot import Snapshot
from informers.transport import HttpRequest, StreamingResponse, Transport, raise_refusal
from informers.watch_input import version_of, watch_input

Take = Callable[[Iterator[Snapshot]], Awaitable[None]]

PAGE = 500
WATCH_SECONDS = (300, 600)
"""A watch asks to be ended after a random time between these (s): client-go's 5 to 10 minutes."""
SILENCE = 30.0
"""Seconds after that time at which a stream that has not ended is closed from here, and after which a list,
streamed or paged, is given up if nothing of it has arrived."""
BATCH = 32
"""Objects of a page that are staged in one call, since single calls would cost more than the staging."""
_LOG_AGAIN = 30.0
_FROM_NOWHERE = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}

_NAMES: Mapping[type, Literal["listing", "watching", "resting"]] = {
    Streaming: "listing",
    Listing: "listing",
    Watching: "watching",
    Resting: "resting",
}


@define
class ReflectorStatus:
    """Counts of a reflector. `heard` is when (loop time, s) the server last sent something.

    `bookmarked`: the server has sent a bookmark in a watch, so it does so about every minute.
    """

    synced: bool = False
    lists: int = 0
    connects: int = 0
    failures: int = 0
    error: Exception | None = None
    heard: float | None = None
    bookmarked: bool = False


class Reflector:
    def __init__(
        self,
        transport: Transport,
        collection: Collection,
        read: Read,
        sink: Sink,
        clock: Clock,
        log: structlog.stdlib.BoundLogger,
        reach: Reachability,
    ) -> None:
        self.status = ReflectorStatus()
        self._transport = transport
        self._collection = collection
        self._read = read
        self._sink = sink
        self._clock = clock
        self._log = log
        self._reach = reach
        self._answered = float("-inf")
        """When (s, of the loop) the last request was answered."""
        self._recovering = False
        self._interrupted = False
        """Whether what is done now is to end, because something else is to be done first."""
        self._owed = OwedParts()
        self._reading_part = False
        self._tokens: set[str] = set()
        """Those of the pages of the present list."""
        self._state: State = Streaming()
        self._pace = LoopSlice()
        self._load = ExitStack()
        self._together: list[Snapshot] = []
        self._cut: anyio.CancelScope | None = None
        self._relist_asked = False
        self._logged = -_LOG_AGAIN

    @property
    def state(self) -> Literal["listing", "watching", "resting"]:
        return _NAMES[type(self._state)]

    def relist(self) -> None:
        """List again in pages as soon as possible, whatever the watch reports."""
        self._relist_asked = True
        self._interrupt()

    def follow(self, collection: Collection) -> None:
        """Go on with other selectors or another share: a watch where it is, a list from its beginning."""
        changed, self._collection = collection != self._collection, collection
        if changed or isinstance(self._state, Streaming | Listing):
            self._interrupt_following()

    def owe(self, part: OwedPart) -> None:
        """Read a part of the collection again, as it is from now on."""
        self._owed.add(part)
        if is_gone(self._state):
            self._owed.note_all_read()
        self._interrupt_following()

    def _interrupt(self) -> None:
        self._interrupted = True
        if self._cut is not None:
            self._cut.cancel()

    def _is_interrupted(self) -> bool:
        return self._interrupted

    def _interrupt_following(self) -> None:
        """Interrupt a list or a watch, but not the reading of a part, which comes before them."""
        if not self._reading_part:
            self._interrupt()

    async def run(self) -> None:
        """Follow the collection until cancelled, with retries."""
        self._reach.add_listener(self._recover)
        try:
            await self._run()
        finally:
            self._reach.remove_listener(self._recover)
            self._owed.end_rest()

    async def _run(self) -> None:
        # An earlier run may have ended within a list, whose continue token is of another moment.
        self._drop_unfinished()
        if isinstance(self._state, Listing):
            self._state = Listing(failures=self._state.failures)
        while True:
            # Handlers first: they would see a store ahead of them if a request came between.
            await self._settle()
            given = None if self._interrupted else await self._follow()
            interrupted, self._interrupted = self._interrupted, False
            if self._relist_asked:
                self._relist_asked = self._recovering = False
                self._drop_unfinished()
                self._state = Listing()
            elif self._recovering:
                self._recovering = False
                self._drop_unfinished()
                self._state = recovered(self._state)
                self._owed.forgive()
            elif interrupted:
                self._drop_unfinished()
                self._state = begun_again(self._state)
            elif given is not None:
                self._advance(given)
                if is_gone(self._state):
                    self._owed.note_all_read()

    def _recover(self) -> None:
        """After an outage, earlier requests may never be answered, and an earlier stream may be dead."""
        if self._answered < self._reach.down_since:
            self._recovering = True
            self._interrupt()

    def _drop_unfinished(self) -> None:
        self._together.clear()
        self._sink.apply(DropStage())

    async def _follow(self) -> Input | None:
        """Execute the state; returns the resulting input, unless it was passed on already."""
        if self._reach.down:
            with anyio.CancelScope() as self._cut:
                await self._reach.wait_up()
            self._cut = None
            return None
        after = rested(self._state)
        part = self._owed.next
        if part is not None and isinstance(after, Watching):
            await self._read_part(part, after.version)
            return None
        try:
            match self._state:
                case Streaming():
                    with self._load:
                        self._load.enter_context(collector_paused())
                        return await self._watch(_FROM_NOWHERE, SILENCE)
                case Listing(token):
                    with self._load:
                        self._load.enter_context(collector_paused())
                        return await self._list(token)
                case Watching(version):
                    return await self._watch({"resourceVersion": str(version)}, None)
                case Resting(seconds, then):
                    until = anyio.current_time() + seconds
                    with anyio.CancelScope() as self._cut:
                        await anyio.sleep(seconds)
                    # What interrupts it may leave the rest of it to do.
                    self._state = Resting(max(0.0, until - anyio.current_time()), then)
                    return Rested()
        finally:
            self._cut = None

    async def _settle(self) -> None:
        first = self.status.lists > 0 and not self.status.synced
        if first:
            # Other informers of the cache load too: let them in before the handlers take their time.
            await self._pace.pause()
        await self._sink.settle()
        if first:
            self.status.synced = True
            self._sink.announce()
        if self._owed.note_heard():
            self._sink.announce()

    # --- lists ----------------------------------------------------------------------------------

    async def _list(self, token: str) -> Input | None:
        try:
            return await self._page(token, self._collection.selectors, self._take)
        except (ApiError, msgspec.DecodeError, ValueError, RecursionError) as error:
            return self._failed(_explained(error, f"LIST {self._collection.path}"))

    async def _page(self, token: str, selectors: Mapping[str, str], take: Take) -> PageRead | None:
        """Read one page, passing its objects to `take`; None if it was interrupted."""
        query = {"limit": str(PAGE), **selectors}
        if token:
            query["continue"] = token
        else:
            self._tokens.clear()
        path = self._collection.path
        headers = self._collection.accept("PartialObjectMetadataList")
        request = f"LIST {path}"
        with anyio.CancelScope(deadline=anyio.current_time() + 2 * SILENCE) as scope:
            self._cut = scope
            self.status.connects += 1
            await self._turn()
            async with self._transport.stream(HttpRequest("GET", path, query, headers)) as stream:
                await raise_refusal(stream, request)
                self._note_answer()
                return await self._read_list(stream, scope, take)
        if self._interrupted:
            return None
        raise OutcomeUnknown(f"no word for {2 * SILENCE:g} s", request)

    async def _read_list(self, stream: StreamingResponse, scope: anyio.CancelScope, take: Take) -> PageRead:
        parser = ListParser(self._read)
        self._pace.start()
        async for chunk in stream.chunks:
            scope.deadline = anyio.current_time() + 2 * SILENCE
            await take(parser.feed(chunk))
        await take(parser.finish())
        if parser.token in self._tokens:
            # A server that repeats a token would be asked for the same page as fast as it answers, for ever.
            raise MalformedAnswer(f"LIST {self._collection.path}: the same continue token twice")
        self._tokens.add(parser.token)
        return PageRead(version_of(parser.version), parser.token)

    async def _take(self, snapshots: Iterator[Snapshot]) -> None:
        while batch := tuple(islice(snapshots, BATCH)):
            self._advance(ItemsRead(batch))
            if self._pace.due(len(batch)):
                await self._pace.pause()

    # --- parts of the collection ------------------------------------------------------------------

    async def _read_part(self, part: OwedPart, version: int) -> None:
        """List a part and merge it into the store, while no watch goes on from `version`.

        The list is not older than the watch, so nothing that it has was deleted in an event already handled.
        """
        self._reading_part = True
        try:
            listed = await self._merge_part(part)
        except NotFound:
            self._state = Listing()  # to find out whether the resource is gone
        except (ApiError, msgspec.DecodeError, ValueError, RecursionError) as error:
            self._rest_owed(_explained(error, f"LIST {self._collection.path}"))
        else:
            if listed is None:
                return
            if listed < version:
                self._state = Listing()  # the server went back
                return
            self._owed.note_read(part, listed)
            self.status.error = None
        finally:
            self._reading_part, self._cut = False, None

    async def _merge_part(self, part: OwedPart) -> int | None:
        """The version at which the store has the whole part; None if it was interrupted."""
        seen: set[Key] = set()

        async def take(snapshots: Iterator[Snapshot]) -> None:
            while batch := tuple(islice(snapshots, BATCH)):
                seen.update(snapshot.key for snapshot in batch)
                self._sink.merge(batch, initial=part.initial)
                if self._pace.due(len(batch)):
                    await self._sink.settle()
                    await self._pace.pause()

        token = ""
        while not self._is_interrupted() and (page := await self._page(token, part.selectors, take)):
            token = page.token
            if not token:
                await self._sink.drop(partial(part.misses, seen, page.version), page.version)
                self._sink.note_merged(part.keeps, page.version)
                return page.version
        return None

    def _rest_owed(self, error: Exception) -> None:
        """Try again after a rest, in which the watch goes on."""
        failed = self._failed(error)
        self._owed.rest(rest(self._owed.failures, failed.chance, error), self._try_owed_again)

    def _try_owed_again(self) -> None:
        if isinstance(rested(self._state), Watching):
            self._interrupt_following()

    # --- watches --------------------------------------------------------------------------------

    async def _watch(self, query: Mapping[str, str], silence: float | None) -> Input | None:
        """Read one watch to its end, passing each event to the state machine.

        Returns None if the state machine continues elsewhere. `silence` is the longest pause (s) within the
        initial events.
        """
        low, high = WATCH_SECONDS
        limit = low + (high - low) * self._clock.random()
        started = anyio.current_time()
        watch = WatchDeadline(started, limit + SILENCE, silence)
        request = f"WATCH {self._collection.path}"
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(int(limit)),
            **query,
            **self._collection.selectors,
        }
        path, headers = self._collection.path, self._collection.accept("PartialObjectMetadata")
        try:
            with watch.scope as self._cut:
                self.status.connects += 1
                await self._turn()
                async with self._transport.stream(HttpRequest("GET", path, query, headers)) as stream:
                    await raise_refusal(stream, request)
                    self._note_answer()
                    if isinstance(self._state, Watching) and self.status.error is not None:
                        self.status.error, self.status.heard = None, anyio.current_time()
                        self._sink.announce()
                    await self._read_events(stream, watch, request)
            if self._interrupted:
                return None
            if watch.scope.cancelled_caught and isinstance(self._state, Streaming):
                raise OutcomeUnknown(f"no word for {silence:g} s", request)
        except (ApiError, msgspec.DecodeError, ValueError, RecursionError) as error:
            return self._failed(_explained(error, request), anyio.current_time() - started)
        if not isinstance(self._state, Streaming | Watching):
            return None
        return StreamEnded(anyio.current_time() - started, watch.events, self._clock.random())

    async def _read_events(self, stream: StreamingResponse, watch: WatchDeadline, request: str) -> None:
        lines = LineSplitter()
        # The loop's own clock: to look for the loop each time costs as much as to decode a line.
        pace, read, now = self._pace, self._read, asyncio.get_running_loop().time
        pace.start()
        async for chunk in stream.chunks:
            if self._is_interrupted():  # the cancellation may come late
                return
            for line in lines.feed(chunk):
                given = watch_input(line, read, request)
                if given is not None:
                    watch.events += 1
                    self._advance(given)
                    if isinstance(given, BookmarkRead):
                        watch.bookmark(self._state)
                        self.status.bookmarked |= watch.bookmarked
                        await self._settle()
                        if self._is_interrupted():
                            return
                    if not isinstance(self._state, Streaming | Watching):
                        return
                if pace.due():
                    self._sink.announce()
                    await pace.pause()
                    if self._is_interrupted():
                        return
            self._flush()
            heard = self.status.heard = now()
            watch.heard(self._state, heard)
            if isinstance(self._state, Watching):
                self.status.error = None
            self._sink.announce()
        if lines.pending:
            raise OutcomeUnknown("the stream ended within a line", request)

    # --- what comes of it -----------------------------------------------------------------------

    def _advance(self, given: Input) -> None:
        if isinstance(given, EventRead) and given.type != "DELETED" and isinstance(self._state, Streaming):
            # The first state comes as thousands of single events: they are staged together, like a page.
            self._together.append(given.snapshot)
            return
        self._flush()
        self._state, outputs = step(self._state, given)
        for output in outputs:
            self._sink.apply(output)
            if type(output) is Commit:
                self._load.close()
                self._owed.note_all_read()
                self.status.lists += 1
                self.status.error = None
                self.status.heard = anyio.current_time()

    def _flush(self) -> None:
        if self._together:
            together, self._together = tuple(self._together), []
            self._state, outputs = step(self._state, ItemsRead(together))
            for output in outputs:
                self._sink.apply(output)

    async def _turn(self) -> None:
        if self._reach.ramping:
            await self._reach.turn()

    def _note_answer(self) -> None:
        self._answered = anyio.current_time()
        if self._reach.troubled:
            self._reach.answered()

    def _failed(self, error: Exception, seconds: float = 0.0) -> RequestFailed:
        refused = isinstance(self._state, Streaming) and isinstance(error, BadRequest | Invalid)
        if not refused:
            # A server without streaming lists answers 400 or 422, which is expected: pages come next.
            self.status.error = error
            self.status.failures += 1
            self._log_seldom(error)
            if is_unreachable(error):
                self._reach.failed(error)
            self._sink.announce()
        return RequestFailed(error, self._clock.random(), seconds)

    def _log_seldom(self, error: Exception) -> None:
        """Log a lasting failure once in a while instead of at each attempt."""
        now = anyio.current_time()
        log = self._log.warning if now - self._logged >= _LOG_AGAIN else self._log.debug
        log("cannot follow the resource; trying again", error=str(error))
        self._logged = now if now - self._logged >= _LOG_AGAIN else self._logged


def _explained(error: Exception, request: str) -> Exception:
    """The error with its request, which a decoding error alone does not name."""
    if isinstance(error, ApiError):
        return error
    return MalformedAnswer(f"{request}: expected an answer of an API server: {error}")
