"""The runs of a simulated world that have not ended: whose they are, and what they can have seen.

The code that a run calls or starts finds its run here, as tasks inherit their context: so each request and
each change on the server has the run that asked for it.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias

from attrs import define, field, frozen

from reconcile.runs.run_request import Cause, Request

Reached: TypeAlias = tuple[int, ...]
"""The version of the server, and those that the caches of a process have reached, by informer."""


@frozen
class RunRef:
    """One run of a process: its controller, its key, and its `number` among the runs of that process."""

    process: int
    controller: str
    request: Request
    number: int

    def __str__(self) -> str:
        return f"{self.controller} for {self.request}"


@define(eq=False)
class RunUnderWay:
    """A run, why it began, and the moments at which it can have looked: its begin, and each answer.

    Between two of them it may read any cache, so what it holds follows from what they showed then. `sent` are
    the indexes of its requests among those of its process; a moment comes with that of its request, or -1.
    """

    ref: RunRef
    began: float
    causes: Sequence[Cause]
    look: Callable[[], Reached]
    moments: list[tuple[int, Reached]] = field(factory=list, init=False)
    sent: list[int] = field(factory=list, init=False)

    def look_around(self, request: int = -1) -> None:
        """Note what server and caches show now, where a request was answered, or the run begins."""
        self.moments.append((request, self.look()))


_here: ContextVar[RunUnderWay | None] = ContextVar("run", default=None)
_steps: ContextVar[bool] = ContextVar("steps", default=False)


def run_here() -> RunUnderWay | None:
    """The run that the calling code belongs to; None outside of runs."""
    return _here.get()


@contextmanager
def outside_runs() -> Iterator[None]:
    """Have what is called inside belong to no run and no step, as what the server itself does."""
    run, step = _here.set(None), _steps.set(False)
    try:
        yield
    finally:
        _here.reset(run)
        _steps.reset(step)


@contextmanager
def in_step() -> Iterator[None]:
    """Have what is called or started inside belong to a step of the scenario."""
    token = _steps.set(True)
    try:
        yield
    finally:
        _steps.reset(token)


def step_here() -> bool:
    """Whether the calling code belongs to a step of the scenario."""
    return _steps.get()


def enter_run(run: RunUnderWay | None) -> None:
    """Have the present task belong to a run from here on, and what it starts; None: to none."""
    _here.set(run)
