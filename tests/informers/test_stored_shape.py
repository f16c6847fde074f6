"""What of an object is kept: dropped, transformed, compressed, and known to be lacking."""

import asyncio
import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from informers import APIResource, InformerOptions, Snapshot
from informers.codecs import StandardZstdCodec, ZlibCodec, ZstdCodec, codec
from informers.compression import Codec, Compression
from informers.stored_shape import StoredShape, without_managed_fields
from tests.helpers.standard_zstd import standard_zstd

SITES = APIResource("example.com", "v1", "Site", "sites")
MANAGED = {"manager": "m", "fieldsV1": {"f:spec": {".": {}}}}
TEXT = st.text(max_size=12)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
SPACING = st.sampled_from([(",", ":"), (", ", ": ")])


def encode(content: Any, spacing: tuple[str, str] = (",", ":")) -> bytes:
    return json.dumps(content, separators=spacing).encode()


@given(
    before=st.dictionaries(st.sampled_from("abc"), VALUES, max_size=2),
    after=st.dictionaries(st.sampled_from("xyz"), VALUES, max_size=2),
    managed=st.lists(VALUES, min_size=1, max_size=2),
    elsewhere=VALUES | st.just({"managedFields": [MANAGED]}) | st.just('"managedFields":[{}]'),
    spacing=SPACING,
)
def test_only_managed_fields_are_removed_in_any_formatting_of_the_object(
    before: dict[str, Any],
    after: dict[str, Any],
    managed: list[Any],
    elsewhere: Any,
    spacing: tuple[str, str],
) -> None:
    body = {"metadata": {**before, "managedFields": managed, **after, "name": "n"}, "spec": elsewhere}
    kept = json.loads(without_managed_fields(encode(body, spacing), encode(managed, spacing)))
    del body["metadata"]["managedFields"]
    assert kept == body


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        # Cut out with one comma: to the byte the rest is what the server sent.
        (b'{"metadata": {"name":"a","managedFields":[{}], "x":1} }', b'{"metadata": {"name":"a", "x":1} }'),
        (b'{"metadata": {"managedFields":[{}],"name":"a"} }', b'{"metadata": {"name":"a"} }'),
        (b'{"metadata": {"name":"a","managedFields":[{}]} }', b'{"metadata": {"name":"a"} }'),
        # Taken apart, where it stands alone, in two places or with a space.
        (b'{"metadata": {"managedFields":[{}]} }', b'{"metadata":{}}'),
        (
            b'{"spec":{"n":1,"managedFields":[{}]}, "metadata":{"name":"a","managedFields":[{}]}}',
            b'{"spec":{"n":1,"managedFields":[{}]},"metadata":{"name":"a"}}',
        ),
        (b'{"metadata":{"name":"a", "managedFields": [{}]} }', b'{"metadata":{"name":"a"}}'),
    ],
)
def test_managed_fields_are_cut_out_where_possible(body: bytes, kept: bytes) -> None:
    assert StoredShape().keep(body, b"[{}]") == kept
    assert StoredShape(drop=()).keep(body, b"[{}]") == body
    assert StoredShape().keep(body, b"") == body


CODECS = [ZlibCodec, ZstdCodec, lambda: StandardZstdCodec(standard_zstd())]


@pytest.mark.parametrize("made", CODECS)
@given(values=st.lists(VALUES, min_size=1, max_size=5))
def test_compressed_content_is_restored_exactly(made: Callable[[], Codec], values: list[Any]) -> None:
    codec = made()
    bodies = [encode({"metadata": {"name": "a"}, "spec": value}) for value in values]
    packed = [codec.pack(body) for body in bodies]
    assert [codec.unpack(one) for one in packed] == bodies


@pytest.mark.parametrize("made", CODECS)
def test_bodies_can_be_read_in_several_threads_at_once(made: Callable[[], Codec]) -> None:
    codec = made()
    bodies = [encode({"metadata": {"name": str(number)}, "spec": "x" * number}) for number in range(200)]
    packed = [codec.pack(body) for body in bodies]
    with ThreadPoolExecutor(8) as pool:
        read = pool.map(lambda _: [codec.unpack(one) for one in packed], range(40))
        assert all(one == bodies for one in read)


