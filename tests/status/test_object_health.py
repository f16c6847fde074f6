"""How an object does, in one word."""

import msgspec
import pytest

from reconcile.controller.run_history import PastRun
from reconcile.status.object_health import (
    HealthFacts,
    SeenCondition,
    health_of,
    health_of_object,
)


def condition(text: str, reason: str = "", observed: int | None = None) -> SeenCondition:
    name, status = text.split("=")
    return SeenCondition(name, status, reason, observed)


READY = condition("Ready=True")


@pytest.mark.parametrize(
    ("facts", "health", "reason"),
    [
        (HealthFacts(), "waiting", "has not run here"),
        (HealthFacts(ran=True), "healthy", ""),
        (HealthFacts(conditions=[READY]), "healthy", ""),
        (
            HealthFacts(ran=True, error="ValueError: no bulb", conditions=[READY]),
            "failing",
            "ValueError: no bulb",
        ),
        (
            HealthFacts(conditions=[READY, condition("Degraded=True", "Slow")]),
            "failing",
            "Degraded=True: Slow",
        ),
        (HealthFacts(conditions=[condition("Stalled=True")]), "failing", "Stalled=True"),
        (HealthFacts(conditions=[condition("Failed=False")], ran=True), "healthy", ""),
        (HealthFacts(deleting=True, conditions=[READY]), "deleting", ""),
        (HealthFacts(deleting=True, error="x", ran=True), "failing", "x"),
        (
            HealthFacts(generation=3, observed=2, conditions=[READY]),
            "progressing",
            "generation 3 is not observed yet",
        ),
        (HealthFacts(generation=3, observed=3, conditions=[READY]), "healthy", ""),
        (
            HealthFacts(generation=3, conditions=[condition("Ready=True", observed=2)]),
            "progressing",
            "Ready=True is of generation 2",
        ),
        (
            HealthFacts(conditions=[condition("Ready=False", "PodsNotReady")]),
            "progressing",
            "Ready=False: PodsNotReady",
        ),
        (HealthFacts(conditions=[condition("Ready=Unknown")], ran=True), "progressing", "Ready=Unknown"),
        (
            HealthFacts(conditions=[condition("Progressing=True")], ran=True),
            "progressing",
            "Progressing=True",
        ),
        (HealthFacts(conditions=[condition("Reconciling=True"), READY]), "healthy", ""),
    ],
)
def test_the_first_that_holds_is_the_health(facts: HealthFacts, health: str, reason: str) -> None:
    assert health_of(facts) == (health, reason)


def test_a_deployment_is_healthy_when_it_is_available_though_it_says_progressing() -> None:
    conditions = [condition("Available=True"), condition("Progressing=True", "NewReplicaSetAvailable")]
    assert health_of(HealthFacts(conditions=conditions)).health == "healthy"
    assert (
        health_of(HealthFacts(conditions=[condition("Available=False"), conditions[1]])).health
        == "progressing"
    )


def test_of_a_decoded_object_the_last_run_counts_too() -> None:
    obj = {"metadata": {"generation": 2}, "status": {"observedGeneration": 2}}
    failed = PastRun(0.0, 1.0, (), 0, "1", "error", "ValueError: no bulb")
    assert health_of_object(obj, None).health == "waiting"
    assert health_of_object(obj, failed) == ("failing", "ValueError: no bulb")
    assert health_of_object(obj, failed._replace(error="")).health == "healthy"
    assert health_of_object(None, None).health == "waiting"


def test_a_reason_can_be_sent_whatever_is_in_an_error() -> None:
    _, reason = health_of(HealthFacts(ran=True, error="\ud800" + "x" * 1000))
    assert len(msgspec.json.encode(reason)) < 300
