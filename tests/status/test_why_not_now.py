"""Why a key does not run now: each state, and which of several reasons is named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile.status.why_not_now import STATES, KeyFacts, WhyNotNow, seconds_text, why_not_now


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (KeyFacts(), WhyNotNow("resting")),
        (
            KeyFacts(running=4.25, waits_at="sites.py:12 in build"),
            WhyNotNow("running", "running for 4.2 s, at sites.py:12 in build"),
        ),
        (
            KeyFacts(due_in=0.0, ahead=1),
            WhyNotNow("queued", "waits for the only worker", 0.0),
        ),
        (
            KeyFacts(due_in=0.0, ahead=41, workers=4),
            WhyNotNow("queued", "waits for one of 4 workers; 40 other keys are ready", 0.0),
        ),
        (
            KeyFacts(due_in=8.0, due_for="retry", failures=3, error="ValueError: no"),
            WhyNotNow(
                "back-off", "failed 3 times in a row, last with ValueError: no; tries again in 8.0 s", 8.0
            ),
        ),
        (
            KeyFacts(due_in=300.0, due_for="asked"),
            WhyNotNow("later", "its last run asked to run again, in 5 min", 300.0),
        ),
        (
            # A change that the storm guard held back; the storm is over, the delay is not.
            KeyFacts(due_in=20.0, due_for="change"),
            WhyNotNow("later", "it was slowed down, and runs in 20 s", 20.0),
        ),
        (
            KeyFacts(due_in=30.0, due_for="timer"),
            WhyNotNow("later", "its timer is due in 30 s", 30.0),
        ),
        (
            KeyFacts(paused_key=True, due_in=0.0),
            WhyNotNow("paused", "paused by hand: resume it to have it run"),
        ),
        (KeyFacts(paused_controller=True), WhyNotNow("paused", "its controller is paused")),
        (
            KeyFacts(due_in=3.0, storm="woken by its own writes", throttled_for=60.0),
            WhyNotNow("throttled", "slowed down, next run in 60 s: woken by its own writes", 60.0),
        ),
        (
            KeyFacts(leading=False, leader="pod-b", due_in=0.0),
            WhyNotNow("not-leading", "this replica is on standby: pod-b leads"),
        ),
        (
            KeyFacts(leading=False),
            WhyNotNow("not-leading", "this replica is on standby: no replica is known to lead"),
        ),
        (
            KeyFacts(elsewhere=True, held_by="pod-c"),
            WhyNotNow("elsewhere", "the replica pod-c works on it: look there"),
        ),
        (
            KeyFacts(due_in=0.0, down_for=75.0, cluster="east"),
            WhyNotNow(
                "outage",
                "the API server of cluster east cannot be reached, for 75 s: it runs when that answers",
            ),
        ),
        (
            KeyFacts(synced=False, missing=("sites.example.com", "secrets")),
            WhyNotNow("not-synced", "waits for the first list of sites.example.com, secrets"),
        ),
    ],
)
def test_each_state_has_a_sentence(facts: KeyFacts, expected: WhyNotNow) -> None:
    assert why_not_now(facts) == expected


def test_an_outage_is_no_reason_for_a_key_that_has_nothing_to_do() -> None:
    assert why_not_now(KeyFacts(down_for=60.0)).state == "resting"


def test_a_run_under_way_comes_before_every_reason_to_wait() -> None:
    facts = KeyFacts(running=1.0, elsewhere=True, leading=False, paused_key=True, down_for=1.0, storm="s")
    assert why_not_now(facts).state == "running"


@given(
    st.builds(
        KeyFacts,
        running=st.none() | st.floats(0, 1e6),
        due_in=st.none() | st.floats(0, 1e6),
        due_for=st.sampled_from(["change", "retry", "asked", "timer"]),
        failures=st.integers(0, 1000),
        paused_key=st.booleans(),
        paused_controller=st.booleans(),
        storm=st.sampled_from(["", "in a fight"]),
        leading=st.booleans(),
        elsewhere=st.booleans(),
        synced=st.booleans(),
        down_for=st.none() | st.floats(0, 1e6),
    )
)
def test_only_a_key_that_rests_has_no_sentence_and_only_a_queued_one_a_next_try(facts: KeyFacts) -> None:
    state, sentence, next_in = why_not_now(facts)
    assert state in STATES
    assert (sentence == "") == (state == "resting")
    assert next_in is None or (facts.due_in is not None and next_in >= facts.due_in)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (9.94, "9.9 s"), (119.0, "119 s"), (120.0, "2 min"), (7200.0, "2 h")],
)
def test_times_are_written_for_people(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text
