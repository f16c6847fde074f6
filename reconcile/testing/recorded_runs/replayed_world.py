"""What a replayed run meets in place of a server and a clock: the answers, times and chance of its recording.

A request that the recording does not have gets an answer that follows from the caches as far as that is
possible; the run has decided otherwise by then.
"""

import datetime
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from typing import Any, TypeVar
from uuid import UUID

import anyio
import anyio.lowlevel
import msgspec
import structlog
from attrs import define, field

from informers import (
    Cache,
    Key,
    MalformedAnswer,
    OutcomeUnknown,
    Response,
    Snapshot,
    TransportError,
    Unreachable,
)
from informers.store_effects import Effect
from informers.transport import HttpRequest, StreamingResponse
from reconcile.client.diff import merged
from reconcile.client.guarded_writes import BucketNotHeld, NotLeading
from reconcile.controller.blocking import Ask, InStep
from reconcile.recording.event_masks import place_in
from reconcile.recording.recorded_events import Answered
from reconcile.testing.recorded_runs.run_traces import Exchange, RunTrace, content_of

R = TypeVar("R")
T = TypeVar("T")


class NotRecorded(TransportError):
    """The recording has no answer to a request, and none follows from it."""


@define(eq=False)
class ReplayedRun:
    """A run that is executed again; `new` are its requests that the recording does not have."""

    trace: RunTrace
    order: list[int] = field(factory=list, init=False)
    """The numbers of the recorded requests that it sent, in the order in which it sent them."""
    new: list[HttpRequest] = field(factory=list, init=False)
    _answers: dict[int, anyio.Event] = field(factory=dict, init=False)
    waits_by_itself: bool = field(default=False, init=False)
    """Whether it waits for a cache where the recorded run did not."""
    _looks: int = field(default=0, init=False)
    _waits: int = field(default=0, init=False)
    _waited: int = field(default=0, init=False)
    _wake: anyio.Event = field(factory=anyio.Event, init=False)
    _chance: dict[str, deque[Any]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._chance = {"now": deque(), "random": deque(), "uuid": deque()}
        for what, value in () if self.trace.ended is None else self.trace.ended.chance:
            if what in self._chance:
                self._chance[what].append(value)

    @property
    def diverged(self) -> bool:
        return bool(self.new)

    def take(self, request: HttpRequest, cluster: str) -> Exchange | None:
        """The first recorded request that is the same and was not sent again yet."""
        content = content_of(request.body)
        for exchange in self.trace.exchanges:
            sent = exchange.sent
            if (
                not exchange.taken
                and (sent.method, sent.path, sent.cluster) == (request.method, request.path, cluster)
                and sent.query == dict(request.query)
                and exchange.content == content
            ):
                exchange.taken = True
                self.order.append(sent.number)
                return exchange
        self.new.append(request)
        return None

    async def answer(self, exchange: Exchange) -> Answered | None:
        """Wait until replay has come to the recorded answer; None where the recording ends before."""
        number = exchange.sent.number
        if exchange.answered is not None and not exchange.passed:
            event = self._answers[number] = anyio.Event()
            await event.wait()
        return exchange.answered

    def pass_answer(self, number: int) -> None:
        """Note that replay has come to an answer."""
        if 0 <= number < len(self.trace.exchanges):
            self.trace.exchanges[number].passed = True
        if (event := self._answers.pop(number, None)) is not None:
            event.set()

    async def wait(self, wait: Callable[[], Awaitable[None]]) -> None:
        """Wait for a cache until replay has come to where the recorded run went on; else by `wait`."""
        number, self._waits = self._waits, self._waits + 1
        if self.diverged or number >= self.trace.waits:
            # The same code gets here where a timer of its own was late, and the cache was no longer behind.
            self.waits_by_itself = True
            try:
                await wait()
            finally:
                self.waits_by_itself = False
            return
        while self._waited <= number:
            await self._wake.wait()

    async def look(self) -> None:
        """Wait until replay has come to where the recorded run looked into a cache."""
        number, self._looks = self._looks, self._looks + 1
        while number in self.trace.looks and not self.diverged:
            await self._wake.wait()

    def pass_wait(self, look: int) -> None:
        """Note that replay has come to where the recorded run went on, or looked into a cache."""
        if look < 0:
            self._waited += 1
        self.trace.looks.discard(look)
        self._wake.set()
        self._wake = anyio.Event()

    def chance(self, what: str, read: Callable[[Any], T], instead: Callable[[], T]) -> T:
        """The next value that the recorded run took; another one where it took no more, or none like it."""
        values = self._chance[what]
        try:
            return read(values.popleft())
        except (IndexError, ValueError, TypeError):
            return instead()


replayed: ContextVar[ReplayedRun | None] = ContextVar("replayed_run", default=None)
"""The run that the calling code belongs to."""


@define(eq=False)
class ReplayClock:
    """The recorded times and chance of each run; outside of runs, `wall`, and always the same chance."""

    wall: Callable[[], datetime.datetime]
    _count: int = field(default=0, init=False)

    def now(self) -> datetime.datetime:
        run = replayed.get()
        if run is None:
            return self.wall()
        return run.chance("now", _moment, self.wall)

    def random(self) -> float:
        run = replayed.get()
        return 0.5 if run is None else run.chance("random", float, lambda: 0.5)

    def uuid(self) -> UUID:
        run = replayed.get()
        return self._new_uuid() if run is None else run.chance("uuid", UUID, self._new_uuid)

    def suspended(self) -> float:
        return 0.0

    def _new_uuid(self) -> UUID:
        self._count += 1
        return UUID(int=self._count, version=4)


def _moment(text: str) -> datetime.datetime:
    moment = datetime.datetime.fromisoformat(text)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.UTC)


