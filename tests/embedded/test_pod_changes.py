"""What may change in a pod: by an update, through endpoints of its own, and in its status."""

from typing import Any

import pytest

from tests.embedded.api_client import PODS, Api, container, pod

INVALID, FORBIDDEN = "FieldValueInvalid", "FieldValueForbidden"
NODES = "requiredDuringSchedulingIgnoredDuringExecution"


def nodes(**requirement: Any) -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": "a", **requirement}]}]
    return {"affinity": {"nodeAffinity": {NODES: {"nodeSelectorTerms": terms}}}}


@pytest.mark.parametrize(
    ("before", "change", "refused"),
    [
        ({}, {"containers": [container(image="app:2")]}, []),
        ({}, {"containers": [container(), container(name="b")]}, [f"{FORBIDDEN} spec.containers"]),
        ({}, {"containers": [container(tty=True)]}, [f"{FORBIDDEN} spec"]),
        ({}, {"nodeName": "n"}, [f"{FORBIDDEN} spec"]),
        ({}, {"activeDeadlineSeconds": 5}, []),
        (
            {"activeDeadlineSeconds": 5},
            {"activeDeadlineSeconds": 6},
            [f"{INVALID} spec.activeDeadlineSeconds"],
        ),
        ({}, {"tolerations": [{"key": "a"}]}, []),
        ({"tolerations": [{"key": "a"}]}, {"tolerations": []}, [f"{FORBIDDEN} spec.tolerations"]),
        ({"schedulingGates": [{"name": "a"}]}, {"schedulingGates": []}, []),
        ({}, {"schedulingGates": [{"name": "a"}]}, [f"{FORBIDDEN} spec.schedulingGates[0].name"]),
        ({"schedulingGates": [{"name": "a"}]}, {"nodeSelector": {"a": "b"}}, []),
        (
            {"schedulingGates": [{"name": "a"}], "nodeSelector": {"a": "b"}},
            {"nodeSelector": {"a": "c"}},
            [f"{INVALID} spec.nodeSelector"],
        ),
        ({"schedulingGates": [{"name": "a"}]}, nodes(operator="Exists"), []),
        (
            {"schedulingGates": [{"name": "a"}], **nodes(operator="Exists")},
            nodes(operator="DoesNotExist"),
            [f"{INVALID} spec.affinity.nodeAffinity.{NODES}.nodeSelectorTerms[0]"],
        ),
    ],
)
def test_a_change_is_refused_for(
    api: Api, before: dict[str, Any], change: dict[str, Any], refused: list[str]
) -> None:
    kept = api.ok("POST", PODS, pod(**before))
    kept["spec"] |= change
    answer = api.send("PUT", f"{PODS}/a", kept)
    found = [] if answer.status == 200 else [" ".join(cause) for cause in answer.causes]
    assert found == refused


def test_a_pod_that_waits_for_its_gates_is_not_bound(api: Api) -> None:
    api.ok("POST", PODS, pod(schedulingGates=[{"name": "a"}]))
    answer = api.send("POST", f"{PODS}/a/binding", {"target": {"name": "n"}})
    assert (answer.status, answer.body["reason"]) == (409, "Conflict")


def test_ephemeral_containers_are_added_by_their_endpoint_alone(api: Api) -> None:
    api.ok("POST", PODS, pod())
    body = {"spec": {"ephemeralContainers": [{"name": "e", "image": "e:1"}], "nodeName": "ignored"}}
    strategic = "application/strategic-merge-patch+json"
    changed = api.ok("PATCH", f"{PODS}/a/ephemeralcontainers", body, content_type=strategic)
    assert changed["spec"]["ephemeralContainers"][0]["name"] == "e"
    assert "nodeName" not in changed["spec"]
    assert changed["metadata"]["generation"] == 2
    kept = api.ok("GET", f"{PODS}/a/ephemeralcontainers")
    kept["spec"]["ephemeralContainers"][0]["image"] = "e:2"
    answer = api.send("PUT", f"{PODS}/a/ephemeralcontainers", kept)
    assert answer.causes == [(FORBIDDEN, "spec.ephemeralContainers")]


@pytest.mark.parametrize(
    ("resources", "refused"),
    [
        ({"requests": {"cpu": "2"}}, []),
        ({}, [f"{INVALID} spec", f"{FORBIDDEN} spec.containers[0].resources.requests"]),
        ({"requests": {"cpu": "1", "ephemeral-storage": "1"}}, [f"{FORBIDDEN} spec"]),
    ],
)
def test_a_resize_changes_cpu_and_memory_alone(
    api: Api, resources: dict[str, Any], refused: list[str]
) -> None:
    kept = api.ok("POST", PODS, pod(containers=[container(resources={"requests": {"cpu": "1"}})]))
    kept["spec"]["containers"][0] |= {"resources": resources, "image": "ignored"}
    answer = api.send("PUT", f"{PODS}/a/resize", kept)
    assert ([] if answer.status == 200 else [" ".join(cause) for cause in answer.causes]) == refused
    assert api.ok("GET", f"{PODS}/a")["spec"]["containers"][0]["image"] == "app:1"


# --- the status -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "refused"),
    [
        ({"podIP": "1.2.3"}, [f"{INVALID} status.podIPs[0]"]),
        ({"podIPs": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]}, [f"{INVALID} status.podIPs"]),
        ({"podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}, []),
        ({"hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.2"}]}, [f"{INVALID} status.hostIPs[0].ip"]),
        ({"qosClass": "Guaranteed"}, [f"{INVALID} status.qosClass"]),
        ({"nominatedNodeName": "A"}, [f"{INVALID} status.nominatedNodeName"]),
        ({"resourceClaimStatuses": [{"name": "a"}]}, [f"{INVALID} status.resourceClaimStatuses[0].name"]),
    ],
)
def test_a_status_is_refused_for(api: Api, status: dict[str, Any], refused: list[str]) -> None:
    kept = api.ok("POST", PODS, pod())
    kept["status"] |= status
    answer = api.send("PUT", f"{PODS}/a/status", kept)
    assert ([] if answer.status == 200 else [" ".join(cause) for cause in answer.causes]) == refused


def test_a_container_that_ended_for_good_does_not_run_again(api: Api) -> None:
    kept = api.ok("POST", PODS, pod(restartPolicy="OnFailure"))
    base = {"name": "app", "image": "", "imageID": "", "ready": False, "restartCount": 0}
    kept["status"]["containerStatuses"] = [{**base, "state": {"terminated": {"exitCode": 0}}}]
    kept = api.ok("PUT", f"{PODS}/a/status", kept)
    kept["status"]["containerStatuses"] = [{**base, "state": {"waiting": {}}}]
    answer = api.send("PUT", f"{PODS}/a/status", kept)
    assert answer.causes == [(FORBIDDEN, "status.containerStatuses[0].state")]


def test_a_status_without_its_quality_of_service_keeps_it(api: Api) -> None:
    kept = api.ok("POST", PODS, pod())
    kept["status"] = {"phase": "Running", "podIP": "10.0.0.1"}
    status = api.ok("PUT", f"{PODS}/a/status", kept)["status"]
    assert (status["qosClass"], status["podIPs"]) == ("BestEffort", [{"ip": "10.0.0.1"}])
