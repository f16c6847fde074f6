"""What a store says of each change, part by part: deltas, versions, indexes, and what is staged."""

from collections.abc import Iterable

import pytest

from informers import Delta, Key, Snapshot, Store
from tests.informers.test_store import names, snapshot

ONE, TWO = "one", "two"


def thing(name: str, version: int, namespace: str = "ns") -> Snapshot:
    return snapshot(name, version, namespace=namespace)


def two_parts() -> Store:
    store = Store([ONE, TWO])
    store.replace([thing("a", 1, ONE), thing("b", 2, ONE)], 5, ONE)
    store.replace([thing("a", 3, TWO)], 6, TWO)
    return store


@pytest.mark.rule("inv-25", "inv-26")
def test_only_the_first_list_is_initial_and_later_ones_report_missing_objects_first() -> None:
    store = Store()
    a, b, c, kept = thing("a", 1), thing("b", 2), thing("c", 7), thing("kept", 3)
    assert store.replace([a, b, kept], 5) == [Delta(None, new, initial=True) for new in (a, b, kept)]
    newer = thing("a", 6)
    assert store.replace([c, newer, kept], 8) == [
        Delta(b, None, missed=True),
        Delta(None, c),
        Delta(a, newer),
    ]
    assert store.version == 8
    assert store.replace([kept], 9) == [Delta(old, None, missed=True) for old in (c, newer)]
    assert store.replace([a, kept], 10) == [Delta(None, a)]


def test_objects_from_before_the_first_list_are_reported_as_that_list_has_them() -> None:
    store = Store()
    early, gone = thing("a", 1), thing("gone", 1)
    store.put(early)
    store.put(gone)
    newer = thing("a", 2)
    assert store.replace([newer], 5) == [Delta(gone, None, missed=True), Delta(early, newer, initial=True)]


@pytest.mark.rule("inv-24")
def test_a_change_is_reported_with_the_state_before_and_after_it() -> None:
    store = Store()
    first, second, last = thing("a", 1), thing("a", 2), thing("a", 4)
    assert store.put(first) == Delta(None, first)
    assert store.put(first) is None
    assert store.put(second) == Delta(first, second)
    assert store.version == 2
    assert store.remove(last) == Delta(last, None)
    assert store.remove(last) is None
    assert store.version == 4
    assert store.put(thing("b", 3)) == Delta(None, thing("b", 3))
    assert store.version == 4


def test_a_deletion_at_the_version_of_the_last_change_removes_the_object() -> None:
    store = Store()
    store.put(thing("a", 3))
    assert store.remove(thing("a", 3)) == Delta(thing("a", 3), None)
    assert len(store) == store.size == 0


def test_a_reached_version_belongs_to_its_part_and_never_decreases() -> None:
    store = two_parts()
    store.reach(9, ONE)
    assert store.version == 6
    store.reach(8, TWO)
    assert store.version == 8
    store.reach(3, TWO)
    store.reach(99, "three")
    assert store.version == 8
    assert Store([]).version == 0


def test_an_object_is_found_by_its_key_in_the_part_for_its_namespace() -> None:
    store = two_parts()
    assert store.get(Key(ONE, "a")) == thing("a", 1, ONE)
    assert store.get(Key(TWO, "a")) == thing("a", 3, TWO)
    assert store.get(Key(TWO, "b")) is None
    assert store.get(Key("three", "a")) is None
    whole = Store()
    whole.put(thing("a", 1, ONE))
    assert whole.get(Key(ONE, "a")) == thing("a", 1, ONE)


def test_an_index_covers_all_parts_until_it_is_removed() -> None:
    store = two_parts()
    store.stage([thing("c", 7, TWO)], TWO)
    store.add_index("letter", lambda s: s.key.name)
    assert [s.key for s in store.by_index("letter", "a")] == [Key(ONE, "a"), Key(TWO, "a")]
    assert list(store.index_values("letter")) == ["a", "b"]
    assert store.by_index("letter", "z") == []
    store.remove_index("letter")
    store.commit(8, TWO)
    for ask in (lambda: store.by_index("letter", "a"), lambda: store.index_values("letter")):
        with pytest.raises(KeyError, match=r"^'letter'$"):
            ask()
    with pytest.raises(KeyError, match=r"^'letter'$"):
        store.remove_index("letter")
    store.add_index("letter", lambda s: s.key.name)
    assert names(store.by_index("letter", "c")) == ["c"]


