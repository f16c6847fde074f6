"""Who owns what after a create or an update: managedFields."""

from typing import Any

import pytest

from reconcile.embedded.schema import compile_schema
from tests.embedded.ownership import applied, conflicts, fields_of, intent, moment, owners, updated


@pytest.mark.rule("api-45")
def test_a_create_owns_everything_that_it_sets() -> None:
    ports = [{"port": 80, "protocol": "TCP"}]
    spec = {"size": 1, "tags": ["a"], "ports": ports, "args": [], "free": {"x": {"y": 1}}}
    obj = updated(None, intent({"labels": {"l": "1"}}, spec=spec), "ctl")
    assert owners(obj) == {
        "ctl": {
            "f:metadata": {"f:labels": {".": {}, "f:l": {}}},
            "f:spec": {
                ".": {},
                "f:args": {},
                "f:free": {".": {}, "f:x": {".": {}, "f:y": {}}},
                "f:ports": {
                    ".": {},
                    'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}, "f:protocol": {}},
                },
                "f:size": {},
                "f:tags": {".": {}, 'v:"a"': {}},
            },
        }
    }


@pytest.mark.rule("api-45")
def test_an_update_owns_what_it_changes_and_disowns_what_it_removes() -> None:
    old = updated(None, intent(spec={"size": 1, "note": "n"}), "one", second=1)
    two = updated(old, {**old, "spec": {"size": 2, "note": "n", "color": "red"}}, "two", second=2)
    assert owners(two) == {
        "one": {"f:spec": {".": {}, "f:note": {}}},
        "two": {"f:spec": {"f:color": {}, "f:size": {}}},
    }
    removed = updated(two, {**two, "spec": {"note": "n"}}, "two", second=3)
    assert owners(removed) == {"one": {"f:spec": {".": {}, "f:note": {}}}}
    assert [entry["time"] for entry in removed["metadata"]["managedFields"]] == [moment(1)]


@pytest.mark.rule("api-45")
def test_a_manager_has_an_entry_for_each_subresource() -> None:
    old = updated(None, intent(spec={"size": 1}), "one")
    new = updated(old, {**old, "status": {"phase": "x"}}, "one", subresource="status")
    assert [(entry["manager"], entry.get("subresource")) for entry in new["metadata"]["managedFields"]] == [
        ("one", None),
        ("one", "status"),
    ]


@pytest.mark.rule("api-45")
def test_an_update_of_an_applied_field_moves_it_out_of_the_appliers_entry() -> None:
    old = applied(None, "me", intent(spec={"size": 1}))
    new = updated(old, {**old, "spec": {"size": 2}}, "ctl")
    assert [(entry["manager"], entry["operation"]) for entry in new["metadata"]["managedFields"]] == [
        ("ctl", "Update")
    ]


@pytest.mark.rule("api-45")
def test_at_most_ten_updaters_are_kept_and_the_oldest_are_merged() -> None:
    obj = updated(None, intent(spec={"settings": {"0": "x"}}), "m0")
    for number in range(1, 15):
        settings = {**obj["spec"]["settings"], str(number): "x"}
        obj = updated(obj, {**obj, "spec": {"settings": settings}}, f"m{number}", second=number)
    entries = obj["metadata"]["managedFields"]
    assert len(entries) == 10
    assert entries[0]["manager"] == "ancient-changes"
    owned = entries[0]["fieldsV1"]["f:spec"]["f:settings"]
    assert owned == {".": {}, **{f"f:{number}": {} for number in range(6)}}


@pytest.mark.rule("api-46")
def test_an_empty_entry_resets_the_tracking_and_an_empty_list_does_not() -> None:
    old = applied(None, "me", intent(spec={"size": 1}))

    def sent(managed_fields: Any, subresource: str = "") -> dict[str, Any]:
        new = {**old, "metadata": {**old["metadata"], "managedFields": managed_fields}}
        return owners(updated(old, new, "ctl", subresource=subresource))

    assert sent([]) == owners(old)
    assert sent(None) == owners(old)
    assert sent([{"operation": "nonsense"}]) == owners(old)
    assert sent([{}]) == {}
    assert sent([{}], "status") == owners(old)
    entry = {**old["metadata"]["managedFields"][0], "manager": "renamed"}
    assert sent([entry]) == {"renamed": {"f:spec": {"f:size": {}}}}


def test_an_object_without_managers_stays_untracked_on_updates() -> None:
    old = intent({"uid": "u"}, spec={"size": 1})
    assert owners(updated(old, {**old, "spec": {"size": 2}}, "ctl")) == {}


def test_a_field_that_became_atomic_is_owned_as_a_whole() -> None:
    spec = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    granular = compile_schema({"type": "object", "properties": {"spec": spec}})
    atomic = compile_schema(
        {"type": "object", "properties": {"spec": {**spec, "x-kubernetes-map-type": "atomic"}}}
    )
    live = applied(None, "one", intent(spec={"a": 1}), schema=granular)
    assert fields_of(conflicts(live, "two", intent(spec={"b": 1}), schema=atomic)) == [".spec"]
