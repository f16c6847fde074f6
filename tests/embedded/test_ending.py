"""How objects end: finalizers, grace periods, owners, namespaces, definitions, expiry."""

import anyio
import pytest

from tests.embedded.api_client import (
    CONFIG_MAPS,
    DEFINITIONS,
    MERGE,
    PODS,
    WIDGETS,
    Api,
    config_map,
    definition,
    events,
    names,
    owned_by,
    pod,
    widget,
)
from tests.helpers.tasks import beside

HOLD = "example.com/hold"


@pytest.mark.rule("api-72")
def test_an_object_without_finalizers_is_removed_at_once(api: Api) -> None:
    uid = api.ok("POST", WIDGETS, widget())["metadata"]["uid"]
    answer = api.ok("DELETE", f"{WIDGETS}/a")
    assert (answer["kind"], answer["details"]["uid"]) == ("Status", uid)
    assert api.gone(f"{WIDGETS}/a")


@pytest.mark.rule("api-75")
def test_removing_the_last_finalizer_deletes_and_the_watch_shows_only_that(api: Api) -> None:
    made = api.send("POST", WIDGETS, widget(finalizers=[HOLD]))
    watch = api.watch(WIDGETS, resourceVersion=made.version)
    marked = api.send("DELETE", f"{WIDGETS}/a")
    assert marked.body["metadata"]["deletionTimestamp"] == "2026-01-02T03:04:05Z"
    assert marked.body["metadata"]["generation"] == 2
    assert api.send("DELETE", f"{WIDGETS}/a").version == marked.version
    released = api.merge(f"{WIDGETS}/a", {"metadata": {"finalizers": None}})
    assert "finalizers" not in released["metadata"]
    (first, _), (second, last) = events(watch)
    assert (first, second) == ("MODIFIED", "DELETED")
    assert last["metadata"]["finalizers"] == [HOLD]
    assert int(last["metadata"]["resourceVersion"]) > int(marked.version)


@pytest.mark.rule("api-76", "api-18")
def test_a_terminating_object_takes_no_new_finalizers_and_cannot_be_recreated(api: Api) -> None:
    api.ok("POST", WIDGETS, widget(finalizers=[HOLD]))
    api.ok("DELETE", f"{WIDGETS}/a")
    patch = {"metadata": {"finalizers": [HOLD, "example.com/more"]}}
    answer = api.send("PATCH", f"{WIDGETS}/a", patch, content_type=MERGE)
    assert answer.causes == [("FieldValueForbidden", "metadata.finalizers")] * 2
    again = api.send("POST", WIDGETS, widget())
    assert again.body["reason"] == "AlreadyExists"
    assert again.body["message"].startswith("object is being deleted: ")


