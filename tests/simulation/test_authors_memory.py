"""What explore takes for the memory of an author's code: all that can change and that it can read again."""

import builtins
import itertools
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest
from attrs import define, field

from reconcile.blocks import Autoscaler
from reconcile.testing.exploration import authors_memory
from reconcile.testing.exploration.authors_memory import memory_of
from tests.simulation import remembered

START = datetime(2026, 1, 1, tzinfo=UTC)
runs = 0
table: dict[str, int] = {}


def count_globally() -> None:
    global runs
    runs += 1


def look_up() -> dict[str, int]:
    return table


def measure() -> int:
    return builtins.len("rye")


def plant(*, beds: list[str] = []) -> None:  # noqa: B006
    beds.append("rye")


def sow() -> None:
    sow.times += 1  # type: ignore[attr-defined]


sow.times = 0  # type: ignore[attr-defined]


def keep_elsewhere() -> None:
    remembered.table["east"] = len(remembered.table)


def count_elsewhere() -> None:
    remembered.runs += 1


def by_way_of_another_module() -> None:
    remembered.note("west")


def by_way_of_another() -> None:
    look_up()["east"] = len(table)


class Keeper:
    """Counts in its class, and uses a table of its module in a method that only another method calls."""

    instances = 0
    names: ClassVar[deque[str]] = deque()

    def keep(self) -> None:
        Keeper.instances += 1

    def note(self) -> None:
        self._write()

    def _write(self) -> None:
        table["west"] = len(table)

    @property
    def newest(self) -> deque[str]:
        return self.names


@define
class Shelf:
    inner: Any = None
    values: list[int] = field(factory=list)


def nested(depth: int) -> tuple[Shelf, Shelf]:
    shelf = deepest = Shelf()
    for _ in range(depth):
        shelf = Shelf(shelf)
    return shelf, deepest


def closure() -> tuple[Callable[[], None], Callable[[], None]]:
    times, numbers = 0, itertools.count()

    def keep() -> None:
        nonlocal times
        times += 1

    def draw() -> None:
        next(numbers)

    return keep, draw


KEEPER = Keeper()
CLOSURE, COUNTER = closure()
SHELF, DEEPEST = nested(10)

CHANGES: dict[str, tuple[object, Callable[[], object]]] = {
    "a global number": (count_globally, count_globally),
    "a global dict, through another function": (by_way_of_another, by_way_of_another),
    "a global dict of another module": (keep_elsewhere, keep_elsewhere),
    "a number of another module": (count_elsewhere, count_elsewhere),
    "a global dict, through a function of another module": (
        by_way_of_another_module,
        by_way_of_another_module,
    ),
    "a default of a keyword": (plant, plant),
    "an attribute of a function": (sow, sow),
    "a number of a class": (KEEPER.keep, KEEPER.keep),
    "a global dict, through another method": (KEEPER.note, KEEPER.note),
    "a container of a class": (KEEPER.keep, lambda: Keeper.names.append("north")),
    "a number in a closure": (CLOSURE, CLOSURE),
    "an iterator in a closure": (COUNTER, COUNTER),
    "a list ten objects deep": (SHELF, lambda: DEEPEST.values.append(1)),
}


@pytest.mark.rule("sim-explore")
@pytest.mark.parametrize("name", CHANGES)
def test_what_code_remembers_is_another_memory_after_a_change(name: str) -> None:
    root, change = CHANGES[name]
    before = memory_of([root])
    assert memory_of([root]) == before
    change()
    assert memory_of([root]) != before


@pytest.mark.rule("sim-explore")
def test_what_a_building_block_remembers_counts_and_the_runtime_does_not() -> None:
    block: Autoscaler[Any] = Autoscaler(lambda _: None)  # type: ignore[arg-type, return-value]
    before = memory_of([block.scale])
    block._remembered["a uid"] = None  # type: ignore[assignment]
    assert memory_of([block.scale]) != before


def test_moments_of_one_instant_are_one_and_times_are_told_from_other_values() -> None:
    shelf = Shelf({"at": 1.0, "on": START})
    before = memory_of([shelf])
    assert before.has_times
    shelf.inner = {"at": 1.000_1, "on": START + timedelta(microseconds=100)}
    assert memory_of([shelf]) == before
    shelf.inner = {"at": 1.01, "on": START}
    assert memory_of([shelf]) != before
    assert not memory_of([Shelf({"at": 1, "on": "a day"})]).has_times


def test_the_order_in_a_set_makes_no_difference() -> None:
    names = [f"plot-{number}" for number in range(50)]
    assert memory_of([Shelf(frozenset(names))]) == memory_of([Shelf(frozenset(reversed(names)))])


def test_a_large_table_is_looked_at_in_part() -> None:
    large = memory_of([Shelf(dict.fromkeys(range(1_000_000)))])
    assert len(large.text) < 500_000
    assert not large.is_whole
    assert memory_of([Shelf(dict.fromkeys(range(1_000)))]).is_whole


def test_objects_within_objects_are_looked_at_down_to_a_depth() -> None:
    assert memory_of([nested(40)[0]]).is_whole
    assert not memory_of([nested(200)[0]]).is_whole


def test_a_function_that_reaches_no_state_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def helper() -> int:
        return len("helper")

    table.clear()
    memory_of([helper, look_up])
    looked: list[object] = []
    found = authors_memory._globals_of
    monkeypatch.setattr(authors_memory, "_globals_of", lambda code: (looked.append(code), found(code))[1])
    memory_of([helper, look_up])
    assert looked == [look_up.__code__]


def test_a_module_without_a_file_is_no_memory() -> None:
    """An `assert` in a module of tests reaches the module `builtins`: pytest rewrites it so."""
    assert memory_of([measure]).text == ""
