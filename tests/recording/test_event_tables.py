"""Events that are written as tables are read back as they were, and made-up tables are refused."""

import tracemalloc
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconcile.recording import event_tables
from reconcile.recording.event_tables import DamagedTables, TableReader, TableWriter
from reconcile.recording.recorded_events import (
    Answered,
    Began,
    Changed,
    Ended,
    Noted,
    RecordedCause,
    Sent,
    Stored,
    TimedEvent,
    Woke,
)

AT = st.integers(0, 2**40)
RUN = st.integers(0, 50)
TEXT = st.text("ab", max_size=3)
VERSION = st.integers(0, 2**60)
CONFIGS = "/v1/ConfigMap/configmaps"
OBJECTS = st.builds(
    lambda uid, version, text: msgspec.json.encode(
        {"metadata": {"uid": uid, "resourceVersion": str(version)}, "data": {"a": text, "b": "c"}}
    ),
    st.sampled_from(["", "u1", "u2"]),
    st.integers(1, 10**6),
    st.text(max_size=4),
)
BODIES = OBJECTS | st.binary(max_size=5)
CAUSES = st.builds(
    RecordedCause,
    st.sampled_from(["added", "updated", "deleted"]),
    st.sampled_from(["", CONFIGS]), TEXT, TEXT, VERSION, TEXT, st.booleans(), VERSION,
    st.lists(TEXT, max_size=2), TEXT,
)  # fmt: skip
CHANCE = st.tuples(st.sampled_from(["now", "random"]), TEXT | st.floats(0, 1))
EVENTS = st.one_of(
    st.builds(Began, AT, RUN, TEXT, TEXT, TEXT, TEXT, RUN, RUN, st.lists(CAUSES, max_size=3)),
    st.builds(
        Sent, AT, RUN, RUN, TEXT, TEXT, TEXT, st.dictionaries(TEXT, TEXT, max_size=2), TEXT,
        st.none() | BODIES,
    ),
    st.builds(Answered, AT, RUN, RUN, RUN, st.dictionaries(TEXT, TEXT, max_size=2), BODIES, TEXT, TEXT),
    st.builds(
        Changed, AT, TEXT, st.just(CONFIGS), TEXT, TEXT, VERSION, st.lists(BODIES, max_size=3), TEXT, TEXT
    ),
    st.builds(Woke, AT, RUN, st.integers(-1, 5)),
    st.builds(
        Ended, AT, RUN, TEXT, TEXT, st.booleans(), st.none() | st.floats(0, 9), st.none() | RUN, TEXT, TEXT,
        st.lists(CHANCE, max_size=2),
    ),
    st.builds(Noted, AT, TEXT),
    st.builds(
        Stored, AT, TEXT, st.just(CONFIGS), TEXT, VERSION,
        st.lists(st.tuples(OBJECTS, st.binary(max_size=3), st.binary(max_size=3)), max_size=3),
    ),
)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(EVENTS, min_size=1, max_size=8), max_size=3))
def test_all_events_are_read_back_as_they_were_written(frames: list[list[TimedEvent]]) -> None:
    writer, reader = TableWriter(), TableReader()
    for events in frames:
        for event in events:
            writer.add(event)
        assert list(reader.read(writer.frame())) == events


def frame_of(*events: TimedEvent) -> bytes:
    writer = TableWriter()
    for event in events:
        writer.add(event)
    return writer.frame()


def read(frame: bytes) -> list[TimedEvent]:
    return list(TableReader().read(frame))


NOTE = Noted(1, "leads")
SENT = Sent(2, 1, 0, "", "PUT", "/x", {}, "", b'{"a":1}')
BEGAN = Began(
    3, 1, "", "a", "b", "c", 0, 0, [RecordedCause("added", CONFIGS, "", "", 1, "", False, 1, [], "")]
)
VALUES = st.recursive(
    st.none() | st.integers(-(2**63), 2**63) | TEXT | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 40), max_size=3), VALUES)
def test_tables_in_which_anything_else_stands_are_read_or_refused(places: list[int], value: Any) -> None:
    tables = msgspec.msgpack.decode(frame_of(NOTE, SENT, BEGAN), strict=False)
    here = tables
    for number, place in enumerate(places):
        keys = [*here] if isinstance(here, dict) else [*range(len(here))]
        if not keys:
            break
        key = keys[place % len(keys)]
        if number == len(places) - 1 or not isinstance(here[key], list | dict):
            here[key] = value
            break
        here = here[key]
    with suppress(DamagedTables):
        read(msgspec.msgpack.encode(tables))


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda tables: tables.__setitem__(0, bytes(1 << 17)), "a frame of 131072 events"),
        (lambda tables: tables.__setitem__(0, b"\x63"), "an event with the tag 99"),
        (lambda tables: tables[2][7].pop(), "a table of 1 columns"),
        (lambda tables: tables[2][7][0].extend([1, 1]), "a column of 3 values"),
        (lambda tables: tables[2][7][0].clear(), "a column that is not as long as its table"),
        (lambda tables: tables[2].__setitem__(7, 5), "a column that is not a list"),
        (lambda tables: tables[2].__setitem__(99, []), "99"),
        (lambda tables: tables[3].pop(), "a table of 9 columns for RecordedCause"),
        (lambda tables: tables[2][2][2].__setitem__(0, "no number"), "Expected `int`, got `str`"),
        (lambda tables: tables[4].clear(), "a body is missing"),
        (lambda tables: tables[1].pop(), "zip"),
    ],
)
def test_damage_is_named(damage: Any, why: str) -> None:
    tables = msgspec.msgpack.decode(frame_of(NOTE, SENT, BEGAN), strict=False)
    damage(tables)
    with pytest.raises(DamagedTables, match=why):
        read(msgspec.msgpack.encode(tables))


LONG = b"\xdd" + (8_000_000).to_bytes(4) + bytes([0x90]) * 8_000_000
"""A list of 8 million empty lists: 8 MB that become half a gigabyte in memory."""


@pytest.mark.rule("recording-hostile")
@pytest.mark.parametrize("place", range(1, 7))
def test_lists_that_would_fill_the_memory_are_refused_before_they_are_read(place: int) -> None:
    parts = [msgspec.Raw(msgspec.msgpack.encode(part)) for part in (b"\x07", [0], {}, [], [], [], [])]
    parts[place] = msgspec.Raw(LONG) if place != 2 else msgspec.Raw(b"\x81\x07\x92\x91\xc0" + LONG)
    frame = msgspec.msgpack.encode(parts)
    tracemalloc.start()
    with pytest.raises(DamagedTables):
        read(frame)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 * len(LONG)


@pytest.mark.parametrize("resource", ["", "/v1/ConfigMap", f"/v1/ConfigMap/{'s' * 2_000}"])
def test_a_resource_that_cannot_be_one_is_refused(resource: str) -> None:
    with pytest.raises(DamagedTables, match="resource"):
        read(frame_of(Changed(1, "", resource, "", "clear")))


def test_an_event_whose_bodies_would_fill_the_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_tables, "LARGEST_EVENT", 1_000)
    body = msgspec.json.encode({"metadata": {"uid": "u"}, "data": "x" * 400})
    changed = Changed(1, "", CONFIGS, "", "stage", 0, [body] * 4)
    assert len(frame_of(changed)) < 700
    with pytest.raises(DamagedTables, match="an event of more than 1000 bytes"):
        read(frame_of(changed))
