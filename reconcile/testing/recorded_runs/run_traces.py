"""What a recording has of each run, read ahead from its beginning to its end."""

from collections import deque
from collections.abc import Iterator
from typing import Any

import msgspec
from attrs import define, field

from reconcile.recording.recorded_events import Answered, Began, Changed, Ended, Sent, TimedEvent, Woke
from reconcile.recording.recording_reader import RecordingProblem

LONGEST_RUN = 200_000
"""Events that are read ahead for the end of one run; later ones are not compared with."""
LARGEST_RUN = 512 << 20
"""Bytes of the bodies of these events."""
LARGEST_OPEN = 1 << 30
"""Bytes of all runs at once that have not ended: no manager has so much under way."""
_OF_A_RUN = 1_000
_OF_A_REQUEST = 500
"""About how many bytes they take beside the bodies."""


@define(eq=False)
class Exchange:
    """A recorded request and its answer; None where the recording ends before it."""

    sent: Sent
    sent_as: int
    """Which event of the recording it was."""
    answered: Answered | None = None
    answered_as: int = 0
    taken: bool = field(default=False, init=False)
    """Whether the replayed run has sent it too."""
    passed: bool = field(default=False, init=False)
    """Whether replay has come to the answer."""

    @property
    def reads(self) -> bool:
        return self.sent.method == "GET"

    @property
    def content(self) -> Any:
        """The body as JSON has it; text for what is not JSON."""
        return content_of(self.sent.body)


def content_of(body: bytes | None) -> Any:
    if body is None:
        return None
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return body.decode(errors="replace")


@define(eq=False)
class RunTrace:
    """One recorded run, which waited for caches `waits` times; `ended`: None if the recording ends first."""

    began: Began
    exchanges: list[Exchange] = field(factory=list)
    waits: int = 0
    looks: set[int] = field(factory=set)
    """Which of its looks into caches have an event of their own."""
    ended: Ended | None = None
    size: int = 0
    """Bytes that it takes, about."""


@define(eq=False)
class RunTraces(Iterator[TimedEvent]):
    """The events of a recording in their order; `of` knows what comes of a run that begins.

    Raises RecordingProblem if the runs under way take too much memory, as in a forged recording.
    """

    events: Iterator[TimedEvent]
    _ahead: deque[TimedEvent] = field(factory=deque, init=False)
    _ahead_size: int = field(default=0, init=False)
    """Bytes of their bodies."""
    _open: dict[int, RunTrace] = field(factory=dict, init=False)
    _open_size: int = field(default=0, init=False)
    _last: int = field(default=-1, init=False)
    """The number of the run that began last: they ascend."""
    _count: int = field(default=0, init=False)

    def __next__(self) -> TimedEvent:
        if not self._ahead:
            return self._read()
        event = self._ahead.popleft()
        self._ahead_size -= _size_of(event)
        return event

    def of(self, began: Began) -> RunTrace:
        """All of a run whose beginning was the last event."""
        trace = self._open[began.run]
        while trace.ended is None and len(self._ahead) < LONGEST_RUN and self._ahead_size < LARGEST_RUN:
            try:
                event = self._read()
            except StopIteration:
                break
            self._ahead.append(event)
            self._ahead_size += _size_of(event)
        return trace

    def done_with(self, run: int) -> None:
        """Forget a run."""
        if (trace := self._open.pop(run, None)) is not None:
            self._open_size -= trace.size

    def _read(self) -> TimedEvent:
        event = next(self.events)
        self._count += 1
        if isinstance(event, Began):
            self._begin(event)
        elif isinstance(event, Sent | Answered | Woke | Ended):
            trace = self._open.get(event.run)
            if trace is not None:
                self._add(trace, event)
        return event

    def _begin(self, began: Began) -> None:
        if began.run <= self._last:
            raise RecordingProblem(f"run {began.run} of the recording begins out of turn: it is damaged")
        self._last = began.run
        trace = self._open[began.run] = RunTrace(began)
        self._grow(trace, _OF_A_RUN)

    def _add(self, trace: RunTrace, event: Sent | Answered | Woke | Ended) -> None:
        match event:
            case Sent():
                trace.exchanges.append(Exchange(event, self._count))
                self._grow(trace, _OF_A_REQUEST + _size_of(event))
            case Answered() if 0 <= event.number < len(trace.exchanges):
                exchange = trace.exchanges[event.number]
                exchange.answered, exchange.answered_as = event, self._count
                self._grow(trace, _size_of(event))
            case Woke(look=look) if look < 0:
                trace.waits += 1
            case Woke(look=look):
                trace.looks.add(look)
            case Ended():
                trace.ended = event

    def _grow(self, trace: RunTrace, size: int) -> None:
        trace.size += size
        self._open_size += size
        if self._open_size > LARGEST_OPEN:
            raise RecordingProblem(
                f"{len(self._open)} runs of the recording have not ended and take more than "
                f"{LARGEST_OPEN >> 20} MB: it is damaged, or was not made by a manager"
            )


def _size_of(event: TimedEvent) -> int:
    match event:
        case Sent() | Answered():
            return len(event.body or b"")
        case Changed():
            return sum(map(len, event.objects))
    return 0
