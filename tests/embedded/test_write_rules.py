"""Writes: what a refusal carries, what is decoded first, and who owns what after an apply or an update."""

from typing import Any

import pytest

from reconcile.embedded.ownership.field_sets import FieldSet, field_element, key_element
from reconcile.embedded.ownership.typed_values import remove
from tests.embedded.api_client import CONFIG_MAPS, DEFINITIONS, PODS, WIDGETS, Answer, Api, names, pod, widget
from tests.embedded.ownership import WIDGET, applied, intent, owners, updated
from tests.embedded.versioned_things import collection, thing, things, version

APPLY = "application/apply-patch+yaml"
MISSING = f"{WIDGETS}/missing"


@pytest.fixture
def api() -> Api:
    return Api()


def apply_as(api: Api, manager: str, path: str, body: Any, **query: str) -> Answer:
    return api.send("PATCH", path, body, query={"fieldManager": manager, **query}, content_type=APPLY)


# --- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("POST", WIDGETS, 422), ("PUT", f"{WIDGETS}/a", 422), ("PUT", MISSING, 404)],
)
def test_a_refusal_carries_the_warnings_up_to_it(api: Api, method: str, path: str, status: int) -> None:
    api.ok("POST", WIDGETS, widget())
    body = widget(path.rpartition("/")[2] if method == "PUT" else "b", spec={"size": -1, "unknown": 1})
    answer = api.send(method, path, body)
    assert answer.status == status
    assert 'unknown field \\"spec.unknown\\"' in answer.headers["warning"]


@pytest.mark.parametrize(
    ("method", "path", "body", "content_type"),
    [
        ("PUT", MISSING, b"{", "application/json"),
        ("PUT", f"{MISSING}/status", b"{", "application/json"),
        ("PUT", f"{MISSING}/scale", b"{", "application/json"),
        ("PUT", f"{MISSING}/scale", {"kind": "Widget"}, "application/json"),
        ("PATCH", MISSING, b"{", APPLY),
        ("DELETE", MISSING, b"{", "application/json"),
        ("POST", f"{PODS}/missing/binding", {}, "application/json"),
    ],
)
def test_a_malformed_body_is_reported_before_a_missing_object(
    api: Api, method: str, path: str, body: Any, content_type: str
) -> None:
    query = {"fieldManager": "one"} if method == "PATCH" else {}
    assert api.send(method, path, body, query=query, content_type=content_type).status == 400


