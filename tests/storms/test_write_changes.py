"""What a write changed, in places and fingerprints, and who wrote a field."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from informers import Key, Snapshot
from reconcile import kind_of
from reconcile.kinds import ConfigMap
from reconcile.runs.write_events import EndedWrite
from reconcile.storms.changes import (
    ABSENT,
    PATHS_OF_A_WRITE,
    PRESENT,
    WHOLE,
    FieldEffect,
    FieldRef,
    differences,
    effects_of,
    fingerprint,
    paths_of,
    writer_of,
)
from tests.helpers.writes import ended_write

CONFIG = kind_of(ConfigMap).resource
CHILD = Key("default", "child")


def snapshot(version: int, uid: str = "u", **more: Any) -> Snapshot:
    metadata = {"name": "child", "namespace": "default", "uid": uid, "resourceVersion": str(version)}
    metadata |= more.pop("metadata", {})
    return Snapshot.from_json(msgspec.json.encode({"kind": "ConfigMap", "metadata": metadata, **more}))


def wrote(base: Snapshot | None, written: Snapshot | None, method: str = "PATCH", **more: bool) -> EndedWrite:
    return ended_write(method, CONFIG, CHILD, "", {}, base, written, **more)


def at(path: str) -> FieldRef:
    return FieldRef(CONFIG, CHILD, path)


# --- effects ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "effects"),
    [
        (
            wrote(snapshot(1, data={"x": "a", "gone": "a"}), snapshot(2, data={"x": "b", "new": "c"})),
            [
                FieldEffect(at(".data.gone"), fingerprint(None)),
                FieldEffect(at(".data.new"), fingerprint("c")),
                FieldEffect(at(".data.x"), fingerprint("b")),
            ],
        ),
        (wrote(snapshot(1), snapshot(1)), [FieldEffect(at(WHOLE), PRESENT)]),
        (wrote(None, snapshot(1), fresh=True), [FieldEffect(at(WHOLE), PRESENT, made=True)]),
        (wrote(snapshot(1, "gone"), snapshot(2), fresh=True), [FieldEffect(at(WHOLE), PRESENT, made=True)]),
        (wrote(snapshot(1), None, "DELETE"), [FieldEffect(at(WHOLE), ABSENT, made=True)]),
        (
            wrote(snapshot(1), snapshot(2, data={"x": "a"}), "DELETE"),
            [FieldEffect(at(WHOLE), ABSENT, made=True)],
        ),
        (wrote(None, snapshot(1, data={"x": "a"})), []),
        (wrote(snapshot(1, "gone"), snapshot(2)), []),
        (wrote(snapshot(1), None), []),
        (wrote(snapshot(1), None, "DELETE", dry=True), []),
        (wrote(snapshot(1), snapshot(2, data={"x": "a"}), dry=True), []),
    ],
)
def test_a_write_has_an_effect_on_each_changed_field_or_one_on_the_whole_object(
    sent: EndedWrite, effects: Sequence[FieldEffect]
) -> None:
    assert list(effects_of(sent)) == effects
    assert paths_of(sent) == tuple(effect.ref.path for effect in effects if effect.ref.path)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"a": 1, "b": [2]}, {"b": [2], "a": 1}, True),
        ({"a": 1}, {"a": 2}, False),
        ([1, 2], [2, 1], False),
        ("a", "b", False),
        (None, "", False),
    ],
)
def test_values_have_the_same_fingerprint_exactly_if_they_are_equal(one: Any, other: Any, same: bool) -> None:
    assert (fingerprint(one) == fingerprint(other)) is same


# --- paths ------------------------------------------------------------------------------------------------


def test_differences_are_paths_with_both_values_and_omit_server_managed_fields() -> None:
    old = snapshot(
        1, metadata={"generation": 1, "managedFields": [], "labels": {"a": "1"}},
        spec={"a": [{"b": 1}, {"b": 2}], "gone": 1, "grown": [1]},
    )  # fmt: skip
    new = snapshot(
        2, metadata={"generation": 2, "managedFields": [{}], "labels": {"a": "2"}},
        spec={"a": [{"b": 1}, {"b": 3}], "new": [1], "grown": [1, 2]},
    )  # fmt: skip
    assert differences(old, new) == [
        (".metadata.labels.a", "1", "2"),
        (".spec.a[1].b", 2, 3),
        (".spec.gone", 1, None),
        (".spec.grown", [1], [1, 2]),
        (".spec.new", None, [1]),
    ]


def test_for_a_very_large_write_only_a_bounded_number_of_fields_is_followed() -> None:
    old, new = snapshot(1), snapshot(2, data={f"x{number:03}": "a" for number in range(PATHS_OF_A_WRITE + 1)})
    assert differences(snapshot(1, data={}), new)[-1] == (f".data.x{PATHS_OF_A_WRITE - 1:03}", None, "a")
    assert len(differences(old, new)) == 1


# --- writers ----------------------------------------------------------------------------------------------


def entry(manager: str | None, time: str | None, *path: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name in reversed(path):
        fields = {f"f:{name}": fields, ".": {}}
    return {"manager": manager, "time": time, "fieldsV1": fields}


FIRST, SECOND, THIRD, LAST = (f"2026-01-0{day}T00:00:00Z" for day in range(1, 5))


@pytest.mark.parametrize(
    ("paths", "writer"),
    [
        ([".data.x"], "new"),
        ([".data.z"], ""),
        ([".data.z", ".data.x"], "new"),
        ([".data"], "elsewhere"),  # of what is within it
        ([], "elsewhere"),
    ],
)
def test_the_last_other_writer_of_a_field_is_found_in_managed_fields(
    paths: Sequence[str], writer: str
) -> None:
    fields = [
        entry("me", LAST, "data", "x"),
        entry("old", FIRST, "data", "x"),
        entry("new", SECOND, "data", "x"),
        entry("elsewhere", THIRD, "data", "y"),
        entry("undated", None, "data", "x"),
        entry("", LAST, "data", "x"),
        entry(None, LAST, "data", "x"),
        {"manager": "bare", "time": LAST},
    ]
    assert writer_of([one for one in fields if paths or one.get("fieldsV1")], paths, but="me") == writer


@pytest.mark.rule("storm-told")
@pytest.mark.parametrize(
    ("owned", "path", "has"),
    [
        ({"f:spec": {"f:list": {'k:{"name":"a"}': {"f:v": {}}}}}, ".spec.list[0].v", True),
        ({"f:spec": {"f:list": {}}}, ".spec.other[0].v", False),
        ({"f:spec": {"f:all": {}}}, ".spec.all.of.it", True),
        ({"f:spec": {"f:all": {".": {}, "f:of": {}}}}, ".spec.all.it", False),
        ({"f:annotations": {"f:example.com/a.b": {}}}, ".annotations.example.com/a.b", True),
        ({"f:annotations": {"f:example.com/a": {}}}, ".annotations.example", False),
        ({"f:data": {"f:a": {"f:x": {}}, "f:a.b": {"f:y": {}}}}, ".data.a.b.y", True),
        ({"f:data": {"f:a": {}}}, ".data.ab", False),
        ({}, ".data", False),
    ],
)  # fmt: skip
def test_a_writer_owns_a_field_its_parents_and_its_children_even_if_names_contain_dots(
    owned: Mapping[str, Any], path: str, has: bool
) -> None:
    fields = [{"manager": "stranger", "time": FIRST, "fieldsV1": owned}]
    assert writer_of(fields, [path], but="me") == ("stranger" if has else "")
