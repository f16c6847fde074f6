"""Which events are counted up, combined, held back, cut and forgotten."""

import datetime
from typing import Any

import pytest
from attrs import evolve

from reconcile.controller.event_series import (
    BURST,
    COMBINED,
    REFILL_SECONDS,
    SERIES_ENDS_AFTER,
    SIMILAR_NOTES,
    SIMILAR_SECONDS,
    EventContent,
    EventLedger,
    EventSubject,
)

ABOUT = EventSubject("v1", "ConfigMap", "default", "c", "u")
START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
MADE = EventContent(ABOUT, "Normal", "Made", "made pod 0", "Scale")


@pytest.mark.rule("event-2")
def test_a_series_ends_after_a_silence_and_covers_one_kind_of_event() -> None:
    ledger = EventLedger()
    for now in (0.0, SERIES_ENDS_AFTER, 2 * SERIES_ENDS_AFTER):
        series = ledger.count(MADE, START + datetime.timedelta(seconds=now), now)
    assert (series.count, series.first, series.last) == (3, START, START + datetime.timedelta(seconds=720))
    assert ledger.count(MADE, START, 3 * SERIES_ENDS_AFTER + 0.1).count == 1
    changes: list[dict[str, Any]] = [
        {"type": "Warning"},
        {"reason": "Kept"},
        {"note": "made pod 1"},
        {"action": "Reconcile"},
        {"subject": evolve(ABOUT, uid="v")},
    ]
    assert [ledger.count(evolve(MADE, **change), START, 1000.0).count for change in changes] == [1] * 5


@pytest.mark.rule("event-2")
def test_combined_events_keep_all_other_fields_until_the_window_for_similar_notes_ends() -> None:
    ledger = EventLedger()

    def heard(number: int, now: float) -> str:
        series = ledger.count(evolve(MADE, note=f"made pod {number}"), START, now)
        assert evolve(series.content, note="made pod 0") == MADE
        return series.content.note

    for number in range(SIMILAR_NOTES):
        assert heard(number, 0.0) == f"made pod {number}"
    assert heard(77, SIMILAR_SECONDS) == COMBINED + "made pod 77"
    assert heard(0, SIMILAR_SECONDS) == "made pod 0"
    assert heard(78, SIMILAR_SECONDS + 0.1) == "made pod 78"


@pytest.mark.rule("event-3")
def test_a_burst_has_exactly_its_size_and_each_refill_adds_one_write() -> None:
    ledger = EventLedger()
    assert [ledger.may_write(ABOUT, 5.0) for _ in range(BURST + 2)] == [True] * BURST + [False] * 2
    later = 5.0 + 2 * REFILL_SECONDS
    assert [ledger.may_write(ABOUT, later) for _ in range(3)] == [True, True, False]
    assert ledger.may_write(evolve(ABOUT, uid="v"), later)


MANY = 5_000
"""More objects than were once remembered: 4,096."""


def about(number: int) -> EventSubject:
    return evolve(ABOUT, uid=str(number))


@pytest.mark.rule("event-3")
def test_repeated_events_of_any_number_of_objects_are_counted_in_one_each() -> None:
    ledger = EventLedger()
    for count in (1, 2, 3):
        told = [ledger.count(evolve(MADE, subject=about(n)), START, float(count)) for n in range(MANY)]
        assert {series.count for series in told} == {count}


@pytest.mark.rule("event-3")
def test_the_burst_is_limited_per_object_for_any_number_of_objects() -> None:
    ledger = EventLedger()
    allowed = [[ledger.may_write(about(n), 5.0) for n in range(MANY)] for _ in range(BURST + 1)]
    assert [set(turn) for turn in allowed] == [{True}] * BURST + [{False}]


def test_entries_that_no_longer_make_a_difference_are_forgotten() -> None:
    ledger = EventLedger()
    for number in range(MANY):
        ledger.count(evolve(MADE, subject=about(number)), START, 0.0)
        ledger.may_write(about(number), 0.0)
    late = max(SERIES_ENDS_AFTER, SIMILAR_SECONDS, REFILL_SECONDS) + 1
    for number in range(MANY):
        ledger.count(evolve(MADE, subject=about(MANY + number)), START, late)
        ledger.may_write(about(MANY + number), late)
    assert [len(ledger._series), len(ledger._notes), len(ledger._buckets)] == [MANY] * 3


@pytest.mark.parametrize(
    ("note", "kept"),
    [
        ("x" * 1024, "x" * 1024),
        ("x" * 1025, "x" * 1024),
        ("x" + "ä" * 600, "x" + "ä" * 511),
        ("a file \udcff", "a file ?"),
        ("\udcff" * 2000, "?" * 1024),
    ],
)
def test_a_note_is_truncated_between_characters_and_invalid_characters_are_replaced(
    note: str, kept: str
) -> None:
    assert evolve(MADE, note=note).note == kept
    assert evolve(MADE, reason=f"R{note}").reason == f"R{note}"[:128]
