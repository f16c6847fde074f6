"""Dashboards: Grafana loads them, and each of their panels asks for something that an operator has."""

import itertools
import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconcile.monitoring.dashboards import Features, dashboards_of
from reconcile.monitoring.panels import PODS, Dashboard, Panel, Query, rendered
from reconcile.monitoring.rules import rule_groups
from reconcile.monitoring.slos import recording_rules
from tests.helpers.chart_schema import refused
from tests.helpers.managers import World, played
from tests.helpers.scenarios import in_world
from tests.monitoring.grafana_schema import DASHBOARD, ROW, panel
from tests.monitoring.metric_pages import (
    INTERVAL,
    OF_A_TARGET,
    OF_PROMETHEUS,
    Series,
    metrics_of,
    recorded,
    scrapes_of,
    selectors,
)

EVERYTHING = Features(sharding=True, webhooks=True, tls=True, migrations=True)
LED = Features(webhooks=True, tls=True, migrations=True)
CASES = [Features(*switches) for switches in itertools.product([False, True], repeat=4)]
REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"
NOT_SHOWN = {
    "reconcile_informer_resource_version": "a number that says nothing by itself",
    "reconcile_informer_compressing": "the bytes of bodies are shown, which is what compression changes",
    "reconcile_api_server_outages_total": "the timeline of what is reachable shows them",
    "reconcile_storms_total": "the active ones are shown",
    "workqueue_adds_total": "runs are shown, and keys that are added twice run once",
    "workqueue_unfinished_work_seconds": "the longest run is shown",
    "workqueue_work_duration_seconds": "the duration of runs is shown",
}
"""Metrics of the reference that no dashboard shows, and why."""


needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None,
    reason="there is no promtool on the PATH: it is in Debian's package prometheus",
)


def all_dashboards() -> Sequence[Dashboard]:
    """Each dashboard in each form that it can have."""
    return list({repr(one): one for features in CASES for one in dashboards_of(features)}.values())


def queries() -> Iterator[tuple[Panel, Query]]:
    for dashboard in all_dashboards():
        for shown in dashboard.panels():
            yield from ((shown, query) for query in shown.queries)


def json_of(dashboard: Dashboard, operator: str = "sites") -> dict[str, Any]:
    """What Grafana reads: texts go through JSON, so that nothing is there which it does not have."""
    made: dict[str, Any] = json.loads(json.dumps(rendered(dashboard, operator, "sites-system")))
    return made


@pytest.mark.rule("monitoring-dashboards")
@pytest.mark.parametrize("dashboard", all_dashboards(), ids=lambda one: one.slug)
def test_a_dashboard_fits_the_schema_of_grafana(dashboard: Dashboard) -> None:
    made = json_of(dashboard)
    assert list(refused(DASHBOARD, made)) == []
    for one in made["panels"]:
        schema = ROW if one["type"] == "row" else panel(one["type"])
        assert list(refused(schema, one)) == [], one["title"]


def test_the_schema_refuses_what_grafana_does_not_know() -> None:
    made = json_of(all_dashboards()[0])
    assert list(refused(DASHBOARD, {**made, "titel": ""})) == ["(root).titel"]
    stat = next(one for one in made["panels"] if one["type"] == "stat")
    wrong = {**stat, "gridPos": {**stat["gridPos"], "w": 25}}
    assert list(refused(panel("stat"), wrong)) == ["(root).gridPos.w"]


@pytest.mark.parametrize("dashboard", all_dashboards(), ids=lambda one: one.slug)
def test_panels_are_side_by_side_and_none_covers_another(dashboard: Dashboard) -> None:
    taken: dict[tuple[int, int], str] = {}
    made = json_of(dashboard)
    for one in made["panels"]:
        place = one["gridPos"]
        assert place["x"] + place["w"] <= 24
        for cell in itertools.product(
            range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
        ):
            assert cell not in taken, (one["title"], taken[cell])
            taken[cell] = one["title"]
    numbers = [one["id"] for one in made["panels"]]
    assert len(set(numbers)) == len(numbers)