def test_the_extra_zstd_goes_before_the_standard_librarys_and_that_before_zlib(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    standard = standard_zstd()
    assert isinstance(codec(), ZstdCodec)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    monkeypatch.setitem(sys.modules, "compression.zstd", standard)
    assert isinstance(codec(), StandardZstdCodec)
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    assert isinstance(codec(), ZlibCodec)


@pytest.mark.parametrize("made", CODECS)
def test_a_compressed_snapshot_reads_like_any_other_and_takes_less_memory(made: Callable[[], Codec]) -> None:
    settings = {f"setting-{number}": "always the same" for number in range(50)}
    body = encode({"metadata": {"name": "a", "resourceVersion": "1", "labels": {"x": "y"}}, "spec": settings})
    shape = StoredShape(compression=Compression(made()))
    Snapshot.from_json(body, shape)
    packed = Snapshot.from_json(body, shape)
    assert packed.raw == body
    assert packed.to_dict()["spec"] == settings
    assert packed.labels == {"x": "y"}
    assert packed.size < len(body) / 10


@pytest.mark.parametrize(
    "uid", ["", "a", "0c7d7b1e-5b1c-4a3e-9d0a-00ff00ff00ff", "0C7D7B1E-5B1C-4A3E-9D0A-00FF00FF00FF"]
)
def test_a_uid_is_restored_exactly_as_it_was_written(uid: str) -> None:
    assert Snapshot.from_json(encode({"metadata": {"name": "a", "uid": uid}})).uid == uid


def test_pointers_are_dropped_and_the_store_knows_that_it_lacks_them() -> None:
    shape = StoredShape(drop=("/data", "/metadata/annotations/a~1b"))
    body = {"metadata": {"name": "a", "annotations": {"a/b": "1", "c": "2"}}, "data": {"k": "v"}, "type": "T"}
    kept = Snapshot.from_json(encode(body), shape).to_dict()
    assert kept == {"metadata": {"name": "a", "annotations": {"c": "2"}}, "type": "T"}
    assert [shape.lacks(pointer) for pointer in ("/data/k", "/data", "", "/metadata/annotations")] == [
        True
    ] * 4
    assert [shape.lacks(pointer) for pointer in ("/type", "/metadata/annotations/c")] == [False] * 2


def test_a_transform_changes_the_stored_object_and_declares_the_changed_paths() -> None:
    shape = StoredShape(
        transform=lambda content: {**content, "spec": {"n": content["spec"]["n"]}}, transformed=("/spec",)
    )
    kept = Snapshot.from_json(encode({"metadata": {"name": "a"}, "spec": {"n": 1, "m": 2}}), shape)
    assert kept.to_dict()["spec"] == {"n": 1}
    assert shape.lacks("/spec/m")
    assert not shape.lacks("/status")
    assert StoredShape(transform=lambda content: content).lacks("/status")


def cancelled(content: Any) -> Any:
    raise asyncio.CancelledError


@pytest.mark.rule("survival-functions")
@pytest.mark.parametrize(
    "transform",
    [
        lambda content: content["nothing"],
        lambda content: None,
        lambda content: {"metadata": {"name": "b"}},
        lambda content: {**content, "odd": object()},
        cancelled,
    ],
)
def test_an_object_whose_transform_fails_is_stored_whole_and_named_in_the_log(
    transform: Any, caplog: pytest.LogCaptureFixture
) -> None:
    shape = StoredShape(transform=transform)
    kept = Snapshot.from_json(encode({"metadata": {"name": "a"}, "spec": {"n": 1}}), shape)
    assert (kept.key.name, kept.to_dict()["spec"]) == ("a", {"n": 1})
    (line,) = caplog.records
    assert vars(line)["event"] == "a transform failed; the object is kept whole"
    assert (vars(line)["object"], bool(line.exc_info)) == ("a", True)


def test_with_metadata_only_everything_else_is_lacking() -> None:
    shape = InformerOptions(metadata_only=True).shape(SITES)
    assert shape.lacks("/spec")
    assert not shape.lacks("/metadata/labels")


def test_an_invalid_pointer_is_refused_in_the_options() -> None:
    with pytest.raises(ValueError, match="'data' is not a JSON pointer"):
        InformerOptions(drop=["data"]).shape(SITES)


@pytest.mark.rule("K5")
@given(
    st.fixed_dictionaries({}, optional={"labels": TEXT, "fields": TEXT, "compress": st.booleans()}),
    st.fixed_dictionaries({}, optional={"labels": TEXT, "fields": TEXT, "compress": st.booleans()}),
)
def test_unset_options_come_from_the_level_above_and_set_ones_stay(
    said: dict[str, Any], defaults: dict[str, Any]
) -> None:
    assert InformerOptions(**said).over(InformerOptions(**defaults)) == InformerOptions(
        **{**defaults, **said}
    )
