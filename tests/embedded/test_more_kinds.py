"""The built-in kinds beyond the first few: what the server fills in, and what it refuses."""

from typing import Any

import pytest

from tests.embedded.api_client import Api
from tests.embedded.kind_examples import OBJECTS, POD, WEBHOOK

DEFAULTS: list[tuple[str, tuple[str, ...], Any]] = [
    ("statefulsets", ("spec", "replicas"), 1),
    ("statefulsets", ("spec", "podManagementPolicy"), "OrderedReady"),
    (
        "statefulsets",
        ("spec", "updateStrategy"),
        {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
    ),
    ("statefulsets", ("metadata", "generation"), 1),
    ("daemonsets", ("spec", "updateStrategy", "rollingUpdate"), {"maxUnavailable": 1, "maxSurge": 0}),
    ("daemonsets", ("status", "numberReady"), 0),
    ("jobs", ("spec", "podReplacementPolicy"), "TerminatingOrFailed"),
    ("jobs", ("spec", "template", "spec", "dnsPolicy"), "ClusterFirst"),
    ("cronjobs", ("spec", "concurrencyPolicy"), "Allow"),
    ("cronjobs", ("spec", "successfulJobsHistoryLimit"), 3),
    ("cronjobs", ("spec", "jobTemplate", "spec", "template", "spec", "schedulerName"), "default-scheduler"),
    ("poddisruptionbudgets", ("status", "disruptionsAllowed"), 0),
    ("priorityclasses", ("preemptionPolicy",), "PreemptLowerPriority"),
    ("storageclasses", ("reclaimPolicy",), "Delete"),
    ("storageclasses", ("volumeBindingMode",), "Immediate"),
    ("endpointslices", ("ports",), [{"name": "", "port": 80, "protocol": "TCP"}]),
    ("networkpolicies", ("spec", "policyTypes"), ["Ingress"]),
    ("persistentvolumeclaims", ("status", "phase"), "Pending"),
    ("persistentvolumes", ("spec", "persistentVolumeReclaimPolicy"), "Retain"),
]


def path_of(plural: str) -> str:
    return next(path for path in OBJECTS if path.endswith(f"/{plural}"))


def make(api: Api, plural: str, **more: Any) -> dict[str, Any]:
    path = path_of(plural)
    return api.ok("POST", path, {"metadata": {"name": "a"}, **OBJECTS[path], **more})


@pytest.mark.parametrize("path", list(OBJECTS))
def test_every_kind_is_created_read_listed_changed_and_deleted(api: Api, path: str) -> None:
    made = api.ok("POST", path, {"metadata": {"name": "a"}, **OBJECTS[path]})
    assert api.ok("GET", f"{path}/a") == made
    changed = api.merge(f"{path}/a", {"metadata": {"labels": {"k": "v"}}})
    assert changed["metadata"]["labels"] == {**made["metadata"].get("labels", {}), "k": "v"}
    assert {**changed, "metadata": None} == {**made, "metadata": None}
    table = api.send("GET", path, accept="application/json;as=Table;v=v1;g=meta.k8s.io").body
    assert [row["cells"][0] for row in table["rows"]] == ["a"]
    api.settled("DELETE", f"{path}/a")
    assert api.ok("GET", path)["items"] == []


@pytest.mark.parametrize(("plural", "path", "expected"), DEFAULTS)
def test_the_server_fills_in_omitted_fields(
    api: Api, plural: str, path: tuple[str, ...], expected: Any
) -> None:
    value: Any = make(api, plural)
    for step in path:
        value = value[step]
    assert value == expected


@pytest.mark.parametrize(
    ("plural", "change", "causes"),
    [
        ("statefulsets", {"spec": {"serviceName": "b"}}, {("FieldValueForbidden", "spec")}),
        ("daemonsets", {"spec": {"selector": {"matchLabels": {"app": "b"}}}}, {
            ("FieldValueInvalid", "spec.selector"),
            ("FieldValueInvalid", "spec.template.metadata.labels"),
        }),
        ("controllerrevisions", {"data": {"a": 2}}, {("FieldValueInvalid", "data")}),
        ("jobs", {"spec": {"completions": 3}}, {("FieldValueInvalid", "spec.completions")}),
        ("cronjobs", {"spec": {"schedule": "now"}}, {("FieldValueInvalid", "spec.schedule")}),
        ("cronjobs", {"spec": {"concurrencyPolicy": "x"}}, {("FieldValueNotSupported", "spec.concurrencyPolicy")}),  # noqa: E501
        ("poddisruptionbudgets", {"spec": {"maxUnavailable": 1}}, {("FieldValueInvalid", "spec")}),
        ("poddisruptionbudgets", {"spec": {"minAvailable": "half"}}, {("FieldValueInvalid", "spec.minAvailable")}),  # noqa: E501
        ("poddisruptionbudgets", {"spec": {"minAvailable": "\u00b2%"}}, {("FieldValueInvalid", "spec.minAvailable")}),  # noqa: E501
        ("priorityclasses", {"value": 8}, {("FieldValueForbidden", "value")}),
        ("storageclasses", {"provisioner": "b"}, {("FieldValueInvalid", "provisioner")}),
        ("endpointslices", {"addressType": "FQDN", "endpoints": []}, {("FieldValueInvalid", "addressType")}),
        ("ingresses", {"spec": {"defaultBackend": None}}, {("FieldValueInvalid", "spec")}),
        ("validatingwebhookconfigurations", {"webhooks": [{**WEBHOOK, "name": "a", "sideEffects": "Some"}]}, {
            ("FieldValueInvalid", "webhooks[0].name"), ("FieldValueNotSupported", "webhooks[0].sideEffects"),
        }),
    ],
)  # fmt: skip
def test_a_change_that_the_kind_forbids_is_invalid(
    api: Api, plural: str, change: dict[str, Any], causes: set[tuple[str, str]]
) -> None:
    make(api, plural)
    path = f"{path_of(plural)}/a"
    answer = api.send("PATCH", path, change, content_type="application/merge-patch+json")
    assert answer.status == 422
    assert set(answer.causes) == causes


def test_a_job_whose_pods_always_restart_is_refused(api: Api) -> None:
    body = {"metadata": {"name": "a"}, "spec": {"template": {"spec": POD}}}
    answer = api.send("POST", path_of("jobs"), body)
    assert answer.causes == [("FieldValueRequired", "spec.template.spec.restartPolicy")]


def test_a_daemon_set_counts_the_changes_of_its_template(api: Api) -> None:
    made = make(api, "daemonsets")
    count = "deprecated.daemonset.template.generation"
    assert made["metadata"]["annotations"][count] == "1"
    path = f"{path_of('daemonsets')}/a"
    assert api.merge(path, {"metadata": {"labels": {"k": "v"}}})["metadata"]["annotations"][count] == "1"
    changed = api.merge(path, {"spec": {"template": {"metadata": {"labels": {"more": "yes"}}}}})
    assert changed["metadata"]["annotations"][count] == "2"


@pytest.mark.parametrize("plural", ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"])
def test_creating_webhooks_warns_of_nothing_as_on_a_real_server(api: Api, plural: str) -> None:
    path = path_of(plural)
    answer = api.send("POST", path, {"metadata": {"name": "a"}, **OBJECTS[path]})
    assert answer.status == 201
    assert "warning" not in answer.headers
    assert answer.body["webhooks"][0]["failurePolicy"] == "Fail"


def test_a_stateful_set_is_scaled_through_its_subresource(api: Api) -> None:
    make(api, "statefulsets")
    scaled = api.merge(f"{path_of('statefulsets')}/a/scale", {"spec": {"replicas": 5}})
    assert (scaled["spec"]["replicas"], scaled["status"]["selector"]) == (5, "app=a")


def test_reading_endpoints_warns_that_they_are_deprecated(api: Api) -> None:
    assert "EndpointSlice" in api.send("GET", path_of("endpoints")).headers["warning"]


def test_an_empty_member_of_a_selector_equals_an_absent_one(api: Api) -> None:
    make(api, "daemonsets")
    change = {"spec": {"selector": {"matchLabels": {"app": "a"}, "matchExpressions": []}}}
    api.merge(f"{path_of('daemonsets')}/a", change)
