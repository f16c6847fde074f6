"""What the garbage collector leaves alone, what it says, and the service account of every namespace."""

from typing import Any

import pytest

from tests.embedded.api_client import CONFIG_MAPS, DEFINITIONS, WIDGETS, Api, config_map, owned_by, widget

NAMESPACES = "/api/v1/namespaces"
EVENTS = f"{NAMESPACES}/default/events"


def reference(**changed: str) -> list[dict[str, str]]:
    return [{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "no-such-uid", **changed}]


def reasons(api: Api, path: str = EVENTS) -> list[tuple[str, str, str]]:
    found = api.ok("GET", path)["items"]
    return [(event["reason"], event["type"], event["involvedObject"]["name"]) for event in found]


def uid_of(answer: dict[str, Any]) -> str:
    uid: str = answer["metadata"]["uid"]
    return uid


@pytest.mark.rule("api-83")
def test_an_owner_in_another_namespace_is_reported_in_an_event(api: Api) -> None:
    api.ok("POST", NAMESPACES, {"metadata": {"name": "other"}})
    owner = api.ok("POST", f"{NAMESPACES}/other/configmaps", config_map())
    api.settled("POST", CONFIG_MAPS, config_map(ownerReferences=owned_by(owner)))
    assert api.gone(f"{CONFIG_MAPS}/a")
    assert reasons(api) == [("OwnerRefInvalidNamespace", "Warning", "a")]


@pytest.mark.rule("api-83")
def test_a_cluster_wide_object_with_a_namespaced_owner_stays_and_gets_one_event(api: Api) -> None:
    owner = api.ok("POST", CONFIG_MAPS, config_map())
    api.settled("POST", "/api/v1/nodes", {"metadata": {"name": "n", "ownerReferences": owned_by(owner)}})
    api.merge("/api/v1/nodes/n", {"metadata": {"labels": {"a": "b"}}})
    api.settled("DELETE", f"{CONFIG_MAPS}/a", query={"propagationPolicy": "Background"})
    assert not api.gone("/api/v1/nodes/n")
    assert reasons(api) == [("OwnerRefInvalidNamespace", "Warning", "n")]


@pytest.mark.rule("api-79")
def test_an_owner_that_never_existed_is_absent_and_one_of_an_unknown_kind_is_not(api: Api) -> None:
    api.ok("POST", CONFIG_MAPS, config_map("orphan", ownerReferences=reference()))
    api.ok("POST", CONFIG_MAPS, config_map("unknown", ownerReferences=reference(kind="Nothing")))
    api.settled("POST", CONFIG_MAPS, config_map("version", ownerReferences=reference(apiVersion="v9")))
    assert api.gone(f"{CONFIG_MAPS}/orphan")
    assert not api.gone(f"{CONFIG_MAPS}/unknown")
    assert not api.gone(f"{CONFIG_MAPS}/version")


@pytest.mark.rule("api-79")
def test_an_owner_whose_kind_or_name_differs_from_the_reference_counts_as_absent(api: Api) -> None:
    uid = uid_of(api.ok("POST", WIDGETS, widget("o")))
    of_kind = reference(apiVersion="example.com/v1", kind="Widget", uid=uid)
    api.ok("POST", CONFIG_MAPS, config_map("right", ownerReferences=of_kind))
    api.ok("POST", CONFIG_MAPS, config_map("kind", ownerReferences=reference(uid=uid)))
    named = reference(apiVersion="example.com/v1", kind="Widget", name="p", uid=uid)
    api.settled("POST", CONFIG_MAPS, config_map("name", ownerReferences=named))
    assert {item["metadata"]["name"] for item in api.ok("GET", CONFIG_MAPS)["items"]} == {"right"}


@pytest.mark.rule("api-79", "api-127")
def test_dependents_of_owners_deleted_with_their_definition_are_collected(api: Api) -> None:
    owner = api.ok("POST", WIDGETS, widget())
    api.ok("POST", CONFIG_MAPS, config_map(ownerReferences=owned_by(owner)))
    api.settled("DELETE", f"{DEFINITIONS}/widgets.example.com")
    assert api.gone(f"{CONFIG_MAPS}/a")


@pytest.mark.rule("api-79")
def test_a_dependent_left_alone_is_collected_once_the_kind_of_its_owner_is_known(api: Api) -> None:
    api.settled("DELETE", f"{DEFINITIONS}/widgets.example.com")
    orphan = reference(apiVersion="example.com/v1", kind="Widget")
    api.settled("POST", CONFIG_MAPS, config_map(ownerReferences=orphan))
    assert not api.gone(f"{CONFIG_MAPS}/a")
    other = Api()  # the same definition as in any other server
    definition = other.ok("GET", f"{DEFINITIONS}/widgets.example.com")
    made = {"metadata": {"name": "widgets.example.com"}, "spec": definition["spec"]}
    api.settled("POST", DEFINITIONS, made)
    assert api.gone(f"{CONFIG_MAPS}/a")


def test_every_namespace_gets_its_default_service_account_back_after_a_deletion(api: Api) -> None:
    api.settled("POST", NAMESPACES, {"metadata": {"name": "new"}})
    for namespace in ("default", "kube-system", "new"):
        first = api.ok("GET", f"{NAMESPACES}/{namespace}/serviceaccounts/default")
        api.settled("DELETE", f"{NAMESPACES}/{namespace}/serviceaccounts/default")
        again = api.ok("GET", f"{NAMESPACES}/{namespace}/serviceaccounts/default")
        assert uid_of(again) != uid_of(first)


def test_a_terminating_namespace_gets_no_new_service_account(api: Api) -> None:
    api.settled("POST", NAMESPACES, {"metadata": {"name": "new"}})
    held = {"name": "held", "finalizers": ["example.com/hold"]}
    api.ok("POST", f"{NAMESPACES}/new/configmaps", {"metadata": held})
    api.settled("DELETE", f"{NAMESPACES}/new")
    assert api.gone(f"{NAMESPACES}/new/serviceaccounts/default")
    api.merge(f"{NAMESPACES}/new/configmaps/held", {"metadata": {"finalizers": None}})
    api.server.settle()
    assert api.gone(f"{NAMESPACES}/new")


JOBS = "/apis/batch/v1/namespaces/default/jobs"


def job_with_a_child(api: Api) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "c:1"}]}}
    job = api.ok("POST", JOBS, {"metadata": {"name": "j"}, "spec": {"template": template}})
    api.ok("POST", CONFIG_MAPS, config_map("child", ownerReferences=owned_by(job)))


@pytest.mark.rule("api-79", "api-81")
@pytest.mark.parametrize("path", [f"{JOBS}/j", JOBS])
def test_jobs_orphan_their_dependents_by_default(api: Api, path: str) -> None:
    job_with_a_child(api)
    answer = api.send("DELETE", path)
    assert answer.status == 200
    assert ("warning" in answer.headers) is (path != JOBS)
    api.server.settle()
    assert api.gone(f"{JOBS}/j")
    assert "ownerReferences" not in api.ok("GET", f"{CONFIG_MAPS}/child")["metadata"]


@pytest.mark.rule("api-79", "api-81")
@pytest.mark.parametrize("policy", ["Background", "Foreground"])
def test_jobs_delete_their_dependents_when_asked_to(api: Api, policy: str) -> None:
    job_with_a_child(api)
    assert "warning" not in api.send("DELETE", f"{JOBS}/j", {"propagationPolicy": policy}).headers
    api.server.settle()
    assert api.gone(f"{JOBS}/j")
    assert api.gone(f"{CONFIG_MAPS}/child")
