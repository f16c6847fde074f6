"""The chart of an operator: its defaults are the kustomize base, and each value does something."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import yaml

from tests.helpers.chart_renderer import Chart, is_hook, overridden
from tests.helpers.chart_schema import refused
from tests.shipping.charts import (
    DOORS,
    KEEP,
    base,
    changed,
    chart,
    hooks,
    installed,
    schema_of,
    text_of,
    uninstalling,
)

TLS = "tests.shipping.doors:served_over_tls"
MOUNTED = "tests.shipping.doors:with_certificates"
DIGEST = f"sha256:{'0123456789abcdef' * 4}"
OPERATORS = [
    ("sites",),
    ("sites", "--image", "registry.example.com:5000/ops/sites"),
    ("sites", "--image", f"example.com/sites:1.0@{DIGEST}", "--name", "true"),
    ("sites", "--sharding", "ring", "--namespaces", "shop,blog", "-n", "123"),
    ("sites", "--sharding", "leases/ring"),
    (DOORS,),
    (DOORS, "--sharding", "doors", "--replicas", "7"),
    (DOORS, "--namespaces", "shop"),
    (TLS,),
    (MOUNTED,),
    ("sites", "--monitoring"),
    ("sites", "--monitoring", "--namespaces", "shop", "--sharding", "ring"),
    (DOORS, "--monitoring", "--pod-monitor", "--monitoring-label", "release=prometheus"),
    (TLS, "--monitoring", "--metrics-reader", "watch/prometheus", "--metrics-ca", "pages-ca"),
    (TLS, "--monitoring", "--pod-monitor", "--runbooks", "https://example.com/runbooks"),
]


@pytest.mark.rule("monitoring-objects")
@pytest.mark.parametrize("options", OPERATORS, ids=" ".join)
def test_the_default_values_give_the_kustomize_base(options: Sequence[str]) -> None:
    assert installed(chart(*options).objects()) == installed(base(*options))


@pytest.mark.parametrize("options", OPERATORS, ids=" ".join)
def test_a_release_in_the_namespace_of_the_operator_does_not_make_it(options: Sequence[str]) -> None:
    (home,) = [one["metadata"]["name"] for one in base(*options) if one["kind"] == "Namespace"]
    others = {key: one for key, one in installed(base(*options)).items() if key[0] != "Namespace"}
    assert installed(chart(*options).objects(namespace=home)) == others
    assert installed(chart(*options).objects({"namespace": ""}, namespace=home)) == others


@pytest.mark.parametrize("target", ["sites", DOORS, TLS])
@pytest.mark.parametrize(
    ("values", "options"),
    [
        ({"replicas": 5}, ["--replicas", "5"]),
        ({"namespace": "ops"}, ["--namespace", "ops"]),
        ({"namespaces": ["shop", "blog"]}, ["--namespaces", "shop,blog"]),
        ({"sharding": {"enabled": True, "name": "ring"}, "replicas": 3}, ["--sharding", "ring"]),
        ({"monitoring": {"enabled": True}}, ["--monitoring"]),
        (
            {
                "monitoring": {"enabled": True, "monitor": "PodMonitor", "labels": {"a": "b"}},
                "namespaces": ["shop"],
                "namespace": "ops",
            },
            [
                *("--monitoring", "--pod-monitor", "--monitoring-label", "a=b"),
                *("--namespaces", "shop", "--namespace", "ops"),
            ],
        ),
        ({"image": {"repository": "r.example.com/x", "tag": "2"}}, ["--image", "r.example.com/x:2"]),
        (
            {
                "sharding": {"enabled": True, "name": "ring"},
                "replicas": 4,
                "namespaces": ["a"],
                "namespace": "b",
            },
            ["--sharding", "ring", "--replicas", "4", "--namespaces", "a", "--namespace", "b"],
        ),
    ],
    ids=lambda value: " ".join(value),
)
def test_a_value_gives_what_the_option_of_manifests_gives(
    target: str, values: dict[str, Any], options: Sequence[str]
) -> None:
    assert installed(chart(target).objects(values)) == installed(base(target, *options))


# --- values -------------------------------------------------------------------------------------------

BY_CERT_MANAGER = {"webhooks": {"certificates": "cert-manager", "issuer": {"name": "ca"}}}
MONITORED = {"monitoring": {"enabled": True, "reader": {"name": "p"}}}
BY_PODS = {"monitoring": {"enabled": True, "monitor": "PodMonitor"}}
SHARDED = {"sharding": {"enabled": True}}
TAINT = {"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute", "tolerationSeconds": 5}
EFFECTS: dict[str, tuple[dict[str, Any], Any, str]] = {
    "namespace": ({}, "ops", "ops"),
    "namespaces": ({}, ["shop"], "--namespaces=shop"),
    "image.repository": ({}, "example.com/x", "example.com/x"),
    "image.tag": ({}, "9.9.9", ":9.9.9"),
    "image.digest": ({}, DIGEST, f"@{DIGEST}"),
    "image.pullPolicy": ({}, "Always", "imagePullPolicy: Always"),
    "image.pullSecrets": ({}, [{"name": "login"}], "imagePullSecrets:"),
    "replicas": ({}, 11, "replicas: 11"),
    "sharding.enabled": ({}, True, "--sharding=doors-system/doors"),
    "sharding.name": (SHARDED, "ring", "--sharding=doors-system/ring"),
    "logLevel": ({}, "debug", "--verbose"),
    "extraEnv": ({}, [{"name": "RECONCILE_WORKERS", "value": "3"}], "RECONCILE_WORKERS"),
    "extraVolumes": ({}, [{"name": "cache", "emptyDir": {}}], "emptyDir: {}"),
    "extraVolumeMounts": ({}, [{"name": "cache", "mountPath": "/cache"}], "mountPath: /cache"),
    "resources": ({}, {"limits": {"memory": "1Gi"}}, "memory: 1Gi"),
    "podAnnotations": ({}, {"example.com/a": "b"}, "example.com/a: b"),
    "nodeSelector": ({}, {"disk": "ssd"}, "disk: ssd"),
    "tolerations": ({}, [TAINT], "tolerationSeconds: 5"),
    "affinity": ({}, {"nodeAffinity": {"x": []}}, "nodeAffinity:"),
    "crds.install": ({}, False, ""),
    "uninstall.enabled": ({}, False, ""),
    "uninstall.keepData": ({}, False, ""),
    "webhooks.certificates": ({}, "cert-manager", "--webhook-certificates=/certificates/webhooks"),
    "webhooks.issuer.name": (BY_CERT_MANAGER, "other", "name: other"),
    "webhooks.issuer.kind": (BY_CERT_MANAGER, "ClusterIssuer", "kind: ClusterIssuer"),
    "monitoring.enabled": ({}, True, "name: doors-metrics\n"),
    "monitoring.reader.name": (MONITORED, "prometheus", "name: prometheus"),
    "monitoring.reader.namespace": (MONITORED, "watch", "namespace: watch"),
    "monitoring.monitor": (MONITORED, "PodMonitor", "kind: PodMonitor"),
    "monitoring.interval": (MONITORED, "7s", "interval: 7s"),
    "monitoring.labels": (MONITORED, {"team": "a"}, "team: a"),
    "monitoring.rules": (MONITORED, False, ""),
    "monitoring.dashboards": (MONITORED, False, ""),
    "monitoring.runbooks": (MONITORED, "https://a.example.com/x", "https://a.example.com/x/absent.md"),
    "monitoring.tokenSecret": (BY_PODS, "login", "name: login"),
    "monitoring.tlsConfig": (MONITORED, {"serverName": "doors"}, "serverName: doors"),
}
"""For each value: others that it needs, a change of it, and what is then in the objects."""


def paths(schema: dict[str, Any], parent: str = "") -> Iterator[str]:
    """The values of a schema. A mapping of anything is one value, as is what a pod takes as it is."""
    for name, member in schema["properties"].items():
        path = f"{parent}{name}"
        if "properties" in member and path not in ("resources", "affinity"):
            yield from paths(member, f"{path}.")
        elif path != "global":  # Helm puts it there, for charts in charts
            yield path


def test_every_value_of_the_schema_is_in_this_table_and_has_a_default() -> None:
    of_all = {path: target for target in (DOORS, TLS) for path in paths(schema_of(chart(target)))}
    assert set(of_all) == set(EFFECTS)
    for target in ("sites", DOORS, TLS, MOUNTED):
        made = chart(target)
        for path in paths(schema_of(made)):
            value = made.values
            for name in path.split("."):
                value = value[name]


@pytest.mark.parametrize("path", EFFECTS)
def test_every_value_of_the_schema_has_an_effect(path: str) -> None:
    needed, value, shown = EFFECTS[path]
    made = chart(DOORS if path in set(paths(schema_of(chart(DOORS)))) else TLS, "--name", "doors")
    known = only_known(needed, schema_of(made))
    before = made.objects(known)
    after = made.objects(overridden(known, changed(path, value)))
    assert list(refused(schema_of(made), overridden(made.values, changed(path, value)))) == []
    assert shown in text_of(after)
    assert before != after
    assert shown == "" or shown not in text_of(before)


def only_known(values: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    known = {name: value for name, value in values.items() if name in schema["properties"]}
    return {
        name: only_known(value, schema["properties"][name]) if isinstance(value, dict) else value
        for name, value in known.items()
    }


@pytest.mark.parametrize("target", ["sites", DOORS, TLS, MOUNTED])
def test_the_defaults_are_taken_by_the_schema_and_nothing_else_is(target: str) -> None:
    made = chart(target)
    schema, values = schema_of(made), made.values
    assert list(refused(schema, values)) == []
    for parent in {path.rpartition(".")[0] for path in paths(schema)}:
        path = f"{parent}.misspelt".lstrip(".")
        assert list(refused(schema, overridden(values, changed(path, 1)))) == [f"(root).{path}"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("replicas", -1),
        ("replicas", "3"),
        ("replicas", True),
        ("namespace", "Ops"),
        ("namespace", "a\nb"),
        ("namespaces", ["a", "a"]),
        ("namespaces", ["a,b"]),
        ("image.repository", ""),
        ("image.tag", "1 --yes"),
        ("image.digest", "sha256:1"),
        ("image.pullPolicy", "Sometimes"),
        ("sharding.name", ""),
        ("logLevel", "trace"),
        ("extraEnv", [{"value": "1"}]),
        ("extraEnv", {"A": "1"}),
        ("tolerations", [{"kye": "a"}]),
        ("webhooks.certificates", "none"),
        ("monitoring.monitor", "ScrapeConfig"),
        ("monitoring.interval", "often"),
        ("monitoring.interval", "1s1h"),
        ("monitoring.interval", ""),
        ("monitoring.labels", {"a": 1}),
        ("monitoring.runbooks", "javascript:'"),
        ("monitoring.runbooks", "docs/runbooks"),
    ],
)
def test_a_value_that_could_not_work_is_refused(path: str, value: object) -> None:
    made = chart(DOORS)
    (place, *_) = refused(schema_of(made), overridden(made.values, changed(path, value)))
    assert place.startswith(f"(root).{path}")


def test_a_switch_that_is_null_is_not_off_but_refused() -> None:
    """Helm leaves such a value out; `uninstall.keepData:` in a file would have the data deleted."""
    for target in (DOORS, TLS):
        made = chart(target)
        schema = schema_of(made)
        for path in paths(schema):
            values = made.values
            *parents, name = path.split(".")
            place = values
            for parent in parents:
                place = place[parent]
            may_be_empty = isinstance(place.pop(name), list | dict)
            assert list(refused(schema, values)) == ([] if may_be_empty else [f"(root).{path}"])
        without = {name: value for name, value in made.values.items() if name != "uninstall"}
        assert list(refused(schema, without)) == ["(root).uninstall"]


def test_values_are_only_those_that_the_code_leaves_open() -> None:
    assert "webhooks" not in chart("sites").values
    assert set(chart(MOUNTED).values["webhooks"]) == {"issuer"}
    assert {"tlsConfig", "tokenSecret", "reader"}.isdisjoint(chart(DOORS).values["monitoring"])
    kept = chart("sites", "--namespaces", "shop")
    assert list(refused(schema_of(kept), overridden(kept.values, {"namespaces": []}))) == [
        "(root).namespaces"
    ]


def test_each_value_has_a_comment_and_the_schema_says_the_same() -> None:
    made = chart(DOORS)
    lines = made.files["values.yaml"].splitlines()
    schema = schema_of(made)
    for path in paths(schema):
        member = schema
        for name in path.split("."):
            member = member["properties"][name]
        margin = "  " * path.count(".")
        place = lines.index(f"{margin}# {member['description']}")
        assert lines[place + 1].startswith(f"{margin}{name}:")


# --- objects ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("enabled", "keep_data", "kept"), [(1, 1, 1), (0, 1, 1), (0, 0, 1), (1, 0, 0)])
def test_the_namespace_goes_with_a_release_only_if_all_data_does(
    enabled: int, keep_data: int, kept: int
) -> None:
    values = {"uninstall": {"enabled": bool(enabled), "keepData": bool(keep_data)}}
    (namespace,) = [one for one in chart(DOORS).objects(values) if one["kind"] == "Namespace"]
    assert namespace["metadata"].get("annotations") == ({KEEP: "keep"} if kept else None)


def test_definitions_stay_when_a_release_goes_and_can_be_left_out() -> None:
    kind = "CustomResourceDefinition"
    (definition,) = [one for one in chart(DOORS).objects() if one["kind"] == kind]
    assert definition["metadata"]["annotations"][KEEP] == "keep"
    rest = chart(DOORS).objects({"crds": {"install": False}})
    assert not [one for one in rest if one["kind"] == kind]
    assert len(rest) == len(chart(DOORS).objects()) - 1


def test_braces_in_a_docstring_are_text() -> None:
    (definition,) = [one for one in chart(DOORS).objects() if one["kind"] == "CustomResourceDefinition"]
    assert "As `{{ .Values.width }}` of a chart would have it" in json.dumps(definition)


def test_metrics_are_open_only_where_monitoring_is_on() -> None:
    (deployment,) = [one for one in chart("sites").objects() if one["kind"] == "Deployment"]
    assert "--serve-metrics=local" in arguments(deployment)
    objects = chart("sites").objects({"monitoring": {"enabled": True}})
    (deployment,) = [one for one in objects if one["kind"] == "Deployment"]
    assert "--serve-metrics=all" in arguments(deployment)
    (service,) = [one for one in objects if one["kind"] == "Service" and not is_hook(one)]
    pod = deployment["spec"]["template"]
    assert service["spec"]["selector"] == pod["metadata"]["labels"]
    (port,) = service["spec"]["ports"]
    assert port["targetPort"] in [one["name"] for one in pod["spec"]["containers"][0]["ports"]]


def test_over_tls_the_api_server_goes_on_deciding_who_gets_metrics() -> None:
    objects = chart(TLS).objects(overridden(MONITORED, changed("monitoring.reader.namespace", "watch")))
    (deployment,) = [one for one in objects if one["kind"] == "Deployment"]
    assert "--serve-review" in arguments(deployment)
    assert not [one for one in arguments(deployment) if one.startswith("--serve-metrics")]
    (binding,) = [
        one
        for one in objects
        if one["kind"] == "ClusterRoleBinding" and one["metadata"]["name"].endswith("-metrics-reader")
    ]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "p", "namespace": "watch"}]
    roles = [one["metadata"]["name"] for one in objects if one["kind"] == "ClusterRole"]
    assert binding["roleRef"]["name"] in roles
    (monitor,) = [one for one in objects if one["kind"] == "ServiceMonitor"]
    assert monitor["spec"]["endpoints"][0]["scheme"] == "https"
    kept = chart(TLS).objects(overridden(MONITORED, {"namespaces": ["a"]}))
    assert not [one for one in kept if "metrics-reader" in one["metadata"]["name"]]


def arguments(deployment: dict[str, Any]) -> list[str]:
    return list(deployment["spec"]["template"]["spec"]["containers"][0]["args"])


@pytest.mark.parametrize("target", ["sites", TLS])
def test_the_test_of_a_release_has_no_rights_and_is_not_one_of_the_operators_pods(target: str) -> None:
    objects = chart(target).objects()
    service, pod = hooks(objects, "test")
    weights = [int(one["metadata"]["annotations"]["helm.sh/hook-weight"]) for one in (service, pod)]
    assert weights == sorted(set(weights))
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert "serviceAccountName" not in pod["spec"]
    (deployment,) = [one for one in objects if one["kind"] == "Deployment"]
    operators = deployment["spec"]["template"]
    assert service["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"]
    assert not service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    (container,) = pod["spec"]["containers"]
    (manager,) = operators["spec"]["containers"]
    assert container["image"] == manager["image"]
    scheme = manager["readinessProbe"]["httpGet"].get("scheme", "HTTP").lower()
    place = f"{service['metadata']['name']}.{service['metadata']['namespace']}"
    assert container["command"][-1] == f"{scheme}://{place}.svc:{service['spec']['ports'][0]['port']}/readyz"
    compile(container["command"][2], "test", "exec")


@pytest.mark.parametrize("keep_data", [True, False])
@pytest.mark.parametrize(
    ("values", "options"),
    [
        ({}, []),
        ({"namespace": "ops"}, ["--namespace", "ops"]),
        ({"namespaces": ["shop", "blog"]}, ["--namespaces", "shop,blog"]),
        ({"sharding": {"enabled": True, "name": "ring"}}, ["--sharding", "ring"]),
    ],
    ids=lambda value: " ".join(value),
)
@pytest.mark.parametrize("target", ["sites", DOORS, TLS])
def test_before_it_goes_a_release_uninstalls_its_operator(
    target: str, values: dict[str, Any], options: Sequence[str], keep_data: bool
) -> None:
    chosen = overridden(values, {"uninstall": {"keepData": keep_data}})
    made = hooks(chart(target).objects(chosen), "pre-delete")
    weights = {one["kind"]: int(one["metadata"]["annotations"]["helm.sh/hook-weight"]) for one in made}
    assert max(weights, key=lambda kind: weights[kind]) == "Job"
    plain = text_of([{**one, "metadata": {**one["metadata"], "annotations": None}} for one in made])
    needed = [
        {**one, "metadata": {**one["metadata"], "annotations": None}}
        for one in uninstalling(target, *options, keep_data=keep_data)
    ]
    assert sorted(plain.replace("-uninstall-watched", "-uninstall").split("---\n")) == sorted(
        text_of(needed).split("---\n")
    )


def test_an_operator_that_works_in_its_own_namespace_may_be_uninstalled_there_too() -> None:
    objects = chart("sites").objects({"namespaces": ["sites-system", "shop"]})
    assert len(installed(objects)) == len(installed(base("sites", "--namespaces", "sites-system,shop")))
    made = hooks(objects, "pre-delete")
    names = [(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in made]
    assert len(set(names)) == len(names)
    roles = {name: one["rules"] for name, one in zip(names, made, strict=True) if "rules" in one}
    needed = uninstalling("sites", "--namespaces", "sites-system,shop", keep_data=True)
    for role in [one for one in needed if one["kind"] == "Role"]:
        here = [rules for name, rules in roles.items() if name[1] == role["metadata"]["namespace"]]
        assert {repr(rule) for rule in role["rules"]} == {repr(rule) for rules in here for rule in rules}


def test_by_default_uninstalling_a_release_keeps_the_data() -> None:
    (job,) = [one for one in hooks(chart(DOORS).objects(), "pre-delete") if one["kind"] == "Job"]
    assert "--keep-data" in job["spec"]["template"]["spec"]["containers"][0]["args"]
    assert hooks(chart(DOORS).objects({"uninstall": {"enabled": False}}), "pre-delete") == []


def test_an_uninstall_leaves_what_only_the_chart_has_to_helm() -> None:
    """It takes what has the operator's label, and its rights are for what `reconcile manifests` prints."""
    made = installed(chart(TLS).objects(MONITORED))
    more = [one for key, one in made.items() if key not in installed(base(TLS))]
    more += hooks(chart(TLS).objects(), "test")
    assert {one["kind"] for one in more} >= {"Service", "ServiceMonitor", "Pod"}
    listed = {"Service", "Pod"}
    labels = [one["metadata"]["labels"]["app.kubernetes.io/name"] for one in more if one["kind"] in listed]
    assert "doors" not in labels
    reader = next(one for one in more if one["kind"] == "ClusterRoleBinding")
    rights = uninstalling(TLS, keep_data=True)
    names = [
        name for role in rights for rule in role.get("rules", ()) for name in rule.get("resourceNames", ())
    ]
    assert reader["metadata"]["name"] in names


