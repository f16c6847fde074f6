"""`reconcile manifests --monitoring`: what prometheus-operator and Grafana are given."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from reconcile.commands.main import reconcile
from reconcile.monitoring.alerts import ALERTS
from tests.embedded.api_client import DEFINITIONS, Api
from tests.monitoring.metric_pages import selectors
from tests.shipping.charts import DOORS, base, chart, installed
from tests.shipping.prometheus_operator import SPECS, definition

TLS = "tests.shipping.doors:served_over_tls"
FORMS: list[Sequence[str]] = [
    ("sites", "--monitoring"),
    ("sites", "--monitoring", "--pod-monitor", "--monitoring-label", "release=prometheus"),
    ("sites", "--monitoring", "--sharding", "ring", "--namespace", "ops"),
    (DOORS, "--monitoring"),
    (TLS, "--monitoring", "--metrics-ca", "pages-ca", "--metrics-reader", "watch/prometheus"),
    (TLS, "--monitoring", "--pod-monitor", "--metrics-ca", "pages-ca"),
    (TLS, "--monitoring", "--namespaces", "shop"),
]
READER = ("--metrics-reader", "watch/prometheus")


def of_kind(kind: str, options: Sequence[str]) -> list[dict[str, Any]]:
    return [one for one in base(*options) if one["kind"] == kind]


def added(options: Sequence[str]) -> list[dict[str, Any]]:
    """What monitoring adds to the base."""
    without = installed(base(*plain(options)))
    return [one for key, one in installed(base(*options)).items() if key not in without]


def plain(options: Sequence[str]) -> Sequence[str]:
    """The options without those of monitoring."""
    label, authority = ("--monitoring-label", "release=prometheus"), ("--metrics-ca", "pages-ca")
    of_monitoring = {"--monitoring", "--pod-monitor", *label, *authority, *READER}
    return [option for option in options if option not in of_monitoring]


def monitor_of(options: Sequence[str]) -> dict[str, Any]:
    (monitor,) = of_kind("ServiceMonitor", options) + of_kind("PodMonitor", options)
    return monitor


def endpoint_of(options: Sequence[str]) -> dict[str, Any]:
    spec = monitor_of(options)["spec"]
    (endpoint,) = spec.get("endpoints") or spec["podMetricsEndpoints"]
    assert isinstance(endpoint, dict)
    return endpoint


@pytest.mark.rule("monitoring-objects")
@pytest.mark.parametrize("options", FORMS, ids=" ".join)
def test_prometheus_operator_takes_the_objects_without_a_field_that_it_does_not_know(
    options: Sequence[str],
) -> None:
    api = Api()
    for kind in SPECS:
        api.ok("POST", DEFINITIONS, definition(kind))
    own = [one for one in base(*options) if one["apiVersion"] == "monitoring.coreos.com/v1"]
    assert len(own) == 2
    for one in own:
        path = f"/apis/monitoring.coreos.com/v1/namespaces/default/{one['kind'].lower()}s"
        made = {**one, "metadata": {**one["metadata"], "namespace": "default"}}
        strict = {"fieldValidation": "Strict"}
        assert api.send("POST", path, made, query=strict).body["spec"] == made["spec"]
        misspelt = {**made, "spec": {**made["spec"], "selektor": {}}}
        assert api.send("POST", path, misspelt, query=strict).status == 400


@pytest.mark.rule("monitoring-objects")
@pytest.mark.parametrize("options", FORMS, ids=" ".join)
def test_what_is_collected_are_the_pages_of_the_pods(options: Sequence[str]) -> None:
    (deployment,) = of_kind("Deployment", options)
    pod = deployment["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    spec = monitor_of(options)["spec"]
    selected, port = spec["selector"]["matchLabels"], endpoint_of(options)["port"]
    if "endpoints" in spec:
        services = [
            one
            for one in of_kind("Service", options)
            if selected.items() <= one["metadata"]["labels"].items()
        ]
        (service,) = services
        selected = service["spec"]["selector"]
        (port,) = [one["targetPort"] for one in service["spec"]["ports"] if one["name"] == port]
    assert selected.items() <= pod["metadata"]["labels"].items()
    assert port in [one["name"] for one in container["ports"]]
    assert not any(one == "--serve-metrics=local" for one in container["args"])


@pytest.mark.parametrize("options", FORMS, ids=" ".join)
def test_alerts_and_dashboards_are_about_the_series_of_this_operator_alone(options: Sequence[str]) -> None:
    (deployment,) = of_kind("Deployment", options)
    namespace, name = (deployment["metadata"][key] for key in ("namespace", "name"))
    (job,) = endpoint_of(options)["relabelings"]
    assert (job["targetLabel"], job["replacement"]) == ("job", name)
    (rules,) = of_kind("PrometheusRule", options)
    expressions = [rule["expr"] for group in rules["spec"]["groups"] for rule in group["rules"]]
    chosen = [matchers for text in expressions for _, matchers in selectors(text)]
    assert len(chosen) > len(ALERTS)
    assert {(one["namespace"], one["job"]) for one in chosen} == {(namespace, name)}
    for config in of_kind("ConfigMap", options):
        (text,) = config["data"].values()
        variables = {one["name"]: one for one in json.loads(text)["templating"]["list"]}
        assert variables["namespace"]["current"]["value"] == namespace
        assert variables["job"]["current"]["value"] == name


def test_each_alert_says_how_bad_it_is_and_where_its_runbook_is() -> None:
    (rules,) = of_kind("PrometheusRule", (*FORMS[0], "--runbooks", "https://example.com/books"))
    made = [one for group in rules["spec"]["groups"] for one in group["rules"] if "alert" in one]
    assert [one["alert"] for one in made] == [one.name for one in ALERTS]
    addresses = [one["annotations"]["runbook_url"] for one in made]
    assert addresses == [f"https://example.com/books/{one.slug}.md" for one in ALERTS]
    assert {one["labels"]["severity"] for one in made} == {"page", "ticket"}


def test_without_an_address_of_the_runbooks_no_alert_has_a_link_that_leads_nowhere() -> None:
    (rules,) = of_kind("PrometheusRule", FORMS[0])
    made = [one for group in rules["spec"]["groups"] for one in group["rules"] if "alert" in one]
    assert len(made) == len(ALERTS)
    assert {tuple(one["annotations"]) for one in made} == {("summary", "description")}


def test_prometheus_selects_monitors_and_rules_by_labels_that_are_given() -> None:
    options = ("sites", "--monitoring", "--monitoring-label", "release=prometheus")
    labelled = {one["kind"] for one in base(*options) if one["metadata"]["labels"].get("release")}
    assert labelled == {"ServiceMonitor", "PrometheusRule"}


def test_grafana_finds_each_dashboard_in_a_config_map_of_its_own() -> None:
    configs = of_kind("ConfigMap", FORMS[3])
    assert [one["metadata"]["name"].removeprefix("doors-dashboard-") for one in configs] == [
        "overview",
        "cache",
        "process",
        "webhooks",
    ]
    assert {one["metadata"]["labels"]["grafana_dashboard"] for one in configs} == {"1"}
    uids = [json.loads(text)["uid"] for one in configs for text in one["data"].values()]
    assert len(set(uids)) == len(configs)
    assert max(len(json.dumps(one)) for one in configs) < 256 * 1024  # as kubectl's copy in an annotation


def test_over_tls_prometheus_shows_its_token_to_pods_of_a_checked_certificate() -> None:
    by_service, by_pods = endpoint_of(FORMS[4]), endpoint_of(FORMS[5])
    assert by_service["bearerTokenFile"] == "/var/run/secrets/kubernetes.io/serviceaccount/token"
    assert by_pods["authorization"]["credentials"] == {"name": "doors-metrics-token", "key": "token"}
    for endpoint in (by_service, by_pods):
        assert endpoint["scheme"] == "https"
        assert endpoint["tlsConfig"] == {
            "ca": {"secret": {"name": "pages-ca", "key": "ca.crt"}},
            "serverName": "doors-metrics.doors-system.svc",
        }
        assert "insecureSkipVerify" not in json.dumps(endpoint)
    kept = endpoint_of(FORMS[6])  # Roles in namespaces allow no reviews, so nobody asks for a token
    assert kept["scheme"] == "https"
    assert {"bearerTokenFile", "authorization"}.isdisjoint(kept)


def test_the_account_of_prometheus_may_get_metrics_and_nothing_else() -> None:
    (binding,) = [
        one for one in of_kind("ClusterRoleBinding", FORMS[4]) if one["subjects"][0]["name"] == "prometheus"
    ]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "prometheus", "namespace": "watch"}]
    (role,) = [
        one
        for one in of_kind("ClusterRole", FORMS[4])
        if one["metadata"]["name"] == binding["roleRef"]["name"]
    ]
    assert role["rules"] == [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    (deployment,) = of_kind("Deployment", FORMS[4])
    assert "--serve-review" in deployment["spec"]["template"]["spec"]["containers"][0]["args"]


@pytest.mark.parametrize("options", FORMS, ids=" ".join)
def test_monitoring_changes_nothing_of_the_operator_but_who_may_get_metrics(options: Sequence[str]) -> None:
    with_it, without = installed(base(*options)), installed(base(*plain(options)))
    changed = [key for key, one in without.items() if with_it[key] != one]
    opened = "--serve-review" not in str(without)
    assert [kind for kind, *_ in changed] == (["Deployment"] if opened else [])
    for key in changed:
        text = json.dumps(with_it[key]).replace("--serve-metrics=all", "--serve-metrics=local")
        assert json.loads(text) == without[key]
    kinds = {one["kind"] for one in added(options)}
    assert kinds <= {
        *("Service", "ServiceMonitor", "PodMonitor", "PrometheusRule", "ConfigMap", "ClusterRoleBinding")
    }
    labels = {
        one["metadata"]["labels"]["app.kubernetes.io/name"]
        for one in added(options)
        if one["kind"] != "ClusterRoleBinding"
    }
    (label,) = labels
    assert label.endswith("-metrics")  # else an uninstall would take them for the operator's own


def test_the_kustomize_base_has_files_of_its_own_for_monitoring(tmp_path: Path) -> None:
    arguments = ["manifests", "sites", "--monitoring", "--out", str(tmp_path)]
    result = CliRunner().invoke(reconcile, arguments)
    assert result.exit_code == 0, result.output
    listed = yaml.safe_load((tmp_path / "kustomization.yaml").read_text())["resources"]
    assert listed[-3:] == ["monitoring.yaml", "alerts.yaml", "dashboards.yaml"]
    read = [one for path in listed for one in yaml.safe_load_all((tmp_path / path).read_text())]
    assert installed(read) == installed(base("sites", "--monitoring"))
    assert "expr: |-" in (tmp_path / "alerts.yaml").read_text()


def test_a_chart_of_an_operator_with_monitoring_has_it_on() -> None:
    assert chart("sites", "--monitoring").values["monitoring"]["enabled"] is True
    assert chart("sites").values["monitoring"]["enabled"] is False


def test_a_release_may_do_without_prometheus_operator() -> None:
    values = {"monitoring": {"enabled": True, "monitor": "", "rules": False}}
    kinds = {one["kind"] for one in chart("sites").objects(values)}
    assert {"Service", "ConfigMap"} <= kinds
    assert kinds.isdisjoint(SPECS)


@pytest.mark.skipif(
    shutil.which("promtool") is None,
    reason="there is no promtool on the PATH: it is in Debian's package prometheus",
)
@pytest.mark.parametrize("options", FORMS[:1] + FORMS[3:4], ids=" ".join)
def test_prometheus_reads_the_rules(options: Sequence[str], tmp_path: Path) -> None:
    (rules,) = of_kind("PrometheusRule", options)
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump(rules["spec"]))
    done = subprocess.run(
        ["promtool", "check", "rules", str(path)], capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
