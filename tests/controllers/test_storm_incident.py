"""The copy loop left as it was is caught by the storm guard, and goes on without it."""

import pytest

from controllers.registrysecrets import definition as pipelines
from controllers.registrysecrets.demo import storm
from reconcile.simulation import Delays, IncidentVerdict, Logic, bundled_incidents
from reconcile.testing import simulate
from tests.controllers.world import world


def caught(seed: int, logic: Logic) -> IncidentVerdict:
    async def run() -> IncidentVerdict:
        async with world(seed, pipelines(), delays=Delays(start=0.2, stop=0.2)) as here:
            return await storm.play(here.stage, logic)

    return simulate(run, seed=seed)


@pytest.mark.rule("storm-found")
@pytest.mark.parametrize("seed", range(8))
def test_the_copy_loop_is_caught_reported_and_slowed(seed: int) -> None:
    verdict = caught(seed, "ours")
    assert verdict.ok, verdict
    assert verdict.writes <= 2
    assert "makes objects of kind Secret and deletes them again" in verdict.explanation
    assert "field manager: reconcile-runtime.dev/registry-secrets" in verdict.explanation


@pytest.mark.parametrize("seed", range(2))
def test_without_the_guard_the_loop_continues(seed: int) -> None:
    verdict = caught(seed, "original")
    assert not verdict.ok
    assert verdict.writes > 20
    assert "nobody was told" in verdict.explanation


def test_the_incident_is_found_by_name() -> None:
    assert bundled_incidents()["storm-caught"] is storm.incident
