"""What a store keeps of managedFields: marks that equal an intent's as long as it is what was applied."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from informers import APIResource, Informer, InformerOptions, Key, Snapshot, Store
from informers.applied import MARK, NOTHING, Appliers, mark_in, mark_of_intent, with_marks
from informers.stored_shape import StoredShape

RECORDED = json.loads(Path(__file__).with_name("recorded_applies.json").read_text())
"""Answers of kube-apiserver 1.36 to applies of 28 built-in kinds."""
THINGS = APIResource("example.com", "v1", "Thing", "things")
FIELDS = {"f:spec": {"f:size": {}}}
INTENT = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"size": 1}}


def entry(fields: Any, manager: str = "m", **more: str) -> dict[str, Any]:
    head = {
        "manager": manager,
        "operation": "Apply",
        "apiVersion": "example.com/v1",
        "fieldsType": "FieldsV1",
    }
    return {**head, "fieldsV1": fields, **more}


def thing(*entries: Any, version: int = 1, name: str = "a", **members: Any) -> bytes:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": str(version)}
    metadata |= members.pop("metadata", {})
    if entries:
        metadata["managedFields"] = entries  # type: ignore[assignment]
    return msgspec.json.encode(
        {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": metadata, **members}
    )


def marks(raw: bytes, *managers: str) -> bytes:
    return Snapshot.from_json(raw, appliers=Appliers("example.com/v1", managers or ("m",))).applied


def holds(fields: Any, live: dict[str, Any], intent: dict[str, Any]) -> bool:
    """Whether an object of which these fields are applied equals that intent."""
    return marks(thing(entry(fields), **live)) == mark_of_intent("m", "", intent)


# --- marks ------------------------------------------------------------------------------------------


@pytest.mark.rule("write-7")
@pytest.mark.parametrize("case", RECORDED, ids=[case["name"] for case in RECORDED])
def test_the_answer_of_a_real_server_to_an_apply_has_the_mark_of_the_intent(case: dict[str, Any]) -> None:
    answer, manager = case["answer"], case["manager"]
    intent = {name: value for name, value in case["intent"].items() if name != "status"}
    appliers = Appliers(answer["apiVersion"], [manager])
    found = appliers.marks(
        msgspec.json.encode(answer), msgspec.json.encode(answer["metadata"]["managedFields"])
    )
    assert found == mark_of_intent(manager, "", intent)
    changed = {**intent, "metadata": {**intent["metadata"], "labels": {"changed": "yes"}}}
    assert found != mark_of_intent(manager, "", changed)


def test_a_mark_is_small_and_an_object_has_one_per_manager_and_subresource() -> None:
    status = {"status": {"phase": "Up"}}
    raw = thing(
        entry(FIELDS),
        entry(FIELDS, "other"),
        entry({"f:status": {"f:phase": {}}}, subresource="status"),
        entry(FIELDS, operation="Update"),
        spec={"size": 1},
        **status,
    )
    found = marks(raw)
    assert len(found) == 2 * MARK == 30
    assert mark_in(found, of_spec := mark_of_intent("m", "", INTENT)) == of_spec
    assert mark_in(found, of_status := mark_of_intent("m", "status", status)) == of_status
    assert mark_in(found, mark_of_intent("other", "", INTENT)).endswith(NOTHING)
    assert len(marks(raw, "m", "other")) == 3 * MARK


@pytest.mark.parametrize(
    ("fields", "live", "intent"),
    [
        (FIELDS, {"spec": {"size": 1, "foreign": 2}}, {"spec": {"size": 1}}),
        ({"f:spec": {"f:blob": {}}}, {"spec": {"blob": {"a": [1, {}]}}}, {"spec": {"blob": {"a": [1, {}]}}}),
        ({"f:spec": {"f:a": {}, "f:b": {}}}, {"spec": {"b": 1, "a": None}}, {"spec": {"a": None, "b": 1}}),
        (
            {"f:spec": {"f:tags": {'v:"a"': {}, "v:2": {}}}},
            {"spec": {"tags": [3, 2, "b", "a"]}},
            {"spec": {"tags": [2, "a"]}},
        ),
        (
            {
                "f:spec": {
                    "f:ports": {
                        'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}, "f:name": {}},
                        'k:{"port":80,"protocol":"UDP"}': {".": {}, "f:port": {}, "f:protocol": {}},
                    }
                }
            },
            {
                "spec": {
                    "ports": [
                        {"port": 80, "protocol": "UDP", "name": "foreign"},
                        {"port": 81, "protocol": "TCP"},
                        {"port": 80, "protocol": "TCP", "name": "web"},
                    ]
                }
            },
            {"spec": {"ports": [{"port": 80, "protocol": "UDP"}, {"port": 80, "name": "web"}]}},
        ),
        (
            {"f:metadata": {"f:ownerReferences": {'k:{"uid":"u"}': {}}, "f:finalizers": {'v:"x/y"': {}}}},
            {
                "metadata": {
                    "ownerReferences": [{"uid": "v"}, {"uid": "u", "x": 1}],
                    "finalizers": ["x/y", "z"],
                }
            },
            {"metadata": {"name": "a", "ownerReferences": [{"uid": "u", "x": 1}], "finalizers": ["x/y"]}},
        ),
        (
            {"f:metadata": {"f:labels": {}}},
            {"metadata": {"labels": {"foreign": "1"}}},
            {"metadata": {"labels": {}}},
        ),
        ({"f:metadata": {"f:annotations": {}}}, {}, {"metadata": {"annotations": {}}}),
    ],
)
def test_the_owned_part_of_an_object_is_what_was_applied(
    fields: Any, live: dict[str, Any], intent: dict[str, Any]
) -> None:
    assert holds(fields, live, intent)


@pytest.mark.parametrize(
    ("fields", "live", "intent"),
    [
        (FIELDS, {"spec": {"size": 2}}, {"spec": {"size": 1}}),  # the value is another
        (FIELDS, {"spec": {"size": 1}}, {"spec": {"size": 1, "more": 2}}),  # not applied yet, or taken over
        ({"f:spec": {"f:a": {}, "f:b": {}}}, {"spec": {"a": 1, "b": 2}}, {"spec": {"a": 1}}),  # dropped
        (FIELDS, {"spec": {}}, {"spec": {}}),
        (FIELDS, {"spec": {"size": True}}, {"spec": {"size": 1}}),
        (
            {"f:spec": {"f:tags": {'v:"a"': {}, 'v:"b"': {}}}},
            {"spec": {"tags": ["b", "a"]}},
            {"spec": {"tags": ["a", "b"]}},
        ),  # an apply would change the order
        (
            {"f:spec": {"f:ports": {'k:{"port":80,"protocol":"TCP"}': {"f:port": {}}}}},
            {"spec": {"ports": [{"port": 80}]}},
            {"spec": {"ports": [{"port": 80}]}},
        ),  # an item that cannot be found again
        ({"f:spec": {"f:tags": {'v:"a"': {}}}}, {"spec": {"tags": "a"}}, {"spec": {"tags": ["a"]}}),
        ({"f:spec": {"i:0": {}}}, {"spec": [1]}, {"spec": [1]}),
    ],
)
def test_an_intent_that_would_change_something_has_another_mark(
    fields: Any, live: dict[str, Any], intent: dict[str, Any]
) -> None:
    assert not holds(fields, live, intent)


def test_a_value_stored_under_another_name_is_compared_by_all_its_neighbours() -> None:
    fields = {"f:stringData": {"f:x": {}}}

    def stored(value: str, **metadata: Any) -> bytes:
        return marks(thing(entry(fields), data={"x": value}, metadata=metadata, status={"n": value}))

    assert stored("MQ==") == stored("MQ==", resourceVersion="7", generation=3, labels={"a": "b"})
    assert stored("MQ==") != stored("Mg==")


@pytest.mark.parametrize(
    "raw",
    [
        thing(spec={"size": 1}),
        thing(entry(FIELDS, "other"), spec={"size": 1}),
        thing(entry(FIELDS, operation="Update"), spec={"size": 1}),
        thing(3, "m", "Apply"),
    ],
)
def test_fields_not_applied_by_the_manager_or_unreadable_have_no_mark(raw: bytes) -> None:
    assert marks(raw) == b""


def test_fields_applied_in_another_version_match_no_intent() -> None:
    found = marks(thing(entry(FIELDS, apiVersion="example.com/v1beta1"), spec={"size": 1}))
    assert found not in (b"", mark_of_intent("m", "", INTENT))
    assert not mark_in(found, mark_of_intent("m", "", {})).endswith(NOTHING)


@pytest.mark.parametrize(
    "fields", ["not a field set", 3, {"f:spec": {"k:not json": {}}}, {"f:spec": {"f:a": {}}}]
)
def test_an_unreadable_entry_matches_no_intent_and_hides_no_other(fields: Any) -> None:
    status = entry({"f:status": {"f:phase": {}}}, subresource="status")
    found = marks(thing(entry(fields), status, spec=[1], status={"phase": "Up"}))
    of_status = mark_of_intent("m", "status", {"status": {"phase": "Up"}})
    assert len(found) == 2 * MARK
    assert mark_in(found, of_status) == of_status
    assert mark_in(found, mark_of_intent("m", "", {})) not in (
        mark_of_intent("m", "", {"spec": [1]}),
        NOTHING,
    )


def test_new_marks_of_a_manager_replace_its_older_ones() -> None:
    one, two = mark_of_intent("m", "", {"spec": {"a": 1}}), mark_of_intent("m", "", {"spec": {"a": 2}})
    other = mark_of_intent("n", "", {"spec": {"a": 1}})
    assert with_marks(one + other, two) == other + two
    assert with_marks(b"", two) == two


# --- where they are kept ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape",
    [
        StoredShape(drop=("/metadata/managedFields", "/spec")),
        StoredShape(transform=lambda obj: {"metadata": {**obj["metadata"], "managedFields": []}}),
    ],
)
def test_a_mark_is_computed_before_anything_is_dropped(shape: StoredShape) -> None:
    raw = thing(entry(FIELDS), spec={"size": 1})
    kept = Snapshot.from_json(raw, shape, Appliers("example.com/v1", ["m"]))
    assert kept.applied == mark_of_intent("m", "", INTENT)
    assert b"size" not in kept.raw
    assert b"f:spec" not in kept.raw


def following(**options: Any) -> Informer:
    return Informer(None, THINGS, options=InformerOptions(**options))  # type: ignore[arg-type]


def test_an_informer_computes_marks_only_for_requested_managers() -> None:
    informer = following()
    raw = thing(entry(FIELDS), spec={"size": 1})
    assert informer._read(raw).applied == b""
    assert informer.mark_applies("m")
    assert informer._read(raw).applied == mark_of_intent("m", "", INTENT)


def test_objects_stored_earlier_do_not_prove_that_a_manager_owns_nothing() -> None:
    informer = following()
    assert [informer.mark_applies("m") for _ in range(2)] == [True, True]
    informer.store.replace([informer._read(thing())], 1)
    assert [informer.mark_applies("late") for _ in range(2)] == [False, False]
    assert informer.mark_applies("m")


def test_metadata_alone_cannot_be_marked() -> None:
    informer = following(metadata_only=True)
    assert not informer.mark_applies("m")
    assert informer._read(thing(entry(FIELDS))).applied == b""


# --- beside the objects of a store --------------------------------------------------------------------

A = Key("default", "a")


def filled(*names: str) -> Store:
    store = Store()
    store.replace([Snapshot.from_json(thing(name=name)) for name in names], 1)
    return store


def test_a_note_is_kept_as_long_as_its_object_exists() -> None:
    store = filled("a", "b")
    store.note(A, b"known")
    store.put(Snapshot.from_json(thing(version=2)))
    assert (store.noted(A), store.noted(Key("default", "b"))) == (b"known", b"")
    store.remove(Snapshot.from_json(thing(version=3)))
    assert store.noted(A) == b""


def test_a_note_survives_a_list_that_contains_its_object() -> None:
    store = filled("a", "b")
    store.note(A, b"known")
    store.note(Key("default", "b"), b"known")
    store.replace([Snapshot.from_json(thing(version=2))], 2)
    assert (store.noted(A), store.noted(Key("default", "b"))) == (b"known", b"")


def test_a_note_can_precede_its_object_and_be_removed_again() -> None:
    store = filled()
    store.note(A, b"known")
    store.put(Snapshot.from_json(thing(version=2)))
    assert store.noted(A) == b"known"
    store.note(A, b"")
    assert store.noted(A) == b""


def test_a_namespace_outside_the_store_has_no_notes() -> None:
    store = Store(["other"])
    store.note(A, b"known")
    assert store.noted(A) == b""


def test_an_answer_marks_only_the_stored_state() -> None:
    store = filled("a")
    appliers = Appliers("example.com/v1", ["m"])
    newer = Snapshot.from_json(thing(entry(FIELDS), version=2, spec={"size": 1}), appliers=appliers)
    same = Snapshot.from_json(thing(entry(FIELDS), version=1, spec={"size": 1}), appliers=appliers)
    store.mark(newer)
    assert [snapshot.applied for snapshot in store] == [b""]
    store.mark(same)
    assert [snapshot.applied for snapshot in store] == [same.applied]
    Store(["other"]).mark(same)
    filled().mark(same)
