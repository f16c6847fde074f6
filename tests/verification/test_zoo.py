"""The zoo: each bug is found, nothing is reported of its mended twin, and each says where it is from."""

import pytest

from reconcile.testing import Broken, replay
from tests.verification.tools import find
from tests.verification.zoo.all_bugs import ZOO
from tests.verification.zoo.patterns import BugPattern

QUICK = ("one run", "seeds", "sweep", "old views")
"""Tools that run in the suite; the others run in `make laboratory`."""
RUNS_OF_A_TWIN = 12
"""A part of those that a tool makes; `make laboratory` makes all."""


@pytest.mark.parametrize("bug", [bug for bug in ZOO if bug.found_by in QUICK], ids=str)
def test_a_bug_is_found_by_its_cheapest_tool_and_its_twin_passes_it(bug: BugPattern) -> None:
    assert find(bug.found_by, bug.broken)
    assert find(bug.found_by, bug.mended, most=RUNS_OF_A_TWIN).rules == frozenset()


@pytest.mark.parametrize("bug", [bug for bug in ZOO if bug.witness is not None], ids=str)
def test_a_deep_bug_shows_under_its_witness_and_its_twin_does_not(bug: BugPattern) -> None:
    assert bug.witness is not None
    with pytest.raises(Broken):
        replay(bug.broken, bug.witness)
    replay(bug.mended, bug.witness)


def test_every_bug_has_a_quick_tool_or_a_witness() -> None:
    assert [bug.name for bug in ZOO if bug.found_by not in QUICK and bug.witness is None] == []


def test_names_are_unique() -> None:
    assert len({bug.name for bug in ZOO}) == len(ZOO)
