"""Server-side apply and managedFields."""

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.embedded.apply import apply, track_update
from reconcile.embedded.builtin_schemas import schema_for
from reconcile.embedded.schema import Schema, compile_schema
from reconcile.embedded.status import Failure

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
WIDGET = compile_schema(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "size": {"type": "integer"},
                    "note": {"type": "string"},
                    "color": {"type": "string"},
                    "settings": {"type": "object", "additionalProperties": {"type": "string"}},
                    "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                    "args": {"type": "array", "items": {"type": "string"}},
                    "blob": {
                        "type": "object",
                        "x-kubernetes-map-type": "atomic",
                        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                    },
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                    "ports": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["port", "protocol"],
                        "items": {
                            "type": "object",
                            "properties": {
                                "port": {"type": "integer"},
                                "protocol": {"type": "string", "default": "TCP"},
                                "name": {"type": "string"},
                            },
                        },
                    },
                },
            },
            "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
        },
    }
)
DEPLOYMENT = compile_schema(schema_for("apps", "v1", "Deployment"), unique_lists=False)


def moment(second: int) -> str:
    return f"2026-01-01T00:00:{second:02}Z"


def intent(metadata: dict[str, Any] | None = None, **members: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "a", **(metadata or {})},
        **members,
    }


def applied(
    live: dict[str, Any] | None,
    manager: str,
    wanted: dict[str, Any],
    *,
    second: int = 0,
    force: bool = False,
    schema: Schema = WIDGET,
    **more: Any,
) -> dict[str, Any]:
    options: dict[str, Any] = {"subresource": "", "api_version": "example.com/v1", **more}
    result = apply(live, wanted, schema=schema, manager=manager, force=force, time=moment(second), **options)
    result["metadata"]["uid"] = "u"
    schema.default(result)
    return result


def updated(
    old: dict[str, Any] | None, new: dict[str, Any], manager: str, *, second: int = 0, subresource: str = ""
) -> dict[str, Any]:
    new = deepcopy(new)
    new["metadata"]["uid"] = "u"
    track_update(
        old,
        new,
        schema=WIDGET,
        manager=manager,
        operation="Update",
        subresource=subresource,
        api_version="example.com/v1",
        time=moment(second),
    )
    return new


def owners(obj: dict[str, Any]) -> dict[str, Any]:
    return {entry["manager"]: entry["fieldsV1"] for entry in obj["metadata"].get("managedFields", [])}


def conflicts(live: dict[str, Any], manager: str, wanted: dict[str, Any], **more: Any) -> Failure:
    with pytest.raises(Failure) as caught:
        applied(live, manager, wanted, **more)
    assert (caught.value.code, caught.value.reason) == (409, "Conflict")
    assert {cause.reason for cause in caught.value.causes} == {"FieldManagerConflict"}
    return caught.value


def fields_of(failure: Failure) -> list[str]:
    return [cause.field for cause in failure.causes]


@pytest.mark.rule("api-64")
def test_the_first_apply_makes_the_object_and_owns_what_it_names() -> None:
    obj = applied(None, "me", intent({"labels": {"l": "1"}}, spec={"size": 1}))
    assert obj["spec"] == {"size": 1}
    assert obj["metadata"]["managedFields"] == [
        {
            "manager": "me",
            "operation": "Apply",
            "apiVersion": "example.com/v1",
            "time": moment(0),
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": {"f:l": {}}}, "f:spec": {"f:size": {}}},
        }
    ]


@pytest.mark.rule("api-66")
def test_a_field_of_another_manager_is_a_conflict() -> None:
    live = applied(None, "one", intent(spec={"size": 1, "settings": {"x": "1"}}))
    failure = conflicts(live, "two", intent(spec={"size": 2, "settings": {"x": "2", "y": "1"}}))
    assert fields_of(failure) == [".spec.settings.x", ".spec.size"]
    assert failure.causes[0].message == 'conflict with "one"'
    assert fields_of(conflicts(updated(None, live, "ctl"), "two", intent(spec={"size": 2}))) == [".spec.size"]


@pytest.mark.rule("api-66")
def test_a_conflict_names_the_updater_with_its_subresource_and_time() -> None:
    live = applied(None, "one", intent(spec={"size": 1}))
    live = updated(live, {**live, "status": {"phase": "x"}}, "ctl", second=5, subresource="status")
    failure = conflicts(live, "two", intent(status={"phase": "y"}))
    expected = f'conflict with "ctl" with subresource "status" using example.com/v1 at {moment(5)}'
    assert failure.causes[0].message == expected
    assert failure.message == f"Apply failed with 1 conflict: {expected}: .status.phase"