def test_dashboards_of_one_operator_have_names_of_their_own_of_at_most_40_characters() -> None:
    for operator in ("a", "sites", "o" * 40, f"{'o' * 39}p"):
        uids = [one.uid(operator) for one in dashboards_of(EVERYTHING)]
        assert len(set(uids)) == len(uids)
        assert max(map(len, uids)) <= 40
    long, other = ("o" * 40, f"{'o' * 39}p")
    assert {one.uid(long) for one in dashboards_of(LED)}.isdisjoint(
        one.uid(other) for one in dashboards_of(LED)
    )


@pytest.mark.rule("monitoring-dashboards")
@in_world(played)
async def test_dashboards_name_only_metrics_and_labels_that_an_operator_has(world: World) -> None:
    known = {**await metrics_of(world), **recorded(), **OF_PROMETHEUS}
    asked = 0
    for shown, query in queries():
        for metric, matchers in selectors(query.promql):
            asked += 1
            assert metric in known, f"{shown.title}: {metric}"
            assert set(matchers) <= known[metric] | OF_A_TARGET, f"{shown.title}: {metric}"
        by = labels_that_stay(query.promql)
        names = set().union(*(known[metric] for metric, _ in selectors(query.promql)))
        assert by <= names | OF_A_TARGET, f"{shown.title}: {by}"
    assert asked > 60


@in_world(played)
async def test_what_an_operator_has_is_shown_or_there_is_a_reason(world: World) -> None:
    shown = {metric for _, query in queries() for metric, _ in selectors(query.promql)}
    of_rules = {metric for rule in recorded_expressions() for metric in re.findall(r"[a-z_]+", rule)}
    documented = set(re.findall(r"^\| `(\w+)` \|", REFERENCE.read_text(), re.MULTILINE))
    families = {re.sub("_(bucket|sum|count)$", "", metric) for metric in shown | of_rules}
    assert documented - families == set(NOT_SHOWN)
    assert {name for name in await metrics_of(world) if name.startswith("reconcile_")} != set()


def recorded_expressions() -> list[str]:
    return [rule["expr"] for rule in recording_rules()]


def labels_that_stay(promql: str) -> set[str]:
    """The labels of the result: those of its outermost `by`; all of its series without one."""
    found = re.findall(r"\bby \(([^)]*)\)", promql)
    return {name for group in found for name in re.split(r",\s*", group) if name != "le"}


def test_each_series_is_that_of_the_operator_which_was_chosen() -> None:
    for shown, query in queries():
        bare = re.sub(r"\{[^{}]*\}", "{}", query.promql)
        metrics = [metric for metric, _ in selectors(query.promql)]
        assert metrics, shown.title
        assert len(re.findall(r"\{\}", bare)) == len(metrics)
        for _, matchers in selectors(query.promql):
            assert {"namespace": "$namespace", "job": "$job"}.items() <= matchers.items(), shown.title
    text = json.dumps([json_of(one)["annotations"] for one in all_dashboards()])
    assert text.count("namespace=") == text.count(json.dumps(PODS)[1:-1])


def test_names_in_legends_are_labels_of_the_result() -> None:
    for shown, query in queries():
        for label in re.findall(r"\{\{(\w+)\}\}", query.legend):
            assert label in labels_that_stay(query.promql) or query.promql.startswith("up{"), shown.title
        if shown.kind == "table":
            assert set(shown.by) == labels_that_stay(query.promql), shown.title
            assert query.legend


def test_a_rate_is_over_what_grafana_takes_for_enough_scrapes_or_over_minutes() -> None:
    for shown, query in queries():
        for window in re.findall(r"\[([^\]]*)\]", query.promql):
            assert window in ("$__rate_interval", "5m", "15m", "1h"), shown.title


