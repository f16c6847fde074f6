"""The runs that `sweep(old_views=True)` adds, by themselves, so that the comparison tells what they find."""

from reconcile.testing import Broken, Scenario
from reconcile.testing.old_views import old_view_plans
from reconcile.testing.scenario_runner import ScenarioRunner


def old_views(scenario: Scenario, seed: int = 0, *, most: int | None = None) -> int:
    """Play at most so many restarts that see the past. Raises Broken for the first run that fails."""
    runner = ScenarioRunner(scenario)
    plans = old_view_plans(scenario, seed)
    if most is not None and len(plans) > most:
        plans = [plans[number * len(plans) // most] for number in range(most)]
    for plan in plans:
        run = runner.run(plan)
        if run.failed:
            raise Broken(run)
    return len(plans)
