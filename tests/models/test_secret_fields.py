"""The fields of a class that are declared secret, and where they are in its objects."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from reconcile import Object, field, resource
from reconcile.models.secret_fields import ANY_KEY, fields_at, is_within, parts_at, secret_fields

NAMES = st.sampled_from(["a", "b", "c"])
VALUES = st.recursive(
    st.builds(object), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3)
)
JSON = st.recursive(
    st.integers(), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3)
)
PATHS = st.lists(NAMES | st.just(ANY_KEY), min_size=1, max_size=3)


@frozen
class Room:
    code: str = field(default="", secret=True)
    floor: int = 0


@frozen
class HouseSpec:
    rooms: Sequence[Room] = ()
    keys: Mapping[str, str] = field(factory=dict, secret=True)
    cellars: Mapping[str, Room] = field(factory=dict)
    attic: Room | None = None


@resource("example.com/v1")
class House(Object):
    spec: HouseSpec = HouseSpec()


def places(value: Any, names: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each member of each object in a value, with the names on the way to it."""
    if isinstance(value, list):
        for item in value:
            yield from places(item, names)
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield (*names, name), inner
            yield from places(inner, (*names, name))


def test_paths_lead_through_lists_and_have_a_step_for_any_key_of_a_mapping() -> None:
    assert secret_fields(House) == {
        ("spec", "rooms", "code"),
        ("spec", "keys"),
        ("spec", "cellars", ANY_KEY, "code"),
        ("spec", "attic", "code"),
    }


@given(VALUES, PATHS)
def test_what_is_found_at_a_path_and_all_below_it_is_what_lies_within_that_path(
    value: Any, path: list[str]
) -> None:
    found = [here[name] for here, name in fields_at(value, path)]
    below = [inner for one in found for _, inner in places(one)]
    within = [inner for names, inner in places(value) if is_within(names, path)]
    assert {*map(id, within)} == {*map(id, found), *map(id, below)}


@given(JSON, st.lists(PATHS, min_size=1, max_size=3))
def test_decoding_on_the_way_alone_finds_the_same_as_looking_through_the_whole(
    value: Any, paths: list[list[str]]
) -> None:
    found = [here[name] for path in {*map(tuple, paths)} for here, name in fields_at(value, path)]
    parts = [msgspec.json.decode(part) for part in parts_at(msgspec.json.encode(value), {*map(tuple, paths)})]
    assert sorted(map(repr, parts)) == sorted(map(repr, found))
