"""The bundled controllers under the schedules of small worlds: a part in the suite, all with LABORATORY.

The suite leaves fleets to the laboratory: their first run alone takes a minute.
"""

import os
from collections.abc import Callable

import pytest
from attrs import evolve

from reconcile.testing import Apply, Scenario, explore
from tests.controllers import test_autoscaling_simulated as autoscaling
from tests.controllers import test_fleets_simulated as fleets
from tests.controllers import test_nodegroups_simulated as nodegroups
from tests.simulation.bundled_scenarios import cluster, pipeline, registry_secrets, source, worker_groups

IN_FULL = "LABORATORY" in os.environ
SECONDS = 3_600.0


def first_step(told: Scenario) -> Scenario:
    return evolve(told, steps=told.steps[:1])


WORLDS: dict[str, tuple[Callable[[], Scenario], int]] = {
    # with so many of their runs in the suite
    "registry-secrets": (
        lambda: evolve(registry_secrets(), steps=[Apply(source("one")), Apply(pipeline("test"))]),
        12,
    ),
    "worker-groups": (lambda: evolve(worker_groups(), steps=[Apply(cluster(1))]), 6),
    # Each of its runs reads the scale of the target, which nothing can tell it.
    "autoscaling": (lambda: evolve(first_step(autoscaling.scenario()), without=("extra-run",)), 3),
    "fleets": (lambda: first_step(fleets.scenario(1, 0)), 0),
    "node-groups": (lambda: first_step(nodegroups.scenario()), 3),
}


@pytest.mark.rule("sim-explore")
@pytest.mark.timeout(2 * SECONDS if IN_FULL else 60)
@pytest.mark.parametrize("name", [name for name, (_, runs) in WORLDS.items() if runs or IN_FULL])
def test_no_schedule_breaks_a_bundled_controller(name: str) -> None:
    make, most = WORLDS[name]
    limit = None if IN_FULL else most
    report = explore(make(), objects=10, crashes=1, seconds=SECONDS, most=limit)
    print(f"{name}: {report}")
    assert report.exhaustive or report.runs == limit or (IN_FULL and report.seconds >= SECONDS)
