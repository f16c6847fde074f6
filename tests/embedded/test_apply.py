"""Server-side apply."""

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.embedded.protocol.api_failure import ApiFailure
from tests.embedded.ownership import (
    DEPLOYMENT,
    LAST_APPLIED,
    WIDGET,
    applied,
    conflicts,
    fields_of,
    intent,
    moment,
    owners,
    updated,
)


@pytest.mark.rule("api-64")
def test_the_first_apply_creates_the_object_and_owns_its_fields() -> None:
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


def test_two_managers_can_own_the_same_value_without_a_conflict() -> None:
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
    assert applied(taken, "one", intent(spec={"note": "n"}))["spec"] == {"size": 2, "note": "n"}


@pytest.mark.rule("api-67")
def test_a_field_that_its_last_applier_drops_is_removed() -> None:
    full = intent({"labels": {"l": "1", "m": "2"}, "annotations": {"n": "1"}}, spec={"size": 1, "note": "n"})
    live = applied(None, "me", full)
    live["spec"]["color"] = "red"
    less = applied(live, "me", intent({"labels": {"m": "2"}}, spec={"note": "n"}))
    assert less["spec"] == {"note": "n", "color": "red"}
    assert less["metadata"]["labels"] == {"m": "2"}
    assert "annotations" not in less["metadata"]


@pytest.mark.rule("api-67")
def test_a_parent_is_removed_with_its_last_applied_field() -> None:
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
def test_a_sole_applier_gets_exactly_its_fields_with_at_most_empty_lists_left_over(
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
def test_items_of_a_set_have_separate_owners() -> None:
    live = applied(None, "one", intent(spec={"tags": ["a", "b"]}))
    live = applied(live, "two", intent(spec={"tags": ["b", "c"]}))
    assert live["spec"]["tags"] == ["a", "b", "c"]
    assert owners(live)["two"] == {"f:spec": {"f:tags": {'v:"b"': {}, 'v:"c"': {}}}}
    live = applied(live, "one", intent(spec={"tags": ["a"]}))
    assert live["spec"]["tags"] == ["a", "b", "c"]
    live = applied(live, "two", intent(spec={"tags": ["c"]}))
    assert live["spec"]["tags"] == ["a", "c"]


@pytest.mark.rule("api-68")
def test_items_of_a_keyed_list_have_separate_owners() -> None:
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
def test_items_follow_the_order_of_the_applier_and_the_others_keep_their_places(
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
    assert left["spec"]["template"]["spec"]["containers"] == [{**app, "resources": {}}]


@pytest.mark.parametrize(
    "spec",
    [
        {"size": "x"},
        {"nothing": 2},
        {"ports": [{"port": 90}, {"port": 90}]},
        {"ports": ["x"]},
        {"ports": {"port": 1}},
        {"tags": ["c", "c"]},
        {"tags": [None]},
        {"settings": ["x"]},
        {"note": {"x": 1}},
        [],
    ],
)
def test_an_intent_outside_the_schema_is_a_500_without_a_reason(spec: Any) -> None:
    with pytest.raises(ApiFailure) as caught:
        applied(None, "me", intent(spec=spec))
    assert (caught.value.code, caught.value.reason) == (500, "")


@pytest.mark.rule("api-69")
def test_reset_fields_are_neither_written_nor_owned() -> None:
    obj = applied(None, "me", intent(spec={"size": 1}, status={"phase": "x"}), reset=["status"])
    assert "status" not in obj
    assert owners(obj) == {"me": {"f:spec": {"f:size": {}}}}


@pytest.mark.rule("api-69")
def test_an_apply_to_the_status_affects_only_the_status() -> None:
    live = applied(None, "me", intent(spec={"size": 1}))
    wanted = intent({"labels": {"l": "1"}}, spec={"size": 2}, status={"phase": "x"})
    after = applied(live, "ctl", wanted, subresource="status", reset=("metadata",))
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
    assert json.loads(after["metadata"]["annotations"][LAST_APPLIED])["spec"] == {"size": 2}
    conflicts(first, "other", intent(spec={"size": 2}))