def test_the_same_value_has_two_owners_without_conflict() -> None:
    live = applied(None, "one", intent(spec={"size": 1}))
    both = applied(live, "two", intent(spec={"size": 1}), second=9)
    assert owners(both) == {"one": {"f:spec": {"f:size": {}}}, "two": {"f:spec": {"f:size": {}}}}
    second_entry = next(entry for entry in both["metadata"]["managedFields"] if entry["manager"] == "two")
    assert "time" not in second_entry


@pytest.mark.rule("api-67")
def test_force_takes_a_field_from_its_owner() -> None:
    live = applied(None, "one", intent(spec={"size": 1, "note": "n"}))
    taken = applied(live, "two", intent(spec={"size": 2}), force=True)
    assert taken["spec"] == {"size": 2, "note": "n"}
    assert owners(taken) == {"one": {"f:spec": {"f:note": {}}}, "two": {"f:spec": {"f:size": {}}}}
    again = applied(taken, "one", intent(spec={"note": "n"}))
    assert again["spec"] == {"size": 2, "note": "n"}


@pytest.mark.rule("api-67")
def test_what_the_last_applier_drops_goes() -> None:
    full = intent({"labels": {"l": "1", "m": "2"}, "annotations": {"n": "1"}}, spec={"size": 1, "note": "n"})
    live = applied(None, "me", full)
    live["spec"]["color"] = "red"
    less = applied(live, "me", intent({"labels": {"m": "2"}}, spec={"note": "n"}))
    assert less["spec"] == {"note": "n", "color": "red"}
    assert less["metadata"]["labels"] == {"m": "2"}
    assert "annotations" not in less["metadata"]


@pytest.mark.rule("api-67")
def test_the_parent_goes_with_the_last_field_that_anybody_applied() -> None:
    live = applied(None, "me", intent(spec={"size": 1}))
    live["spec"]["color"] = "red"
    gone = applied(live, "me", intent())
    assert "spec" not in gone
    assert "managedFields" not in gone["metadata"]


@pytest.mark.rule("api-67")
@given(
    st.dictionaries(st.sampled_from("abcd"), st.just("1"), max_size=4),
    st.dictionaries(st.sampled_from("abcd"), st.just("1"), max_size=4),
    st.dictionaries(st.sampled_from("abcd"), st.just("1"), max_size=4),
)
def test_a_dropped_field_stays_only_if_another_applier_owns_it(
    first: dict[str, str], second: dict[str, str], other: dict[str, str]
) -> None:
    live = applied(None, "a", intent(spec={"settings": first}))
    live = applied(live, "b", intent(spec={"settings": other}))
    after = applied(live, "a", intent(spec={"settings": second}))
    assert after.get("spec", {}).get("settings", {}) == {**second, **other}


WANTED = st.fixed_dictionaries(
    {"size": st.integers(0, 3)},
    optional={
        "settings": st.dictionaries(st.sampled_from("xyz"), st.sampled_from("12"), max_size=3),
        "tags": st.lists(st.sampled_from("abc"), unique=True, max_size=3),
        "args": st.lists(st.sampled_from("abc"), max_size=3),
        "blob": st.dictionaries(st.sampled_from("ab"), st.sampled_from("12"), max_size=2),
        "free": st.dictionaries(st.sampled_from("ab"), st.lists(st.integers(0, 1), max_size=2), max_size=2),
        "ports": st.lists(
            st.fixed_dictionaries({"port": st.integers(1, 3)}, optional={"name": st.sampled_from("pq")}),
            unique_by=lambda port: port["port"],
            max_size=3,
        ),
    },
)


@given(st.lists(st.tuples(st.sampled_from("mn"), WANTED), min_size=1, max_size=3))
def test_applying_the_same_twice_changes_nothing(applies: list[tuple[str, dict[str, Any]]]) -> None:
    live: dict[str, Any] | None = None
    for second, (manager, spec) in enumerate(applies):
        live = applied(live, manager, intent(spec=spec), force=True, second=second)
    assert live is not None
    manager, spec = applies[-1]
    assert applied(live, manager, intent(spec=spec), second=59) == live


@given(st.lists(WANTED, min_size=1, max_size=3))
def test_an_apply_changes_neither_the_live_object_nor_the_intent(specs: list[dict[str, Any]]) -> None:
    live: dict[str, Any] | None = None
    for spec in specs:
        wanted = intent(spec=spec)
        before = deepcopy((live, wanted))
        after = applied(live, "me", wanted)
        assert (live, wanted) == before
        live = after


