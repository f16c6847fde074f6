"""What a bug of the zoo is: a controller that has it, a twin without it, and where it was found."""

from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeAlias

from attrs import frozen

from reconcile import Context
from reconcile.testing import FaultPlan, Scenario
from tests.verification.zoo.kinds import Cluster

Family: TypeAlias = Literal[
    "intermediate state",  # a crash between two writes (Sieve, OSDI 2022)
    "stale state",  # a decision on an old state (Sieve)
    "unobserved state",  # a state in between that no run ever sees (Sieve)
    "indirect",  # what Sieve found on the way
    "operation",  # the declared state is not what the system becomes (Acto, SOSP 2023)
    "order of tasks",  # needs two runs in one order
    "several faults",  # needs two or three faults in order
    "liveness",  # never comes to rest, or never gets there
    "outside world",  # what exists outside the cluster
]

Tool: TypeAlias = Literal["one run", "seeds", "sweep", "old views", "fuzz", "explore", "transitions"]
"""Ways to test a scenario, from the cheapest on; see `tests.verification.tools`."""

Run: TypeAlias = Callable[[Context[Cluster]], Awaitable[Any]]


@frozen(kw_only=True)
class BugPattern:
    """One bug, re-created from its description in a controller that is as small as can be.

    `scenario(mended)` is the same scenario of either twin. `sources` are the reports: the first is the bug
    that was re-created, the others are the same pattern elsewhere. `found_by` is the cheapest tool that is
    certain to find it, which the suite checks.
    """

    name: str
    bug: str
    """What goes wrong, in one line."""
    family: Family
    sources: tuple[str, ...]
    scenario: Callable[[bool], Scenario]
    found_by: Tool
    fields: str = "*"
    """A pattern of the fields of the spec that it needs, for `transitions`."""
    witness: FaultPlan | None = None
    """A plan that shows a bug which no quick tool finds."""

    @property
    def broken(self) -> Scenario:
        """The scenario with the bug."""
        return self.scenario(False)

    @property
    def mended(self) -> Scenario:
        """The scenario without it."""
        return self.scenario(True)

    def __str__(self) -> str:
        return self.name
