"""What a member does with a bucket, step by step, also with answers that come late."""

from collections.abc import Mapping, Sequence

import pytest

from reconcile.sharding.assignment import Assignment, Holding, MemberRecord
from reconcile.sharding.member_steps import (
    CatchingUp,
    CatchUp,
    CaughtUp,
    Close,
    Closing,
    Drop,
    Ended,
    Followed,
    Following,
    Held,
    Hold,
    Input,
    Leaving,
    MemberState,
    Output,
    Phase,
    Released,
    View,
    Warm,
    record,
    step,
)

MINE = Holding("me", 5, clean=True)


def view(holding: Holding, *, warm: Mapping[int, int] | None = None) -> View:
    return View(Assignment((holding,), beginning=2), warm or {})


def after(*inputs: Input, state: MemberState | None = None) -> tuple[MemberState, Sequence[Output]]:
    """The state after these, and what the last one asked for."""
    state, outputs = state or MemberState("me"), ()
    for given in inputs:
        state, outputs = step(state, given)
    return state, outputs


def phase_after(*inputs: Input) -> Phase | None:
    return after(*inputs)[0].phases.get(0)


FOLLOWED = Followed(frozenset({0}))
HELD = (view(MINE), FOLLOWED, CaughtUp(0, 5))
CLOSING = (*HELD, view(Holding("me", 5, "other"), warm={0: 5}))
RELEASED = (*CLOSING, Ended(0, 5))


@pytest.mark.rule("shard-caught-up")
def test_a_bucket_is_followed_then_caught_up_then_held() -> None:
    coming = Holding("other", 4, "me")
    assert phase_after(view(coming)) == Following()
    assert phase_after(view(coming), FOLLOWED) == Warm(4)
    assert after(view(coming), FOLLOWED, view(MINE))[1] == [CatchUp(0, 5, clean=True)]
    assert after(*HELD)[1] == (Hold(0, 5),)
    assert phase_after(*HELD) == Held(5)


@pytest.mark.rule("shard-released")
def test_an_owner_closes_only_when_the_next_one_is_warm_and_releases_only_when_its_runs_have_ended() -> None:
    assert phase_after(*HELD, view(Holding("me", 5, "other"))) == Held(5)
    assert phase_after(*HELD, view(Holding("me", 5, "other"), warm={0: 4})) == Held(5)
    assert after(*CLOSING)[1] == [Close(0, 5)]
    assert record(after(*CLOSING)[0], MemberRecord()).released == {}
    assert after(*RELEASED)[1] == (Drop(0),)
    assert record(after(*RELEASED)[0], MemberRecord()).released == {0: 5}


@pytest.mark.rule("shard-released")
@pytest.mark.parametrize(
    "late", [Ended(0, 4), Ended(0, 6), Ended(7, 5), CaughtUp(0, 5), CaughtUp(0, 4), CaughtUp(7, 5)], ids=str
)
@pytest.mark.parametrize("before", [HELD, CLOSING, RELEASED], ids=["held", "closing", "released"])
def test_an_answer_that_is_about_another_time_changes_nothing(
    before: Sequence[Input], late: Ended | CaughtUp
) -> None:
    state, _ = after(*before)
    assert step(state, late) == (state, ())


@pytest.mark.rule("shard-released")
def test_an_owner_whose_next_owner_is_withdrawn_releases_all_the_same_and_gets_the_bucket_back() -> None:
    withdrawn = (*CLOSING, view(MINE))
    assert phase_after(*withdrawn) == Closing(5)
    assert phase_after(*withdrawn, Ended(0, 5)) == Released(5)
    assert phase_after(*withdrawn, Ended(0, 5), view(Holding("me", 6, clean=True))) == CatchingUp(6)


def test_a_member_that_is_its_own_next_owner_goes_on() -> None:
    assert phase_after(*HELD, view(Holding("me", 5, "me"))) == Held(5)


@pytest.mark.rule("shard-clean")
def test_a_member_that_leaves_before_it_held_releases_only_what_was_clean() -> None:
    assert phase_after(view(MINE), FOLLOWED, Leaving()) == Released(5)
    state, _ = after(view(Holding("me", 5, clean=False)), FOLLOWED, Leaving())
    assert (state.phases, state.wanted, state.idle) == ({}, frozenset(), True)
    assert record(state, MemberRecord()).draining


def test_a_member_that_leaves_closes_what_it_holds_and_begins_nothing() -> None:
    assert after(*HELD, Leaving())[1] == [Close(0, 5)]
    assert not after(*HELD, Leaving())[0].idle
    assert after(*HELD, Leaving(), Ended(0, 5))[0].idle
    assert phase_after(Leaving(), view(Holding("other", 5, "me"))) is None
    assert phase_after(Leaving(), view(MINE)) == Released(5)


@pytest.mark.rule("shard-one-owner")
@pytest.mark.parametrize(
    ("holding", "phase"),
    [
        (Holding("other", 6), None),
        (Holding("other", 6, "me"), Warm(6)),
        (Holding("me", 7), CatchingUp(7)),
        (Holding("", 900), None),
    ],
)
@pytest.mark.parametrize("before", [HELD, CLOSING], ids=["held", "closing"])
def test_a_bucket_of_a_later_epoch_is_dropped_at_once(
    before: Sequence[Input], holding: Holding, phase: Phase | None
) -> None:
    state, outputs = after(*before, view(holding))
    assert state.phases.get(0) == phase
    assert outputs[0] == Drop(0)


@pytest.mark.rule("shard-caught-up")
def test_a_bucket_that_was_not_wanted_for_a_time_is_followed_anew() -> None:
    coming = Holding("other", 4, "me")
    state, _ = after(view(coming), FOLLOWED, view(Holding("other", 4)), view(coming))
    assert state.phases == {0: Following()}
    assert state.followed == frozenset()


@pytest.mark.rule("shard-deleted")
def test_a_record_says_by_which_assignment_the_member_goes() -> None:
    assert record(after(*HELD)[0], MemberRecord(canary=0.5)) == MemberRecord(beginning=2, canary=0.5)


def test_a_view_has_what_the_next_owners_say() -> None:
    assignment = Assignment(
        (Holding("a", 3, "b"), Holding("a", 4, "c"), Holding("a", 5), Holding("a", 6, "d"))
    )
    members = {"b": MemberRecord({0: 3, 2: 5}), "c": MemberRecord({0: 3}), "a": MemberRecord({1: 4})}
    assert View.of(assignment, members) == View(assignment, {0: 3})
