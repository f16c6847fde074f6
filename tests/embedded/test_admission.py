"""Functions that complete or refuse what is written, and quotas."""

from typing import Any

import pytest

from reconcile.embedded import AdmissionFunctionFor, AdmittedWrite, Denied
from tests.embedded.api_client import CONFIG_MAPS, PODS, WIDGETS, Api, config_map, pod, widget

QUOTAS = "/api/v1/namespaces/default/resourcequotas"


def size_of(request: AdmittedWrite) -> dict[str, Any]:
    assert request.object is not None
    spec: dict[str, Any] = request.object.setdefault("spec", {})
    return spec


def default_size(request: AdmittedWrite) -> None:
    size_of(request).setdefault("size", 3)


def refuse_large(request: AdmittedWrite) -> None:
    if size_of(request).get("size", 0) > 10:
        raise Denied("size is too large")


@pytest.mark.rule("api-139")
def test_an_admission_function_fills_in_missing_fields(api: Api) -> None:
    api.server.admission.append(AdmissionFunctionFor("widgets.example.com", default_size))
    assert api.ok("POST", WIDGETS, widget())["spec"] == {"size": 3, "color": "red"}
    assert api.ok("POST", WIDGETS, widget("b", spec={"size": 4}))["spec"]["size"] == 4


@pytest.mark.rule("api-139")
def test_an_admission_function_refuses_every_kind_of_write_with_403(api: Api) -> None:
    api.ok("POST", WIDGETS, widget(spec={"size": 1}))
    api.server.admission.append(AdmissionFunctionFor("widgets.example.com", refuse_large))
    large = {"spec": {"size": 11}}
    created = api.send("POST", WIDGETS, widget("b", spec={"size": 11}))
    patched = api.send("PATCH", f"{WIDGETS}/a", large, content_type="application/merge-patch+json")
    applied = api.send(
        "PATCH", f"{WIDGETS}/c", widget("c", **large),
        query={"fieldManager": "m"}, content_type="application/apply-patch+yaml",
    )  # fmt: skip
    assert (created.status, patched.status, applied.status) == (403, 403, 403)
    assert created.body["reason"] == "Forbidden"
    assert created.body["message"] == 'widgets.example.com "b" is forbidden: size is too large'
    assert api.ok("GET", f"{WIDGETS}/a")["spec"]["size"] == 1


def test_the_result_of_an_admission_function_is_still_validated_and_pruned(api: Api) -> None:
    def spoil(request: AdmittedWrite) -> None:
        size_of(request).update(size=-1, nonsense=True)

    api.server.admission.append(AdmissionFunctionFor("widgets.example.com", spoil))
    answer = api.send("POST", WIDGETS, widget())
    assert (answer.status, answer.causes) == (422, [("FieldValueInvalid", "spec.size")])


def test_an_admission_function_sees_only_its_own_resource_and_operations(api: Api) -> None:
    seen: list[tuple[str, str, str]] = []

    def note(request: AdmittedWrite) -> None:
        seen.append((request.operation, request.name, request.user.name))

    api.server.admission.append(AdmissionFunctionFor("configmaps", note, ("UPDATE", "DELETE")))
    api.ok("POST", WIDGETS, widget())
    api.ok("POST", CONFIG_MAPS, config_map())
    api.merge(f"{CONFIG_MAPS}/a", {"data": {"k": "v"}})
    api.ok("DELETE", f"{CONFIG_MAPS}/a")
    assert seen == [("UPDATE", "a", "system:admin"), ("DELETE", "a", "system:admin")]


def test_a_refused_deletion_leaves_the_object(api: Api) -> None:
    def keep(request: AdmittedWrite) -> None:
        raise Denied("it is needed")

    api.server.admission.append(AdmissionFunctionFor("configmaps", keep, ("DELETE",)))
    api.ok("POST", CONFIG_MAPS, config_map())
    assert api.send("DELETE", f"{CONFIG_MAPS}/a").status == 403
    assert api.send("DELETE", CONFIG_MAPS).status == 403
    assert api.send("GET", f"{CONFIG_MAPS}/a").status == 200


def test_warnings_of_an_admission_function_reach_the_client(api: Api) -> None:
    api.server.admission.append(lambda request: request.warnings.append("mind the gap"))
    assert api.send("POST", CONFIG_MAPS, config_map()).headers["warning"] == '299 - "mind the gap"'


# --- quotas -----------------------------------------------------------------------------------


def quota(name: str = "q", **hard: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"hard": hard}}


def test_a_pod_beyond_the_quota_is_refused(api: Api) -> None:
    api.ok("POST", QUOTAS, quota(pods="2"))
    for name in ("a", "b"):
        api.ok("POST", PODS, pod(name))
    answer = api.send("POST", PODS, pod("c"))
    assert (answer.status, answer.body["reason"]) == (403, "Forbidden")
    assert answer.body["message"] == (
        'pods "c" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2'
    )
    api.ok("DELETE", f"{PODS}/a")
    api.ok("POST", PODS, pod("c"))


def test_finished_pods_do_not_count_against_a_quota(api: Api) -> None:
    api.ok("POST", QUOTAS, quota(pods="1"))
    api.ok("POST", PODS, pod("a"))
    api.merge(f"{PODS}/a/status", {"status": {"phase": "Succeeded"}})
    api.ok("POST", PODS, pod("b"))


def test_the_status_of_a_quota_shows_the_usage(api: Api) -> None:
    api.ok("POST", QUOTAS, quota(pods="2", **{"count/widgets.example.com": "5"}))
    api.ok("POST", PODS, pod("a"))
    api.settled("POST", WIDGETS, widget())
    status = api.ok("GET", f"{QUOTAS}/q")["status"]
    assert status["used"] == {"pods": "1", "count/widgets.example.com": "1"}
    assert status["hard"] == {"pods": "2", "count/widgets.example.com": "5"}
    before = api.server.version
    api.server.settle()
    assert api.server.version == before


def test_a_quota_limit_without_effect_is_kept(api: Api) -> None:
    answer = api.send("POST", QUOTAS, quota(**{"requests.cpu": "1", "pods": "1"}))
    assert (answer.status, answer.body["spec"]["hard"]) == (201, {"requests.cpu": "1", "pods": "1"})
    assert "warning" not in answer.headers


def test_quotas_of_other_namespaces_do_not_matter(api: Api) -> None:
    api.ok("POST", QUOTAS.replace("default", "kube-public"), quota(pods="0"))
    api.ok("POST", PODS, pod())
