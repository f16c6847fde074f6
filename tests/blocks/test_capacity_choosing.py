"""Of several pools one is chosen, whatever the expanders leave."""

from reconcile.blocks import Priorities
from reconcile.blocks.capacity_expanders import choose, least_waste
from tests.blocks.test_capacity import options


def test_of_what_expanders_leave_the_first_by_name_is_taken_and_no_other() -> None:
    assert [one.pool for one in choose(options("b", "a"), [least_waste]).options] == ["a"]
    assert [one.pool for one in choose(options("b", "a"), []).options] == ["a"]
    assert choose([], [least_waste]).options == ()


def test_priorities_that_say_nothing_leave_all_and_say_so() -> None:
    chosen = choose(options("b", "a"), [Priorities()])
    assert [one.pool for one in chosen.options] == ["a"]
    assert chosen.notice == "there are no priorities"
