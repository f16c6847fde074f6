"""Restarts that see the past: the fault behind two fifths of Sieve's bugs, which `sweep` does not play.

A controller that is started again may get its first list from an API server that lags behind. It may then
create what it need not, which it deletes again later. But the world was at rest when the process died, so
whatever existed then has to be there still when the process has caught up.
"""

from collections.abc import Iterator

from attrs import evolve

from reconcile.models import kind_of
from reconcile.testing import Broken, Fault, FaultPlan, Kill, Scenario, ScenarioRun, TimeTravel, Wait, When
from reconcile.testing.recorded_requests import UNCOUNTED
from reconcile.testing.run_records import Violation
from reconcile.testing.scenario_acts import ProcessAct, ScenarioAct
from reconcile.testing.scenario_runner import ScenarioRunner

MOST_CHANGES = 4
LATE_SECONDS = 5.0
NOT_CHECKED = ("creates", "deletes", "extra-run")
"""What a correct controller may break that sees the past."""


def old_views(scenario: Scenario, seed: int = 0, *, most: int | None = None) -> int:
    """Let the process die after each step, and see each kind as some changes before; returns the runs.

    Steps that are functions are left out. If there are more than `most` runs, so many are taken at even
    distances. Raises Broken for the first run that breaks an invariant of the
    scenario, or loses an object.
    """
    runner = ScenarioRunner(evolve(scenario, without=tuple({*scenario.without, *NOT_CHECKED})))
    plans = list(_plans(scenario, seed))
    if most is not None and len(plans) > most:
        plans = [plans[number * len(plans) // most] for number in range(most)]
    for plan in plans:
        run = runner.run(plan)
        violations = (*run.violations, *_lost(run))
        if violations:
            raise Broken(evolve(run, violations=violations))
    return len(plans)


def _plans(scenario: Scenario, seed: int) -> Iterator[FaultPlan]:
    kinds = dict.fromkeys(kind for controller in scenario.make_controllers() for kind in controller.kinds)
    steps = [step for step in scenario.steps if not callable(step)]
    for number, step in enumerate(steps, 1):
        if isinstance(step, Wait | ProcessAct) or isinstance((*steps, Kill())[number], Wait):
            continue
        acts: list[ScenarioAct] = [*steps[:number], Kill(), *steps[number:]]
        for kind in kinds:
            when = When("watch", f"*/{kind_of(kind).resource.plural}", nth=2)
            for events in range(1, MOST_CHANGES + 1):
                yield FaultPlan([Fault(when, TimeTravel(events, LATE_SECONDS))], acts, seed)


def _lost(run: ScenarioRun) -> Iterator[Violation]:
    """What existed when the process died, and was deleted before anybody did anything else."""
    (process,) = run.world.processes
    if not process.deaths:  # it never came to rest
        return
    died = process.deaths[0].at
    until = min((act.at for act in run.world.acts if act.at > died), default=float("inf"))
    there: set[str] = set()
    for one in run.world.changes:
        change = one.change
        if one.at <= died and change.new is not None:
            there.add(change.new.uid)
        if change.new is not None or change.old is None or change.resource in UNCOUNTED:
            continue
        if died < one.at < until and change.old.uid in there:
            text = f"{change.resource[1]} {change.key} was there at the restart, and was deleted after it"
            yield Violation("restart", text, one.at)
