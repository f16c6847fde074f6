"""A server that begins where another one is."""

from typing import Any

import msgspec

from informers import Response
from reconcile.embedded import ApiRequest, ApiServer, WatchStream
from reconcile.testing import VirtualClock

MAPS = "/api/v1/namespaces/default/configmaps"
PLANS = "/apis/example.com/v1/namespaces/default/plans"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEFINITION = {
    "metadata": {"name": "plans.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "plans", "singular": "plan", "kind": "Plan", "listKind": "PlanList"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
}


def ask(server: ApiServer, method: str, path: str, body: Any = None, **query: str) -> Any:
    kinds = {DEFINITIONS: ("apiextensions.k8s.io/v1", "CustomResourceDefinition"), MAPS: ("v1", "ConfigMap")}
    version, kind = kinds.get(path, ("example.com/v1", "Plan"))
    sent = b"" if body is None else msgspec.json.encode({"apiVersion": version, "kind": kind, **body})
    answer = server.handle(ApiRequest(method, path, query, {"content-type": "application/json"}, sent))
    assert not isinstance(answer, WatchStream)
    return msgspec.json.decode(answer.body)


def server() -> ApiServer:
    made = ApiServer(clock=VirtualClock())
    ask(made, "POST", DEFINITIONS, DEFINITION)
    ask(made, "POST", PLANS, {"metadata": {"name": "one"}})
    made.settle()
    return made


def owned_by(owner: Any) -> list[dict[str, str]]:
    return [{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}]


def test_a_copy_holds_and_serves_what_its_original_does_and_goes_on_counting() -> None:
    first = server()
    second = first.copy(VirtualClock(1))
    assert ask(second, "GET", PLANS)["items"] == ask(first, "GET", PLANS)["items"]
    made = ask(second, "POST", PLANS, {"metadata": {"name": "two"}})
    assert int(made["metadata"]["resourceVersion"]) == first.version + 1
    second.settle()
    assert second.version == first.version + 1


def test_what_happens_to_a_copy_does_not_happen_to_its_original() -> None:
    first = server()
    before = first.version
    second = first.copy(VirtualClock(1))
    ask(second, "DELETE", f"{DEFINITIONS}/plans.example.com")
    second.settle()
    gone = second.handle(ApiRequest("GET", PLANS, {}, {}, b""))
    assert isinstance(gone, Response)
    assert gone.status == 404
    assert len(ask(first, "GET", PLANS)["items"]) == 1
    assert first.version == before


def test_a_copy_collects_the_garbage_of_owners_that_it_was_given() -> None:
    first = server()
    owner = ask(first, "POST", MAPS, {"metadata": {"name": "owner"}})
    ask(first, "POST", MAPS, {"metadata": {"name": "child", "ownerReferences": owned_by(owner)}})
    first.settle()
    second = first.copy(VirtualClock(1))
    ask(second, "DELETE", f"{MAPS}/owner")
    second.settle()
    assert ask(second, "GET", MAPS)["items"] == []
    assert len(ask(first, "GET", MAPS)["items"]) == 2


def test_a_watch_cannot_resume_in_a_copy_from_before_it_was_made() -> None:
    first = server()
    second = first.copy(VirtualClock(1))
    answer = second.handle(
        ApiRequest("GET", PLANS, {"watch": "1", "resourceVersion": str(first.version - 1)}, {}, b"")
    )
    assert isinstance(answer, WatchStream)
    assert msgspec.json.decode(answer.take()[0])["object"]["code"] == 410
