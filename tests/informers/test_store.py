"""The store: one snapshot per key, indexes that are never behind, replacements in one step."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from informers import Key, Snapshot, Store


def snapshot(name: str, version: int, *, uid: str = "", owner: str = "", **more: Any) -> Snapshot:
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": more.pop("namespace", "ns"),
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(version),
        **more,
    }
    if owner:
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": owner, "controller": True}
        metadata["ownerReferences"] = [reference]
    return Snapshot.from_json(json.dumps({"metadata": metadata, "spec": {"n": version}}).encode())


def names(snapshots: Any) -> list[str]:
    return sorted(s.key.name for s in snapshots)


def test_a_snapshot_reads_the_metadata_that_routing_needs() -> None:
    read = snapshot(
        "a",
        7,
        owner="o",
        labels={"x": "y"},
        generation=3,
        finalizers=["f/g"],
        deletionTimestamp="2026-01-01T00:00:00Z",
    )
    assert (read.key, read.uid, read.version, read.generation) == (Key("ns", "a"), "uid-a", 7, 3)
    assert read.labels == {"x": "y"}
    assert read.finalizers == ("f/g",)
    assert read.terminating
    assert read.controller is not None
    assert (read.controller.group, read.controller.kind, read.controller.uid) == ("", "ConfigMap", "o")


@pytest.mark.rule("K4")
def test_changes_to_a_decoded_object_stay_with_their_reader() -> None:
    read = snapshot("a", 1)
    read.to_dict()["spec"]["n"] = 99
    assert read.to_dict()["spec"]["n"] == 1


@pytest.mark.rule("inv-33")
def test_a_snapshot_cannot_be_changed() -> None:
    read = snapshot("a", 1, labels={"x": "y"}, owner="o")
    with pytest.raises(AttributeError):
        read.version = 2  # type: ignore[misc]
    read.labels["x"] = "z"
    assert read.labels == {"x": "y"}
    assert all(isinstance(part, tuple) for part in (read.owners, read.finalizers, read.owners[0]))


@pytest.mark.rule("inv-29")
def test_the_same_version_again_is_not_a_change() -> None:
    store = Store()
    store.put(snapshot("a", 1))
    assert store.put(snapshot("a", 1)) is None
    assert store.replace([snapshot("a", 1)], 5) == []


def test_snapshots_of_one_object_at_one_version_are_equal() -> None:
    assert snapshot("a", 1) == snapshot("a", 1)
    assert snapshot("a", 1) != snapshot("a", 2)
    assert snapshot("a", 1) != snapshot("b", 1)
    assert snapshot("a", 1, uid="one") != snapshot("a", 1, uid="other")
    assert len({snapshot("a", 1), snapshot("a", 1), snapshot("a", 2)}) == 2


@pytest.mark.rule("inv-27")
def test_deletion_and_recreation_between_two_lists_is_one_delta_with_two_uids() -> None:
    store = Store()
    store.replace([snapshot("a", 1, uid="first")], 1)
    (delta,) = store.replace([snapshot("a", 5, uid="second")], 5)
    assert delta.old is not None
    assert delta.new is not None
    assert (delta.old.uid, delta.new.uid) == ("first", "second")


@pytest.mark.rule("K1")
def test_an_index_drops_values_that_no_object_has_any_more() -> None:
    store = Store()
    store.add_index("label", lambda s: s.labels.values())
    store.put(snapshot("a", 1, labels={"x": "one"}))
    store.put(snapshot("a", 2, labels={"x": "two"}))
    store.remove(snapshot("a", 3))
    (table,) = store._tables.values()
    assert [len(index) for index in table.indexes.values()] == [0, 0]


def test_a_second_index_with_the_same_name_is_refused() -> None:
    store = Store()
    with pytest.raises(ValueError, match="there is an index 'owner' already"):
        store.add_index("owner", lambda s: ())


def test_a_late_deletion_does_not_remove_a_newer_object() -> None:
    store = Store()
    store.put(snapshot("a", 9, uid="second"))
    assert store.remove(snapshot("a", 5, uid="first")) is None
    assert names(store) == ["a"]


def test_the_version_of_a_store_is_the_lowest_of_its_namespaces() -> None:
    store = Store(["one", "two"])
    store.replace([snapshot("a", 3, namespace="one")], 9, "one")
    assert store.version == 0
    store.replace([snapshot("b", 4, namespace="two")], 7, "two")
    assert store.version == 7
    assert names(store.by_index("namespace", "two")) == ["b"]
    assert store.put(snapshot("c", 8, namespace="three")) is None
    assert [delta.missed for delta in store.remove_part("one")] == [True]
    assert names(store) == ["b"]


def test_an_index_added_during_a_list_is_complete_after_it() -> None:
    store = Store()
    store.stage([snapshot("a", 1)])
    store.add_index("name", lambda s: (s.key.name,))
    store.stage([snapshot("b", 2)])
    assert names(store.by_index("name", "a")) == []
    store.commit(5)
    assert names(store.by_index("name", "a")) == ["a"]
    assert names(store.by_index("name", "b")) == ["b"]


def test_a_version_with_different_content_is_a_change() -> None:
    store = Store()
    store.put(snapshot("a", 1))
    other = Snapshot.from_json(store.list()[0].raw.replace(b'"n": 1', b'"n": 2'))
    delta = store.put(other)
    assert delta is not None
    assert delta.new == delta.old
    (again,) = store.replace([snapshot("a", 1)], 5)
    assert (again.old, again.new) == (other, snapshot("a", 1))


def test_the_size_of_a_store_is_that_of_its_bodies() -> None:
    store = Store()
    store.replace([snapshot("a", 1), snapshot("b", 2)], 2)
    store.put(snapshot("a", 3, labels={"x": "long" * 20}))
    store.remove(snapshot("b", 4))
    assert store.size == sum(len(s.raw) for s in store)


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["put", "remove", "replace"]),
        st.lists(
            st.tuples(st.sampled_from("abc"), st.sampled_from(["", "o1", "o2"])), min_size=1, max_size=4
        ),
    ),
    max_size=20,
)


@pytest.mark.rule("K1", "K2", "K3")
@given(OPERATIONS)
def test_every_index_equals_a_scan_of_the_store(operations: list[tuple[str, list[tuple[str, str]]]]) -> None:
    store = Store()
    store.add_index("first letter", lambda s: (s.key.name[0],))
    for version, (verb, items) in enumerate(operations, 1):
        given_ = [snapshot(name, version, owner=owner) for name, owner in items]
        if verb == "replace":
            store.replace(given_, version)
        else:
            getattr(store, verb)(given_[0])
        for owner in ("o1", "o2"):
            found = [s for s in store if any(o.uid == owner for o in s.owners)]
            assert names(store.by_index("owner", owner)) == names(found)
        assert names(store.list()) == sorted({s.key.name for s in store})
        assert names(store.by_index("namespace", "ns")) == names(store.list("ns")) == names(store)
