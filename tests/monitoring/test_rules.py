"""The rules of Prometheus as they are written for one operator."""

import re
from pathlib import Path

import pytest

from reconcile.monitoring.alerts import ALERTS
from reconcile.monitoring.rules import matchers_in, narrowed, rule_groups
from reconcile.monitoring.slos import FAST, SLOS, SLOW, WINDOWS, burning, slo
from tests.monitoring import webhook_faults
from tests.monitoring.faults import PLANNED

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "alerts.md"
assert webhook_faults  # imported for its faults

SERIES = re.compile(
    r"(?:controller_runtime|workqueue|rest_client|certwatcher|leader_election|reconcile)[_:][\w:]+[^\s\w]"
)


def expressions(selector: str = "") -> list[str]:
    return [rule["expr"] for group in rule_groups(selector) for rule in group["rules"]]


def test_each_series_of_each_rule_is_narrowed_by_namespace_and_job() -> None:
    for expr in expressions('namespace="x",job="y"'):
        for series in SERIES.findall(expr):
            assert series.endswith("{"), expr
        assert expr.count("{") == expr.count('namespace="x",job="y"}')


def test_a_matcher_of_a_label_that_recorded_series_lose_narrows_the_others_only() -> None:
    matchers = matchers_in('namespace="x",container="manager"')
    assert narrowed("reconcile:a:b{slo='q'}", matchers) == "reconcile:a:b{slo='q',namespace=\"x\"}"
    assert narrowed("rate(workqueue_depth[5m])", matchers) == (
        'rate(workqueue_depth{namespace="x",container="manager"}[5m])'
    )


def test_what_looks_like_a_series_within_a_string_is_left_alone() -> None:
    expr = 'label_replace(up, "a", "reconcile_paused", "b", "c")'
    assert narrowed(expr, ['job="y"']) == expr


def test_a_matcher_may_contain_braces_commas_and_quotes() -> None:
    selector = r'job=~"a{2},\"b", pod != "x"'
    assert matchers_in(selector) == [r'job=~"a{2},\"b"', 'pod!="x"']
    assert narrowed(r'reconcile_paused{a="}"}', ['job="y"']) == r'reconcile_paused{a="}",job="y"}'


@pytest.mark.parametrize("selector", ["job", 'job="a"} or vector(1) #', ',job="a"', 'job="a" x="b"'])
def test_a_selector_that_is_not_a_list_of_matchers_is_refused(selector: str) -> None:
    with pytest.raises(ValueError, match="expected label matchers"):
        rule_groups(selector)


def test_names_and_runbooks_of_alerts_are_unique() -> None:
    assert len(ALERTS) >= 14
    assert len({alert.name for alert in ALERTS}) == len(ALERTS)
    assert len({alert.slug for alert in ALERTS}) == len(ALERTS)
    rules = rule_groups(runbooks="https://example.com/books/")[1]["rules"]
    urls = {rule["alert"]: rule["annotations"]["runbook_url"] for rule in rules}
    assert urls["ReconcileApiServerUnreachable"] == "https://example.com/books/api-server-unreachable.md"


def test_an_alert_names_only_labels_that_its_expression_keeps() -> None:
    for alert in ALERTS:
        for label in re.findall(r"\$labels\.(\w+)", alert.summary + alert.description):
            kept = f"{label})" in alert.expr or f", {label}" in alert.expr
            burns = [level for level in SLOS if f'slo="{level.name}"' in alert.expr]
            assert kept or all(level.label == label for level in burns), (alert.name, label)
            assert kept or burns, (alert.name, label)


def test_each_service_level_has_alerts_and_windows_for_them() -> None:
    said = " ".join(alert.expr for alert in ALERTS)
    for level in SLOS:
        assert f'slo="{level.name}"' in said
    assert {window for burn in (*FAST, *SLOW) for window in (burn.long, *burn.still)} == {*WINDOWS}


def test_a_burn_rate_is_measured_against_the_budget() -> None:
    assert slo("reaction").budget == 0.01
    assert 'ratio_rate1h{slo="reaction"} > 0.144' in burning("reaction", FAST)
    assert 'ratio_rate6h{slo="admission"} > 0.001' in burning("admission", SLOW)


def test_the_reference_has_each_service_level_and_each_alert_as_it_is() -> None:
    rows = {row for row in REFERENCE.read_text().splitlines() if row.startswith("| ")}
    for level in SLOS:
        row = f"| `{level.name}` | {level.objective * 100:g} % | `{level.label}` | {level.description} |"
        assert row in rows
    for alert in ALERTS:
        faults = [one.name.replace("_", " ") for one in PLANNED if alert.name in one.expected.fires]
        named = f"[`{alert.name}`](../runbooks/{alert.slug}.md)"
        assert f"| {named} | {alert.severity} | {alert.for_} | {'; '.join(faults)} |" in rows


def test_a_planned_fault_names_only_alerts_that_there_are() -> None:
    names = {alert.name for alert in ALERTS}
    for planned in PLANNED:
        assert {*planned.expected.fires, *planned.expected.may} <= names, planned.name
