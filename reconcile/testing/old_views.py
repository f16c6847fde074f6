"""Restarts that see the past: the faults behind two fifths of the bugs that Sieve found (OSDI 2022).

A process that starts again may get its first list from an API server that lags behind. A correct controller
may then create what it need not, and delete that later. But what existed when the process died in a world at
rest has to be there still when it has caught up, unless a restart without an old view removes it too.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from attrs import evolve

from reconcile.models import kind_of
from reconcile.testing.faults import Fault, FaultPlan, TimeTravel, When
from reconcile.testing.scenario import Scenario
from reconcile.testing.scenario_acts import Kill, ProcessAct, ScenarioAct, Stop, Wait

MOST_CHANGES = 4
"""How many changes of one kind a restarted process lacks at most."""
LATE_SECONDS = 5.0
"""When it receives them."""
NOT_CHECKED = ("creates", "deletes", "extra-run")
"""What a correct controller may break that sees the past."""


def old_view_plans(scenario: Scenario, seed: int) -> Sequence[FaultPlan]:
    """The process dies after each step, and sees one kind as it was 1 to 4 changes before.

    Raises ValueError for scenarios of several replicas, and for steps that are functions, which no plan can
    hold.
    """
    if scenario.replicas > 1:
        raise ValueError(f"old_views=True expects one replica, got {scenario.replicas}")
    steps: list[ScenarioAct] = []
    for step in scenario.steps:
        if callable(step):
            name = getattr(step, "__name__", repr(step))
            raise ValueError(f"old_views=True expects steps that are acts, and {name} is a function")
        steps.append(step)
    return tuple(_plans(scenario, steps, seed))


def sees_past(plan: FaultPlan) -> bool:
    """Whether a process may see an old state when it starts."""
    return any(isinstance(fault.what, TimeTravel) for fault in plan.faults)


def checked_under(scenario: Scenario, plan: FaultPlan) -> Scenario:
    """The scenario without the invariants that a correct controller may break under the plan."""
    if not sees_past(plan):
        return scenario
    return evolve(scenario, without=tuple({*scenario.without, *NOT_CHECKED}))


def _plans(scenario: Scenario, steps: Sequence[ScenarioAct], seed: int) -> Iterator[FaultPlan]:
    kinds = dict.fromkeys(kind for controller in scenario.make_controllers() for kind in controller.kinds)
    for number, (step, following) in enumerate(pairwise((*steps, Kill())), 1):
        if isinstance(step, Wait | ProcessAct) or isinstance(following, Wait):
            continue  # the world is not at rest
        acts = (*steps[:number], Kill(), *steps[number:])
        lives = 2 + sum(isinstance(act, Kill | Stop) for act in steps[:number])
        for kind in kinds:
            when = When("watch", f"*/{kind_of(kind).resource.plural}", nth=lives)
            for changes in range(1, MOST_CHANGES + 1):
                yield FaultPlan([Fault(when, TimeTravel(changes, LATE_SECONDS))], acts, seed)
