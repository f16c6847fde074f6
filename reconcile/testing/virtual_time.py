"""An event loop whose time is virtual and whose schedule is drawn from a seed.

When nothing is ready to run, the clock jumps to the next timer. The seed chooses the order in which ready
tasks run, so code that is right only by luck fails under some seed, and fails again with that seed.

What asyncio promises is kept. Callbacks that are not steps of a task run first in, first out: futures, locks,
events, timers and the cancel scopes of anyio rely on this. The steps of one task keep their order, and every
ready task takes its step before any takes a second one.
"""

import asyncio
import heapq
import itertools
import linecache
import math
import operator
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context, ContextVar, copy_context
from types import AsyncGeneratorType
from typing import Any, TypeVar, TypeVarTuple
from weakref import WeakSet, ref

from reconcile.testing.sealed_loop import SealedLoop, SimulationError, is_library
from reconcile.testing.seeded_random import SeededRandom

_sniffio: Any
try:
    import sniffio as _sniffio
except ImportError:
    _sniffio = None

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

TICKS_AT_ONE_TIME = 200_000
"""After so many rounds of the loop in which no time passes, a simulation counts as stuck."""

CLEANUP_SECONDS = 60.0
"""How long cancelled tasks may take to end after the time limit, in virtual seconds."""

_MANY_CANCELLED = 100
_MANY_TASKS = 100


class DeadlockError(SimulationError):
    """Every task waits and no timer is set, so nothing can happen any more; lists where each task waits."""


class LivelockError(SimulationError):
    """Tasks keep each other busy while no time passes; lists where each task is."""


class TimeLimitError(SimulationError):
    """The virtual time of a simulation is over; lists where each task still waits."""


