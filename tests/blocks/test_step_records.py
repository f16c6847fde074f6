"""Laws of the records of steps, whatever happens in which order."""

from datetime import UTC, datetime
from typing import Literal

import pytest
from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st

from reconcile.blocks.steps.step_records import (
    MESSAGE_CHARACTERS,
    MOST_STEPS,
    Interrupted,
    StepStatus,
    begun,
    bounded,
    due,
    ended,
    read_value,
    value_text,
    with_record,
)

pytestmark = pytest.mark.rule("steps")
NOW = datetime(2026, 1, 1, tzinfo=UTC)

Outcome = Literal["lost before it", "lost after it", "fails", "fails after it", "waits", "done", "for good"]
VALUES = st.sampled_from(["1", "2"])
EVENTS = st.lists(VALUES | st.sampled_from(Outcome.__args__), max_size=25)


@define
class Played:
    """A step with `once_for`, and the world outside that it sets to its value."""

    interrupted: Interrupted = "repeat"
    value: str = "1"
    generation: int = 1
    record: StepStatus | None = None
    outside: str = ""
    effects: list[tuple[int, str]] = field(factory=list)
    """Round and value of each call that reached the world."""
    calls: list[int] = field(factory=list)

    @property
    def due(self) -> str:
        return due(self.record, self.value, self.generation, self.interrupted)

    def want(self, value: str) -> None:
        self.generation += value != self.value
        self.value = value

    def attempt(self, outcome: str) -> None:
        if self.due in ("done", "failed", "unknown"):
            return
        if self.due == "begin" or self.record is None:
            self.record = begun("step", self.record, self.value, self.generation, NOW)
        elif self.interrupted == "hold":
            self.record = ended(self.record, "Running")
        self.calls.append(self.record.round)
        if outcome in ("lost after it", "fails after it", "done"):
            self.outside = self.value
            self.effects.append((self.record.round, self.value))
        if outcome == "done":
            self.record = ended(self.record, "Done")
        elif outcome == "waits":
            self.record = ended(self.record, "Waiting")
        elif outcome.startswith("fails"):
            self.record = ended(self.record, "Failing", outcome)
        elif outcome == "for good":
            self.record = ended(self.record, "Failed", outcome, self.generation)


@given(EVENTS, st.sampled_from(Interrupted.__args__))
def test_what_is_done_is_so_outside_and_a_round_has_one_value(
    events: list[str], interrupted: Interrupted
) -> None:
    step = Played(interrupted)
    for event in events:
        if event in ("1", "2"):
            step.want(event)
        else:
            step.attempt(event)
        assert step.due != "done" or step.outside == step.value
    by_round: dict[int, set[str]] = {}
    for number, value in step.effects:
        by_round.setdefault(number, set()).add(value)
    assert all(len(values) == 1 for values in by_round.values())
    assert step.calls == sorted(step.calls)  # no attempt of a round after that of a later one
    if interrupted == "repeat":
        step.attempt("done")
        assert step.due in ("done", "failed")


@given(EVENTS)
def test_a_step_to_hold_is_never_called_after_an_attempt_that_was_lost(events: list[str]) -> None:
    step = Played("hold")
    for number, event in enumerate(events):
        if event in ("1", "2"):
            step.want(event)
            continue
        before = len(step.calls)
        step.attempt(event)
        if event.startswith("lost") and len(step.calls) > before:
            calls = len(step.calls)
            for later in events[number + 1 :]:
                step.want(later) if later in ("1", "2") else step.attempt(later)
            assert len(step.calls) == calls
            assert step.due == "unknown"
            return


@given(st.lists(st.sampled_from("abcdef")), st.lists(st.sampled_from("abcdef"), unique=True))
def test_records_are_kept_once_each_in_the_order_of_the_steps(stored: list[str], names: list[str]) -> None:
    kept = bounded([StepStatus(name) for name in stored], names)
    shown = [one.name for one in kept]
    assert {*shown} == {*stored}
    assert len(shown) == len({*shown})
    ours = [name for name in names if name in stored]
    assert shown[: len(ours)] == ours
    added = with_record(kept, StepStatus("z", state="Done"))
    assert [one.name for one in with_record(added, StepStatus("z"))] == [*shown, "z"]


def test_the_records_of_other_versions_go_first_where_there_are_too_many() -> None:
    others = [StepStatus(f"other-{number}") for number in range(MOST_STEPS + 50)]
    kept = bounded([*others, StepStatus("ours")], ["ours"])
    assert (len(kept), kept[0].name) == (MOST_STEPS, "ours")
    assert len(ended(StepStatus("a"), "Failing", "x" * 10_000).message) == MESSAGE_CHARACTERS


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(PLAIN)
def test_a_value_comes_back_as_it_was_recorded(value: object) -> None:
    assert read_value(value_text(value)) == value
    assert value_text(value) != ""


@given(st.text(max_size=40))
def test_a_recorded_value_that_somebody_changed_is_read_as_something(text: str) -> None:
    read_value(text)
    assert read_value(text * 5000 + "[" * 100_000) is None