class ReplayTap:
    """Has replayed runs go on, after they have waited for a cache, where the recorded ones did."""

    def read(self, raw: bytes, snapshot: Snapshot) -> None:
        """Nothing to note."""

    def applied(self, part: str, effect: Effect) -> None:
        """Nothing to note."""

    async def look(self) -> None:
        if (run := replayed.get()) is not None:
            await run.look()

    async def wait(self, wait: Callable[[], Awaitable[None]]) -> None:
        run = replayed.get()
        await (wait() if run is None else run.wait(wait))


@define(eq=False)
class ReplayBlocking:
    """Executes blocking code in step; what it asks the loop for, and its end, are where they were."""

    _in_step: InStep = field(factory=InStep, init=False)

    async def call(self, function: Callable[[], R], log: structlog.stdlib.BoundLogger) -> R:
        try:
            return await self._in_step.call(function, log)
        finally:
            await _turn()

    async def call_with_loop(self, function: Callable[[Ask], R], log: structlog.stdlib.BoundLogger) -> R:
        def in_turn(ask: Ask) -> R:
            def ask_in_turn(call: Callable[[], Awaitable[Any]], /) -> Any:
                async def answer() -> Any:
                    await _turn()
                    return await call()

                return ask(answer)

            return function(ask_in_turn)

        try:
            return await self._in_step.call_with_loop(in_turn, log)
        finally:
            await _turn()


async def _turn() -> None:
    """Wait until replay has come to where the recorded run went on here."""
    run = replayed.get()
    if run is not None:
        await run.wait(anyio.lowlevel.checkpoint)


@define(eq=False)
class ReplayTransport:
    """Answers the requests of replayed runs in one cluster."""

    cluster: str
    cache: Cache | None = None

    @property
    def server(self) -> str:
        return "the recording"

    async def request(self, request: HttpRequest) -> Response:
        run = replayed.get()
        if run is None:
            raise Unreachable("replay answers the requests of recorded runs alone", str(request))
        exchange = run.take(request, self.cluster)
        if exchange is None:
            return self._guessed(request, run)
        answered = await run.answer(exchange)
        if answered is None:
            # The recording ends here, or something gave the request up: so will it, or the end of replay.
            await anyio.sleep_forever()
            raise AssertionError
        if answered.error:
            raise _error(answered, request)
        if not answered.status:
            raise NotRecorded("a watch of a run is not recorded", str(request))
        return Response(answered.status, answered.headers, answered.body)

    def stream(self, request: HttpRequest) -> AbstractAsyncContextManager[StreamingResponse]:
        raise NotRecorded("a watch of a run is not recorded", str(request))

    async def aclose(self) -> None:
        """Nothing is open."""

    # --- requests that the recording does not have --------------------------------------------------

    def _guessed(self, request: HttpRequest, run: ReplayedRun) -> Response:
        if request.method == "GET":
            for exchange in run.trace.exchanges:
                answered = exchange.answered
                if exchange.sent.path == request.path and exchange.reads and answered and answered.status:
                    return Response(answered.status, answered.headers, answered.body)
        before = self._cached(request.path)
        if request.method == "GET":
            if before is None:
                raise NotRecorded("the recording has no answer to it", str(request))
            return Response(200, {}, msgspec.json.encode(before))
        if request.method == "DELETE":
            return Response(200, {}, msgspec.json.encode({"kind": "Status", "status": "Success"}))
        given = content_of(request.body)
        result = merged(before or {}, given if isinstance(given, dict) else {})
        return Response(200 if before else 201, {}, msgspec.json.encode(self._stored(result, before, run)))

    def _stored(self, obj: Any, before: dict[str, Any] | None, run: ReplayedRun) -> dict[str, Any]:
        metadata = dict(obj.get("metadata") or {})
        was = (before or {}).get("metadata") or {}
        metadata.setdefault("name", f"{metadata.get('generateName', 'replayed-')}{len(run.new)}")
        metadata["uid"] = (
            was.get("uid") or f"00000000-0000-4000-8000-{run.trace.began.run:06d}{len(run.new):06d}"
        )
        # A version that every cache has reached, so that no run waits for a write that never arrives.
        metadata["resourceVersion"] = was.get("resourceVersion") or "1"
        return {**obj, "metadata": metadata}

    def _cached(self, path: str) -> dict[str, Any] | None:
        (group, plural), _ = place_in(path)
        parts = path.strip("/").split("/")
        for informer in self.cache or ():
            resource = informer.resource
            if (resource.group, resource.plural) != (group, plural) or plural not in parts:
                continue
            at = len(parts) - 1 - parts[::-1].index(plural)
            if at + 1 < len(parts):
                namespace = parts[at - 1] if resource.namespaced else ""
                snapshot = informer.store.get(Key(namespace, parts[at + 1]))
                return None if snapshot is None else snapshot.to_dict()
        return None


def _error(answered: Answered, request: HttpRequest) -> BaseException:
    """The error with which a recorded request failed."""
    for kind in (Unreachable, OutcomeUnknown):
        if answered.error == kind.__name__:
            return kind(answered.message.removeprefix(f"{request}: "), str(request))
    for plain in (BucketNotHeld, NotLeading, MalformedAnswer):
        if answered.error == plain.__name__:
            return plain(answered.message)
    # The class cannot be made again: one of its name, which the same code treats as any other error.
    made: BaseException = type(answered.error, (TransportError,), {})(answered.message, str(request))
    return made