@pytest.mark.rule("K1")
def test_a_value_returned_twice_by_an_index_function_counts_once() -> None:
    def twice(of: Snapshot) -> Iterable[str]:
        return (*of.labels.values(), *of.labels.values())

    store = Store()
    store.add_index("label", twice)
    for name in "abc":
        store.put(snapshot(name, 1, labels={"x": "same"}))
    assert names(store.by_index("label", "same")) == ["a", "b", "c"]
    store.put(snapshot("b", 2, labels={"x": "other"}))
    assert names(store.by_index("label", "same")) == ["a", "c"]
    for name in "ac":
        store.remove(snapshot(name, 3))
    assert list(store.index_values("label")) == ["other"]


def test_an_object_deleted_before_its_list_ends_is_not_in_the_list() -> None:
    store = Store()
    store.unstage(Key("ns", "a"))
    store.stage([thing("a", 1), thing("b", 2)])
    store.unstage(Key("ns", "a"))
    store.unstage(Key("ns", "never there"))
    assert store.commit(5) == [Delta(None, thing("b", 2), initial=True)]
    store.unstage(Key("ns", "b"))
    assert names(store) == ["b"]


def test_an_unfinished_list_leaves_no_trace() -> None:
    store = two_parts()
    store.drop_stage(ONE)
    store.stage([thing("z", 9, ONE)], ONE)
    store.drop_stage(ONE)
    store.stage([thing("a", 1, ONE)], ONE)
    assert store.commit(9, ONE) == [Delta(thing("b", 2, ONE), None, missed=True)]


def test_one_part_is_cleared_at_its_reached_version() -> None:
    store = two_parts()
    store.stage([thing("z", 9, ONE)], ONE)
    gone = [thing("a", 1, ONE), thing("b", 2, ONE)]
    assert store.clear(ONE) == [Delta(old, None, missed=True) for old in gone]
    assert [s.key for s in store] == [Key(TWO, "a")]
    assert store.version == 5
    assert store.commit(7, ONE) == []


def test_clearing_an_unlisted_part_keeps_its_first_list_initial() -> None:
    store = Store()
    store.stage([thing("z", 9)])
    assert store.clear() == []
    assert store.commit(3) == []
    fresh = Store()
    fresh.clear()
    assert fresh.replace([thing("a", 1)], 5) == [Delta(None, thing("a", 1), initial=True)]


def test_namespaces_are_added_and_removed_one_by_one() -> None:
    store = two_parts()
    store.stage([thing("z", 9, ONE)], ONE)
    gone = [thing("a", 1, ONE), thing("b", 2, ONE)]
    assert store.remove_part(ONE) == [Delta(old, None, missed=True) for old in gone]
    assert store.remove_part(ONE) == []
    assert list(store.parts) == [TWO]
    store.add_part(TWO)
    assert names(store) == ["a"]
    store.add_part(ONE)
    assert list(store.parts) == [TWO, ONE]
    assert store.commit(9, ONE) == []
    assert store.put(thing("n", 10, ONE)) == Delta(None, thing("n", 10, ONE))


def test_a_store_of_all_namespaces_accepts_no_other() -> None:
    with pytest.raises(ValueError, match=r"^all namespaces are followed already$"):
        Store().add_part(ONE)


# --- a share that changes -----------------------------------------------------------------------------


def test_an_older_state_never_replaces_a_newer_one() -> None:
    store = Store()
    newer = thing("a", 5)
    store.put(newer)
    assert store.put(thing("a", 4)) is None
    assert store.merge([thing("a", 4)], initial=True) == []
    assert store.get(Key("ns", "a")) is newer


def test_a_merged_list_says_nothing_of_the_version_reached() -> None:
    store = two_parts()
    newer, added = thing("a", 8, ONE), thing("n", 9, TWO)
    merged = [newer, thing("b", 2, ONE), added, thing("x", 9, "three")]
    assert store.merge(merged, initial=True) == [
        Delta(thing("a", 1, ONE), newer),
        Delta(None, added, initial=True),
    ]
    assert store.version == 5
    assert store.merge([thing("m", 9, ONE)], initial=False) == [Delta(None, thing("m", 9, ONE))]
    assert store.held(TWO) == [thing("a", 3, TWO), added]
    assert store.held("three") == []


