"""Keeps one store equal to one resource of one server, and tells handlers what changed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import anyio
import msgspec
import structlog
from attrs import define, frozen

from informers.clock import Clock, SystemClock
from informers.errors import ApiError, OutcomeUnknown, error_from_response, error_from_status
from informers.lines import LineSplitter
from informers.logs import get_logger
from informers.reflector import (
    BookmarkRead,
    Commit,
    DropStage,
    EventRead,
    Failed,
    Input,
    Listing,
    Output,
    PageRead,
    Put,
    Reach,
    Remove,
    Rested,
    Resting,
    Stage,
    State,
    StreamEnded,
    Watching,
    step,
)
from informers.resource import Resource
from informers.snapshot import Snapshot
from informers.store import Delta, Store
from informers.transport import Response, StreamingResponse, Transport

PAGE = 500
WATCH_SECONDS = (300, 600)
"""A watch asks the server to end it after a random time between these (s), as client-go does."""
SILENCE = 30.0
"""So long (s) after that time a stream that has not ended is dead, and is cut from here."""

Handler = Callable[[Delta], None]
"""Told of each change, in order, after the store has it. Must not block and must not raise."""


class _ListMetadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct):
    metadata: _ListMetadata
    items: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


_list = msgspec.json.Decoder(_List)
_event = msgspec.json.Decoder(_Event)


@frozen
class InformerStatus:
    """What an informer does now.

    `state` is listing, watching, resting or stopped; `version` the one its store has reached;
    `error` the last failure, which may be over; `relists` counts lists after the first.
    """

    resource: str
    namespace: str
    state: Literal["listing", "watching", "resting", "stopped"]
    synced: bool
    objects: int
    version: int
    relists: int
    failures: int
    error: str


@define(eq=False)
class _Registration:
    handler: Handler


class Informer:
    """A store that follows a resource of a server, with handlers that hear of each change.

    `namespace` and `labels` (a label selector) narrow what is followed. Nothing runs until `run`
    does; the store can be read at any time and is consistent with `store.version`.
    """

    def __init__(
        self,
        transport: Transport,
        resource: Resource,
        *,
        namespace: str = "",
        labels: str = "",
        clock: Clock | None = None,
    ) -> None:
        self.resource = resource
        self.namespace = namespace
        self.labels = labels
        self.store = Store()
        self._transport = transport
        self._clock = clock or SystemClock()
        self._path = resource.path(namespace)
        self._state: State = Listing()
        self._staged: list[Snapshot] = []
        self._handlers: list[_Registration] = []
        self._changed = anyio.Event()
        self._cut: anyio.CancelScope | None = None
        self._relist_asked = False
        self._running = False
        self._lists = 0
        self._failures = 0
        self.error: Exception | None = None
        self._log: structlog.stdlib.BoundLogger = get_logger("informers").bind(resource=str(resource))

    @property
    def synced(self) -> bool:
        """Whether the first list is in the store and the handlers have heard of it."""
        return self._lists > 0

    def covers(self, namespace: str) -> bool:
        """Whether an object in that namespace can be in the store at all (labels apart)."""
        return not self.namespace or not self.resource.namespaced or namespace == self.namespace

    def add_handler(self, handler: Handler) -> Callable[[], None]:
        """Have `handler` told of all objects there are, and of every change from now on.

        Returns the call that takes it away again.
        """
        registration = _Registration(handler)
        for snapshot in self.store:
            self._tell(registration, Delta(None, snapshot, initial=True))
        self._handlers.append(registration)
        return lambda: self._handlers.remove(registration)

    def relist(self) -> None:
        """List anew as soon as possible, whatever the watch says."""
        self._relist_asked = True
        if self._cut is not None:
            self._cut.cancel()

    async def wait_until(self, reached: Callable[[], bool], seconds: float) -> bool:
        """Wait until `reached()`, which is asked again at each change; False after `seconds`."""
        with anyio.move_on_after(seconds):
            while not reached():
                await self._changed.wait()
        return reached()

    async def wait_synced(self) -> None:
        """Wait for the first list."""
        while not self.synced:
            await self._changed.wait()

    def status(self) -> InformerStatus:
        """What the informer does now."""
        names: dict[type, Any] = {Listing: "listing", Watching: "watching", Resting: "resting"}
        return InformerStatus(
            resource=str(self.resource),
            namespace=self.namespace,
            state=names[type(self._state)] if self._running else "stopped",
            synced=self.synced,
            objects=len(self.store),
            version=self.store.version,
            relists=max(0, self._lists - 1),
            failures=self._failures,
            error=str(self.error or ""),
        )

    async def run(self) -> None:
        """Follow the resource until cancelled. Failures are retried with back-off and shown in `status`."""
        self._running = True
        try:
            while True:
                with self._interruptible():
                    await self._follow()
                if self._relist_asked:
                    self._relist_asked = False
                    self._staged.clear()
                    self._state = Listing()
        finally:
            self._running = False

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        with anyio.CancelScope() as self._cut:
            yield
        self._cut = None

    async def _follow(self) -> None:
        while not self._relist_asked:
            match self._state:
                case Listing(token):
                    self._advance(await self._read_page(token))
                case Watching(version):
                    self._advance(await self._watch(version))
                case Resting(seconds):
                    await anyio.sleep(seconds)
                    self._advance(Rested())

    async def _read_page(self, token: str) -> Input:
        query = {"limit": str(PAGE), **self._selectors()}
        if token:
            query["continue"] = token
        try:
            response = await self._transport.request("GET", self._path, query, _ACCEPT)
            return _page(response, f"GET {self._path}")
        except (ApiError, msgspec.DecodeError) as error:
            return self._failed(error)

    async def _watch(self, version: int) -> Input:
        """Read one watch to its end, telling the state machine of each event on the way."""
        started = anyio.current_time()
        seen = _Seen()
        low, high = WATCH_SECONDS
        limit = low + (high - low) * self._clock.random()
        query = {
            "watch": "true",
            "resourceVersion": str(version),
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(int(limit)),
            **self._selectors(),
        }
        try:
            with anyio.move_on_after(limit + SILENCE):
                async with self._transport.stream("GET", self._path, query, _ACCEPT) as stream:
                    await self._read_events(stream, seen)
        except (ApiError, msgspec.DecodeError) as error:
            return self._failed(error, anyio.current_time() - started)
        return StreamEnded(anyio.current_time() - started, seen.events, self._clock.random())

    async def _read_events(self, stream: StreamingResponse, seen: "_Seen") -> None:
        if stream.status >= 400:
            body = b"".join([chunk async for chunk in stream.chunks])
            raise error_from_response(stream.status, stream.headers, body, f"WATCH {self._path}")
        lines = LineSplitter()
        async for chunk in stream.chunks:
            for line in lines.feed(chunk):
                given = _read_line(line, f"WATCH {self._path}")
                if given is not None:
                    seen.events += 1
                    self._advance(given)
            self._announce()
        if lines.pending:
            raise OutcomeUnknown("the stream ended within a line", f"WATCH {self._path}")

    def _advance(self, given: Input) -> None:
        self._state, outputs = step(self._state, given)
        for output in outputs:
            self._do(output)

    def _do(self, output: Output) -> None:
        match output:
            case Put(snapshot):
                self._publish(self.store.put(snapshot))
            case Remove(snapshot):
                self._publish(self.store.remove(snapshot))
            case Reach(version):
                self.store.version = max(self.store.version, version)
            case Stage(snapshots):
                self._staged.extend(snapshots)
            case Commit(version):
                self._commit(version)
            case DropStage():
                self._staged.clear()

    def _commit(self, version: int) -> None:
        initial = not self.synced
        staged, self._staged = self._staged, []
        for delta in self.store.replace(staged, version):
            self._publish(Delta(delta.old, delta.new, initial))
        self._lists += 1
        self.error = None
        self._announce()

    def _publish(self, delta: Delta | None) -> None:
        if delta is None:
            return
        for registration in list(self._handlers):
            self._tell(registration, delta)

    def _tell(self, registration: _Registration, delta: Delta) -> None:
        try:
            registration.handler(delta)
        except Exception:
            self._log.exception("a handler failed; it misses this change", key=str(delta.last.key))

    def _announce(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    def _failed(self, error: Exception, seconds: float = 0.0) -> Failed:
        self.error = error
        self._failures += 1
        self._log.warning("cannot follow the resource; trying again", error=str(error))
        self._announce()
        return Failed(error, self._clock.random(), seconds)

    def _selectors(self) -> dict[str, str]:
        return {"labelSelector": self.labels} if self.labels else {}


_ACCEPT = {"accept": "application/json"}


@define
class _Seen:
    events: int = 0


def _page(response: Response, request: str) -> PageRead:
    if response.status >= 400:
        raise error_from_response(response.status, response.headers, response.body, request)
    page = _list.decode(response.body)
    snapshots = [Snapshot.from_json(item) for item in page.items or ()]
    version = page.metadata.resource_version
    return PageRead(snapshots, int(version) if version.isdigit() else 0, page.metadata.continue_)


def _read_line(line: bytes, request: str) -> Input | None:
    """One line of a watch; None for an event type that nobody has told us of."""
    event = _event.decode(line)
    if event.type == "ERROR":
        raise error_from_status(msgspec.json.decode(event.object, type=dict[str, Any]), request)
    if event.type == "BOOKMARK":
        return BookmarkRead(Snapshot.from_json(event.object).version)
    if event.type in ("ADDED", "MODIFIED", "DELETED"):
        return EventRead(event.type, Snapshot.from_json(event.object))  # type: ignore[arg-type]
    return None
