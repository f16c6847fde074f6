"""A snapshot: what is read of an object, what is shared, and when two are the same state."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from informers import Snapshot
from informers import snapshot as module
from informers.codecs import ZlibCodec
from informers.compression import Compression
from informers.snapshot import SnapshotOwner
from informers.stored_shape import EVERYTHING_BUT_MANAGED_FIELDS, StoredShape

TYPE_META = b'"kind":"Pod","apiVersion":"v1",'


@pytest.fixture(autouse=True)
def _nothing_shared_yet() -> None:
    """What another test has read already is read again."""
    module._traits.clear()


def read(
    shape: StoredShape = EVERYTHING_BUT_MANAGED_FIELDS, /, spec: Any = None, **metadata: Any
) -> Snapshot:
    content = {"metadata": {"name": "a", "resourceVersion": "1", **metadata}, "spec": spec}
    return Snapshot.from_json(json.dumps(content).encode(), shape)


def owner(api_version: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": "Thing", "name": "o", "uid": "u", **more}


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({}, ({}, (), ())),
        ({"labels": None, "ownerReferences": None, "finalizers": None}, ({}, (), ())),
        ({"labels": {}, "ownerReferences": [], "finalizers": []}, ({}, (), ())),
        ({"labels": {"x": "y"}, "finalizers": ["f/g", "h"]}, ({"x": "y"}, (), ("f/g", "h"))),
        (
            {"ownerReferences": [owner("v1"), owner("apps/v1", controller=True)]},
            (
                {},
                (SnapshotOwner("", "Thing", "o", "u", False), SnapshotOwner("apps", "Thing", "o", "u", True)),
                (),
            ),
        ),
        (
            {"ownerReferences": [owner("", controller=False)]},
            ({}, (SnapshotOwner("", "Thing", "o", "u", False),), ()),
        ),
    ],
)
def test_labels_owners_and_finalizers_are_those_of_the_object(
    metadata: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    snapshot = read(**metadata)
    assert (snapshot.labels, snapshot.owners, snapshot.finalizers) == expected


@pytest.mark.parametrize(
    "metadata",
    [{"labels": {"x": 1}}, {"labels": []}, {"ownerReferences": {}}, {"finalizers": [1]}, {"name": None}],
)
def test_metadata_of_the_wrong_type_is_an_error(metadata: dict[str, Any]) -> None:
    for _ in range(2):
        with pytest.raises(msgspec.ValidationError):
            read(**metadata)


@pytest.mark.parametrize(
    ("text", "version"), [("7", 7), ("0", 0), ("", 0), ("abc", 0), ("-1", 0), ("\N{SUPERSCRIPT TWO}", 0)]
)
def test_a_version_that_is_not_a_number_is_0(text: str, version: int) -> None:
    assert read(resourceVersion=text).version == version


def test_values_common_to_many_objects_are_stored_once() -> None:
    metadata = {
        "namespace": "n" * 5,
        "labels": {"x": "y"},
        "ownerReferences": [owner("v1")],
        "finalizers": ["f"],
    }
    one, other = read(**metadata), read(**metadata)
    assert one.namespace is other.namespace
    assert one.owners is other.owners
    assert one.finalizers is other.finalizers


def test_the_cache_of_shared_values_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHARED", 3)
    held = []
    for number in range(8):
        read(namespace=str(number), labels={"n": str(number)})
        held.append(len(module._traits))
    assert held == [1, 2, 3, 1, 2, 3, 1, 2]


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        (b'{"metadata":{"name":"a"}}', b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}'),
        (b' { "metadata":{"name":"a"}}', b'{"kind":"Pod","apiVersion":"v1", "metadata":{"name":"a"}}'),
        (b'{"kind":"Other","metadata":{"name":"a"}}', b'{"kind":"Other","metadata":{"name":"a"}}'),
    ],
)
def test_an_item_without_a_kind_gets_that_of_its_resource(body: bytes, kept: bytes) -> None:
    assert Snapshot.from_json(body, StoredShape(type_meta=TYPE_META)).raw == kept
    assert Snapshot.from_json(body).raw == body


def test_a_change_of_annotations_is_detected_without_storing_them() -> None:
    hashes = [read(annotations=said).annotations_hash for said in ({"a": "1"}, {"a": "1"}, {"a": "2"}, {})]
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3


def test_states_of_one_object_have_the_same_uid() -> None:
    assert read(uid="u", resourceVersion="1").is_same_object(read(uid="u", resourceVersion="2"))
    assert not read(uid="u").is_same_object(read(uid="v"))


def test_snapshots_of_different_objects_and_versions_have_different_hashes() -> None:
    many = [read(name=name, resourceVersion=str(version)) for name in "abc" for version in range(3)]
    assert len({hash(snapshot) for snapshot in many}) == len(many)


@pytest.mark.rule("inv-29")
def test_equal_states_are_equal_in_any_formatting_and_compression() -> None:
    first = read(spec={"n": 1})
    spaced = Snapshot.from_json(b' {"metadata": {"resourceVersion":"1","name":"a"},"spec": {"n":1}}')
    assert first.same_as(first)
    assert first.same_as(read(spec={"n": 1}))
    assert first.same_as(spaced)
    assert first.same_as(read(StoredShape(compression=Compression(ZlibCodec())), spec={"n": 1}))
    assert not first.same_as(read(spec={"n": 2}))
    assert not first.same_as(read(spec={"n": 1}, resourceVersion="2"))


def test_bodies_of_two_codecs_are_compared_by_content_and_not_by_bytes() -> None:
    # The first body of a codec is its dictionary: all that its bytes say is "all of that".
    one = read(StoredShape(compression=Compression(ZlibCodec())), spec={"n": 1})
    other = read(StoredShape(compression=Compression(ZlibCodec())), spec={"n": 2})
    assert one._record[-one.size :] == other._record[-other.size :]
    assert not one.same_as(other)


TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
UIDS = TEXTS | st.uuids().map(str) | st.just("x" * 16) | st.just("\0" * 33)
SHAPES = (
    EVERYTHING_BUT_MANAGED_FIELDS,
    StoredShape(compression=Compression(ZlibCodec())),
    StoredShape(drop=("/metadata/labels",)),
    StoredShape(type_meta=TYPE_META),
)


@given(
    metadata=st.fixed_dictionaries(
        {"uid": UIDS, "generation": st.none() | st.integers(-5, 2**63 - 1)},
        optional={"labels": st.dictionaries(TEXTS, TEXTS, max_size=2), "namespace": TEXTS},
    ),
    spec=TEXTS | st.just({"labels": {"x": "y"}}),
    spacing=st.sampled_from([(",", ":"), (", ", ": ")]),
    shape=st.sampled_from(SHAPES),
    marks=st.binary(max_size=30),
)
def test_what_is_packed_into_one_piece_of_bytes_is_read_as_it_was(
    metadata: dict[str, Any], spec: Any, spacing: tuple[str, str], shape: StoredShape, marks: bytes
) -> None:
    content = {"spec": spec, "metadata": {"name": "a", "resourceVersion": "1", **metadata}}
    plain = Snapshot.from_json(json.dumps(content, separators=spacing).encode(), shape)
    for snapshot in (plain, plain.with_marks(b"other").with_marks(marks)):
        assert snapshot.uid == metadata["uid"]
        assert snapshot.generation == metadata["generation"]
        assert snapshot.labels == metadata.get("labels", {})
        assert snapshot.namespace == metadata.get("namespace", "")
        assert snapshot.to_dict()["spec"] == spec
        assert snapshot.raw == plain.raw
        assert snapshot.size == plain.size
        assert snapshot.same_as(plain)
    assert snapshot.applied == marks


@pytest.mark.parametrize("generation", [2**63, -(2**63), 10**30])
def test_a_generation_that_no_server_counts_to_is_an_error(generation: int) -> None:
    with pytest.raises(msgspec.ValidationError):
        read(generation=generation)
