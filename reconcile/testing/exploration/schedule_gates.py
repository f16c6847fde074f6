"""Where a simulated world waits for its schedule: what may happen next are transitions, each behind a gate.

Only what matters is a transition. A run begins, a request reaches the server, its answer reaches the run, the
next line of a watch reaches a cache, a user acts, a process dies, an answer is lost. What follows from one
until nothing is ready any more is a part of it. Time passes only where there is no transition.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property, partial
from typing import Literal, NamedTuple, Protocol, TypeVar

import msgspec
from attrs import define, field, frozen

from informers.apimachinery.envelopes import INITIAL_EVENTS_END
from informers.transport import HttpRequest, Response
from reconcile.embedded import ApiServer, InProcessTransport, WatchStream
from reconcile.runs.run_request import Request
from reconcile.testing.recorded_requests import RecordedRequest, service_of, target_of
from reconcile.testing.run_records import TimedAct
from reconcile.testing.virtual_time import VirtualTimeLoop

T = TypeVar("T")

TransitionKind = Literal["run", "send", "answer", "line", "act", "crash", "lose"]

_END_OF_INITIAL = INITIAL_EVENTS_END.encode()
_READS = ("GET", "HEAD")
_INSTANT = 1e-9
"""Seconds between two transitions, so that records have an order: far less than the shortest timer."""


class RunName(NamedTuple):
    """A run under way: that of a key of a controller, in a life of a process."""

    process: int
    life: int
    controller: str
    request: Request

    def __str__(self) -> str:
        return f"{self.controller} {self.request}"


@frozen
class Transition:
    """Something that may happen next; two that may happen at one time have different labels.

    `process` is 0 for users. `path` is that of a request that reaches the server.
    """

    kind: TransitionKind
    process: int
    label: str
    run: RunName | None = None
    path: str = ""


class Chooser(Protocol):
    """Decides which transition is next."""

    def choose(self, enabled: Sequence[Transition]) -> int:
        """The index of the next one; called only with two or more, or with one."""
        ...

    def time_passes(self) -> None:
        """No transition is possible, so time passes until a timer fires."""
        ...


class Processes(Protocol):
    """Ends processes, as a crash does."""

    def crash(self, process: int) -> None: ...


@define(eq=False)
class _Gate:
    transition: Transition
    passed: asyncio.Future[bool]
    fallible: bool = False
    """It is a write, at which a process can die, or the answer to one, which can be lost."""
    answer: Response | None = None

    def open(self, outcome: bool) -> None:
        if not self.passed.done():
            self.passed.set_result(outcome)


@define(eq=False)
class ScheduleGates:
    """All gates of one run of a scenario. With `crashes` and `lost_answers` so many of them may happen."""

    chooser: Chooser
    crashes: int = 0
    lost_answers: int = 0
    crashes_before: bool = False
    """Whether a process may also die before a write: it makes a difference to what exists outside."""
    processes: Processes | None = field(default=None, init=False)
    watches: "list[ChosenLines]" = field(factory=list, init=False)
    present: Transition | None = field(default=None, init=False)
    """The transition under way."""
    answer: Response | None = field(default=None, init=False)
    """What has reached a run with the last transition; None if that is no answer, or it was lost."""
    story: list[TimedAct] = field(factory=list, init=False)
    """What happened that no other record has: the lines that reached caches, and the lost answers."""
    _gates: dict[int, _Gate] = field(factory=dict, init=False)
    _serial: int = field(default=0, init=False)
    _dies: int = field(default=0, init=False)
    """The process that dies once the server has answered the request under way."""
    _free: bool = field(default=False, init=False)
    _closed: bool = field(default=False, init=False)

    @property
    def waiting(self) -> Sequence[Transition]:
        """The transitions of runs, requests and users that wait, oldest first."""
        return [gate.transition for gate in self._gates.values()]

    @property
    def answers(self) -> Iterator[tuple[Transition, Response]]:
        """The answers that wait to reach their runs."""
        return ((gate.transition, gate.answer) for gate in self._gates.values() if gate.answer is not None)

    def finish(self) -> None:
        """Choose no more: from here on everything goes on in its order."""
        self._free = True

    # --- the loop ---------------------------------------------------------------------------------

    def step(self) -> bool:
        """Have the next transition happen; false if there is none, so that time passes."""
        self.present = None
        enabled = list(self._enabled().items())
        if not enabled:
            if not self._free:
                self._asked(self.chooser.time_passes)
            return False
        number = 0
        if not self._free:
            number = self._asked(lambda: self.chooser.choose([transition for transition, _ in enabled]))
        self.present, happen = enabled[number]
        self._tell(self.present)
        self.answer = None
        happen()
        return True

    def _tell(self, transition: Transition) -> None:
        loop = asyncio.get_running_loop()
        if isinstance(loop, VirtualTimeLoop):
            loop.hold(_INSTANT)
        if transition.kind in ("line", "lose"):
            self.story.append(TimedAct(loop.time(), transition.label))

    def _asked(self, question: Callable[[], T]) -> T:
        """What the chooser answers. If it raises, the run is over, and nothing waits any more."""
        try:
            return question()
        except BaseException:
            self._closed = True
            loop = asyncio.get_running_loop()
            if isinstance(loop, VirtualTimeLoop):
                loop.schedule = None
            raise

    def _enabled(self) -> dict[Transition, Callable[[], None]]:
        """What may happen now, what is usual first: in the order of asking, then lines, then failures."""
        enabled: dict[Transition, Callable[[], None]] = {}
        for serial, gate in self._gates.items():
            enabled[gate.transition] = partial(self._open, serial, True)
        for lines in self._lines():
            enabled[lines.transition] = lines.deliver
        if self._free:
            return enabled
        if self.lost_answers:
            for serial, gate in self._gates.items():
                if gate.fallible:
                    answer = gate.transition
                    lost = Transition("lose", answer.process, f"lost: {answer.label}", answer.run)
                    enabled[lost] = partial(self._lose, serial)
        if self.crashes:
            for serial, gate in self._gates.items():
                if gate.transition.kind == "send" and gate.fallible:
                    enabled.update(self._crashes(serial, gate.transition))
        return enabled

    def _lines(self) -> "list[ChosenLines]":
        return [lines for lines in self.watches if lines.can_deliver]

    def _open(self, serial: int, outcome: bool) -> None:
        gate = self._gates.pop(serial)
        self.answer = gate.answer if outcome else None
        gate.open(outcome)

    def _lose(self, serial: int) -> None:
        self.lost_answers -= 1
        self._open(serial, False)

    def _crashes(self, serial: int, sent: Transition) -> Iterator[tuple[Transition, Callable[[], None]]]:
        """The crashes at a write: what a process does between two writes leaves no trace on the server."""
        after = Transition("crash", sent.process, f"crash after {sent.label}", sent.run, sent.path)
        yield after, partial(self._crash, serial, sent.process, carried_out=True)
        if self.crashes_before:
            before = Transition("crash", sent.process, f"crash before {sent.label}", sent.run)
            yield before, partial(self._crash, serial, sent.process, carried_out=False)

    def _crash(self, serial: int, process: int, *, carried_out: bool) -> None:
        assert self.processes is not None
        self.crashes -= 1
        if carried_out:
            self._dies = process
            self._open(serial, True)
        else:
            self.processes.crash(process)

    # --- waiting ----------------------------------------------------------------------------------

    async def wait(
        self, transition: Transition, *, fallible: bool = False, answer: Response | None = None
    ) -> bool:
        """Wait until the schedule lets a transition happen; false if it went wrong."""
        if self._closed:
            return True
        self._serial += 1
        serial = self._serial
        taken = {gate.transition.label for gate in self._gates.values()}
        if transition.label in taken:
            transition = _numbered(transition, taken)
        gate = _Gate(transition, asyncio.get_running_loop().create_future(), fallible, answer)
        self._gates[serial] = gate
        try:
            return await gate.passed
        finally:
            self._gates.pop(serial, None)

    async def begin_run(self, run: RunName) -> None:
        """Wait until a run may begin."""
        await self.wait(Transition("run", run.process, f"manager {run.process} runs {run}", run))

    async def act(self, number: int) -> None:
        """Wait until the user acts for the `number`th time."""
        await self.wait(Transition("act", 0, f"user takes step {number}"))

    def carried_out(self, process: int) -> None:
        """The server has answered a write of a process, which dies now if that was chosen."""
        if self._dies == process and self.processes is not None:
            self._dies = 0
            self.processes.crash(process)


def _numbered(transition: Transition, taken: set[str]) -> Transition:
    number = 2
    while f"{transition.label} #{number}" in taken:
        number += 1
    label = f"{transition.label} #{number}"
    return Transition(transition.kind, transition.process, label, transition.run, transition.path)


_run: ContextVar[RunName | None] = ContextVar("run", default=None)


def run_here() -> RunName | None:
    """The run that calls this, if one does."""
    return _run.get()


@contextmanager
def within_run(run: RunName | None) -> Iterator[None]:
    """Requests inside are those of a run."""
    token = _run.set(run)
    try:
        yield
    finally:
        _run.reset(token)


@define(eq=False)
class ProcessGates:
    """The gates of the requests of one process.

    Those that no run sends, such as renewals of Leases, pass at once. So do those whose order makes no
    difference: Events, which no controller reads, and questions about what the server can do.
    """

    gates: ScheduleGates
    process: int

    async def before(self, request: HttpRequest) -> None:
        """Wait until the request may reach the server."""
        run = _run.get()
        if run is not None and _is_ordered(request):
            label = f"manager {self.process} {run}: {_words(request)}"
            transition = Transition("send", self.process, label, run, request.path)
            await self.gates.wait(transition, fallible=request.method not in _READS)

    async def after(self, request: HttpRequest, answer: Response) -> bool:
        """Wait until the answer may reach the run; false if it is lost."""
        run = _run.get()
        if run is None or not _is_ordered(request):
            return True
        self.gates.carried_out(self.process)
        effective = request.method not in _READS and answer.status < 400
        label = f"manager {self.process} {run}: answer {answer.status} to {_words(request)}"
        transition = Transition("answer", self.process, label, run)
        return await self.gates.wait(transition, fallible=effective, answer=answer)


def _is_ordered(request: HttpRequest) -> bool:
    """Whether it can make a difference what happens before the request, and what after it."""
    if service_of(request.path):
        return True
    target = target_of(request.path)
    return target.resource != "events" if target.resource else request.method not in _READS


def _words(request: HttpRequest) -> str:
    return RecordedRequest(request.method, request.path, dict(request.query), request.body).summary


class ChosenWatches(InProcessTransport):
    """A transport into an embedded server of which the schedule delivers the lines of watches, one by one."""

    def __init__(self, server: ApiServer, gates: ScheduleGates, process: int) -> None:
        super().__init__(server)
        self._gates = gates
        self._process = process

    def watched(self, watch: WatchStream, path: str) -> AsyncIterator[bytes]:
        return ChosenLines(watch, self._gates, self._process, path)


@frozen(slots=False)
class PendingLine:
    """A line on its way to a cache; `writer` is the run whose write it shows, if it was one."""

    text: bytes
    writer: RunName | None

    @property
    def is_event(self) -> bool:
        """Whether it shows a change, unlike a bookmark."""
        return b'"BOOKMARK"' not in self.text[:24]

    @cached_property
    def shown(self) -> "_Line":
        """What it shows."""
        return _line_decoder.decode(self.text)

    @property
    def version(self) -> int:
        """The version of the change."""
        return int(self.shown.object.metadata.resource_version or 0)

    @property
    def words(self) -> str:
        """What it shows, in words: `ADDED default/web`."""
        event = self.shown
        metadata = event.object.metadata
        name = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
        return f"{event.type} {name}"


class LineMetadata(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _LineObject(msgspec.Struct, gc=False):
    metadata: LineMetadata = msgspec.field(default_factory=LineMetadata)


class _Line(msgspec.Struct, gc=False):
    type: str = ""
    object: _LineObject = msgspec.field(default_factory=_LineObject)


_line_decoder = msgspec.json.Decoder(_Line)


class ChosenLines(AsyncIterator[bytes]):
    """The lines of a watch: initial ones and bookmarks pass at once, each other one when it is chosen.

    A first list that arrives at once loses nothing: no run reads a cache before all caches are filled, and
    whatever a later list would show arrives as further lines.
    """

    def __init__(self, watch: WatchStream, gates: ScheduleGates, process: int, path: str) -> None:
        self.process = process
        self.path = path
        self.lines: list[PendingLine] = []
        self._watch = watch
        self._gates = gates
        self._reader: asyncio.Future[None] | None = None
        self._listens = False
        self._initial = True
        self._granted = False

    @property
    def can_deliver(self) -> bool:
        """Whether there is a line to choose, and a reader for it."""
        return self._reader is not None and bool(self.lines) and not self._granted and not self._watch.closed

    @property
    def transition(self) -> Transition:
        plural = target_of(self.path).resource
        label = f"manager {self.process} sees {plural} {self.lines[0].words}"
        return Transition("line", self.process, label)

    def deliver(self) -> None:
        """Let the next line pass."""
        self._granted = True
        self._wake()

    async def __anext__(self) -> bytes:
        if not self._listens:
            self._listens = True
            self._gates.watches.append(self)
            self._watch.listen(self._collect)
            self._collect()
        while not (self.lines and (self._granted or self._is_free())):
            if not self.lines and self._watch.closed:
                self._leave()
                raise StopAsyncIteration
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            except BaseException:
                self._leave()
                raise
            finally:
                self._reader = None
        line = self.lines.pop(0)
        if self._initial:
            self._initial = _END_OF_INITIAL not in line.text
        elif line.is_event:
            self._granted = False
        return line.text

    def _is_free(self) -> bool:
        return self._initial or not self.lines[0].is_event

    def _collect(self) -> None:
        present = self._gates.present
        writer = present.run if present is not None and present.kind == "send" else None
        self.lines += [PendingLine(line, writer) for line in self._watch.take()]
        if (self._watch.closed and not self.lines) or (self.lines and self._is_free()):
            self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def _leave(self) -> None:
        if self in self._gates.watches:
            self._gates.watches.remove(self)
