"""What a write changed, field by field."""

import copy
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given

from informers import Key, Snapshot, Store
from informers.stored_shape import StoredShape
from reconcile import kind_of
from reconcile.client.redaction import SecretValues
from reconcile.controller.write_details import WriteDetail
from reconcile.kinds import ConfigMap, Secret
from reconcile.status.shown_values import HIDDEN, ShownValues
from reconcile.status.write_differences import FIELDS_SHOWN, field_changes, fields_written
from tests.helpers.json_values import documents

CONFIG = kind_of(ConfigMap).resource
KEY = Key("default", "a")


def state(version: int, uid: str = "u", **members: Any) -> Snapshot:
    metadata = {"name": "a", "namespace": "default", "uid": uid, "resourceVersion": str(version)}
    metadata |= members.pop("metadata", {})
    return Snapshot.from_json(msgspec.json.encode({"kind": "ConfigMap", "metadata": metadata, **members}))


def write(before: Snapshot | None, after: Snapshot | None, **more: Any) -> WriteDetail:
    values = {"fresh": False, "secret": False, "started": 0.0, "ended": 0.0, **more}
    return WriteDetail(CONFIG, KEY, 0 if after is None else after.version, before, after, **values)


def test_the_fields_that_a_write_changed_are_shown_before_and_after() -> None:
    before = state(1, data={"size": "1", "gone": "x", "same": "y"})
    after = state(2, data={"size": "2", "new": "z", "same": "y"}, metadata={"generation": 4})
    assert fields_written(write(before, after), before, None, ShownValues()) == [
        {"path": ".data.gone", "pointer": "/data/gone", "old": '"x"', "new": ""},
        {"path": ".data.new", "pointer": "/data/new", "old": "", "new": '"z"'},
        {"path": ".data.size", "pointer": "/data/size", "old": '"1"', "new": '"2"'},
    ]


def test_a_created_object_is_shown_by_its_fields() -> None:
    after = state(2, data={"size": "2"}, metadata={"labels": {"app": "site"}, "creationTimestamp": "now"})
    assert fields_written(write(None, after, fresh=True), None, None, ShownValues()) == [
        {"path": ".data.size", "pointer": "/data/size", "old": "", "new": '"2"'},
        {"path": ".metadata.labels.app", "pointer": "/metadata/labels/app", "old": "", "new": '"site"'},
    ]


def test_nothing_is_guessed_where_the_state_before_is_not_known() -> None:
    after = state(2, data={"a": "b"})
    assert fields_written(write(None, after), None, None, ShownValues()) is None
    other = state(1, uid="other")
    assert fields_written(write(other, after), other, None, ShownValues()) is None


def test_a_write_of_a_secret_and_one_without_an_answer_show_no_fields() -> None:
    before, after = state(1, data={"a": "b"}), state(2, data={"a": "c"})
    assert fields_written(write(before, after, secret=True), before, None, ShownValues()) == ()
    assert fields_written(write(before, None), before, None, ShownValues()) == ()


def test_fields_that_the_cache_drops_are_left_out() -> None:
    store = Store(shape=StoredShape(drop=("/metadata/managedFields", "/metadata/annotations")))
    before = state(1, data={"a": "1"})
    after = state(2, data={"a": "2"}, metadata={"annotations": {"note": "always there"}})
    fields = fields_written(write(before, after), before, store, ShownValues())
    assert [one["path"] for one in fields or ()] == [".data.a"]


def test_a_secret_of_before_is_hidden_together_with_that_of_now() -> None:
    secrets = SecretValues()
    secrets.add(kind_of(Secret).resource, b'{"stringData":{"url":"new-value-of-now"}}')
    before, after = state(1, data={"line": "old-value-of-then"}), state(2, data={"line": "new-value-of-now"})
    fields = fields_written(write(before, after), before, None, ShownValues(secrets.redact))
    assert fields == [
        {"path": ".data.line", "pointer": "/data/line", "old": f'"{HIDDEN}"', "new": f'"{HIDDEN}"'}
    ]


def test_a_value_beside_a_name_that_tells_of_a_secret_is_hidden() -> None:
    def env(value: str) -> dict[str, Any]:
        return {"containers": [{"name": "web", "env": [{"name": "API_TOKEN", "value": value}]}]}

    before, after = state(1, spec=env("first-one")), state(2, spec=env("second-one"))
    assert fields_written(write(before, after), before, None, ShownValues()) == [
        {
            "path": ".spec.containers[0].env[0].value",
            "pointer": "/spec/containers/0/env/0/value",
            "old": f'"{HIDDEN}"',
            "new": f'"{HIDDEN}"',
        }
    ]


def test_of_many_fields_the_first_are_shown() -> None:
    before = state(1, data={f"k{number:03}": "a" for number in range(100)})
    after = state(2, data={f"k{number:03}": "b" for number in range(100)})
    fields = fields_written(write(before, after), before, None, ShownValues())
    assert fields is not None
    assert len(fields) == FIELDS_SHOWN


@pytest.mark.parametrize("value", [True, 1, 1.0, "1", [1], {"a": 1}, [], {}])
def test_each_type_of_value_can_come_and_go(value: Any) -> None:
    for old, new in (({}, {"a": value}), ({"a": value}, {})):
        (change,) = field_changes(old, new)
        inner = value["a"] if isinstance(value, dict) and value else value
        assert inner in (change.old, change.new)


@given(documents, documents)
def test_the_changes_lead_from_one_object_to_the_other(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert not [*field_changes(old, old)]
    result = copy.deepcopy(old)
    for change in field_changes(old, new):
        put(result, change.steps, change.new)
    assert canonical(result) == canonical(new)


def put(target: Any, steps: Sequence[str | int], value: Any) -> None:
    *above, last = steps
    for step in above:
        if isinstance(target, dict):
            target[step] = target.get(step) or {}
        elif target[step] is None:
            target[step] = {}
        target = target[step]
    target[last] = copy.deepcopy(value)


def canonical(value: Any) -> Any:
    """Without null and without what is empty, as the fields of people's objects are."""
    if isinstance(value, dict):
        kept = {name: inner for name in sorted(value) if (inner := canonical(value[name])) not in (None, {})}
        return kept or None
    if isinstance(value, list):
        return [canonical(inner) for inner in value]
    return None if value is None else (type(value), value)
