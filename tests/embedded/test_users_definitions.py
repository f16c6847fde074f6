"""The definitions that users have, as their projects publish them: installed, used, and held to."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconcile.embedded.schema.schema_nodes import compile_node
from tests.embedded.api_client import DEFINITIONS, MERGE, Api

SAMPLES = Path(__file__).parents[2].parent / "shared" / "samples"
FOUND = sorted(SAMPLES.glob("*/crd-*.yaml"))

pytestmark = pytest.mark.skipif(not FOUND, reason="the users' samples are not beside this repository")

REQUIRED, INVALID, TYPE, ENUM, LONG = (
    "FieldValueRequired",
    "FieldValueInvalid",
    "FieldValueTypeInvalid",
    "FieldValueNotSupported",
    "FieldValueTooLong",
)
HEAD = "spec.headGroupSpec.template.spec.containers"
MACHINE = "spec.template.spec"
SURGE = "spec.rollout.strategy.rollingUpdate.maxSurge"
CLUSTERS = "/apis/ray.io/v1/namespaces/default/rayclusters"
SCALERS = "/apis/autoscaling.aibrix.ai/v1alpha1/namespaces/default/podautoscalers"
PIPELINES = "/apis/application.kubero.dev/v1alpha1/namespaces/default/kuberopipelines"
DEPLOYMENTS = "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/machinedeployments"


def sample(path: str) -> dict[str, Any]:
    loaded: dict[str, Any] = next(yaml.load_all((SAMPLES / path).read_text(), yaml.CSafeLoader))
    return loaded


def machine_deployment(**changes: Any) -> dict[str, Any]:
    reference = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachineTemplate", "name": "md"}
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "MachineDeployment",
        "metadata": {"name": "md"},
        "spec": {
            "clusterName": "one",
            "replicas": 2,
            "selector": {"matchLabels": {"a": "b"}},
            "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {
                    "clusterName": "one",
                    "bootstrap": {"dataSecretName": "boot"},
                    "infrastructureRef": reference,
                },
            },
            **changes,
        },
    }


VALID = {
    CLUSTERS: ("kuberay/ray-cluster.sample.yaml", "kuberay/ray-cluster.complete.yaml"),
    SCALERS: ("aibrix/apa.yaml", "aibrix/kpa.yaml"),
    PIPELINES: ("kubero/kuberopipeline.yaml",),
}


@pytest.fixture(scope="module")
def api() -> Api:
    api = Api()
    for path in FOUND:
        assert "warning" not in api.send("POST", DEFINITIONS, sample(str(path.relative_to(SAMPLES)))).headers
    return api


def dry(api: Api, path: str, obj: dict[str, Any]) -> list[tuple[str, str]]:
    """The causes for which an object would be refused."""
    answer = api.send("POST", path, obj, {"dryRun": "All"})
    return [] if answer.status == 201 else answer.causes


def changed(obj: dict[str, Any], steps: str, value: Any) -> dict[str, Any]:
    """A copy with one field set; None takes it away."""
    made = copy.deepcopy(obj)
    *way, last = (int(step) if step.isdigit() else step for step in steps.split("."))
    at: Any = made
    for step in way:
        at = at[step] if isinstance(step, int) else at.setdefault(step, {})
    if value is None:
        del at[last]
    else:
        at[last] = value
    return made


@pytest.mark.rule("api-117")
def test_they_are_established_with_every_version_served(api: Api) -> None:
    for path in FOUND:
        spec = sample(str(path.relative_to(SAMPLES)))["spec"]
        made = api.ok("GET", f"{DEFINITIONS}/{spec['names']['plural']}.{spec['group']}")
        conditions = {condition["type"]: condition["status"] for condition in made["status"]["conditions"]}
        assert conditions["Established"] == conditions["NamesAccepted"] == "True"
        for version in spec["versions"]:
            listed = api.ok("GET", f"/apis/{spec['group']}/{version['name']}")["resources"]
            assert [entry["kind"] for entry in listed if entry["name"] == spec["names"]["plural"]] == [
                spec["names"]["kind"]
            ]


@pytest.mark.rule("api-120")
@pytest.mark.parametrize(
    ("path", "name"), [(path, name) for path, samples in VALID.items() for name in samples]
)
def test_their_samples_are_accepted_without_losing_fields(api: Api, path: str, name: str) -> None:
    given = sample(name)
    made = api.ok("POST", path, given, query={"fieldValidation": "Strict"})
    assert keeps(made["spec"], given["spec"])
    api.ok("DELETE", f"{path}/{given['metadata']['name']}")


def keeps(made: Any, given: Any) -> bool:
    """Whether everything that was given is there; defaults may have come."""
    if isinstance(given, dict):
        return all(name in made and keeps(made[name], member) for name, member in given.items())
    if isinstance(given, list):
        return len(made) == len(given) and all(map(keeps, made, given))
    return bool(made == given)


@pytest.mark.rule("api-120")
@pytest.mark.parametrize(
    ("steps", "value", "cause"),
    [
        ("spec.headGroupSpec.template", None, (REQUIRED, "spec.headGroupSpec.template")),
        ("spec.headGroupSpec.rayStartParams", {"a": 1}, (TYPE, "spec.headGroupSpec.rayStartParams.a")),
        ("spec.workerGroupSpecs.0.replicas", "two", (TYPE, "spec.workerGroupSpecs[0].replicas")),
        ("spec.workerGroupSpecs.0.groupName", None, (REQUIRED, "spec.workerGroupSpecs[0].groupName")),
        (f"{HEAD}.0.ports.0.containerPort", "http", (TYPE, f"{HEAD}[0].ports[0].containerPort")),
        (f"{HEAD}.0.resources", {"limits": {"cpu": "x"}}, (INVALID, f"{HEAD}[0].resources.limits.cpu")),
        ("spec.upgradeStrategy", {"type": "Now"}, (ENUM, "spec.upgradeStrategy.type")),
        ("spec.managedBy", "me", (INVALID, "spec.managedBy")),
    ],
)
def test_a_ray_cluster_is_refused_at_the_field(
    api: Api, steps: str, value: Any, cause: tuple[str, str]
) -> None:
    obj = changed(sample("kuberay/ray-cluster.sample.yaml"), steps, value)
    assert cause in dry(api, CLUSTERS, obj)


@pytest.mark.rule("api-120")
@pytest.mark.parametrize(
    ("steps", "value", "cause"),
    [
        ("spec.scalingStrategy", "SOON", (ENUM, "spec.scalingStrategy")),
        ("spec.metricsSources", [], (INVALID, "spec.metricsSources")),
        ("spec.metricsSources.0.targetMetric", None, (REQUIRED, "spec.metricsSources[0].targetMetric")),
        ("spec.observeWindowSeconds", 3601, (INVALID, "spec.observeWindowSeconds")),
        ("spec.maxReplicas", 2**40, (INVALID, "<nil>")),
        ("spec.maxReplicas", 1.5, (TYPE, "spec.maxReplicas")),
    ],
)
def test_a_pod_autoscaler_is_refused_at_the_field(
    api: Api, steps: str, value: Any, cause: tuple[str, str]
) -> None:
    assert cause in dry(api, SCALERS, changed(sample("aibrix/apa.yaml"), steps, value))


@pytest.mark.rule("api-120")
@pytest.mark.parametrize(
    ("steps", "value", "cause"),
    [
        ("spec.clusterName", "", (INVALID, "spec.clusterName")),
        ("spec.clusterName", "c" * 64, (LONG, "spec.clusterName")),
        ("spec.deletion", {}, (INVALID, "spec.deletion")),
        ("spec.deletion.order", "First", (ENUM, "spec.deletion.order")),
        ("spec.selector", None, (REQUIRED, "spec.selector")),
        (f"{MACHINE}.infrastructureRef.name", "A", (INVALID, f"{MACHINE}.infrastructureRef.name")),
        (f"{MACHINE}.minReadySeconds", -1, (INVALID, f"{MACHINE}.minReadySeconds")),
        (SURGE, True, (TYPE, SURGE)),
    ],
)
def test_a_machine_deployment_is_refused_at_the_field(
    api: Api, steps: str, value: Any, cause: tuple[str, str]
) -> None:
    assert dry(api, DEPLOYMENTS, machine_deployment()) == []
    assert cause in dry(api, DEPLOYMENTS, changed(machine_deployment(), steps, value))


@pytest.mark.rule("api-120")
def test_a_pipeline_that_breaks_its_definition_is_refused(api: Api) -> None:
    assert dry(api, PIPELINES, changed(sample("kubero/kuberopipeline.yaml"), "spec", "all")) == [
        (TYPE, "spec")
    ]
    status = changed(sample("kubero/kuberopipeline.yaml"), "spec.anything.at", {"all": [1]})
    assert dry(api, PIPELINES, status) == []


@pytest.mark.rule("api-122")
def test_each_of_their_rules_accepts_one_object_and_refuses_another(api: Api) -> None:
    cluster = changed(sample("kuberay/ray-cluster.sample.yaml"), "spec.managedBy", "ray.io/kuberay-operator")
    cluster["spec"]["gcsFaultToleranceOptions"] = {"backend": "redis", "redisAddress": "redis:6379"}
    cluster["metadata"]["name"] = "ruled"
    made = api.ok("POST", CLUSTERS, cluster)
    api.ok("PUT", f"{CLUSTERS}/ruled", changed(made, "spec.headGroupSpec.serviceType", "NodePort"))
    refused = {
        "spec.managedBy": {"managedBy": "kueue.x-k8s.io/multikueue"},
        "spec.gcsFaultToleranceOptions.backend": {"gcsFaultToleranceOptions": {"backend": "rocksdb"}},
    }
    for field, spec in refused.items():
        answer = api.send("PATCH", f"{CLUSTERS}/ruled", {"spec": spec}, content_type=MERGE)
        assert answer.status == 422, field
        (cause,) = answer.body["details"]["causes"]
        told = cause["message"].partition(": ")[2].partition(" is ")[2]
        assert (cause["field"], told) == (field, "immutable")


@pytest.mark.rule("api-125")
def test_a_machine_deployment_is_readable_in_both_versions(api: Api) -> None:
    api.ok("POST", DEPLOYMENTS, machine_deployment())
    older = DEPLOYMENTS.replace("v1beta2", "v1beta1")
    answer = api.send("GET", f"{older}/md")
    assert answer.body["apiVersion"] == "cluster.x-k8s.io/v1beta1"
    assert "deprecated" in answer.headers["warning"]
    assert api.merge(f"{DEPLOYMENTS}/md/scale", {"spec": {"replicas": 5}})["spec"]["replicas"] == 5
    assert api.ok("GET", f"{older}/md")["spec"]["replicas"] == 5


def test_a_megabyte_schema_is_compiled_once_for_all_its_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[int] = []

    def counted(openapi: dict[str, Any]) -> Any:
        compiled.append(len(openapi))
        return compile_node(openapi)

    monkeypatch.setattr("reconcile.embedded.schema.compile_node", counted)
    api = Api()
    compiled.clear()
    path = f"{DEFINITIONS}/rayclusters.ray.io"
    api.ok("POST", DEFINITIONS, sample("kuberay/crd-rayclusters.yaml"))
    cluster = sample("kuberay/ray-cluster.sample.yaml")
    for number in range(3):
        api.ok("POST", CLUSTERS, changed(cluster, "metadata.name", f"c{number}"))
        api.merge(path, {"metadata": {"labels": {"number": str(number)}}})
        api.merge(f"{CLUSTERS}/c{number}", {"spec": {"rayVersion": str(number)}})
    assert len(compiled) == 1
    api.ok("GET", CLUSTERS.replace("v1", "v1alpha1"))
    assert len(compiled) <= 2
