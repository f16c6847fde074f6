"""What the server refuses and fills in of APIServices."""

from typing import Any

import pytest

from tests.embedded.api_client import Api

SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
INVALID, REQUIRED = "FieldValueInvalid", "FieldValueRequired"
SPEC = {"group": "a.example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15}
REMOTE = {"service": {"name": "a", "namespace": "b"}}
BUNDLE = {"caBundle": "eA=="}
INSECURE = {"insecureSkipTLSVerify": True}


def made(spec: Any, name: str = "v1.a.example.com") -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {**SPEC, **spec}}


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({"groupPriorityMinimum": 0}, [(INVALID, "spec.groupPriorityMinimum")]),
        ({"groupPriorityMinimum": 20001}, [(INVALID, "spec.groupPriorityMinimum")]),
        ({"versionPriority": 1001}, [(INVALID, "spec.versionPriority")]),
        ({"group": "b.example.com"}, [(INVALID, "metadata.name")]),
        ({"version": "v2"}, [(INVALID, "metadata.name")]),
        ({"version": ""}, [(INVALID, "metadata.name"), (INVALID, "spec.version")]),
        ({"group": "", "version": "v2"}, [(INVALID, "metadata.name"), (REQUIRED, "spec.group")]),
        ({"group": "A"}, [(INVALID, "metadata.name"), (INVALID, "spec.group")]),
        (BUNDLE, [(INVALID, "spec.caBundle")]),
        (INSECURE, [(INVALID, "spec.insecureSkipTLSVerify")]),
        (REMOTE | BUNDLE, []),
        (REMOTE | BUNDLE | INSECURE, [(INVALID, "spec.insecureSkipTLSVerify")]),
        ({"service": {}}, [(REQUIRED, "spec.service.name"), (REQUIRED, "spec.service.namespace")]),
        ({"service": {**REMOTE["service"], "port": 0}}, [(INVALID, "spec.service.port")]),
    ],
)
def test_each_rule_of_an_api_service_names_its_field(
    api: Api, spec: dict[str, Any], wanted: list[tuple[str, str]]
) -> None:
    answer = api.send("POST", SERVICES, made(spec))
    assert (sorted(answer.causes) if answer.status == 422 else []) == wanted


def test_a_local_api_service_is_available_at_once(api: Api) -> None:
    (condition,) = api.ok("POST", SERVICES, made({}))["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Available", "True", "Local")


def test_a_service_is_reached_on_port_443_by_default(api: Api) -> None:
    stored = api.ok("POST", SERVICES, made(REMOTE))
    assert stored["spec"]["service"]["port"] == 443
    assert not stored.get("status")


def test_a_status_has_states_of_conditions_and_leaves_labels_alone(api: Api) -> None:
    stored = api.ok("POST", SERVICES, made(REMOTE))
    stored["metadata"]["labels"] = {"a": "b"}
    stored["status"] = {"conditions": [{"type": "Available", "status": "Odd"}]}
    path = f"{SERVICES}/v1.a.example.com/status"
    assert api.send("PUT", path, stored).causes == [("FieldValueNotSupported", "status.conditions[0].status")]
    stored["status"]["conditions"][0]["status"] = "False"
    assert "labels" not in api.ok("PUT", path, stored)["metadata"]
