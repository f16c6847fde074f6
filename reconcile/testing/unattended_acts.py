"""What users do while no process of the operator runs, which no event tells it afterwards."""

from collections.abc import Iterator

from reconcile.testing.faults import FaultPlan
from reconcile.testing.scenario import Scenario
from reconcile.testing.scenario_acts import Kill, ProcessAct, ScenarioAct, Wait


def unattended_act_plans(scenario: Scenario, seed: int) -> Iterator[FaultPlan]:
    """For each step after the first: the process dies at rest, and the step is taken before it is back.

    None for scenarios of several replicas, of which another takes over, and of steps that are functions,
    which no plan can hold.
    """
    steps: list[ScenarioAct] = [step for step in scenario.steps if not callable(step)]
    if scenario.replicas > 1 or len(steps) < len(scenario.steps) or not scenario.restart_seconds:
        return
    while_down = Wait(min(0.5, scenario.restart_seconds / 2))
    for number in range(1, len(steps)):
        before, step = steps[number - 1 : number + 1]
        if not isinstance(before, Wait | ProcessAct) and not isinstance(step, Wait | ProcessAct):
            yield FaultPlan((), (*steps[:number], Kill(), while_down, *steps[number:]), seed)
