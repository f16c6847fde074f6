"""What a recording has of each run, read ahead from its beginning to its end."""

from collections import deque
from collections.abc import Iterator
from typing import Any

import msgspec
from attrs import define, field

from reconcile.recording.recorded_events import Answered, Began, Changed, Ended, Sent, TimedEvent, Woke

LONGEST_RUN = 200_000
"""Events that are read ahead for the end of one run; later ones are not compared with."""
LARGEST_RUN = 512 << 20
"""Bytes of the bodies of these events."""


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


@define(eq=False)
class RunTraces(Iterator[TimedEvent]):
    """The events of a recording in their order; `of` knows what comes of a run that begins."""

    events: Iterator[TimedEvent]
    _ahead: deque[TimedEvent] = field(factory=deque, init=False)
    _ahead_size: int = field(default=0, init=False)
    """Bytes of their bodies."""
    _open: dict[int, RunTrace] = field(factory=dict, init=False)
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
        self._open.pop(run, None)

    def _read(self) -> TimedEvent:
        event = next(self.events)
        self._count += 1
        match event:
            case Began():
                self._open[event.run] = RunTrace(event)
            case Sent():
                if (trace := self._open.get(event.run)) is not None:
                    trace.exchanges.append(Exchange(event, self._count))
            case Answered():
                trace = self._open.get(event.run)
                if trace is not None and 0 <= event.number < len(trace.exchanges):
                    exchange = trace.exchanges[event.number]
                    exchange.answered, exchange.answered_as = event, self._count
            case Woke():
                if (trace := self._open.get(event.run)) is not None:
                    if event.look < 0:
                        trace.waits += 1
                    else:
                        trace.looks.add(event.look)
            case Ended():
                if (trace := self._open.get(event.run)) is not None:
                    trace.ended = event
        return event


def _size_of(event: TimedEvent) -> int:
    match event:
        case Sent() | Answered():
            return len(event.body or b"")
        case Changed():
            return sum(map(len, event.objects))
    return 0