class VirtualTimeLoop(SealedLoop):
    """An event loop that starts at time 0, never blocks, and takes ready tasks in an order of `seed`.

    One seed gives a program one schedule, in every process. `limit_seconds` is the virtual time at which
    the loop gives up with `TimeLimitError`, None for never. Timers due at one time fire in the order in
    which they were set. With `in_order` tasks go on in the order in which they became ready, as elsewhere.
    """

    # Attributes of the base class; `_ready` is what it runs next, in order.
    _ready: deque[asyncio.Handle]
    _closed: bool
    _debug: bool
    _stopping: bool
    _asyncgens: WeakSet[AsyncGeneratorType[Any, Any]]

    def __init__(self, seed: int = 0, *, limit_seconds: float | None = None, in_order: bool = False) -> None:
        super().__init__()
        self.seed = seed
        self._in_order = in_order
        self._chance = SeededRandom(f"{seed}/schedule")
        self._limit = math.inf if limit_seconds is None else limit_seconds
        self._time = 0.0
        self._ticks = 0
        self._serials = itertools.count(1)
        self._tasks: list[ref[_NumberedTask]] = []
        self._many_tasks = _MANY_TASKS
        # (when, number, timer): tuples, because the heap compares them in C.
        self._timers: list[tuple[float, int, _Timer]] = []
        self._timers_set = itertools.count()
        self._cancelled_timers = 0
        self._frozen: dict[int | None, list[asyncio.Handle]] = {}
        self._thaws: dict[int, float] = {}
        self.schedule: Callable[[], bool] | None = None
        """Decides in place of the seed: makes something ready where nothing is, or time passes (false)."""

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._time

    def hold(self, seconds: float) -> None:
        """Let time pass while nothing else runs, as when a callback blocks the loop."""
        self._time += seconds
        self._ticks = 0

    def freeze(self, process: int, seconds: float) -> None:
        """Have nothing run that belongs to a process (`enter_process`), no timer either.

        What was due meanwhile is due at once afterwards. Of two freezes at one time the later end counts.
        """
        ends = self._time + seconds
        if ends > self._thaws.get(process, self._time):
            self._frozen.setdefault(process, [])
            self._thaws[process] = ends
            self.call_at(ends, self._thaw_at, process, ends, context=Context())

    def thaw(self, process: int) -> None:
        """End a freeze before its time."""
        self._thaws.pop(process, None)
        self._ready.extend(self._frozen.pop(process, ()))

    def _thaw_at(self, process: int, ends: float) -> None:
        if self._thaws.get(process) == ends:
            self.thaw(process)

    def _hold_back(self) -> None:
        """Take what belongs to frozen processes out of what is ready."""
        ready = list(self._ready)
        self._ready.clear()
        for handle in ready:
            process = None if handle._cancelled else handle._context.get(_process)  # type: ignore[attr-defined]
            self._frozen.get(process, self._ready).append(handle)

    def call_soon(
        self,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """As the base class does, in fewer steps: most of the time of a simulation is spent here."""
        if self._closed or self._debug:
            return super().call_soon(callback, *args, context=context)
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """As the base class does; timers of one time keep their order."""
        if self._closed:
            raise RuntimeError("Event loop is closed")
        timer = _Timer(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, next(self._timers_set), timer))
        return timer

    def forget_timer(self) -> None:
        """Count a cancelled timer. It stays in the heap until many are cancelled."""
        self._cancelled_timers += 1
        if self._cancelled_timers > _MANY_CANCELLED and self._cancelled_timers * 2 > len(self._timers):
            self._timers = [entry for entry in self._timers if not entry[2].cancelled()]
            heapq.heapify(self._timers)
            self._cancelled_timers = 0

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: Any = None,
        context: Context | None = None,
        **options: Any,
    ) -> asyncio.Task[T]:
        """As the base class does, with numbered tasks."""
        if self._closed or self.get_task_factory() is not None:
            return super().create_task(coro, name=name, context=context, **options)
        task = _NumberedTask(coro, next(self._serials), loop=self, name=name, context=context, **options)
        self._tasks.append(task.itself)
        if len(self._tasks) > self._many_tasks:
            self._tasks = [one for one in self._tasks if (left := one()) is not None and not left.done()]
            self._many_tasks = max(_MANY_TASKS, 2 * len(self._tasks))
        return task

    def _run_once(self) -> None:
        """One round, as in the base class: run what is ready; if nothing is, let time pass first."""
        if self._breach is not None:
            self.raise_breach()
        ready = self._ready
        if ready or self._stopping:
            self._count_tick()
            if len(ready) > 1 and not self._in_order and self.schedule is None:
                _shuffle_tasks(ready, self._chance)
        elif self.schedule is None or not self.schedule():
            self._pass_time()
        if self._timers and self._timers[0][0] <= self._time:
            self._take_due()
        if self._frozen:
            self._hold_back()
        for _ in range(len(ready)):
            handle: Any = ready.popleft()
            if handle._cancelled:
                continue
            try:
                handle._context.run(handle._callback, *handle._args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:
                message = f"an error in a callback: {handle!r}"
                self.call_exception_handler({"message": message, "exception": error, "handle": handle})

    def _pass_time(self) -> None:
        timers = self._timers
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
            self._cancelled_timers -= 1
        due = timers[0][0] if timers else math.inf
        if due == math.inf:
            raise DeadlockError(_stuck_report("every task waits, and no timer is set", self))
        if due > self._limit:
            passed = f"{self._limit:g} virtual seconds have passed"
            self._limit = self._time + CLEANUP_SECONDS
            raise TimeLimitError(_stuck_report(passed, self))
        if due > self._time:
            self._time = due
            self._ticks = 0
        else:
            self._count_tick()

    def _take_due(self) -> None:
        timers, now = self._timers, self._time
        while timers and timers[0][0] <= now:
            timer = heapq.heappop(timers)[2]
            timer.waits = False
            if timer.cancelled():
                self._cancelled_timers -= 1
            else:
                self._ready.append(timer)

    def _count_tick(self) -> None:
        self._ticks += 1
        if self._ticks > TICKS_AT_ONE_TIME:
            self._ticks = 0
            raise LivelockError(_stuck_report(f"{TICKS_AT_ONE_TIME} rounds ran and no time passed", self))

    def wind_up(self) -> None:
        """End all tasks and async generators that are left, and close the loop."""
        try:
            self._end_tasks()
            # Generators that have ended may still be listed; closing nothing would still take a task.
            if any(one.ag_frame is not None for one in self._asyncgens):
                self.run_until_complete(self.shutdown_asyncgens())
        finally:
            self._timers.clear()
            self.close()
            for one in self._tasks:
                task = one()
                if task is not None:
                    task.forget_frames()

    def _end_tasks(self) -> None:
        left = [task for one in self._tasks if (task := one()) is not None and not task.done()]
        if not left:
            return
        for task in left:
            task.cancel()
        self.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        for task in left:
            error = None if task.cancelled() else task.exception()
            if error is not None:
                message = "an error in a task that was cancelled at the end of a simulation"
                self.call_exception_handler({"message": message, "exception": error, "task": task})

    def _write_to_self(self) -> None:
        """Does nothing: this loop never sleeps in a selector."""


_process: ContextVar[int | None] = ContextVar("process", default=None)


def enter_process(process: int) -> None:
    """Have the present task, and what it starts from here on, belong to a process, which can be frozen."""
    _process.set(process)


def process_here() -> int | None:
    """The process to which the present task belongs; None for the test and the server themselves."""
    return _process.get()


def outside_processes() -> Context:
    """The present context, for what belongs to no process."""
    context = copy_context()
    context.run(_process.set, None)
    return context


def loop_time() -> float:
    """The time of the running loop in seconds, as `anyio.current_time()`, which first detects the library."""
    return asyncio.get_running_loop().time()


def simulate(
    fn: Callable[[*Arguments], Awaitable[T]],
    *args: *Arguments,
    seed: int = 0,
    limit_seconds: float = 3600,
    in_order: bool = False,
) -> T:
    """Run `fn(*args)` to its end under a `VirtualTimeLoop` and return what it returns.

    `limit_seconds` are virtual; `in_order` is that of the loop. Raises what `fn` raises, and `DeadlockError`,
    `LivelockError`, `TimeLimitError` or `RealWorldError` if the simulation cannot go on, after all tasks have
    been cancelled and have ended. Raises RuntimeError within an event loop.
    """
    if asyncio._get_running_loop() is not None:
        raise RuntimeError("a simulation cannot be run within an event loop")
    loop = VirtualTimeLoop(seed, limit_seconds=limit_seconds, in_order=in_order)
    with _detected_by_anyio():
        try:
            return loop.run_until_complete(_call(fn, args))
        finally:
            loop.wind_up()


async def _call(fn: Callable[..., Awaitable[T]], args: tuple[Any, ...]) -> T:
    task = asyncio.current_task()
    assert task is not None
    task.set_name(getattr(fn, "__qualname__", str(fn)))
    return await fn(*args)


@contextmanager
def _detected_by_anyio() -> Iterator[None]:
    """Tell sniffio that asyncio runs: anyio asks at each step, and detecting it each time is slow."""
    if _sniffio is None:
        yield
        return
    answer = _sniffio.thread_local
    before, answer.name = answer.name, "asyncio"
    try:
        yield
    finally:
        answer.name = before


class _Handle(asyncio.Handle):
    """A handle without the base class's debugging, which costs time."""

    __slots__ = ()

    _context: Context
    _callback: Callable[..., object] | None

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[object, ...],
        loop: asyncio.AbstractEventLoop,
        context: Context | None,
    ) -> None:
        self._context = copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None


