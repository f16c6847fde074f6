"""The incident of AIBrix 617 in virtual time, with the windows of the demo and with the defaults."""

import re

import pytest

from controllers.autoscaling import definition
from controllers.autoscaling.demo import incident as unready
from reconcile.simulation import Delays, IncidentVerdict, Logic, bundled_incidents
from reconcile.testing import simulate
from tests.controllers.autoscaling import Net
from tests.controllers.world import world


def play(seed: int, logic: Logic, scenario: unready.LoadScenario) -> IncidentVerdict:
    async def run() -> IncidentVerdict:
        async with world(seed, definition(), delays=Delays(0.2, 0.2)) as here:
            return await unready.play(here.stage, logic, scenario, Net())

    return simulate(run, seed=seed)


@pytest.mark.rule("kpa-incident")
@pytest.mark.parametrize("seed", range(3))
def test_the_replicas_follow_the_load_with_the_windows_of_the_demo(seed: int) -> None:
    verdict = play(seed, "ours", unready.LoadScenario())
    assert verdict.ok, verdict
    assert verdict.seconds < 30


@pytest.mark.rule("kpa-incident")
def test_the_replicas_follow_the_load_with_the_default_windows() -> None:
    verdict = play(0, "ours", unready.DEFAULTS)
    assert verdict.ok, verdict


@pytest.mark.parametrize("seed", range(2))
def test_the_original_stays_at_its_number(seed: int) -> None:
    verdict = play(seed, "original", unready.LoadScenario())
    assert not verdict.ok
    assert re.match(r"(\d+) replicas under load, \1 after it", verdict.explanation)


def test_the_incident_is_found_by_name() -> None:
    assert bundled_incidents()["kpa-unready-pods"] is unready.incident
