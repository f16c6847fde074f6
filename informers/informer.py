"""Keeps one store equal to one resource of one server, and passes changes to handlers."""

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import anyio
import msgspec
import structlog
from anyio.abc import TaskGroup
from attrs import define

from informers.api_errors import NotFound
from informers.apimachinery.name_rules import check_namespace
from informers.applied import Appliers
from informers.background_compression import BackgroundCompression
from informers.broadcast import Broadcast
from informers.callbacks import callbacks_of_asyncio
from informers.clock import Clock, SystemClock
from informers.collection import Collection
from informers.handlers import AsyncHandler, Handler, Handlers, Registration, Tasks
from informers.informer_options import InformerOptions
from informers.informer_selection import Matches, selects
from informers.informer_share import Share, selectors
from informers.informer_tap import InformerTap
from informers.logs import get_logger, is_worth_a_line
from informers.owed_parts import OwedPart
from informers.reachability import Reachability
from informers.reflector import Reflector
from informers.replays import Replays
from informers.resource import APIResource
from informers.scanning import check_whole
from informers.sink import Sink
from informers.snapshot import Snapshot, name_in
from informers.store import ALL, Delta, Store
from informers.store_effects import Effect
from informers.transport import Transport

if TYPE_CHECKING:
    from informers.informer_status import InformerState, InformerStatus

PATIENCE = 0.5
"""Seconds to wait for a version. A watch is normally late by milliseconds, so a relist is faster then."""


@define(eq=False)
class _Part:
    """A followed namespace, or all of them: a reflector, and the scope in which it runs."""

    namespace: str
    reflector: Reflector
    sink: Sink
    scope: anyio.CancelScope | None = None
    removed: bool = False


_Reading = tuple[_Part, OwedPart]