class _Timer(_Handle, asyncio.TimerHandle):
    """A timer that is as cheap; while it `waits`, it reports its cancellation to the loop."""

    __slots__ = ("waits",)
    _loop: VirtualTimeLoop

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[object, ...],
        loop: VirtualTimeLoop,
        context: Context | None,
    ) -> None:
        super().__init__(callback, args, loop, context)
        self._when = when
        self._scheduled = self.waits = True

    def cancel(self) -> None:
        if self._cancelled:
            return
        self._cancelled = True
        self._callback, self._args = None, ()
        if self.waits:
            self._loop.forget_timer()


class _NumberedTask(asyncio.Task[Any]):
    """A task whose hash is a number, so that every process walks a set of tasks in the same order."""

    def __init__(self, coro: Any, serial: int, **options: Any) -> None:
        self.serial = serial
        self._raised: asyncio.CancelledError | None = None
        super().__init__(coro, **options)
        # The only weak reference: it remembers the hash, so that anyio can keep tasks weakly.
        self.itself = ref(self)

    def __hash__(self) -> int:
        return self.serial

    def exception(self) -> BaseException | None:
        """As the base class's; a cancellation comes without the frames that it passed through."""
        if not self.cancelled():
            return super().exception()
        with suppress(asyncio.CancelledError):
            super().exception()
        self._raised = asyncio.CancelledError()
        raise self._raised

    def forget_frames(self) -> None:
        """Drop the traceback of a raised cancellation: anyio's frames in it keep the task's locals alive."""
        error, self._raised = self._raised, None
        if error is not None:
            error.__traceback__ = None

    def __repr__(self) -> str:
        # anyio needs it at every cancellation; the base class's is slow and contains an address.
        return f"<Task {self.get_name()} number {self.serial}>"


