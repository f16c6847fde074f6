"""Each alert is fired by a planned fault, and over after it; no other one fires, and none in healthy runs.

The suite plays the faults that are quick, and a healthy run. `ALERT_FAULTS=all` plays all faults,
`ALERT_RUNS` says how many healthy runs: `make alerts`.
"""

import os
from pathlib import Path

import pytest

from reconcile.monitoring.alerts import ALERTS
from tests.monitoring import webhook_faults
from tests.monitoring.faults import PLANNED, Planned
from tests.monitoring.healthy import IN_FULL, Healthy, judged
from tests.monitoring.judging import JUDGES, complaints
from tests.monitoring.promql.groups import rules_of
from tests.monitoring.promtool import PROMTOOL, check_rules, groups, write_rules
from tests.monitoring.simulated_operator import record

assert webhook_faults  # imported for its faults

FAULTS = [one for one in PLANNED if one.quick or os.environ.get("ALERT_FAULTS") == "all"]
RUNS = int(os.environ.get("ALERT_RUNS", "1"))
FIRST = int(os.environ.get("ALERT_FIRST", "2"))


def test_each_alert_has_a_fault_that_fires_it() -> None:
    fired = {name for planned in PLANNED for name in planned.expected.fires}
    assert {alert.name for alert in ALERTS} == fired


def test_the_healthy_runs_of_ci_have_one_replica_standbys_and_shards() -> None:
    forms = {Healthy.drawn(seed).replicas for seed in range(FIRST, FIRST + 4)}
    assert forms == {"one", "standby", "sharded"}


def test_prometheus_and_the_evaluator_of_these_tests_can_read_the_rules(tmp_path: Path) -> None:
    assert len(rules_of(groups())) > len(ALERTS)
    if PROMTOOL is not None:
        assert check_rules(write_rules(tmp_path)) == ""


@pytest.mark.rule("monitoring-alerts")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("planned", FAULTS, ids=lambda planned: planned.name)
def test_a_fault_fires_its_alerts_and_no_others(planned: Planned, tmp_path: Path) -> None:
    recording = record(planned.play)
    assert complaints(tmp_path, [(planned.name, recording, planned.expected)]) == ""


@pytest.mark.rule("monitoring-alerts")
@pytest.mark.timeout(max(300, 60 * RUNS))
def test_no_alert_fires_in_healthy_runs() -> None:
    assert judged(FIRST, RUNS) == ""
    played = f"{len(FAULTS)} faults of {len(PLANNED)}, {RUNS} healthy runs of {IN_FULL}"
    print(f"\nalerts: {played}, judged by {JUDGES}")
