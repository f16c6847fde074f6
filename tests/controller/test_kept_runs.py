"""Which runs of a key are remembered: the last ones, and the one that says why they came."""

import pytest

from informers import Key
from reconcile.commands.top_command import rate
from reconcile.controller.run_history import PastRun, RunHistory
from reconcile.controller.run_result import RunResult
from reconcile.models import kind_of
from reconcile.ops.debug_state import past_run
from reconcile.runs.run_record import RunRecord
from reconcile.runs.run_request import BY_HAND, Cause, Request
from tests.helpers.managers import Toy
from workqueue import Item

TOY = kind_of(Toy).resource
KEY = Request("default", "a")
CHANGED = Cause("updated", TOY, Key("default", "a"), 7)
ECHO = Cause("added", TOY, Key("default", "child"), 8, echo=True)
RESYNC = Cause("resynced", TOY, Key("default", "a"), 7)
RETRY = Cause("retried")
TIMER = Cause("scheduled", note="every")


def after(*causes: Cause) -> tuple[PastRun, ...]:
    """The runs that are kept after a run for each cause; their ids count from 0."""
    history = RunHistory()
    for number, cause in enumerate(causes):
        record = RunRecord()
        record.causes = (cause,)
        with history.run(Item(KEY, 0, (cause,), 0, 0)) as run:
            run.outcome = RunResult(reconcile_id=str(number), record=record)
    return history.past(KEY)


def kept(*causes: Cause) -> list[tuple[str, int]]:
    return [(run.reconcile_id, run.left_out) for run in after(*causes)]


@pytest.mark.parametrize("own", [RETRY, TIMER, RESYNC, ECHO], ids=lambda cause: str(cause.verb))
async def test_the_run_that_a_change_woke_outlasts_those_that_followed_by_themselves(own: Cause) -> None:
    assert kept(TIMER, CHANGED, *[own] * 8) == [("1", 0), ("6", 4), ("7", 0), ("8", 0), ("9", 0)]


async def test_what_a_person_asked_for_is_kept_like_a_change() -> None:
    assert kept(CHANGED, RETRY, BY_HAND, *[RETRY] * 5)[0] == ("2", 0)


@pytest.mark.parametrize("cause", [RETRY, CHANGED], ids=["retries", "changes"])
async def test_of_runs_that_are_all_alike_the_last_ones_are_kept(cause: Cause) -> None:
    assert kept(*[cause] * 9) == [(str(number), 0) for number in range(4, 9)]


async def test_a_further_change_lets_the_earlier_one_go() -> None:
    assert kept(CHANGED, *[RETRY] * 6, CHANGED) == [("3", 0), ("4", 0), ("5", 0), ("6", 0), ("7", 0)]
    assert kept(CHANGED, *[RETRY] * 6, CHANGED, *[RETRY] * 9)[0] == ("7", 0)


async def test_runs_that_are_left_out_count_for_how_often_a_key_runs() -> None:
    shown = [past_run(run, run.ended + 30.0) for run in after(CHANGED, *[RETRY] * 20)]
    assert rate(shown) == 20.0


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (CHANGED, "toys.toys.example.com default/a updated at version 7"),
        (ECHO, "toys.toys.example.com default/child added at version 8 by this key"),
        (RETRY, "a retry"),
        (TIMER, "its timer"),
        (Cause("scheduled"), "its last run, which asked for it"),
        (Cause("scheduled", note="the storm guard"), "the storm guard"),
        (BY_HAND, "triggered: by hand"),
        (Cause("triggered"), "triggered"),
    ],
)
def test_a_cause_reads_well_behind_woken_by(cause: Cause, words: str) -> None:
    assert (
        str(cause)
        .replace("toys.example.com", "toys.toys.example.com", 1)
        .replace("toys.toys.toys", "toys.toys")
        == words
    )