def _shuffle_tasks(ready: deque[asyncio.Handle], chance: SeededRandom) -> None:
    """Shuffle the steps of tasks among the places that they hold in `ready`; everything else stays."""
    # A copy: the garbage collector may run here and close an async generator, which adds a step.
    steps = [
        (_serial(task), place, handle)
        for place, handle in enumerate(tuple(ready))
        if isinstance(task := getattr(_callback_of(handle), "__self__", None), asyncio.Task)
    ]
    if len(steps) < 2:
        return
    places = [place for _, place, _ in steps]
    # Sorted first, so that the result does not depend on the order in which the steps became ready.
    steps.sort()
    serials = {serial for serial, _, _ in steps}
    if len(serials) == 1:
        return
    shuffled = [handle for _, _, handle in steps]
    chance.shuffle(shuffled)
    if len(serials) < len(steps):
        shuffled = _in_order_of_each(shuffled, steps)
    for place, handle in zip(places, shuffled, strict=True):
        ready[place] = handle


_callback_of: Callable[[asyncio.Handle], Any] = operator.attrgetter("_callback")


def _in_order_of_each(
    shuffled: list[asyncio.Handle], steps: list[tuple[int, int, asyncio.Handle]]
) -> list[asyncio.Handle]:
    """Keep the order of each task's steps, in the places that the shuffle gave to that task."""
    serial_of = {id(handle): serial for serial, _, handle in steps}
    of_task: dict[int, deque[asyncio.Handle]] = {}
    for serial, _, handle in steps:
        of_task.setdefault(serial, deque()).append(handle)
    return [of_task[serial_of[id(handle)]].popleft() for handle in shuffled]


def _serial(task: asyncio.Task[Any]) -> int:
    return task.serial if isinstance(task, _NumberedTask) else 0


def _stuck_report(what: str, loop: VirtualTimeLoop) -> str:
    tasks = sorted(asyncio.all_tasks(loop), key=_serial)
    lines = [f"  {task.get_name()}: {_position(task)}" for task in tasks]
    return "\n".join([f"{what} (seed {loop.seed}, time {loop.time():g}); tasks:", *lines])


def _position(task: asyncio.Task[Any]) -> str:
    places = list(_await_chain(task.get_coro()))
    if not places:
        return "not started, or at its end"
    ours = [place for place in places if not is_library(place[0])]
    filename, line, function = (ours or places)[-1]
    source = linecache.getline(filename, line).strip()
    return f"{filename}:{line} in {function}: {source}"


def _await_chain(awaited: Any) -> Iterator[tuple[str, int, str]]:
    """Where each coroutine of a suspended task stands, outermost first."""
    while awaited is not None:
        for kind, inner in (("cr", "cr_await"), ("gi", "gi_yieldfrom"), ("ag", "ag_await")):
            frame = getattr(awaited, f"{kind}_frame", None)
            if frame is not None:
                yield frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
                awaited = getattr(awaited, inner)
                break
        else:
            return
