"""JSON pointers."""

from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from informers.apimachinery.json_pointers import pointer_below, pointer_steps


@given(st.lists(st.text(alphabet="ab/~01", max_size=4), max_size=4))
def test_steps_of_any_text_round_trip(steps: list[str]) -> None:
    assert pointer_steps(reduce(pointer_below, steps, "")) == tuple(steps)


def test_slashes_and_tildes_within_a_step_are_escaped() -> None:
    assert pointer_steps("/a~1b/c~0d/~01") == ("a/b", "c~d", "~1")
    assert pointer_below("/a", "b/c~") == "/a/b~1c~0"


def test_a_pointer_that_does_not_start_with_a_slash_is_refused() -> None:
    with pytest.raises(ValueError, match="'spec' is not a JSON pointer: expected /spec/template, or nothing"):
        pointer_steps("spec")