@pytest.mark.parametrize("features", CASES, ids=repr)
def test_there_is_no_panel_of_what_an_operator_does_not_have(features: Features) -> None:
    text = json.dumps([json_of(one) for one in dashboards_of(features)])
    assert ("reconcile_shard_" in text) == features.sharding
    assert ("leader_election_master_status" in text) == (not features.sharding)
    assert ("_webhook_" in text) == features.webhooks
    assert ("certwatcher_" in text) == features.tls
    assert ("reconcile_definition_" in text) == features.migrations


def test_the_one_that_is_looked_at_first_begins_with_whether_it_works() -> None:
    first, *_ = dashboards_of(LED)
    head, *row = json_of(first)["panels"][:9]
    assert (first.slug, head["title"]) == ("overview", "Now")
    assert {one["type"] for one in row} == {"stat"}
    assert {one["gridPos"]["y"] for one in row} == {1}
    assert sum(one["gridPos"]["w"] for one in row) == 24


def test_each_value_of_a_stat_has_a_colour_that_says_whether_it_is_good() -> None:
    for shown, _ in queries():
        if shown.kind == "stat":
            assert shown.steps or shown.words, shown.title


@needs_promtool
def test_prometheus_reads_each_expression(tmp_path: Path) -> None:
    values = {"$__rate_interval": "2m", "$__interval": "30s"}
    texts = [query.promql for _, query in queries()]
    texts += [note["expr"] for one in all_dashboards() for note in json_of(one)["annotations"]["list"]]
    rules = [{"record": f"x:{number}", "expr": replaced(text, values)} for number, text in enumerate(texts)]
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboards", "rules": rules}]}))
    assert f"{len(rules)} rules found" in promtool("check", "rules", str(path))


@pytest.mark.rule("monitoring-dashboards")
@needs_promtool
def test_no_panel_is_empty_for_an_operator_that_works(tmp_path: Path) -> None:
    count, scrapes = 24, list[Mapping[Series, float]]()

    async def scrape(world: World) -> None:
        scrapes.extend(await scrapes_of(world, count))

    played(scrape)
    series = [
        {"series": written(key), "values": " ".join(value_in(scrape, key) for scrape in scrapes)}
        for key in sorted({key for scrape in scrapes for key in scrape})
    ]
    series.append({"series": written(("up", ())), "values": f"1x{count - 1}"})
    end = f"{(count - 1) * INTERVAL}s"
    asked = [
        {"expr": f"absent({chosen(query.promql)})", "eval_time": end, "exp_samples": []}
        for _, query in queries()
    ]
    test = {"interval": f"{INTERVAL}s", "input_series": series, "promql_expr_test": asked}
    groups = rule_groups(f'namespace="{NAMESPACE}",job="{JOB}"')
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}))
    tests = {"rule_files": ["rules.yaml"], "evaluation_interval": "30s", "tests": [test]}
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(tests))
    assert "SUCCESS" in promtool("test", "rules", str(tmp_path / "tests.yaml"))


NAMESPACE, JOB = "sites-system", "sites"


def written(key: Series) -> str:
    """A series as Prometheus has it after a scrape of the operator's pod."""
    name, labels = key
    of_target = (("namespace", NAMESPACE), ("job", JOB), ("pod", "sites-1"))
    return f"{name}{{{','.join(f'{label}={json.dumps(value)}' for label, value in (*labels, *of_target))}}}"


def value_in(scrape: Mapping[Series, float], key: Series) -> str:
    return str(scrape[key]) if key in scrape else "_"


def chosen(promql: str) -> str:
    """The expression for that operator and all controllers, as Grafana sends it."""
    values = {"$namespace": NAMESPACE, "$job": JOB, "$controller": ".*", "$__rate_interval": "2m"}
    return replaced(promql, values)


def promtool(*arguments: str) -> str:
    """What it prints, if it is content."""
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def replaced(text: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(name, value)
    return text
