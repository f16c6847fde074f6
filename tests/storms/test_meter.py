"""What is remembered of the writes of each key: from when, when it begins anew, and how much at most."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from informers import APIResource, Key, Snapshot
from reconcile.runs.run_request import Cause, Request
from reconcile.runs.write_events import EndedWrite
from reconcile.storms import meter
from reconcile.storms.changes import PATHS_OF_A_WRITE, WHOLE, FieldRef, fingerprint
from reconcile.storms.detection import WINDOW, FieldWrite, WokenBy, find_loop
from reconcile.storms.meter import (
    ACTIVE_KEYS,
    ACTIVE_SECONDS,
    FIELDS_A_KEY,
    WRITES_A_FIELD,
    ActiveKey,
    Meter,
    woken_by_of,
)
from tests.helpers.writes import ended_write

TOYS = APIResource("example.com", "v1", "Toy", "toys")
UPDATED = Cause("updated", TOYS, Key("default", "a"), 1)


def toy(
    version: int = 1,
    generation: int | None = 1,
    uid: str = "u",
    labels: Mapping[str, str] | None = None,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Snapshot:
    metadata = {"name": "a", "namespace": "default", "uid": uid, "generation": generation, "labels": labels}
    metadata["resourceVersion"] = str(version)
    obj = {"kind": "Toy", "metadata": metadata, "spec": spec, "status": status}
    return Snapshot.from_json(msgspec.json.encode(obj))


def wrote(here: Meter, now: float, name: str = "a", primary: Snapshot | None = None, **spec: Any) -> bool:
    """One run that wrote its own object; whether the key is active then."""
    request = Request("default", name)
    base, written = primary or toy(), toy(2, **(spec or {"size": now}))
    here.wrote(
        request, base, [ended_write("PATCH", TOYS, request.key, "", {}, base, written)], [UPDATED], now
    )
    return here.active(request) is not None


def active_of(here: Meter, name: str = "a") -> ActiveKey:
    active = here.active(Request("default", name))
    assert active is not None
    return active


def test_a_key_becomes_active_with_its_second_writing_run() -> None:
    here = Meter(TOYS)
    assert (wrote(here, 0), here.any_active) == (False, False)
    assert (wrote(here, 1), here.any_active) == (True, True)


@pytest.mark.parametrize(("seconds", "active"), [(ACTIVE_SECONDS, True), (ACTIVE_SECONDS + 1, False)])
def test_writes_far_apart_make_no_key_active(seconds: float, active: bool) -> None:
    here = Meter(TOYS)
    wrote(here, 1000)
    assert wrote(here, 1000 + seconds) is active


@pytest.mark.parametrize(
    ("runs", "seconds", "known"),
    [(1, ACTIVE_SECONDS, True), (1, ACTIVE_SECONDS + 1, False), (2, WINDOW, True), (2, WINDOW + 2, False)],
)
def test_a_key_is_forgotten_after_a_while_without_writes(runs: int, seconds: float, known: bool) -> None:
    here = Meter(TOYS)
    for _ in range(runs):
        wrote(here, 1000)
    here.quiet(Request("default", "a"), 1000 + seconds)
    assert bool(here.keys) is known
    assert here.any_active is (known and runs == 2)


def test_a_run_of_an_unknown_key_that_writes_nothing_leaves_nothing() -> None:
    here = Meter(TOYS)
    here.quiet(Request("default", "a"), 0)
    assert here.keys == {}


@pytest.mark.parametrize(
    ("then", "active"),
    [
        (toy(generation=1, other=2), True),  # the spec is the same
        (toy(generation=2, size=9), True),  # the field that the key itself writes
        (toy(generation=2, size=9, labels={"a": "1"}, status={"size": 1}), True),
        (toy(generation=2, other=2), False),
        (toy(generation=2, uid="another"), False),
        (toy(generation=1, uid="another"), False),
    ],
)
def test_the_history_of_a_key_restarts_when_its_desired_state_is_changed_by_others(
    then: Snapshot, active: bool
) -> None:
    here = Meter(TOYS)
    for second in range(2):
        wrote(here, second)
    assert wrote(here, 2, primary=then) is active


@pytest.mark.parametrize(("change", "active"), [({"other": 2}, False), ({"size": 9}, True), ({}, True)])
def test_so_it_does_for_kinds_without_a_generation(change: dict[str, int], active: bool) -> None:
    here, before = Meter(TOYS), toy(generation=None)
    for second in range(2):
        wrote(here, second, primary=before)
    assert wrote(here, 2, primary=toy(generation=None, **change)) is active


@pytest.mark.parametrize("answered", [True, False])
def test_changes_that_came_with_a_keys_own_write_do_not_restart_its_history(answered: bool) -> None:
    here, request, changed = Meter(TOYS), Request("default", "a"), toy(2, generation=2, other=5)
    unknown = ended_write("PATCH", TOYS, request.key, "", {}, None, changed)  # from no state that is known
    unanswered = ended_write("PATCH", TOYS, request.key, "", {}, toy(), None)
    of_another = ended_write("PATCH", TOYS, Key("default", "b"), "", {}, None, toy(3, generation=3))
    for second in range(2):
        sent = [unknown, of_another] if answered else [unknown, of_another, unanswered]
        here.wrote(request, toy(), sent, [UPDATED], second)
    assert wrote(here, 2, primary=changed)
    assert not wrote(here, 3, primary=toy(3, generation=3, other=6))


def test_runs_and_writes_are_counted_from_the_first_run_on() -> None:
    here, request = Meter(TOYS), Request("default", "a")
    for second in range(4):
        write = ended_write("PATCH", TOYS, request.key, "", {}, toy(), toy(2, size=second))
        here.wrote(request, toy(), [write] * 2, [UPDATED], second)
    for second in range(4, 7):
        here.quiet(request, second)
    active = active_of(here)
    assert (active.runs, active.writes, active.last_write) == (7, 6, 3)


def test_a_trail_has_the_last_writes_to_a_field_and_the_causes_of_their_runs() -> None:
    here, request, ref = (
        Meter(TOYS),
        Request("default", "a"),
        FieldRef(TOYS, Key("default", "a"), ".spec.size"),
    )
    for second in range(WRITES_A_FIELD + 5):
        wrote(here, second, size=second % 3)
    assert list(active_of(here).histories[ref]) == [
        FieldWrite(second, "reverted", fingerprint(second % 3), False)
        for second in range(5, WRITES_A_FIELD + 5)
    ]
    made = ended_write("POST", TOYS, Key("default", "b"), "", {}, None, toy(), fresh=True)
    write = ended_write("PATCH", TOYS, request.key, "", {}, toy(), toy(2, size=7))
    assert here.wrote(request, toy(), [write, made], [], 90) == [ref, FieldRef(TOYS, made.key, WHOLE)]
    assert active_of(here).histories[ref][-1] == FieldWrite(90, "timed", fingerprint(7), True)
    assert active_of(here).written == {(TOYS, request.key): (".spec.size",), (TOYS, made.key): ()}


B = Key("default", "b")
DELETED = ended_write("DELETE", TOYS, B, "", None, toy(), None)
PATCHED = ended_write("PATCH", TOYS, B, "", {}, toy(), toy(2, size=1))


@pytest.mark.rule("storm-found")
@pytest.mark.parametrize(
    ("sent", "cause", "woken_by"),
    [
        (DELETED, Cause("deleted", TOYS, B, 1), "own"),
        (DELETED, Cause("added", TOYS, B, 1), "other"),
        (DELETED, Cause("deleted", TOYS, Key("default", "c"), 1), "other"),
        (PATCHED, Cause("deleted", TOYS, B, 1), "other"),
    ],
)
def test_the_deletion_of_an_object_that_the_key_deleted_is_attributed_to_the_key(
    sent: EndedWrite, cause: Cause, woken_by: str
) -> None:
    here, request = Meter(TOYS), Request("default", "a")
    write = ended_write("PATCH", TOYS, request.key, "", {}, toy(), toy(2, size=1))
    wrote(here, 0)
    here.wrote(request, toy(), [sent], [UPDATED], 1)
    here.wrote(request, toy(), [write], [cause], 2)
    history = active_of(here).histories[FieldRef(TOYS, request.key, ".spec.size")]
    assert [write.woken_by for write in history] == [woken_by]


def test_the_first_echo_and_the_first_foreign_change_that_woke_a_run_are_remembered() -> None:
    here, request = Meter(TOYS), Request("default", "a")
    own, foreign = Cause("updated", TOYS, B, 1, echo=True), Cause("updated", TOYS, B, 2)
    wrote(here, 0)
    more = [Cause("updated", TOYS, B, 3, echo=True), Cause("updated", TOYS, B, 4)]
    here.wrote(request, toy(), [PATCHED], [Cause("retried"), own, foreign, *more], 1)
    assert (active_of(here).echo, active_of(here).foreign) == (own, foreign)
    here.wrote(request, toy(), [PATCHED], [Cause("retried")], 2)
    assert (active_of(here).echo, active_of(here).foreign) == (None, None)


def test_above_the_bound_on_active_keys_others_wait_and_take_no_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(meter, "ACTIVE_KEYS", 2)
    here = Meter(TOYS)
    for now, name in enumerate(("a", "a", "b", "b", "c", "c", "c")):
        wrote(here, now, name)
    assert [here.active(Request("default", name)) is not None for name in "abc"] == [True, True, False]
    here.note_loop(Request("default", "a"))
    assert wrote(here, 8, "c")
    assert active_of(here, "a").runs == 2
    here.forget(Request("default", "c"))
    wrote(here, 9, "d")
    assert wrote(here, 10, "d")


def test_a_key_that_has_settled_makes_room_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meter, "ACTIVE_KEYS", 1)
    here = Meter(TOYS)
    for now, name in ((0, "a"), (1, "a"), (100, "b"), (1 + ACTIVE_SECONDS, "b")):
        assert wrote(here, now, name) is (now == 1)
    assert wrote(here, 2 + ACTIVE_SECONDS, "b")
    assert here.active(Request("default", "a")) is None


def test_while_all_slots_are_taken_a_write_does_not_inspect_each_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[float] = []

    class Noted(ActiveKey):
        @property
        def last_write(self) -> float:
            looks.append(self._last)
            return self._last

        @last_write.setter
        def last_write(self, now: float) -> None:
            self._last = now

    monkeypatch.setattr(meter, "ACTIVE_KEYS", 50)
    monkeypatch.setattr(meter, "ActiveKey", Noted)
    here = Meter(TOYS)
    for now in (0, 1):
        for number in range(50):
            wrote(here, now, f"k{number}")
    for now in (2, 3):
        for number in range(50):
            wrote(here, now, f"waiting{number}")
    assert len(looks) < 200
    assert not wrote(here, 1 + ACTIVE_SECONDS, "waiting1")
    wrote(here, 2 + ACTIVE_SECONDS, "waiting2")
    assert here.active(Request("default", "waiting2")) is not None


def test_all_looping_keys_are_eventually_found_even_above_the_bound_on_active_keys() -> None:
    here = Meter(TOYS)
    keys = [f"k{number}" for number in range(ACTIVE_KEYS + 200)]
    found: set[str] = set()
    for turn in range(40):
        for name in keys:
            if name in found:
                continue
            request = Request("default", name)
            written = toy(2, size=turn % 2)
            sent = [
                ended_write("PATCH", TOYS, Key("default", "x"), "", {}, toy(1, size=(turn + 1) % 2), written)
            ]
            here.wrote(request, toy(), sent, [Cause("updated", TOYS, Key("default", "x"), 1)], float(turn))
            active = here.active(request)
            if active is not None and find_loop(active.histories, float(turn)) is not None:
                here.note_loop(request)
                found.add(name)
    assert found == set(keys)


def test_the_number_of_remembered_places_per_key_is_bounded() -> None:
    here = Meter(TOYS)
    for second in range(5):
        wrote(
            here,
            second,
            "a",
            None,
            **{f"field{second}x{number}": second for number in range(PATHS_OF_A_WRITE)},
        )
    histories = active_of(here).histories
    assert len(histories) == FIELDS_A_KEY
    wrote(here, 5, a_new_field=5, field1x0=5)
    assert len(histories) == FIELDS_A_KEY
    assert [write.at for write in histories[FieldRef(TOYS, Key("default", "a"), ".spec.field1x0")]] == [1, 5]


@pytest.mark.parametrize(
    ("causes", "woken_by"),
    [
        ([Cause("updated", TOYS, B, 5, echo=True)], "echo"),
        ([Cause("updated", TOYS, B, 5, echo=True), Cause("updated", TOYS, B, 6)], "reverted"),
        ([Cause("updated", TOYS, B, 5, echo=True), Cause("updated", TOYS, Key("default", "c"), 6)], "echo"),
        ([Cause("updated", TOYS, Key("default", "c"), 5)], "other"),
        ([Cause("updated", TOYS, Key("default", "c"), 5, echo=True)], "own"),
        ([Cause("updated", TOYS, Key("default", "c"), 5, echo=True), Cause("retried")], "own"),
        ([Cause("scheduled")], "timed"),
        ([Cause("scheduled"), Cause("retried")], "retried"),
        ([], "timed"),
    ],
)
def test_the_cause_of_a_write_is_determined_from_the_changed_field(
    causes: list[Cause], woken_by: WokenBy
) -> None:
    assert woken_by_of(causes, FieldRef(TOYS, B, ".spec.size")) == woken_by