class Informer:
    """A store that follows a resource of a server, and calls handlers for each change.

    `namespace` is short for `InformerOptions(namespaces=[namespace])`. The store can be read at any time and
    is consistent with `store.version`; it changes while `run` runs. With `reach`, the informer waits while
    the server is down, and goes on at once when it answers again. `share` narrows what the options select,
    and can be changed while the informer runs.
    """

    def __init__(
        self,
        transport: Transport,
        resource: APIResource,
        *,
        namespace: str = "",
        options: InformerOptions | None = None,
        share: Share | None = None,
        clock: Clock | None = None,
        reach: Reachability | None = None,
    ) -> None:
        options = options or InformerOptions()
        wanted = options.namespaces if options.namespaces is not None else [namespace] if namespace else []
        self.resource = resource
        self.options = options
        self.store = Store(_parts(resource, wanted), options.shape(resource))
        self._transport = transport
        self._clock = clock or SystemClock()
        self._reach = reach or Reachability(transport, self._clock)
        self._log: structlog.stdlib.BoundLogger = get_logger("informers").bind(resource=str(resource))
        self._handlers = Handlers(self._log)
        self._replays = Replays(self.store, self._handlers, self._clock)
        self._selects = selects(options.labels or "", options.fields or "", options.shard or "")
        self._shards = selects(shard=options.shard) if options.shard else None
        self._share = share
        self._keeps = self._filter()
        self._appliers: Appliers | None = None
        self._changes = Broadcast()
        self.on_announce: Callable[[], None] | None = None
        """Called when the first list is there, or was refused: for a cache that waits for its informers."""
        self.on_listed: list[Callable[[], None]] = []
        """Called when a list replaces the content: what came and went before it left no change."""
        self._tasks: Tasks | None = None
        self._compression = BackgroundCompression(self.store, lambda: self.synced)
        self._last_event: datetime.datetime | None = None
        self._skipped = 0
        self.tapped = False
        self._tap: InformerTap | None = None
        self._parts = {part: self._part(part) for part in self.store.parts}

    # --- what it is -----------------------------------------------------------------------------

    @property
    def namespace(self) -> str:
        """A namespace in which a request can be made: empty if all are followed, otherwise one of them."""
        return next(iter(self._parts), ALL)

    @property
    def namespaces(self) -> Sequence[str]:
        """The namespaces that are followed; empty for all."""
        return [part for part in self._parts if part]

    @property
    def synced(self) -> bool:
        """Whether the first list is in the store and the handlers have it."""
        return all(part.reflector.status.synced for part in self._parts.values())

    @property
    def running(self) -> bool:
        """Whether `run` runs."""
        return self._tasks is not None

    @property
    def error(self) -> Exception | None:
        """The last failure, until the server answers as it should."""
        errors = (part.reflector.status.error for part in self._parts.values())
        return next((error for error in errors if error is not None), None)

    def covers(self, namespace: str) -> bool:
        """Whether an object of that namespace can be in the store, selectors aside."""
        return ALL in self._parts or namespace in self._parts

    def selects(self, snapshot: Snapshot) -> bool:
        """Whether an object in that state is followed."""
        return self.covers(snapshot.key.namespace) and self._selects(snapshot) and self._wants(snapshot)

    def status(self) -> "InformerStatus":
        """What the informer does now."""
        from informers.informer_status import InformerStatus

        reflectors = [part.reflector for part in self._parts.values()]
        heard = [reflector.status.heard for reflector in reflectors]
        oldest = None if None in heard or not heard else min(at for at in heard if at is not None)
        return InformerStatus(
            resource=str(self.resource),
            namespace=",".join(self.namespaces),
            state=self._state(reflectors),
            synced=self.synced,
            objects=len(self.store),
            bytes=self.store.size,
            version=self.store.version,
            last_event=self._last_event,
            restarts=sum(max(0, reflector.status.connects - 1) for reflector in reflectors),
            relists=sum(max(0, reflector.status.lists - 1) for reflector in reflectors),
            failures=sum(reflector.status.failures for reflector in reflectors),
            error=str(self.error or ""),
            lag=None if oldest is None or self._tasks is None else anyio.current_time() - oldest,
            backlog=self._handlers.backlog,
            skipped=self._skipped,
            bookmarked=bool(reflectors) and all(reflector.status.bookmarked for reflector in reflectors),
            compressing=self._compression.compressing,
        )

    def _state(self, reflectors: Sequence[Reflector]) -> "InformerState":
        if self._tasks is None:
            return "stopped"
        if self.synced and any(isinstance(reflector.status.error, NotFound) for reflector in reflectors):
            return "gone"
        states = {reflector.state for reflector in reflectors}
        return "resting" if "resting" in states else "listing" if "listing" in states else "watching"

    # --- handlers -------------------------------------------------------------------------------

    def add_handler(
        self, handler: Handler, *, resync: float | None = None, present: bool = True
    ) -> Registration:
        """Call `handler` for all present objects before this returns, and for every later change.

        It is called where the change happens, so slow work belongs in an asynchronous handler. With `resync`,
        the store is replayed to it at that interval in seconds (up to a tenth longer). Unless `present`, it
        gets later changes only.
        """
        registration = self._handlers.add(handler, self._present() if present else ())
        return self._replays.to(registration, resync)

    def add_async_handler(self, handler: AsyncHandler, *, resync: float | None = None) -> Registration:
        """Await `handler` for all present objects and every later change, while the informer runs.

        With `resync`, the store is replayed to it at that interval in seconds (up to a tenth longer).
        """
        registration = self._handlers.add_async(handler, self._present())
        return self._replays.to(registration, resync)

    def _present(self) -> Iterable[Delta]:
        return [Delta(None, snapshot, initial=True) for snapshot in self.store]

    # --- waiting --------------------------------------------------------------------------------

    def relist(self) -> None:
        """List again as soon as possible, even if the watch is healthy."""
        for part in self._parts.values():
            part.reflector.relist()

    async def wait_until(self, reached: Callable[[], bool], seconds: float) -> bool:
        """Wait until `reached()` is true, which is checked at each change; False after `seconds`."""
        if self._tap is None:
            await self._wait(reached, seconds)
        else:
            await self._tap.wait(partial(self._wait, reached, seconds))
        return reached()

    async def look(self) -> None:
        """Let a tap know that the store is about to be read, if it is `tapped`."""
        if self._tap is not None:
            await self._tap.look()

    async def _wait(self, reached: Callable[[], bool], seconds: float) -> None:
        with anyio.move_on_after(seconds):
            await self._changes.wait_until(reached)

    async def wait_version(self, version: int, seconds: float) -> bool:
        """Wait until the store has reached a version; False after `seconds`."""
        return await self.wait_until(lambda: self.store.version >= version, seconds)

    async def wait_synced(self) -> None:
        """Wait for the first list."""
        await self._changes.wait_until(lambda: self.synced)

    # --- running --------------------------------------------------------------------------------

    async def run(self, group: TaskGroup | None = None) -> None:
        """Follow the resource until cancelled. Failures are retried with back-off and shown in `status`.

        Its other tasks run in `group`, or in a group of its own, and end with it. Raises RuntimeError if it
        is running already.
        """
        if self._tasks is not None:
            raise RuntimeError(f"the informer of {self.resource} runs already")
        with callbacks_of_asyncio():
            if group is not None:
                await self._run(Tasks(group))
                return
            async with anyio.create_task_group() as group:
                await self._run(Tasks(group))

    async def _run(self, tasks: Tasks) -> None:
        self._tasks = tasks
        try:
            self._handlers.start(tasks)
            self._compression.start(tasks)
            self._replays.start(tasks)
            for part in self._parts.values():
                if part.namespace:
                    tasks.start_soon(self._run_part, part)
                else:
                    await part.reflector.run()  # the only one, and never removed: it needs no task of its own
            await anyio.sleep_forever()
        finally:
            self._tasks = None
            tasks.cancel()
            self._replays.stop()
            self._handlers.stop()
            self._compression.stop()
            self._changes.notify()

    async def _run_part(self, part: _Part) -> None:
        if part.removed:  # before its task has begun
            return
        with anyio.CancelScope() as part.scope:
            await part.reflector.run()

    def add_namespace(self, namespace: str) -> None:
        """Follow a further namespace, at once if running.

        Raises ValueError if all are followed, and for a name that no namespace can have.
        """
        if namespace in self._parts:
            return
        check_namespace(namespace)
        self.store.add_part(namespace)
        part = self._parts[namespace] = self._part(namespace)
        if self._tasks is not None:
            self._tasks.start_soon(self._run_part, part)
        self._announce()

    async def remove_namespace(self, namespace: str) -> None:
        """Stop following a namespace: its objects leave the store, and handlers get deletions (`missed`)."""
        part = self._parts.get(namespace)
        if part is None or not namespace:
            return
        del self._parts[namespace]
        part.removed = True
        if part.scope is not None:
            part.scope.cancel()
        self._handlers.publish_all(self.store.remove_part(namespace))
        await self._handlers.settle()
        self._announce()

    # --- the share --------------------------------------------------------------------------------

    async def set_share(self, share: Share, gained: Share | None) -> int:
        """Follow another share; `gained` is what it has that the one before had not.

        Objects that it does not keep leave the store, and handlers get deletions (`left`). While the informer
        runs, this returns when all of `gained` is in the store: the version at which it was read, which the
        store as a whole may have yet to reach; 0 if it was read with all the rest. Failures are retried, and
        after a cancellation the informer follows the new share all the same. Raises ValueError for selectors
        that do not fit the options.
        """
        selectors(self.options, share)  # raises before anything changes
        more = None if gained is None else selectors(self.options, gained)
        self.narrow(share)
        for part in self._parts.values():
            part.reflector.follow(self._collection(part.namespace))
        owed = [] if gained is None or more is None else self._owe(gained.keeps, more, initial=True)
        with anyio.CancelScope(shield=True):  # what stayed would stay for good: no watch tells of it any more
            for part in tuple(self._parts.values()):
                await part.sink.drop(lambda held: not self._wants(held))
        await self._wait_read(owed)
        return min((reading.version for _, reading in owed), default=0)

    def narrow(self, share: Share) -> None:
        """Select by another share from now on, and leave the store as it is."""
        self._share = share
        self._keeps = self._filter()

    async def refresh(self, part: Share) -> None:
        """Read the objects of a part of the share again, with a list that shows what the server has now.

        While the informer runs, this returns when they are in the store. Failures are retried.
        """
        await self._wait_read(self._owe(part.keeps, selectors(self.options, part)))

    def _owe(self, keeps: Matches, query: Mapping[str, str], *, initial: bool = False) -> Sequence[_Reading]:
        readings: list[_Reading] = []
        for part in self._parts.values():
            readings.append((part, OwedPart(keeps, query, initial)))
            part.reflector.owe(readings[-1][1])
        return readings

    async def _wait_read(self, readings: Sequence[_Reading]) -> None:
        """Wait until parts are read, or can be no more, as informer or namespace is not followed any more."""
        await self._changes.wait_until(
            lambda: (
                not self.running
                or all(owed.done or self._parts.get(part.namespace) is not part for part, owed in readings)
            )
        )

    async def catch_up(self, version: int, part: Share, filtered: bool) -> None:
        """Wait until the store has all changes of a part of the share up to `version`, while this runs.

        The part was in the store before. `filtered`: the server sends only changes within the share, so a
        quiet share would not tell for long.
        """
        if self.store.version < version and (filtered or not await self.wait_version(version, PATIENCE)):
            await self.refresh(part)

    # --- applies --------------------------------------------------------------------------------

    def mark_applies(self, manager: str) -> bool:
        """From now on, mark on each arriving object what a field manager applied to it.

        Returns whether an object without a mark has no field that the manager owns by apply. That is unknown
        if objects arrived earlier, or if the server sends metadata alone.
        """
        if self.store.shape.metadata_only:
            return False
        if self._appliers is None:
            self._appliers = Appliers(self.resource.api_version)
            if not self.store.shape.needs_managed_fields:  # until now they were not asked for
                for part in self._parts.values():
                    part.reflector.follow(self._collection(part.namespace))
        if manager not in self._appliers:
            begun = any(
                part.reflector.status.connects or part.reflector.status.lists for part in self._parts.values()
            )
            self._appliers.add(manager, late=begun or len(self.store) > 0)
        return self._appliers.saw_all(manager)

    # --- reflectors ----------------------------------------------------------------------------------

    def _collection(self, namespace: str) -> Collection:
        return Collection(
            self.resource.path(namespace),
            selectors(self.options, self._share),
            bool(self.options.metadata_only),
            managed_fields=self._appliers is not None or self.store.shape.needs_managed_fields,
        )

    def _part(self, namespace: str) -> _Part:
        collection = self._collection(namespace)
        told = self._note_change, self._announce, self.on_listed
        sink = Sink(namespace, self.store, self._handlers, self._wants, *told)
        log = self._log.bind(namespace=namespace) if namespace else self._log
        reflector = Reflector(self._transport, collection, self._read, sink, self._clock, log, self._reach)
        sink.tap = self._tap
        return _Part(namespace, reflector, sink)

    def tapped_by(self, tap: InformerTap) -> None:
        """Pass all that it reads, and all that comes of it, to `tap`; to be called before it runs."""
        self._tap, self.tapped = tap, True
        for part in self._parts.values():
            part.sink.tap = tap

    def read(self, raw: bytes) -> Snapshot | None:
        """A state of an object as it would read it from a server. Raises msgspec.DecodeError."""
        return self._read(raw)

    async def carry_out(self, namespace: str, effect: Effect) -> None:
        """Carry out a decision in the part of that namespace, of an informer that does not run."""
        part = self._parts.get(namespace)
        if part is not None:
            part.sink.apply(effect)
            await part.sink.settle()

    def notify(self) -> None:
        """Have those that wait for its store look again."""
        self._announce()

    def _read(self, raw: bytes) -> Snapshot | None:
        """A state of an object, or None if it cannot be read, which is counted and logged.

        Raises msgspec.DecodeError for text that is not JSON, such as the beginning of an object.
        """
        try:
            snapshot = self._decode(raw)
            if snapshot.name and snapshot.version:
                if self._tap is not None:
                    self._tap.read(raw, snapshot)
                return snapshot
            problem = "it has no metadata.name or no numeric resourceVersion"
        except msgspec.DecodeError as error:
            if not isinstance(error, msgspec.ValidationError):
                raise
            check_whole(raw)  # the list parser finds the end of an object by trying: this may not be it
            problem = str(error)
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            problem = type(error).__name__
        self._skip(raw, problem)
        return None

    def _skip(self, raw: bytes, problem: str) -> None:
        self._skipped += 1
        if is_worth_a_line(self._skipped):
            self._log.error(
                "an object cannot be read and is left out",
                object=name_in(raw),
                problem=problem,
                times=self._skipped,
            )

    def _decode(self, raw: bytes) -> Snapshot:
        try:
            return Snapshot.from_json(raw, self.store.shape, self._appliers)
        except RecursionError:
            return Snapshot.from_deep_json(raw, self.store.shape)

    def _wants(self, snapshot: Snapshot) -> bool:
        """Whether an object is within shard and share: servers without shards (KEP-5866) send all objects."""
        return self._keeps is None or self._keeps(snapshot)

    def _filter(self) -> Matches | None:
        shards, share = self._shards, self._share
        if share is None or shards is None:
            return shards if share is None else share.keeps
        keeps = share.keeps
        return lambda snapshot: shards(snapshot) and keeps(snapshot)

    def _note_change(self) -> None:
        self._last_event = self._clock.now()

    def _announce(self) -> None:
        self._changes.notify()
        self._compression.look()
        if self.on_announce is not None and (self.synced or self.error is not None):
            self.on_announce()


def _parts(resource: APIResource, namespaces: Iterable[str]) -> Sequence[str]:
    wanted = list(dict.fromkeys(namespaces)) if resource.namespaced else []
    return wanted if wanted and ALL not in wanted else [ALL]