def test_a_pod_is_marked_as_deleted_before_it_is_removed(api: Api) -> None:
    api.ok("POST", PODS, pod())
    api.ok("POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
    pods, config_maps = api.watch(PODS), api.watch(CONFIG_MAPS)
    for watch in (pods, config_maps):
        watch.take()
    api.ok("DELETE", f"{PODS}/a")
    api.ok("DELETE", f"{CONFIG_MAPS}/a")
    assert names(pods) == [("MODIFIED", "a"), ("DELETED", "a")]
    assert names(config_maps) == [("DELETED", "a")]


# --- several versions -------------------------------------------------------------------------


@pytest.fixture
def versioned() -> Api:
    """A thing with a manager in v1 and one in v2, of which only v1 declares the field `old`."""
    api = Api()
    api.settled("POST", DEFINITIONS, TWO_VERSIONS)
    api.ok("POST", collection("v1"), thing("v1", size=1), query={"fieldManager": "one"})
    body = {"spec": {"count": 2}}
    api.merge(f"{collection('v2')}/a", body, query={"fieldManager": "two"})
    return api


TWO_VERSIONS = things(version("v1", "size", "count", "old"), version("v2", "size", "count"))
UNDECLARED = {"spec": {"old": 3}}


def test_a_field_that_the_version_of_a_manager_lacks_ends_the_tracking_of_an_update(versioned: Api) -> None:
    changed = versioned.merge(f"{collection('v1')}/a", UNDECLARED, query={"fieldManager": "one"})
    assert changed["spec"] == {"size": 1, "count": 2, "old": 3}
    assert "managedFields" not in changed["metadata"]


def test_a_field_that_the_version_of_a_manager_lacks_fails_an_apply(versioned: Api) -> None:
    answer = apply_as(versioned, "three", f"{collection('v1')}/a", thing("v1", old=3))
    assert (answer.status, answer.body.get("reason")) == (500, None)
    assert ".spec.old: field not declared in schema" in answer.body["message"]


# --- lists and maps ---------------------------------------------------------------------------


def test_items_with_the_same_key_are_owned_as_a_whole() -> None:
    key = 'k:{"port":80,"protocol":"TCP"}'
    twice = intent(spec={"ports": [{"port": 80, "protocol": "TCP"}, {"port": 80, "protocol": "TCP"}]})
    assert owners(updated(None, twice, "one"))["one"]["f:spec"]["f:ports"] == {".": {}, key: {}}


@pytest.mark.parametrize("by_apply", [True, False])
def test_a_dropped_field_stays_while_any_other_manager_owns_it(by_apply: bool) -> None:
    live = applied(None, "one", intent(spec={"note": "n"}))
    with_size = intent(spec={"size": 1})
    other = applied(live, "two", with_size) if by_apply else updated(live, {**live, **with_size}, "two")
    shared = applied(other, "one", intent(spec={"note": "n", "size": 1}))
    assert applied(shared, "one", intent(spec={"note": "n"}))["spec"].get("size") == 1


def test_a_dropped_item_goes_with_its_list_although_another_manager_added_a_field_to_it() -> None:
    live = applied(None, "one", intent(spec={"size": 1, "ports": [{"port": 80}]}))
    named = {"size": 1, "ports": [{"port": 80, "protocol": "TCP", "name": "x"}]}
    both = updated(live, {**live, "spec": named}, "two")
    assert applied(both, "one", intent(spec={"size": 1}))["spec"] == {"size": 1}


@pytest.mark.parametrize(
    ("spec", "removed", "left"),
    [
        ({"ports": [{"port": 80}]}, key_element({"port": 80, "protocol": "TCP"}), []),
        ({"settings": {"x": "1"}}, field_element("x"), {}),
    ],
)
def test_a_list_or_map_whose_last_item_is_removed_is_empty(
    spec: dict[str, Any], removed: str, left: Any
) -> None:
    (name,) = spec
    fields = FieldSet.of((field_element("spec"), field_element(name), removed))
    assert remove(WIDGET.whole, {"spec": spec}, fields) == {"spec": {name: left}}


def test_an_empty_map_of_an_applied_custom_resource_is_written_again_by_the_next_write(api: Api) -> None:
    """etcd holds it and no read shows it, so a write without changes drops it, once."""
    api.ok("POST", WIDGETS, widget())
    before = apply_as(api, "one", f"{WIDGETS}/a", widget(labels={}))
    assert "labels" not in before.body["metadata"]
    again = apply_as(api, "one", f"{WIDGETS}/a", widget(labels={}))
    assert again.version == before.version
    nothing = {"metadata": {"ownerReferences": None}}
    after = api.merge(f"{WIDGETS}/a", nothing)["metadata"]["resourceVersion"]
    assert int(after) > int(before.version)
    assert api.merge(f"{WIDGETS}/a", nothing)["metadata"]["resourceVersion"] == after


# --- scales and numbers -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("created", "scaled", "expected"),
    [
        ({"replicas": 1}, 2, {"scaler": {"f:spec": {"f:replicas": {}}}}),
        ({"replicas": 1}, 0, {}),
        ({}, 2, {}),
    ],
    ids=["the replicas are owned", "a Scale does not write 0", "the replicas have no owner"],
)
def test_a_scale_is_tracked_only_where_its_replicas_are(
    api: Api, created: dict[str, Any], scaled: int, expected: dict[str, Any]
) -> None:
    api.ok("POST", WIDGETS, widget(spec={"size": 1, **created}), query={"fieldManager": "maker"})
    api.merge(f"{WIDGETS}/a/scale", {"spec": {"replicas": scaled}}, query={"fieldManager": "scaler"})
    obj = api.ok("GET", f"{WIDGETS}/a")
    assert obj["spec"]["replicas"] == scaled
    assert {name: owned for name, owned in owners(obj).items() if name != "maker"} == expected


HALVES = {"ratio": {"type": "number", "multipleOf": 0.5}}


def test_a_whole_float_is_a_float_until_it_is_stored(api: Api) -> None:
    """Go writes it as an integer, of which no half is a factor; the write itself counts as a change."""
    api.settled("POST", DEFINITIONS, things(version("v1", members=HALVES)))
    path = f"{collection('v1')}/a"
    created = api.ok("POST", collection("v1"), thing("v1", ratio=1.0))
    assert (str(created["spec"]["ratio"]), created["metadata"]["generation"]) == ("1", 1)
    replaced = api.ok("PUT", path, created | {"spec": {"ratio": 1.0}})
    assert (str(replaced["spec"]["ratio"]), replaced["metadata"]["generation"]) == ("1", 2)
    assert api.send("POST", collection("v1"), thing("v1", "b", ratio=1)).causes == [
        ("FieldValueInvalid", "spec.ratio")
    ]


def test_a_whole_float_is_no_integer_of_a_built_in_kind(api: Api) -> None:
    assert api.send("POST", PODS, pod(terminationGracePeriodSeconds=1.0)).status == 400
    assert api.ok("POST", WIDGETS, widget(spec={"size": 1.0}))["spec"]["size"] == 1


# --- updates that create ------------------------------------------------------------------------------


def test_an_update_of_an_object_with_a_uid_never_creates_another_one(api: Api) -> None:
    """Leases may be created by an update; one that was deleted meanwhile is a conflict (etcd3's store.go)."""
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"}, "spec": {}}
    made = api.ok("PUT", f"{path}/a", lease)
    api.ok("DELETE", f"{path}/a")
    answer = api.send("PUT", f"{path}/a", made)
    assert answer.status == 409
    assert "UID in precondition" in answer.body["message"]
