"""What the rules make of series as several replicas, clusters, operators and long quiet times leave them."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.monitoring.judging import complaints
from tests.monitoring.promtool import Expected
from tests.monitoring.simulated_operator import JOB, NAMESPACE, STEP, Recording

pytestmark = pytest.mark.timeout(300)

STEPS_AN_HOUR: Final = 120
Values = Callable[[int], float | None]
"""The value of a series at a step of 30 seconds; None: it is not scraped."""
LONG: Final = 4
"""How many of these steps are one where hours pass: promtool takes its time for each."""


def series(name: str, /, instance: str = "pod-1", job: str = JOB, **labels: str) -> str:
    labels = {**labels, "namespace": NAMESPACE, "job": job, "instance": instance}
    said = ",".join(f'{label}="{value}"' for label, value in labels.items())
    return f"{name}{{{said}}}"


def scraped(hours: float, values: Mapping[str, Values], each: int = 1) -> Recording:
    """A recording in which a manager always answers; it has every `each`-th step."""
    steps = range(0, int(hours * STEPS_AN_HOUR), each)
    every = {series("reconcile_event_loop_lag_seconds_count"): float, **values}
    return Recording({name: [value(step) for step in steps] for name, value in every.items()}, len(steps))


def constant(value: float) -> Values:
    return lambda step: value


def between(start: float, end: float, inside: float, outside: float) -> Values:
    """One value from an hour on until another, and else another."""
    return lambda step: inside if start <= step / STEPS_AN_HOUR < end else outside


def slow_changes(count: Values) -> dict[str, Values]:
    """The histogram of reaction, in which no change was in time; `count` is that of the changes."""
    name, labels = "reconcile_reaction_seconds", {"controller": "toy"}
    return {
        series(f"{name}_count", **labels): count,
        series(f"{name}_bucket", **labels, le="1.0"): constant(0),
    }


def judge(folder: Path, hours: float, values: Mapping[str, Values], *fires: str, **options: Any) -> None:
    labels: Mapping[str, str] = options.pop("labels", {})
    expected = Expected({name: {**labels} for name in (*fires, *options.get("lasting", ()))}, **options)
    each = LONG if hours > 4 else 1
    assert complaints(folder, [("a case", scraped(hours, values, each), expected)], each * STEP) == ""


# --- little traffic -----------------------------------------------------------------------------------


def test_an_operator_with_a_slow_change_an_hour_gets_a_ticket_and_no_page(tmp_path: Path) -> None:
    hourly = slow_changes(lambda step: step // STEPS_AN_HOUR)
    judge(tmp_path, 16, hourly, lasting=["ReconcileReactionBudget"])


def test_one_burst_of_slow_changes_in_a_quiet_day_is_not_worth_an_alert(tmp_path: Path) -> None:
    judge(tmp_path, 16, slow_changes(lambda step: 20 if step > STEPS_AN_HOUR else 0))


def test_a_webhook_that_is_called_every_eight_minutes_and_always_fails_wakes_someone(tmp_path: Path) -> None:
    labels = {"webhook": "defaults", "result": "failed"}
    calls = {series("reconcile_webhook_calls_total", **labels): lambda step: step // 16}
    judge(
        tmp_path,
        3,
        calls,
        lasting=["ReconcileWebhookErrors"],
        may=["ReconcileAdmissionBudget"],
        labels={"webhook": "defaults"},
    )


def test_objects_that_never_become_ready_wake_nobody_in_a_quiet_night(tmp_path: Path) -> None:
    def until_six(value: float) -> Values:
        return lambda step: value if step < 6 * STEPS_AN_HOUR else None

    def from_six(value: Values) -> Values:
        return lambda step: None if step < 6 * STEPS_AN_HOUR else value(step - 6 * STEPS_AN_HOUR)

    def age(step: int) -> float:
        return step * 30.0

    values: dict[str, Values] = {}
    labels = {"controller": "toy"}
    for instance, lives, oldest in (
        ("pod-1", until_six, lambda step: 90_000.0 if step < 6 * STEPS_AN_HOUR else None),
        ("pod-2", lambda value: from_six(constant(value)), from_six(age)),
    ):
        values[series("reconcile_unconverged_objects", instance, **labels)] = lives(3)
        values[series("reconcile_unconverged_oldest_seconds", instance, **labels)] = oldest
        values[series("reconcile_convergence_seconds_count", instance, **labels)] = lives(7)
    # There is nothing from before the first two hours, so all are new then.
    judge(tmp_path, 9, values, lasting=["ReconcileStuck"], may=["ReconcileNothingConverges"])
    del values[series("reconcile_unconverged_oldest_seconds", "pod-1", **labels)]
    judge(tmp_path, 9, values, lasting=["ReconcileStuck"])


# --- restarts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "labels", "alert"),
    [
        (
            "controller_runtime_terminal_reconcile_errors_total",
            {"controller": "toy"},
            "ReconcileTerminalErrors",
        ),
        ("reconcile_informer_skipped_total", {"resource": "toys"}, "ReconcileObjectsSkipped"),
    ],
)
def test_what_happens_before_the_first_scrape_is_told(
    tmp_path: Path, metric: str, labels: dict[str, str], alert: str
) -> None:
    judge(tmp_path, 1, {series(metric, **labels): constant(3)}, alert, labels=labels)


def test_a_process_that_starts_again_after_old_errors_fires_nothing(tmp_path: Path) -> None:
    """A counter that falls to 0 has not counted."""
    counters = (
        "controller_runtime_terminal_reconcile_errors_total",
        "controller_runtime_reconcile_panics_total",
    )
    falling = {series(one, controller="toy"): between(0, 1, 4, 0) for one in counters}
    judge(tmp_path, 2, falling, may=["ReconcileTerminalErrors", "ReconcilePanics"])
    resting = {series(one, controller="toy"): constant(0) for one in counters}
    judge(tmp_path, 2, resting)


# --- one cause, one page ------------------------------------------------------------------------------


def outage(start: float, end: float, *, instance: str = "pod-1", cluster: str = "") -> dict[str, Values]:
    labels = {"cluster": cluster} if cluster else {}
    return {series("reconcile_api_server_reachable", instance, **labels): between(start, end, 0, 1)}


def silent(start: float, end: float, instance: str, resource: str) -> dict[str, Values]:
    labels = {"resource": resource}
    return {
        series("reconcile_informer_silence_seconds", instance, **labels): between(start, end, 600, 5),
        series("reconcile_informer_bookmarked", instance, **labels): constant(1),
    }


@pytest.mark.rule("monitoring-one-cause")
def test_a_standby_that_is_cut_off_by_itself_is_one_page(tmp_path: Path) -> None:
    requests, broken = "rest_client_requests_total", {"code": "<error>"}
    values = {
        **outage(0.5, 1.5, instance="pod-2"),
        **outage(9, 9),
        **silent(0.5, 1.5, "pod-2", "toys"),
        **silent(9, 9, "pod-1", "toys"),
        series(requests, "pod-1", code="200"): float,
        series(requests, "pod-2", **broken): lambda step: min(max(step - 60, 0), 120),
    }
    judge(tmp_path, 2, values, "ReconcileApiServerUnreachable", may=["ReconcileFreshnessBudget"])


@pytest.mark.rule("monitoring-one-cause")
def test_a_cluster_that_is_away_does_not_silence_what_is_about_another(tmp_path: Path) -> None:
    failing = "reconcile_failing_oldest_seconds"
    values: dict[str, Values] = {
        **outage(0, 3, cluster="east"),
        **outage(9, 9, cluster="west"),
        series(failing, controller="east/toy"): constant(4000),
        series(failing, controller="west/toy"): constant(4000),
        **silent(0, 3, "pod-1", "east/toys.example.com"),
    }
    fires = {
        "ReconcileApiServerUnreachable": {"cluster": "east"},
        "ReconcileKeysFailing": {"controller": "west/toy"},
    }
    recording = scraped(2, values)
    expected = Expected(fires, lasting=[*fires])
    assert complaints(tmp_path, [("two clusters", recording, expected)]) == ""
    of_east = Expected({**fires, "ReconcileKeysFailing": {"controller": "east/toy"}}, lasting=[*fires])
    assert "ReconcileKeysFailing" in complaints(tmp_path, [("two clusters", recording, of_east)])


@pytest.mark.rule("monitoring-one-cause")
def test_an_outage_of_one_operator_does_not_silence_another_in_its_namespace(tmp_path: Path) -> None:
    values: dict[str, Values] = {
        **outage(0, 9),
        series("reconcile_api_server_reachable", "pod-9", "others"): constant(1),
        series("reconcile_failing_oldest_seconds", controller="toy"): constant(4000),
        series("reconcile_failing_oldest_seconds", "pod-9", "others", controller="toy"): constant(4000),
        series("leader_election_master_status", name="toys"): constant(1),
        series("leader_election_master_status", "pod-9", "others", name="toys"): constant(1),
    }
    fires = {"ReconcileApiServerUnreachable": {"job": JOB}, "ReconcileKeysFailing": {"job": "others"}}
    recording = scraped(1, values)
    assert complaints(tmp_path, [("two", recording, Expected(fires, lasting=[*fires]))]) == ""


@pytest.mark.rule("monitoring-one-cause")
def test_a_blocked_loop_is_one_page_though_all_is_late(tmp_path: Path) -> None:
    values = {
        series("reconcile_event_loop_lag_seconds_sum"): lambda step: step * 15.0,
        **slow_changes(lambda step: step),
        **silent(0, 9, "pod-1", "toys"),
    }
    pages = ["ReconcileEventLoopBlocked"]
    judge(tmp_path, 1, values, lasting=pages, may=["ReconcileReactionBudget", "ReconcileFreshnessBudget"])


@pytest.mark.parametrize("paused", [0, 1])
def test_objects_of_a_paused_controller_wait_for_nobody(tmp_path: Path, paused: int) -> None:
    labels = {"controller": "toy"}
    values = {
        series("reconcile_paused", **labels): constant(paused),
        series("reconcile_unconverged_objects", **labels): constant(9),
        series("reconcile_unconverged_oldest_seconds", **labels): lambda step: step * 30.0,
        series("reconcile_convergence_seconds_count", **labels): constant(0),
    }
    waiting: Sequence[str] = () if paused else ["ReconcileNothingConverges", "ReconcileStuck"]
    judge(tmp_path, 1.5, values, lasting=waiting, labels=labels)


def test_a_certificate_that_is_not_there_has_not_expired(tmp_path: Path) -> None:
    days = "reconcile_webhook_certificate_days"
    judge(tmp_path, 1, {series(days): constant(float("nan"))})
    judge(tmp_path, 1, {series(days): constant(float("nan")), series(days, "pod-2"): constant(80)})
