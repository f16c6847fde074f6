"""Versions without conversion: an object has the fields of its storage version, and a write loses the others.

The first test tells what kube-apiserver 1.36.2 answered (`none-strategy` of the recordings).
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.embedded.api_client import DEFINITIONS, Api, events
from tests.embedded.versioned_things import collection, thing, things, version

pytestmark = pytest.mark.rule("api-125")

NAMES = ("a", "b", "c", "d")
VERSIONS = ("v1", "v1alpha1")
APPLY = "application/apply-patch+yaml"


def served(*versions: dict[str, Any]) -> Api:
    api = Api()
    api.ok("POST", DEFINITIONS, things(*versions))
    return api


def told(obj: dict[str, Any]) -> tuple[str, dict[str, int], int]:
    return obj["apiVersion"].partition("/")[2], obj["spec"], obj["metadata"]["generation"]


@pytest.fixture
def api() -> Api:
    return served(version("v1", "note", "replicas"), version("v1alpha1", "note", "size"))


def test_fields_only_in_the_other_version_are_hidden_and_lost_with_the_first_write(api: Api) -> None:
    old, new = (f"{collection(name)}/a" for name in ("v1alpha1", "v1"))
    made = api.ok("POST", collection("v1"), thing("v1", replicas=1, note=1))
    assert told(made) == ("v1", {"note": 1, "replicas": 1}, 1)
    assert told(api.ok("GET", old)) == ("v1alpha1", {"note": 1}, 1)
    assert told(api.merge(old, {"spec": {"size": 5}})) == ("v1alpha1", {"note": 1}, 2)
    assert told(api.ok("GET", new)) == ("v1", {"note": 1}, 2)
    api.ok("DELETE", old)
    made = api.ok("POST", collection("v1alpha1"), thing("v1alpha1", size=2))
    assert told(made) == ("v1alpha1", {}, 1)
    assert told(api.ok("GET", new)) == ("v1", {}, 1)


def test_lists_watches_and_dry_runs_show_what_a_get_shows(api: Api) -> None:
    watch = api.watch(collection("v1alpha1"))
    watch.take()
    asked = thing("v1alpha1", size=2, note=1)
    tried = api.ok("POST", collection("v1alpha1"), asked, query={"dryRun": "All"})
    api.ok("POST", collection("v1"), thing("v1", replicas=1, note=1))
    listed = api.ok("GET", collection("v1alpha1"))["items"]
    watched = [obj for _, obj in events(watch)]
    assert [told(obj) for obj in (tried, *listed, *watched)] == [("v1alpha1", {"note": 1}, 1)] * 3


@pytest.mark.parametrize("write", ["patch", "put", "apply", "status"])
def test_a_no_op_write_in_another_version_still_loses_fields(api: Api, write: str) -> None:
    api.ok("POST", collection("v1"), thing("v1", replicas=1, note=1))
    path = f"{collection('v1alpha1')}/a"
    before = api.ok("GET", path)
    if write == "patch":
        after = api.merge(path, {})
    elif write == "put":
        after = api.ok("PUT", path, before)
    elif write == "apply":
        how = {
            "query": {"fieldManager": "me", "force": "true"},
            "content_type": "application/apply-patch+yaml",
        }
        after = api.ok("PATCH", path, thing("v1alpha1"), **how)
    else:
        after = api.merge(f"{path}/status", {"status": {"ready": 1}})
    assert after["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]
    assert told(after) == told(before)
    assert api.ok("GET", f"{collection('v1')}/a")["spec"] == {"note": 1}


def test_a_second_no_op_write_changes_nothing(api: Api) -> None:
    api.ok("POST", collection("v1"), thing("v1", replicas=1, note=1))
    once = api.merge(f"{collection('v1alpha1')}/a", {})
    assert api.merge(f"{collection('v1alpha1')}/a", {}) == once


def test_an_empty_patch_migrates_an_object_to_a_new_storage_version_once() -> None:
    old, new = version("v1alpha1", "note"), version("v1", "note")
    api = served({**old, "storage": True}, {**new, "storage": False})
    made = api.ok("POST", collection("v1"), thing("v1", note=1))
    path = f"{DEFINITIONS}/things.shop.example.com"
    api.merge(path, {"spec": {"versions": [{**old, "storage": False}, {**new, "storage": True}]}})
    moved = api.merge(f"{collection('v1')}/a", {})
    assert moved["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]
    assert told(moved) == told(made)
    assert api.merge(f"{collection('v1')}/a", {}) == moved


def test_a_default_of_the_storage_version_is_hidden_in_a_version_without_the_field() -> None:
    stored = version("v1", "note")
    spec = stored["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["replicas"] = {"type": "integer", "default": 3}
    api = served(stored, version("v1alpha1", "note"))
    assert told(api.ok("POST", collection("v1alpha1"), thing("v1alpha1", note=1)))[1] == {"note": 1}
    assert api.ok("GET", f"{collection('v1alpha1')}/a")["spec"] == {"note": 1}
    assert api.ok("GET", f"{collection('v1')}/a")["spec"] == {"note": 1, "replicas": 3}


def test_defaults_of_the_storage_version_are_selectable_and_stored_by_its_first_write() -> None:
    stored = version("v1", "note", selectableFields=[{"jsonPath": ".spec.replicas"}])
    spec = stored["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["replicas"] = {"type": "integer", "default": 3}
    api = served(stored, version("v1alpha1", "note"))
    made = api.ok("POST", collection("v1alpha1"), thing("v1alpha1", note=1))
    chosen = api.ok("GET", collection("v1"), query={"fieldSelector": "spec.replicas=3"})["items"]
    assert [one["metadata"]["name"] for one in chosen] == ["a"]
    once = api.merge(f"{collection('v1')}/a", {})
    assert once["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]
    assert api.merge(f"{collection('v1')}/a", {}) == once


def test_unknown_fields_that_one_version_preserves_stay_in_that_version() -> None:
    stored = version("v1", "note")
    spec = stored["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["x-kubernetes-preserve-unknown-fields"] = True
    api = served(stored, version("v1alpha1", "size"))
    api.ok("POST", collection("v1alpha1"), thing("v1alpha1", size=2, other=1))
    assert api.ok("GET", f"{collection('v1')}/a")["spec"] == {"size": 2}
    api.merge(f"{collection('v1')}/a", {"spec": {"free": 1}})
    assert api.ok("GET", f"{collection('v1alpha1')}/a")["spec"] == {"size": 2}
    assert api.ok("GET", f"{collection('v1')}/a")["spec"] == {"size": 2, "free": 1}


FIELDS = st.sets(st.sampled_from(NAMES))
WRITES = st.lists(
    st.tuples(st.sampled_from(VERSIONS), st.dictionaries(st.sampled_from(NAMES), st.integers(0, 3))),
    max_size=6,
)


@given(FIELDS, FIELDS, WRITES)
def test_a_version_shows_its_own_fields_of_whatever_every_write_left(
    stored: set[str], other: set[str], writes: list[tuple[str, dict[str, int]]]
) -> None:
    fields = {"v1": stored, "v1alpha1": other}
    api = served(*(version(name, *sorted(fields[name])) for name in VERSIONS))
    api.ok("POST", collection("v1"), thing("v1"))
    kept: dict[str, int] = {}
    for name, spec in writes:
        api.merge(f"{collection(name)}/a", {"spec": spec})
        seen = {**kept, **spec}
        kept = {field: value for field, value in seen.items() if field in fields[name] & stored}
        for reader in VERSIONS:
            shown = api.ok("GET", f"{collection(reader)}/a")["spec"]
            assert shown == {field: value for field, value in kept.items() if field in fields[reader]}


def test_a_status_sent_to_the_main_endpoint_disowns_only_managers_in_other_versions() -> None:
    api = served(version("v1"), version("v1alpha1"))
    api.ok("POST", collection("v1"), thing("v1"))
    for name, manager in (("v1", "one"), ("v1alpha1", "two")):
        ready = {"status": {"ready": 1 if name == "v1" else 2}}
        query = {"fieldManager": manager}
        api.merge(f"{collection(name)}/a/status", ready, query=query)

    def owners() -> list[str]:
        found = api.ok("GET", f"{collection('v1')}/a")["metadata"]["managedFields"]
        return [entry["manager"] for entry in found if "f:ready" in entry["fieldsV1"].get("f:status", {})]

    assert owners() == ["two"]
    api.merge(f"{collection('v1alpha1')}/a", {"status": {"ready": 3}})
    assert owners() == ["two"]
    api.merge(f"{collection('v1')}/a", {"status": {"ready": 3}})
    assert owners() == []
    assert api.ok("GET", f"{collection('v1')}/a")["status"] == {"ready": 2}