@given(WANTED, WANTED)
def test_a_sole_applier_gets_what_it_names_and_at_most_empty_lists_are_left(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    live = applied(None, "me", intent(spec=first))
    expected = intent(spec=deepcopy(second))
    WIDGET.default(expected)
    after = applied(live, "me", intent(spec=second))["spec"]
    assert {name: after[name] for name in second} == expected["spec"]
    assert [value for name, value in after.items() if name not in second and value != []] == []


@pytest.mark.rule("api-68")
def test_an_atomic_list_and_map_have_one_owner() -> None:
    live = applied(None, "one", intent(spec={"args": ["a"], "blob": {"a": "1"}}))
    assert owners(live) == {"one": {"f:spec": {"f:args": {}, "f:blob": {}}}}
    assert fields_of(conflicts(live, "two", intent(spec={"args": ["a", "b"]}))) == [".spec.args"]
    assert fields_of(conflicts(live, "two", intent(spec={"blob": {"b": "2"}}))) == [".spec.blob"]


@pytest.mark.rule("api-68")
def test_the_items_of_a_set_have_owners_of_their_own() -> None:
    live = applied(None, "one", intent(spec={"tags": ["a", "b"]}))
    live = applied(live, "two", intent(spec={"tags": ["b", "c"]}))
    assert live["spec"]["tags"] == ["a", "b", "c"]
    assert owners(live)["two"] == {"f:spec": {"f:tags": {'v:"b"': {}, 'v:"c"': {}}}}
    live = applied(live, "one", intent(spec={"tags": ["a"]}))
    assert live["spec"]["tags"] == ["a", "b", "c"]
    live = applied(live, "two", intent(spec={"tags": ["c"]}))
    assert live["spec"]["tags"] == ["a", "c"]


@pytest.mark.rule("api-68")
def test_the_items_of_a_keyed_list_have_owners_of_their_own() -> None:
    live = applied(None, "one", intent(spec={"ports": [{"port": 80, "name": "web"}]}))
    live = applied(live, "two", intent(spec={"ports": [{"port": 81}, {"port": 80, "protocol": "UDP"}]}))
    assert live["spec"]["ports"] == [
        {"port": 80, "name": "web", "protocol": "TCP"},
        {"port": 81, "protocol": "TCP"},
        {"port": 80, "protocol": "UDP"},
    ]
    assert owners(live)["one"] == {
        "f:spec": {"f:ports": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:name": {}, "f:port": {}}}}
    }
    failure = conflicts(live, "three", intent(spec={"ports": [{"port": 80, "name": "other"}]}))
    assert fields_of(failure) == ['.spec.ports[port=80,protocol="TCP"].name']
    left = applied(live, "one", intent(spec={}))
    assert left["spec"]["ports"] == [{"port": 81, "protocol": "TCP"}, {"port": 80, "protocol": "UDP"}]


@pytest.mark.parametrize(
    ("live", "wanted", "expected"),
    [
        ([1], [2, 1], [2, 1]),
        ([1, 2], [3], [1, 2, 3]),
        ([1, 2], [2, 1], [2, 1]),
        ([1, 2, 3], [3, 1], [2, 3, 1]),
        ([1, 2, 3], [4, 2], [1, 4, 2, 3]),
    ],
)
def test_the_order_is_the_appliers_with_the_others_where_they_were(
    live: list[int], wanted: list[int], expected: list[int]
) -> None:
    obj = applied(None, "one", intent(spec={"ports": [{"port": port} for port in live]}))
    after = applied(obj, "two", intent(spec={"ports": [{"port": port} for port in wanted]}))
    assert [port["port"] for port in after["spec"]["ports"]] == expected


@pytest.mark.rule("api-68")
def test_built_in_lists_merge_by_their_keys() -> None:
    def deployment(*containers: dict[str, Any]) -> dict[str, Any]:
        template = {"spec": {"containers": list(containers)}}
        return {"kind": "Deployment", "metadata": {"name": "a"}, "spec": {"template": template}}

    app = {
        "name": "app",
        "image": "app:1",
        "env": [{"name": "A", "value": "1"}],
        "ports": [{"containerPort": 80, "protocol": "TCP"}],
    }
    live = applied(None, "one", deployment(app), schema=DEPLOYMENT, api_version="apps/v1")
    side = {"name": "side", "image": "side:1"}
    more = {"name": "app", "env": [{"name": "B", "value": "2"}]}
    live = applied(live, "two", deployment(side, more), schema=DEPLOYMENT, api_version="apps/v1")
    containers = live["spec"]["template"]["spec"]["containers"]
    assert [container["name"] for container in containers] == ["side", "app"]
    assert [env["name"] for env in containers[1]["env"]] == ["A", "B"]
    failure = conflicts(
        live, "two", deployment({"name": "app", "image": "app:9"}), schema=DEPLOYMENT, api_version="apps/v1"
    )
    assert fields_of(failure) == ['.spec.template.spec.containers[name="app"].image']
    left = applied(live, "two", {"kind": "Deployment", "metadata": {"name": "a"}}, schema=DEPLOYMENT)
    assert left["spec"]["template"]["spec"]["containers"] == [app]


@pytest.mark.parametrize(
    "spec",
    [
        {"size": "x"},
        {"nothing": 2},
        {"ports": [{"port": 90}, {"port": 90}]},
        {"ports": [{"name": "x"}]},
        {"ports": ["x"]},
        {"ports": {"port": 1}},
        {"tags": ["c", "c"]},
        {"tags": [None]},
        {"settings": ["x"]},
        {"note": {"x": 1}},
        [],
    ],
)
def test_an_intent_that_the_schema_does_not_describe_is_an_error_without_reason(spec: Any) -> None:
    with pytest.raises(Failure) as caught:
        applied(None, "me", intent(spec=spec))
    assert (caught.value.code, caught.value.reason) == (500, "")


@pytest.mark.rule("api-69")
def test_members_that_are_reset_are_neither_written_nor_owned() -> None:
    obj = applied(None, "me", intent(spec={"size": 1}, status={"phase": "x"}), reset=["status"])
    assert "status" not in obj
    assert owners(obj) == {"me": {"f:spec": {"f:size": {}}}}


@pytest.mark.rule("api-69")
def test_an_apply_to_the_status_is_about_the_status_alone() -> None:
    live = applied(None, "me", intent(spec={"size": 1}))
    wanted = intent({"labels": {"l": "1"}}, spec={"size": 2}, status={"phase": "x"})
    after = applied(live, "ctl", wanted, subresource="status")
    assert (after["spec"], after["status"]) == ({"size": 1}, {"phase": "x"})
    assert "labels" not in after["metadata"]
    assert owners(after)["ctl"] == {"f:status": {"f:phase": {}}}
    assert after["metadata"]["managedFields"][0]["subresource"] == "status"


def test_an_object_without_managers_gets_one_before_its_first_apply() -> None:
    live = intent({"uid": "u"}, spec={"size": 1})
    failure = conflicts(live, "me", intent(spec={"size": 2}))
    assert failure.causes[0].message.startswith('conflict with "before-first-apply"')
    after = applied(live, "me", intent(spec={"size": 2, "note": "n"}), force=True)
    assert set(owners(after)) == {"me", "before-first-apply"}


@pytest.mark.rule("api-70")
def test_kubectl_takes_over_what_it_applied_from_the_client() -> None:
    last = json.dumps(intent(spec={"size": 1}))
    first = updated(
        None, intent({"annotations": {LAST_APPLIED: last}}, spec={"size": 1, "note": "n"}), "client-side"
    )
    assert fields_of(conflicts(first, "kubectl", intent(spec={"note": "m"}))) == [".spec.note"]
    after = applied(first, "kubectl", intent(spec={"size": 2}))
    assert after["spec"] == {"size": 2, "note": "n"}
    annotation = json.loads(after["metadata"]["annotations"][LAST_APPLIED])
    assert annotation["spec"] == {"size": 2}
    conflicts(first, "other", intent(spec={"size": 2}))


@pytest.mark.rule("api-45")
def test_a_create_owns_everything_that_it_sets() -> None:
    spec = {
        "size": 1,
        "tags": ["a"],
        "ports": [{"port": 80, "protocol": "TCP"}],
        "args": [],
        "free": {"x": {"y": 1}},
    }
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
def test_an_update_takes_what_it_changes_and_loses_what_it_removes() -> None:
    old = updated(None, intent(spec={"size": 1, "note": "n"}), "one", second=1)
    changed = {**old, "spec": {"size": 2, "note": "n", "color": "red"}}
    two = updated(old, changed, "two", second=2)
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


def test_an_object_without_managers_stays_without_on_updates() -> None:
    old = intent({"uid": "u"}, spec={"size": 1})
    assert owners(updated(old, {**old, "spec": {"size": 2}}, "ctl")) == {}


def test_what_became_atomic_is_owned_as_a_whole() -> None:
    spec = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    granular = compile_schema({"type": "object", "properties": {"spec": spec}})
    atomic = compile_schema(
        {"type": "object", "properties": {"spec": {**spec, "x-kubernetes-map-type": "atomic"}}}
    )
    live = applied(None, "one", intent(spec={"a": 1}), schema=granular)
    assert fields_of(conflicts(live, "two", intent(spec={"b": 1}), schema=atomic)) == [".spec"]
