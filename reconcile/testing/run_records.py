"""What happened in a simulated run, as values; times are seconds of the loop."""

from collections.abc import Sequence

from attrs import field, frozen

from reconcile.embedded.log import StoredChange
from reconcile.runs.run_request import Cause, Request
from reconcile.runs.tenure import Tenure
from reconcile.testing.runs_under_way import RunRef


@frozen
class KeyRun:
    """A run for one key; `outcome` is success, error, …, or cancelled.

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
class TimedChange:
    """A change on the server, and the run that asked for it: None if users or the server itself did.

    Where replicas share the objects, `tenure` is that of the run.
    """

    at: float
    change: StoredChange
    tenure: Tenure | None = None
    by: RunRef | None = None


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