@pytest.mark.rule("api-78")
def test_a_pod_on_a_node_stays_until_a_kubelet_deletes_it(api: Api) -> None:
    api.ok("POST", PODS, pod(nodeName="node-1"))
    marked = api.ok("DELETE", f"{PODS}/a")["metadata"]
    assert marked["deletionTimestamp"] == "2026-01-02T03:04:35Z"
    assert marked["deletionGracePeriodSeconds"] == 30
    api.clock.advance(60)
    api.server.settle()
    assert not api.gone(f"{PODS}/a")
    shorter = api.ok("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 5})["metadata"]
    assert shorter["deletionGracePeriodSeconds"] == 5
    longer = api.ok("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 50})["metadata"]
    assert longer["deletionGracePeriodSeconds"] == 5
    api.ok("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 0})
    assert api.gone(f"{PODS}/a")


def test_a_pod_without_a_node_or_with_a_finalizer_is_deleted_like_any_object(api: Api) -> None:
    api.ok("POST", PODS, pod())
    api.ok("DELETE", f"{PODS}/a")
    assert api.gone(f"{PODS}/a")
    api.ok("POST", PODS, pod("b", nodeName="node-1"))
    api.merge(f"{PODS}/b", {"metadata": {"finalizers": [HOLD]}})
    api.ok("DELETE", f"{PODS}/b", {"gracePeriodSeconds": 0})
    assert not api.gone(f"{PODS}/b")
    api.merge(f"{PODS}/b", {"metadata": {"finalizers": None}})
    assert api.gone(f"{PODS}/b")


@pytest.mark.rule("api-51")
@pytest.mark.parametrize("condition", [{"uid": "other"}, {"resourceVersion": "1"}])
def test_a_delete_with_a_failed_precondition_is_a_conflict(api: Api, condition: dict[str, str]) -> None:
    api.ok("POST", WIDGETS, widget())
    answer = api.send("DELETE", f"{WIDGETS}/a", {"preconditions": condition})
    assert (answer.status, answer.body["details"]["kind"]) == (409, "Widget")
    assert not api.gone(f"{WIDGETS}/a")


@pytest.mark.rule("api-79")
def test_dependents_and_their_dependents_are_deleted_after_their_owner(api: Api) -> None:
    owner = api.ok("POST", WIDGETS, widget())
    child = api.ok("POST", CONFIG_MAPS, config_map(ownerReferences=owned_by(owner)))
    api.settled("POST", CONFIG_MAPS, config_map("grandchild", ownerReferences=owned_by(child)))
    assert not api.gone(f"{CONFIG_MAPS}/grandchild")
    api.settled("DELETE", f"{WIDGETS}/a")
    assert api.gone(f"{CONFIG_MAPS}/a")
    assert api.gone(f"{CONFIG_MAPS}/grandchild")


@pytest.mark.rule("api-79")
def test_an_owner_of_the_same_name_but_another_uid_does_not_protect(api: Api) -> None:
    first = api.ok("POST", WIDGETS, widget())
    api.ok("DELETE", f"{WIDGETS}/a")
    api.ok("POST", WIDGETS, widget())
    api.settled("POST", CONFIG_MAPS, config_map(ownerReferences=owned_by(first)))
    assert api.gone(f"{CONFIG_MAPS}/a")


@pytest.mark.rule("api-80")
def test_a_foreground_deletion_waits_for_blocking_dependents(api: Api) -> None:
    references = owned_by(api.ok("POST", WIDGETS, widget()), blocking=True)
    api.ok("POST", CONFIG_MAPS, config_map(finalizers=[HOLD], ownerReferences=references))
    marked = api.ok("DELETE", f"{WIDGETS}/a", {"propagationPolicy": "Foreground"})
    assert marked["metadata"]["finalizers"] == ["foregroundDeletion"]
    api.server.settle()
    assert "deletionTimestamp" in api.ok("GET", f"{CONFIG_MAPS}/a")["metadata"]
    assert not api.gone(f"{WIDGETS}/a")
    api.merge(f"{CONFIG_MAPS}/a", {"metadata": {"finalizers": None}})
    api.server.settle()
    assert api.gone(f"{WIDGETS}/a")


@pytest.mark.rule("api-81")
def test_orphans_lose_the_reference_and_stay(api: Api) -> None:
    owner = api.ok("POST", WIDGETS, widget())
    api.ok("POST", CONFIG_MAPS, config_map(ownerReferences=owned_by(owner)))
    api.settled("DELETE", f"{WIDGETS}/a", query={"propagationPolicy": "Orphan"})
    assert api.gone(f"{WIDGETS}/a")
    assert "ownerReferences" not in api.ok("GET", f"{CONFIG_MAPS}/a")["metadata"]


@pytest.mark.rule("api-82")
def test_one_remaining_owner_keeps_a_dependent(api: Api) -> None:
    owners = [api.ok("POST", WIDGETS, widget(name)) for name in "op"]
    references = [reference for owner in owners for reference in owned_by(owner)]
    api.ok("POST", CONFIG_MAPS, config_map(ownerReferences=references))
    api.settled("DELETE", f"{WIDGETS}/o")
    left = api.ok("GET", f"{CONFIG_MAPS}/a")["metadata"]["ownerReferences"]
    assert [owner["name"] for owner in left] == ["p"]


@pytest.mark.rule("api-85")
def test_a_collection_is_deleted_object_by_object_and_answered_as_a_list(api: Api) -> None:
    for name, parity in (("a", "odd"), ("b", "even"), ("c", "odd")):
        api.ok("POST", WIDGETS, widget(name, labels={"parity": parity}))
    deleted = api.ok("DELETE", WIDGETS, query={"labelSelector": "parity=odd"})
    assert [item["metadata"]["name"] for item in deleted["items"]] == ["a", "c"]
    assert [item["metadata"]["name"] for item in api.ok("GET", WIDGETS)["items"]] == ["b"]


@pytest.mark.rule("api-131")
def test_a_namespace_is_removed_after_its_contents(api: Api) -> None:
    api.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "going"}})
    inside = "/api/v1/namespaces/going/configmaps"
    api.ok("POST", inside, config_map())
    api.ok("POST", inside, config_map("held", finalizers=[HOLD]))
    assert api.ok("DELETE", "/api/v1/namespaces/going")["status"]["phase"] == "Terminating"
    api.server.settle()
    assert api.gone(f"{inside}/a")
    assert not api.gone("/api/v1/namespaces/going")
    api.merge(f"{inside}/held", {"metadata": {"finalizers": None}})
    api.server.settle()
    assert api.gone("/api/v1/namespaces/going")
    assert api.send("DELETE", "/api/v1/namespaces/default").status == 403


