"""Which changes wake a controller."""

import json
from functools import partial
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from informers import Snapshot
from reconcile import Context, Controller, predicates
from reconcile.predicates import Predicate, as_predicate, updates
from tests.helpers.managers import Toy, World, played
from tests.helpers.scenarios import in_world

VERDICTS = st.sampled_from([True, False, None])


def snapshot(**metadata: Any) -> Snapshot:
    said = {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "1", "generation": 1}
    return Snapshot.from_json(json.dumps({"kind": "Toy", "metadata": said | metadata}).encode())


def says(verdict: bool | None) -> Predicate:
    return Predicate(lambda old, new: verdict)


CHANGES: dict[str, dict[str, Any]] = {
    "generation": {"generation": 2},
    "labels": {"labels": {"a": "b"}},
    "annotations": {"annotations": {"a": "b"}},
    "version": {"resourceVersion": "2"},
    "deletion": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
    "finalizers": {"finalizers": ["x.io/y"]},
    "replaced": {"uid": "v"},
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", CHANGES)
def test_each_predicate_sees_its_own_change_and_no_other(name: str, change: str) -> None:
    predicate: Predicate = getattr(predicates, name)
    assert predicate.wakes(snapshot(), snapshot(**CHANGES[change])) is (name == change)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", CHANGES)
def test_combined_predicates_are_evaluated_on_the_same_change(name: str, change: str) -> None:
    one, other = getattr(predicates, name), getattr(predicates, change)
    old, new = snapshot(), snapshot(**CHANGES[change])
    seen = name == change
    for both in (one & other, other & one):
        assert both.wakes(old, new) is seen
    for either in (one | other, other | one):
        assert either.wakes(old, new)
        assert not either.wakes(old, old)
    for but_not in (other & ~one, ~one & other):
        assert but_not.wakes(old, new) is not seen


@pytest.mark.parametrize("change", CHANGES)
def test_the_default_predicate_wakes_on_everything_but_the_status(change: str) -> None:
    assert predicates.default.wakes(snapshot(), snapshot(**CHANGES[change])) is (change != "version")


def test_a_kind_without_generation_wakes_on_every_change_by_default() -> None:
    old, new = snapshot(generation=None), snapshot(generation=None, resourceVersion="2")
    assert predicates.default.wakes(old, new)


@pytest.mark.parametrize("name", CHANGES)
def test_creations_and_deletions_wake_even_under_negation(name: str) -> None:
    predicate: Predicate = getattr(predicates, name)
    for one in (predicate, ~predicate, ~predicate & predicate):
        assert one.wakes(None, snapshot())
        assert one.wakes(snapshot(), None)


def test_a_selector_wakes_while_an_object_matches_and_when_it_leaves() -> None:
    web = predicates.selector("app=web")
    inside, outside = snapshot(labels={"app": "web"}), snapshot(labels={"app": "db"})
    assert web.wakes(None, inside)
    assert web.wakes(outside, inside)
    assert web.wakes(inside, outside)
    assert web.wakes(inside, None)
    assert not web.wakes(None, outside)
    assert not web.wakes(outside, outside)
    assert not (~web).wakes(None, inside)


def test_a_selector_of_fields_works_without_labels() -> None:
    only = predicates.selector(fields="metadata.name=a")
    assert only.wakes(None, snapshot())
    assert not only.wakes(None, snapshot(name="b"))


def test_an_invalid_selector_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="is not a label selector"):
        predicates.selector("app in web")


def test_a_function_can_be_either_operand() -> None:
    def larger(old: Snapshot, new: Snapshot) -> bool:
        return new.version > old.version

    old, new = snapshot(), snapshot(resourceVersion="2")
    for one in (larger & predicates.version, predicates.version & larger, predicates.labels | larger):
        assert one.wakes(old, new)
        assert one.wakes(None, new)
        assert not one.wakes(new, new)
    assert (larger | predicates.labels).wakes(old, new)
    for one in (larger & predicates.labels, predicates.labels & larger):
        assert not one.wakes(old, new)


def test_a_predicate_is_kept_and_a_function_becomes_a_predicate_on_updates() -> None:
    assert as_predicate(predicates.labels) is predicates.labels
    assert not as_predicate(lambda old, new: False).wakes(snapshot(), snapshot())
    assert updates(lambda old, new: False).wakes(None, snapshot())


@given(VERDICTS, VERDICTS, VERDICTS)
def test_and_or_and_not_obey_the_laws_of_three_valued_logic(
    a: bool | None, b: bool | None, c: bool | None
) -> None:
    one, two, three = says(a), says(b), says(c)
    state = snapshot()

    def same(left: Predicate, right: Predicate) -> bool:
        return left.test(state, state) is right.test(state, state)

    assert same(one & two, two & one)
    assert same(one | two, two | one)
    assert same((one & two) & three, one & (two & three))
    assert same(one & (two | three), (one & two) | (one & three))
    assert same(~(one & two), ~one | ~two)
    assert same(~~one, one)
    assert same(one & one, one)


@in_world(played)
async def test_a_controller_wakes_on_its_predicate_and_on_new_objects(world: World) -> None:
    seen: list[str] = []

    async def note(ctx: Context[Toy]) -> None:
        seen.append(ctx.object.metadata.annotations.get("n", ""))

    wakes = predicates.annotations & predicates.selector("app=web")
    async with world.running(Controller(Toy, note, wakes=wakes)):
        await world.make("unlabelled")
        await world.make("a")
        await anyio.sleep(2)
        assert seen == []
        changes: list[dict[str, Any]] = [
            {"labels": {"app": "web"}},
            {"annotations": {"n": "1"}},
            {"labels": {"app": "web", "x": "y"}},
            {"annotations": {"n": "2"}},
        ]
        for change in changes:
            await world.client.modify(Toy, "a", "default", partial(Toy.with_metadata, **change))
            await anyio.sleep(2)
    assert seen == ["1", "2"]
