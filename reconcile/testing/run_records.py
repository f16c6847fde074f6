"""What happened in a simulated run, as values; times are seconds of the loop."""

from collections.abc import Sequence

from attrs import field, frozen

from reconcile.embedded.log import StoredChange
from reconcile.runs.run_request import Cause, Request
from reconcile.runs.tenure import Tenure
from reconcile.testing.faults import What
from reconcile.testing.runs_under_way import RunRef


@frozen
class KeyRun:
    """A run for one key; `outcome` is success, error, …, or cancelled. `given_up`: by a TerminalError.

    Where replicas share the objects, `tenure` is that of the bucket of its object, and `read` the version of
    the object that it began with.
    """

    process: int
    life: int
    controller: str
    request: Request
    started: float
    ended: float
    woken_by: Sequence[Cause]
    outcome: str
    message: str
    tenure: Tenure | None = None
    read: int = 0
    ref: RunRef | None = None
    given_up: bool = False

    @property
    def causes(self) -> Sequence[str]:
        """Why it ran, as text. Formatted on request: most runs are recorded and never shown."""
        return tuple(map(str, self.woken_by))


@frozen
class Death:
    """The end of one life of a manager's process; `why` is the fault, act or error that ended it."""

    process: int
    life: int
    at: float
    why: str


@frozen
class Standstill:
    """A time in which the process of a manager stood still."""

    process: int
    life: int
    began: float
    ends: float


@frozen
class InjectedFault:
    """A fault that happened to a request, or to the call of a webhook, of this path."""

    at: float
    path: str
    what: What


@frozen
class TimedChange:
    """A change on the server, and the run that asked for it: None if users or the server itself did.

    `in_step`: a function among the steps of the scenario did.

    Where replicas share the objects, `tenure` is that of the run.
    """

    at: float
    change: StoredChange
    tenure: Tenure | None = None
    by: RunRef | None = None
    in_step: bool = False


@frozen
class LoopStep:
    """One change of a loop, and what woke the run that made it: a cause, and the run behind that."""

    changed: TimedChange
    woken: tuple[Cause, RunRef | None] | None


@frozen
class HeldKey:
    """A key that the storm guard of manager `process` holds, its object, and what the guard says of it."""

    process: int
    controller: str
    request: Request
    subject: str
    message: str

    def __str__(self) -> str:
        who = f"a storm of {self.controller} for {self.request}"
        return f"{who}: {self.message}; the storm guard of manager {self.process} holds it"


@frozen
class Livelock:
    """A cycle in the states of a world: from `began` on, each turn leads back to where it began.

    The last turn went from `turn_began` to `ended`, its changes are `steps`. If it is `proven`, all that
    waited had its turn meanwhile, and only changes of the loop woke the runs of the loop. In a `fresh` one
    each turn writes values that were never there before; it is `endless` if it is proven but for these.
    Where a storm guard has `held` a key, the loop is as fast as the guard lets it be. Times are seconds.
    """

    began: float
    turn_began: float
    ended: float
    turns: int
    steps: Sequence[LoopStep]
    proven: bool = True
    fresh: bool = False
    endless: bool = False
    held: HeldKey | None = None

    def __str__(self) -> str:
        if self.held is not None and not self.turns:
            return str(self.held)
        count = len(self.steps)
        changes = "one change leads" if count == 1 else f"{count} changes lead"
        but = " but for values that are new each time" if self.fresh else ""
        often = "once" if self.turns == 1 else f"{self.turns} times"
        text = (
            f"since {self.began:.3f} s {changes} back to the same state{but}, {often} so far, "
            f"the last time in {self.ended - self.turn_began:.3f} s"
        )
        if self.held is not None:
            return f"{self.held}; {text}"
        if self.proven:
            return f"a livelock: {text}; nothing else is left to happen"
        return f"a loop: {text}; only such a value could end it" if self.endless else text

    @property
    def ends_run(self) -> bool:
        """Whether there is no point in letting the run go on."""
        return self.proven or self.endless or self.held is not None


@frozen
class TimedAct:
    """An act of a user, or a step of the scenario."""

    at: float
    text: str


@frozen
class Violation:
    """An invariant that did not hold, and what was seen; `at` (virtual seconds) is not compared."""

    rule: str
    text: str
    at: float = field(default=0.0, eq=False)

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}"