@pytest.mark.rule("api-127")
def test_a_definition_is_removed_after_its_objects_and_ends_their_watches(api: Api) -> None:
    made = api.send("POST", WIDGETS, widget(finalizers=[HOLD]))
    watch = api.watch(WIDGETS, resourceVersion=made.version)
    api.settled("DELETE", f"{DEFINITIONS}/widgets.example.com")
    ending = api.ok("GET", f"{DEFINITIONS}/widgets.example.com")
    assert ending["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    condition = ending["status"]["conditions"][2]
    assert (condition["type"], condition["reason"]) == ("Terminating", "InstanceDeletionInProgress")
    refused = api.send("POST", WIDGETS, widget("b"))
    assert refused.status == 403
    assert "create not allowed while custom resource definition is terminating" in refused.body["message"]
    api.merge(f"{WIDGETS}/a", {"metadata": {"finalizers": None}})
    api.server.settle()
    assert api.gone(f"{DEFINITIONS}/widgets.example.com")
    assert api.send("GET", WIDGETS).body == "404 page not found\n"
    assert names(watch) == [("MODIFIED", "a"), ("DELETED", "a")]
    assert watch.closed
    assert "example.com" not in [group["name"] for group in api.ok("GET", "/apis")["groups"]]
    api.ok("POST", DEFINITIONS, definition())
    assert api.ok("GET", WIDGETS)["items"] == []


@pytest.mark.rule("api-133")
def test_events_expire_an_hour_after_their_last_write(api: Api) -> None:
    path = "/api/v1/namespaces/default/events"
    involved = {"kind": "Pod", "name": "a", "namespace": "default"}
    for name in "ab":
        api.ok("POST", path, {"metadata": {"name": name}, "involvedObject": involved, "reason": "Done"})
    api.clock.advance(3000)
    api.merge(f"{path}/b", {"count": 2})
    api.clock.advance(700)
    api.server.settle()
    assert api.gone(f"{path}/a")
    assert api.ok("GET", "/apis/events.k8s.io/v1/namespaces/default/events/b")["deprecatedCount"] == 2


async def test_a_running_server_stops_serving_a_deleted_definition(api: Api) -> None:
    watch = api.watch(WIDGETS)
    with anyio.fail_after(5):
        async with beside(api.server.run):
            await anyio.wait_all_tasks_blocked()
            api.ok("DELETE", f"{DEFINITIONS}/widgets.example.com")
            await anyio.wait_all_tasks_blocked()
            assert watch.closed
            assert api.server.resources.get("example.com", "v1", "widgets") is None
