"""The zoo: each bug is found, nothing is reported of its mended twin, and each says where it is from.

With LABORATORY=1 (`make laboratory`) every tool plays every bug and its twin, and finds what the page of the
documentation says that it finds. Otherwise each bug is played by one quick tool, or under its witness.
"""

import os
from itertools import product

import pytest

from reconcile.testing import Broken, replay, scenario_modes, transitions
from reconcile.testing.spec_transitions.least_case import LeastCase
from tests.verification import compare_fuzz
from tests.verification.measurements import PAGE, measure, page_with, stored
from tests.verification.tools import TOOLS, find, plays
from tests.verification.zoo.all_bugs import ZOO
from tests.verification.zoo.patterns import BugPattern, Tool
from tests.verification.zoo.sieve_reports import SIEVE

QUICK: tuple[Tool, ...] = ("one run", "seeds", "sweep", "old views")
"""Tools that run in the suite."""
RUNS_OF_A_TWIN = 6
"""A part of those that a tool makes."""
IN_FULL = bool(os.environ.get("LABORATORY"))
PLAYED: list[tuple[BugPattern, Tool]] = [
    (bug, tool)
    for bug, tool in product(ZOO, TOOLS)
    if plays(bug, tool) and (IN_FULL or (tool in QUICK and tool == bug.found_by))
]


@pytest.fixture(autouse=not IN_FULL)
def _unshrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave plans as they were found: shrinking them would be most of the time."""
    monkeypatch.setattr(scenario_modes, "shrink", lambda plan, fails: plan)
    monkeypatch.setattr(LeastCase, "shrink", lambda case: None)


@pytest.mark.parametrize(("bug", "tool"), PLAYED, ids=lambda part: str(part).replace(" ", "-"))
def test_a_tool_finds_what_it_is_said_to_find_and_reports_no_twin(bug: BugPattern, tool: Tool) -> None:
    if IN_FULL:
        found = measure(bug, tool) is not None
        assert found or stored()[bug.name][tool] is None
    else:
        assert find(tool, bug.broken)
        assert find(tool, bug.mended, most=RUNS_OF_A_TWIN).rules == frozenset()


@pytest.mark.parametrize("bug", [bug for bug in ZOO if bug.found_by == "transitions"], ids=str)
def test_transitions_of_the_fields_in_question_find_a_bug_of_operation(bug: BugPattern) -> None:
    with pytest.raises(Broken):
        transitions(bug.broken, only=bug.fields, pairs=False)
    assert transitions(bug.mended, only=bug.fields, pairs=False).complete


@pytest.mark.parametrize("bug", [bug for bug in ZOO if bug.witness is not None], ids=str)
def test_a_deep_bug_shows_under_its_witness_and_its_twin_does_not(bug: BugPattern) -> None:
    assert bug.witness is not None
    with pytest.raises(Broken):
        replay(bug.broken, bug.witness)
    replay(bug.mended, bug.witness)


def test_every_bug_has_a_quick_tool_or_a_witness() -> None:
    deep = [bug for bug in ZOO if bug.found_by not in (*QUICK, "transitions")]
    assert [bug.name for bug in deep if bug.witness is None] == []


def test_names_are_unique() -> None:
    assert len({bug.name for bug in ZOO}) == len(ZOO)


def test_there_are_the_46_bugs_of_sieve_and_most_have_a_pattern() -> None:
    assert len(SIEVE) == 46
    assert len(SIEVE.keys() & {source for bug in ZOO for source in bug.sources}) >= 30


def test_the_page_shows_the_last_measurements_of_all_bugs() -> None:
    measured = stored()
    tried = [(bug.name, tool) for bug, tool in product(ZOO, TOOLS) if plays(bug, tool)]
    assert [(name, tool) for name, tool in tried if tool not in measured[name]] == []
    assert page_with(PAGE.read_text(), measured) == PAGE.read_text(), (
        "run python -m tests.verification --page"
    )


def test_each_bug_was_found_by_its_cheapest_tool_and_no_tool_on_the_page_finds_nothing() -> None:
    measured = stored()
    assert [bug.name for bug in ZOO if bug.witness is None and measured[bug.name][bug.found_by] is None] == []
    found = {tool for bug in ZOO for tool, taken in measured[bug.name].items() if taken is not None}
    assert found == TOOLS.keys()


def test_the_page_shows_the_last_comparison_of_fuzz_on_all_bugs_that_it_names() -> None:
    measured = compare_fuzz.stored()
    assert list(measured) == compare_fuzz.COMPARED
    searches = {len(ways[way]) for ways in measured.values() for way in compare_fuzz.WAYS}
    assert searches == {compare_fuzz.SEEDS}
    assert compare_fuzz.page_with(PAGE.read_text(), measured) == PAGE.read_text(), (
        "run python -m tests.verification.compare_fuzz --page"
    )