def test_a_version_of_the_image_is_that_of_the_chart() -> None:
    def about(*options: str) -> tuple[str, str]:
        meta = yaml.safe_load(chart("sites", *options).files["Chart.yaml"])
        assert (meta["apiVersion"], meta["name"]) == ("v2", "sites")
        return meta["version"], meta["appVersion"]

    assert about("--image", "x/y:1.2.3") == ("1.2.3", "1.2.3")
    assert about("--image", "x/y:v1.2.3-rc.1") == ("1.2.3-rc.1", "v1.2.3-rc.1")
    assert about("--image", "x/y:main") == ("0.1.0", "main")
    assert about("--image", "x/y:1.2.3-0123456") == ("0.1.0", "1.2.3-0123456")  # a zero leads a number
    assert about("--image", "x:5000/y") == ("0.1.0", "0.1.0")


def test_catalogues_are_told_the_kinds_and_the_image() -> None:
    made = chart(DOORS, "--image", "example.com/doors:1.2.3")
    annotations = yaml.safe_load(made.files["Chart.yaml"])["annotations"]
    assert all(isinstance(text, str) for text in annotations.values())
    assert annotations["artifacthub.io/operator"] == "true"
    kinds = yaml.safe_load(annotations["artifacthub.io/crds"])
    assert [(one["kind"], one["name"]) for one in kinds] == [
        ("Door", "doors.doors.example.com"),
        ("Door", "doors.doors.example.com"),
    ]
    (image,) = yaml.safe_load(annotations["artifacthub.io/images"])
    assert image["image"] == "example.com/doors:1.2.3"
    examples = yaml.safe_load(annotations["artifacthub.io/crdsExamples"])
    assert {one["apiVersion"] for one in examples} == {"doors.example.com/v1", "doors.example.com/v1beta1"}


def test_the_notes_say_how_to_go_on() -> None:
    def notes(made: Chart, values: dict[str, Any] | None = None) -> str:
        return made.texts(values, release="front")["templates/NOTES.txt"]

    assert "kubectl logs deployment/doors -n doors-system" in notes(chart(DOORS))
    assert "helm test front -n default" in notes(chart(DOORS))
    assert "kubectl get doors.doors.example.com --all-namespaces" in notes(chart(DOORS))
    assert "were not installed" in notes(chart(DOORS), {"crds": {"install": False}})
    assert "in the namespace shop, which must exist" in notes(chart(DOORS), {"namespaces": ["shop"]})