@pytest.mark.parametrize("missing_at", [None, 9])
def test_an_object_is_dropped_in_the_state_that_was_looked_at(missing_at: int | None) -> None:
    store = Store()
    store.put(thing("a", 3))
    (held,) = store.held()
    store.put(thing("a", 4))
    assert store.drop(held, missing_at) is None
    (held,) = store.held()
    assert store.drop(held, missing_at) == Delta(held, None, missed=True, left=missing_at is None)
    assert store.drop(held, missing_at) is None
    assert store.drop(thing("x", 9, "three"), missing_at) is None


def test_the_newest_version_is_that_of_the_last_change_and_not_of_a_bookmark() -> None:
    store = Store()
    store.replace([thing("a", 3), thing("c", 4)], 5)
    assert store.newest == 5
    store.put(thing("a", 7))
    store.reach(20)
    assert (store.newest, store.version) == (7, 20)
    store.put(thing("a", 21))
    store.remove(thing("a", 22))
    assert (store.newest, store.version) == (22, 22)


def test_a_part_that_was_read_apart_shows_newer_changes_than_the_store_has_reached() -> None:
    store = Store()
    store.replace([thing("a", 3), thing("c", 4)], 5)
    store.merge([thing("a", 8)], initial=False)
    assert (store.newest, store.version) == (8, 5)
    gone = next(held for held in store.held() if held.name == "c")
    store.drop(gone)
    assert store.newest == 8
    store.put(thing("c", 6))
    store.drop(next(held for held in store.held() if held.name == "c"), missing_at=9)
    assert (store.newest, store.version) == (9, 6)


def test_the_past_of_a_dropped_object_does_not_come_back() -> None:
    store = Store()
    store.replace([], 5)
    store.merge([thing("a", 8), thing("b", 7)], initial=False)
    for held in store.held():
        store.drop(held)
    assert store.put(thing("a", 6)) is None
    assert store.put(thing("b", 7)) is None
    assert store.put(thing("c", 7)) == Delta(None, thing("c", 7))
    assert store.put(thing("b", 8)) == Delta(None, thing("b", 8))
    assert store.put(thing("a", 9)) == Delta(None, thing("a", 9))


def test_an_object_that_is_no_longer_followed_leaves_with_its_last_followed_state() -> None:
    store = Store()
    store.put(thing("a", 3))
    assert store.leave(thing("a", 2)) is None
    assert store.leave(thing("b", 4)) is None
    assert store.version == 4
    assert store.leave(thing("a", 5)) == Delta(thing("a", 3), None, missed=True, left=True)
    assert store.version == 5
    assert Store([ONE]).leave(thing("a", 5, TWO)) is None


def test_a_list_tells_objects_that_left_from_those_that_are_missing() -> None:
    store = Store()
    a, b, c, d = (thing(name, 1) for name in "abcd")
    store.replace([a, b, c, d], 5)
    store.stage([a, b, thing("new", 6)])
    store.stage_left([thing("a", 7), thing("b", 7), thing("c", 7), thing("other", 7), thing("new", 7)])
    store.stage([thing("b", 8)])
    store.unstage(Key("ns", "c"))
    assert store.commit(9) == [
        Delta(a, None, missed=True, left=True),
        Delta(c, None, missed=True),
        Delta(d, None, missed=True),
        Delta(b, thing("b", 8)),
    ]
    assert names(store) == ["b"]
    assert store.replace([], 10) == [Delta(thing("b", 8), None, missed=True)]


@pytest.mark.rule("K1")
@pytest.mark.parametrize("count", [1, 2, 16, 17, 40])
def test_an_index_has_the_latest_state_of_each_object_however_many_share_a_value(count: int) -> None:
    store = Store()
    store.add_index("label", lambda s: s.labels.values())
    for version in (1, 2):
        for number in range(count):
            store.put(snapshot(f"n{number}", version, labels={"x": "same"}))
    found = store.by_index("label", "same")
    assert sorted(s.name for s in found) == sorted(f"n{number}" for number in range(count))
    assert {s.version for s in found} == {2}
    for number in range(count):
        store.remove(snapshot(f"n{number}", 3))
    assert store.by_index("label", "same") == []
    assert not store.index_values("label")


@pytest.mark.rule("K1")
def test_an_index_never_has_an_object_that_is_gone_though_its_function_forgets_it() -> None:
    values = iter([["x"], ["x"], []])
    store = Store()
    store.add_index("fickle", lambda s: next(values, []))
    for name in "ab":
        store.put(snapshot(name, 1))
    store.remove(snapshot("a", 2))
    assert names(store.by_index("fickle", "x")) == ["b"]
