"""The traces of a kopf operator on objects, compared with what kopf's own storages write."""

import copy
import json
from collections.abc import Mapping
from typing import Any, cast

import kopf
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.predecessors.kopf_progress import RECORD_BYTES, progress_in_annotation, progress_in_status
from reconcile.predecessors.kopf_traces import (
    KopfTraces,
    ObjectTraces,
    prefixes_in_use,
    release,
    removal,
    status_removal,
    traces_on,
)

NAMES = KopfTraces()
SECRET = "cGFzc3dvcmQ="
STARTED = "2026-11-23T10:00:00+00:00"

prefixes = st.sampled_from(
    ["kopf.zalando.org", "ops.example.com", "a" * 40 + ".example.com", "b" * 58 + ".io", "c" * 63 + ".org"]
)
handlers = st.from_regex(r"[a-z][a-z0-9_]{0,30}(/[a-z][a-z0-9_.]{0,40}){0,2}", fullmatch=True)


short_handlers = st.from_regex(r"[a-z][a-z0-9_/.]{0,50}[a-z]", fullmatch=True)


def stored(prefix: str, handlers: Mapping[str, Mapping[str, Any]], kind: str = "Site") -> dict[str, Any]:
    """An object as kopf's storages leave it, with records of these handlers."""
    metadata: dict[str, Any] = {"annotations": {"mine": "1"}}
    obj: dict[str, Any] = {"kind": kind, "metadata": metadata, "spec": {"token": SECRET}}
    if kind == "ReplicaSet":
        metadata["ownerReferences"] = [{"kind": "Deployment"}]
    body, patch = kopf.Body(obj), kopf.Patch()
    progress = kopf.AnnotationsProgressStorage(prefix=prefix)
    for handler, record in handlers.items():
        progress.store(key=handler, record=cast(Any, record), body=body, patch=patch)
    progress.touch(body=body, patch=patch, value=STARTED)
    base = kopf.AnnotationsDiffBaseStorage(prefix=prefix)
    base.store(body=body, patch=patch, essence=base.build(body=body))
    metadata["annotations"].update(json.loads(json.dumps(dict(patch)))["metadata"]["annotations"])
    return obj


@given(prefix=prefixes, ids=st.lists(handlers, min_size=1, max_size=4, unique=True))
def test_every_annotation_that_kopf_writes_is_found_and_nothing_else(prefix: str, ids: list[str]) -> None:
    obj = stored(prefix, {name: {"started": STARTED, "purpose": "create", "retries": 1} for name in ids})
    obj["metadata"]["annotations"][f"{prefix}/of-the-author"] = '{"started": "2020", "by": "me"}'
    found = traces_on(obj, KopfTraces(prefix=prefix))

    left = set(obj["metadata"]["annotations"]) - set(found.annotations)

    assert left == {"mine", f"{prefix}/of-the-author"}
    assert found.last_handled
    assert prefixes_in_use(obj) == (prefix,)


@given(
    prefix=prefixes, ids=st.sets(st.from_regex(r"[a-z][a-z0-9_/.]{0,50}[a-z]", fullmatch=True), min_size=1)
)
def test_each_handler_is_reported_once_although_kopf_writes_it_twice(prefix: str, ids: set[str]) -> None:
    names = {name.replace("/", "."): name for name in ids}
    records = {name: {"started": STARTED, "retries": index} for index, name in enumerate(names.values())}
    found = traces_on(stored(prefix, records), KopfTraces(prefix=prefix))

    assert sorted(record.handler for record in found.progress) == sorted(names)


def test_annotations_of_a_replica_set_of_a_deployment_are_found() -> None:
    obj = stored("ops.example.com", {"fn": {"started": STARTED}}, kind="ReplicaSet")
    found = traces_on(obj, KopfTraces(prefix="ops.example.com"))

    assert len(found.annotations) == len(obj["metadata"]["annotations"]) - 1  # without the author's
    assert any(name.endswith("-ofDRS") for name in found.annotations)


def test_the_copy_of_a_secret_is_gone_with_the_annotations() -> None:
    obj = stored("kopf.zalando.org", {})
    assert SECRET in json.dumps(obj["metadata"])

    patch = removal(traces_on(obj, NAMES), NAMES)
    for name, value in patch["metadata"]["annotations"].items():
        assert value is None
        del obj["metadata"]["annotations"][name]

    assert SECRET not in json.dumps(obj["metadata"])
    assert not traces_on(obj, NAMES)
    assert removal(ObjectTraces(), NAMES) == {}


