"""Evictions, and the budgets that hold them up."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.embedded.verbs.eviction import budget_status
from tests.embedded.api_client import PODS, Api, pod

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def running(api: Api, name: str, *, ready: bool = True, owners: Any = ()) -> None:
    body = pod(name)
    body["metadata"] |= {"labels": {"app": "web"}, "ownerReferences": list(owners)}
    api.ok("POST", PODS, body)
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    api.merge(f"{PODS}/{name}/status", {"status": {"phase": "Running", "conditions": [condition]}})


def budget(api: Api, name: str = "web", **spec: Any) -> None:
    selector = {"matchLabels": {"app": "web"}}
    api.ok("POST", BUDGETS, {"metadata": {"name": name}, "spec": {"selector": selector, **spec}})


def evict(api: Api, name: str, **more: Any) -> Any:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, **more}
    return api.send("POST", f"{PODS}/{name}/eviction", body)


@pytest.mark.rule("api-59")
def test_a_pod_without_a_budget_is_deleted(api: Api) -> None:
    running(api, "a")
    assert evict(api, "a").status == 201
    assert api.send("GET", f"{PODS}/a").status == 404


@pytest.mark.rule("api-25")
def test_an_eviction_that_breaks_a_budget_is_429(api: Api) -> None:
    budget(api, minAvailable=1)
    running(api, "a")
    running(api, "b")
    assert evict(api, "a").status == 201
    answer = evict(api, "b")
    assert answer.status == 429
    assert answer.body["reason"] == "TooManyRequests"
    assert answer.body["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    assert answer.body["details"]["causes"] == [
        {
            "reason": "DisruptionBudget",
            "message": "The disruption budget web needs 1 healthy pods and has 1 currently",
        }
    ]
    assert api.send("GET", f"{PODS}/b").status == 200


def test_a_pending_pod_can_always_be_evicted(api: Api) -> None:
    budget(api, minAvailable=1)
    body = pod("a")
    body["metadata"]["labels"] = {"app": "web"}
    api.ok("POST", PODS, body)
    assert evict(api, "a").status == 201


@pytest.mark.parametrize(("policy", "status"), [("AlwaysAllow", 201), ("IfHealthyBudget", 429)])
def test_an_unready_pod_is_evicted_according_to_the_policy_of_the_budget(
    api: Api, policy: str, status: int
) -> None:
    budget(api, minAvailable=2, unhealthyPodEvictionPolicy=policy)
    running(api, "a", ready=False)
    running(api, "b")
    assert evict(api, "a").status == status


def test_two_budgets_for_one_pod_are_an_error(api: Api) -> None:
    budget(api, "one", minAvailable=0)
    budget(api, "two", minAvailable=0)
    running(api, "a")
    assert evict(api, "a").status == 500


def test_a_dry_run_evicts_nothing_and_a_precondition_is_checked(api: Api) -> None:
    running(api, "a")
    assert evict(api, "a", deleteOptions={"dryRun": ["All"]}).status == 201
    assert evict(api, "a", deleteOptions={"preconditions": {"uid": "other"}}).status == 409
    assert api.send("GET", f"{PODS}/a").status == 200


def test_an_eviction_that_names_another_pod_than_the_path_is_refused(api: Api) -> None:
    running(api, "a")
    body = {"kind": "Eviction", "apiVersion": "policy/v1", "metadata": {"name": "b"}}
    assert api.send("POST", f"{PODS}/a/eviction", body).status == 400


def test_a_percentage_is_relative_to_the_desired_number_of_the_owners(api: Api) -> None:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
    spec = {"replicas": 4, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    owner = api.ok("POST", DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": spec})
    reference = {
        "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": owner["metadata"]["uid"],
        "controller": True,
    }  # fmt: skip
    budget(api, maxUnavailable="25%")
    for name in ("a", "b", "c", "d"):
        running(api, name, owners=[reference])
    api.server.settle()
    status = api.ok("GET", f"{BUDGETS}/web")["status"]
    assert (status["expectedPods"], status["desiredHealthy"], status["disruptionsAllowed"]) == (4, 3, 1)
    assert status["conditions"][0]["status"] == "True"
    assert [evict(api, name).status for name in ("a", "b")] == [201, 429]


AMOUNTS = st.integers(0, 8) | st.integers(0, 100).map(lambda percent: f"{percent}%")


@given(st.integers(0, 8), st.integers(0, 8), AMOUNTS, st.sampled_from(["minAvailable", "maxUnavailable"]))
def test_no_budget_allows_more_disruptions_than_there_are_healthy_pods(
    ready: int, unready: int, amount: int | str, field: str
) -> None:
    pods = [_status_of("True")] * ready + [_status_of("False")] * unready
    status = budget_status({"metadata": {}, "spec": {field: amount}}, pods, len(pods), "now")
    assert 0 <= status["disruptionsAllowed"] <= ready
    if status["disruptionsAllowed"]:
        assert status["currentHealthy"] - status["disruptionsAllowed"] >= status["desiredHealthy"]


def _status_of(ready: str) -> dict[str, Any]:
    return {"metadata": {}, "status": {"conditions": [{"type": "Ready", "status": ready}]}}
