"""The runs of a controller, active and past, for `/debug/state` and metrics."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, Self

import anyio
from attrs import define, field

from reconcile.controller.run_ends import RunEnds, Slots, count_end, ends_of_last_minute
from reconcile.controller.run_result import RunResult
from reconcile.controller.service_metrics import ServiceMetrics
from reconcile.controller.shown_runs import causes_and_reads, writes_in_words
from reconcile.runs.run_failures import Member
from reconcile.runs.run_record import ObjectRef
from reconcile.runs.run_request import Cause, Request
from reconcile.storms.guard import StormMetrics
from workqueue import Item, QueueMetrics

if TYPE_CHECKING:
    from reconcile.controller.service_levels import ServiceLevels
    from reconcile.controller.write_details import RunDetails, WriteDetails

RUNS_OF_A_KEY = 5
"""The last ones. The last that a change or a person woke stays longer, as far as runs that followed by
themselves would push it out: of a key that fails it is the one that says why."""
KEYS_REMEMBERED = 200
_BY_ITSELF: Final = frozenset({"retried", "scheduled", "resynced"})
_NO_RUNS: "tuple[tuple[PastRun, ...], Slots]" = ((), {})


class ControllerMetrics(StormMetrics, ServiceMetrics, Protocol):
    """Metrics of one controller, for any library."""

    @property
    def queue(self) -> QueueMetrics:
        """Metrics of its queue."""
        ...

    def run_ended(self, outcome: RunResult, seconds: float) -> None:
        """A run has ended; not called for one that was cancelled."""
        ...

    def caught_up(self, seconds: float, behind: bool) -> None:
        """A read waited `seconds` for the cache to show own writes; `behind`: in vain."""
        ...


class ControllerTraces(Protocol):
    """Traces of the runs of one controller, for any library."""

    def run(self, run: "ActiveRun") -> AbstractContextManager[None]: ...

    def triggered(self, request: Request, cause: Cause) -> None:
        """A run was asked for; called in the thread that asks."""
        ...


class PastRun(NamedTuple):
    """A run that ended; without exceptions, whose tracebacks would keep the objects of the run alive.

    Times are those of the event loop's clock. `result` is that of `RunResult.name`, or `cancelled`. `reads`
    are the first objects that it read, `writes` its changes in words, `at` is where its error was raised, and
    `members` are the errors of a group. `requeue_after`: in how many seconds it asked to run again.
    `given_up`: its error is not worth a retry. `details` are what it wrote, where the history keeps them.
    `left_out`: how many runs between the one before it in the history and this one are not kept.
    """

    started: float
    ended: float
    causes: tuple[Cause, ...]
    attempt: int
    reconcile_id: str
    result: str
    error: str
    reads: tuple[ObjectRef, ...] = ()
    writes: tuple[str, ...] = ()
    at: str = ""
    members: tuple[Member, ...] = ()
    requeue_after: float | None = None
    given_up: bool = False
    details: "RunDetails | None" = None
    left_out: int = 0

    @property
    def seconds(self) -> float:
        return self.ended - self.started


@define(eq=False)
class ActiveRun:
    """A run under way, as a context; set `outcome` before it is left."""

    history: "RunHistory"
    request: Request
    causes: tuple[Cause, ...]
    attempt: int
    priority: int = 0
    task: asyncio.Task[Any] | None = None
    _now: Callable[[], float] = anyio.current_time
    started: float = 0.0
    ended: float = 0.0
    outcome: RunResult | None = None
    _trace: AbstractContextManager[None] | None = None

    def __enter__(self) -> Self:
        self.started = self._now()
        self.history.begin(self)
        if self.history.traces is not None:
            self._trace = self.history.traces.run(self)
            self._trace.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._trace is not None:
            self._trace.__exit__(None, None, None)
        self.ended = self._now()
        self.history.end(self, self.ended)


@define(eq=False)
class RunHistory:
    """The runs of one controller: all under way, and the last few of the keys that ran last.

    With `details` it keeps what they wrote.
    With `ends` it is also known when keys ran last whose runs are not kept any more.
    `levels` measures how soon keys run.
    """

    metrics: ControllerMetrics | None = None
    traces: ControllerTraces | None = None
    details: "WriteDetails | None" = None
    ends: RunEnds | None = None
    levels: "ServiceLevels | None" = None
    _running: dict[Request, ActiveRun] = field(factory=dict, init=False)
    _past: OrderedDict[Request, tuple[tuple[PastRun, ...], Slots]] = field(factory=OrderedDict, init=False)

    def run(
        self,
        item: Item[Request],
        task: asyncio.Task[Any] | None = None,
        now: Callable[[], float] = anyio.current_time,
    ) -> ActiveRun:
        """The run of an item of the queue, in `task`: `with ... as run: run.outcome = ...`.

        `now` is the time of the task's event loop.
        """
        return ActiveRun(self, item.key, item.causes, item.retries, item.priority, task, now)

    def running(self) -> Iterator[ActiveRun]:
        """The active runs, oldest first."""
        return iter(list(self._running.values()))

    def active(self, request: Request) -> ActiveRun | None:
        """The active run of a key."""
        return self._running.get(request)

    def recent(self) -> Iterator[tuple[Request, tuple[PastRun, ...]]]:
        """The past runs by key; the key that ran last comes last."""
        return iter([(request, runs) for request, (runs, _) in self._past.items()])

    def past(self, request: Request) -> tuple[PastRun, ...]:
        """The past runs of a key, oldest first."""
        return self._past.get(request, _NO_RUNS)[0]

    def last_minute(self, now: float) -> dict[Request, int]:
        """How many runs of each key ended within the last minute; keys without any are left out."""
        counts = {request: ends_of_last_minute(slots, now) for request, (_, slots) in self._past.items()}
        return {request: count for request, count in counts.items() if count}

    def forget_where(self, is_gone: Callable[[Request], bool]) -> None:
        """Forget what some keys have applied, and owe. Their runs stay, until others take their place."""
        if self.levels is not None:
            self.levels.forget_where(is_gone)
        if self.details is not None:
            self.details.forget_where(is_gone)

    def begin(self, run: ActiveRun) -> None:
        self._running[run.request] = run
        if self.levels is not None:
            self.levels.run_began(run.request, run.started)
        if self.ends is not None:
            self.ends.began(run.request)

    def end(self, run: ActiveRun, now: float) -> None:
        self._running.pop(run.request, None)
        past, slots = self._past.pop(run.request, _NO_RUNS)
        if not past:
            slots = {}
            if len(self._past) >= KEYS_REMEMBERED:
                self._past.popitem(last=False)
        count_end(slots, now)
        self._past[run.request] = _with_newest(past, _past(run, now, self.details)), slots
        if self.metrics is not None and run.outcome is not None:
            self.metrics.run_ended(run.outcome, now - run.started)
        if self.ends is None:
            return
        if run.outcome is None:
            self.ends.cancelled(run.request)
        else:
            self.ends.ended(run.request, now, run.outcome.error is not None)


def _with_newest(past: tuple[PastRun, ...], newest: PastRun) -> tuple[PastRun, ...]:
    """The runs of a key that are kept, after another one."""
    if len(past) < RUNS_OF_A_KEY:
        return (*past, newest)
    oldest, second, *others = past
    # The newest first: most runs are woken, and this stands in the way of every run.
    if _was_woken(newest) or not _was_woken(oldest) or any(map(_was_woken, past[1:])):
        # What is left out before the oldest one is not known of others either.
        return (second._replace(left_out=0) if second.left_out else second, *others, newest)
    third, *rest = (*others, newest)
    return (oldest, third._replace(left_out=third.left_out + second.left_out + 1), *rest)


def _was_woken(run: PastRun) -> bool:
    """Whether something woke a run that neither time nor the runs before it brought about."""
    for cause in run.causes:  # noqa: SIM110 -- a generator takes five times as long
        if cause.verb not in _BY_ITSELF and not cause.echo:
            return True
    return False


def _past(run: ActiveRun, now: float, details: "WriteDetails | None") -> PastRun:
    outcome = run.outcome
    if outcome is None:
        return PastRun(run.started, now, run.causes, run.attempt, "", "cancelled", "")
    record = outcome.record
    causes, reads = causes_and_reads(outcome)
    return PastRun(
        run.started,
        now,
        run.causes if record is None else causes,
        run.attempt,
        outcome.reconcile_id,
        outcome.name,
        outcome.message,
        reads,
        writes_in_words(outcome),
        outcome.at if outcome.error is not None else "",
        tuple(outcome.members) if outcome.error is not None else (),
        outcome.result.requeue_after,
        outcome.terminal,
        None if details is None or record is None else details.kept(run.request, record.writes, outcome),
    )