@pytest.mark.parametrize(
    ("record", "half"),
    [
        ({"purpose": "create", "retries": 1}, True),
        ({"purpose": "create", "retries": 3, "delayed": STARTED, "failure": False}, True),
        ({"purpose": "create", "success": True, "stopped": STARTED}, False),
        ({"purpose": "create", "failure": True, "stopped": STARTED}, False),
        ({"purpose": "update", "retries": 1}, False),
        ({"purpose": "delete", "retries": 1}, False),
        ({"retries": 1}, True),  # kopf once wrote no purpose: nothing was ever handled here
    ],
)
def test_an_object_is_half_created_while_a_handler_of_its_creation_is_unfinished(
    record: dict[str, Any], half: bool
) -> None:
    value = json.dumps({"started": STARTED, **record})
    obj = {"metadata": {"annotations": {"kopf.zalando.org/create_fn": value}}}
    found = traces_on(obj, NAMES)

    assert [handler.handler for handler in found.half_created] == ["create_fn"] * half


def test_an_object_that_kopf_holds_without_a_word_may_have_begun_until_it_is_released() -> None:
    obj: dict[str, Any] = {"metadata": {"finalizers": [NAMES.finalizer], "annotations": {}}}
    found = traces_on(obj, NAMES)
    assert found.begun
    assert found.half_created == ()

    record = json.dumps({"started": STARTED, "purpose": "create"})
    obj["metadata"]["annotations"] = {f"{NAMES.prefix}/fn": record}
    found = traces_on(obj, NAMES)
    assert not found.begun

    patch = release(found, NAMES)
    assert patch == {f"{NAMES.prefix}/fn": None, f"{NAMES.prefix}/last-handled-configuration": "{}"}
    obj["metadata"]["annotations"] = {name: value for name, value in patch.items() if value is not None}
    found = traces_on(obj, NAMES)
    assert not found.begun
    assert found.half_created == ()
    assert release(found, NAMES) == {}


def test_a_record_without_purpose_is_of_an_update_once_the_object_was_handled() -> None:
    obj = stored("kopf.zalando.org", {"fn": {"started": STARTED, "retries": 1}})

    assert traces_on(obj, NAMES).progress[0].unfinished
    assert traces_on(obj, NAMES).half_created == ()


def test_progress_in_the_status_counts_and_goes() -> None:
    record = {"started": STARTED, "purpose": "create", "retries": 0, "subrefs": ["fn/a", "fn/b"]}
    status: dict[str, Any] = {"kopf": {"progress": {"fn": record}, "dummy": "x"}, "create_fn": {"url": "y"}}
    found = traces_on({"status": status}, NAMES)

    assert [(handler.handler, handler.subrefs) for handler in found.half_created] == [
        ("fn", ("fn/a", "fn/b"))
    ]
    assert status_removal(found, status, NAMES) == {"status": {"kopf": None}}

    status["kopf"]["mine"] = "1"
    assert status_removal(traces_on({"status": status}, NAMES), status, NAMES) == {
        "status": {"kopf": {"progress": None, "dummy": None}}
    }


def test_values_that_others_may_read_are_named_and_never_removed() -> None:
    fields: Any = {"f:status": {"f:kopf": {}, "f:create_fn": {"f:url": {}}, "f:phase": {}}}
    entries = [
        {"manager": "kopf", "fieldsV1": fields},
        {"manager": "x", "fieldsV1": {"f:status": {"f:y": {}}}},
    ]
    found = traces_on({"metadata": {"managedFields": entries}, "status": {"create_fn": {}}}, NAMES)

    assert found.results == ("create_fn", "phase")
    assert status_removal(found, {"create_fn": {}}, NAMES) == {}


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(
    value=anything, deep=st.sampled_from(["annotations", "managedFields", "finalizers", "progress", "all"])
)
def test_an_object_may_hold_anything(value: Any, deep: str) -> None:
    metadata = {"annotations": {"kopf.zalando.org/fn": value, "kopf.zalando.org/x": json.dumps(value)}}
    obj: dict[str, Any] = {"metadata": metadata, "status": {"kopf": {"progress": {"fn": value}}}}
    if deep == "progress":
        obj["status"]["kopf"]["progress"] = value
    elif deep == "all":
        obj = {"metadata": value, "status": value}
    else:
        obj["metadata"][deep] = value
    before = copy.deepcopy(obj)

    found = traces_on(obj, NAMES)

    assert found.progress == ()
    assert "kopf.zalando.org/fn" not in found.annotations
    assert removal(found, NAMES) == {}
    assert prefixes_in_use(obj) is not None
    assert repr(obj) == repr(before)


def test_a_text_that_would_exhaust_the_parser_is_no_record() -> None:
    assert progress_in_annotation("fn", '{"a":' + "[" * 100_000) is None
    assert progress_in_annotation("fn", '{"started":"%s"}' % ("x" * RECORD_BYTES)) is None
    assert progress_in_annotation("fn", '{"started":"x"}') is not None
    assert progress_in_status({"fn": {"started": 5}, "ok": {"started": "x"}}) == progress_in_status(
        {"ok": {"started": "x"}}
    )


def test_the_error_of_a_handler_is_not_in_the_text_of_its_record() -> None:
    record = progress_in_annotation("fn", json.dumps({"started": STARTED, "message": f"401 for {SECRET}"}))

    assert record is not None
    assert SECRET in record.message
    assert SECRET not in str(record)
