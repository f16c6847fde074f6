"""A list taken apart while it arrives."""

import json
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from informers import MalformedAnswer, Snapshot
from informers.line_splitter import LineSplitter
from informers.listing import ListParser

NESTED = st.sampled_from(
    [1, "},{", '{"apiVersion":"v1"}', [{"apiVersion": "v1", "x": 1}, {"apiVersion": "v1"}], {"items": [{}]}]
)
ITEMS = st.lists(NESTED, max_size=6)
STYLES = st.sampled_from([{"separators": (",", ":")}, {}, {"indent": 2}])
METADATA = {"resourceVersion": "9", "continue": "more"}


def item(number: int, content: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": f"n-{number}"}, "spec": content}


def parsed(body: bytes, size: int) -> tuple[list[dict[str, Any]], ListParser, int]:
    parser = ListParser(Snapshot.from_json)
    found: list[Snapshot] = []
    for start in range(0, len(body), size):
        found += parser.feed(body[start : start + size])
    early = len(found)
    found += parser.finish()
    return [snapshot.to_dict() for snapshot in found], parser, early


@given(contents=ITEMS, style=STYLES, size=st.integers(1, 400), last=st.booleans())
def test_a_list_gives_its_items_however_it_is_written_and_wherever_it_is_cut(
    contents: list[Any], style: dict[str, Any], size: int, last: bool
) -> None:
    items = [item(number, content) for number, content in enumerate(contents)]
    body = {"kind": "ThingList", "metadata": METADATA, "items": items}
    if last:
        body = {"items": items, "kind": "ThingList", "metadata": METADATA}
    found, parser, _ = parsed(json.dumps(body, **style).encode(), size)
    assert found == items
    assert (parser.version, parser.token) == ("9", "more")


def test_items_are_there_before_the_list_has_ended() -> None:
    body = json.dumps({"metadata": METADATA, "items": [item(number, "x" * 50) for number in range(100)]})
    assert parsed(body.encode(), 1000)[2] == 99


def test_an_item_full_of_what_looks_like_an_end_costs_memory_and_no_time() -> None:
    trap = [{"apiVersion": "v1", "n": number} for number in range(2000)]
    items = [item(0, trap), item(1, trap)]
    found, _, early = parsed(json.dumps({"metadata": METADATA, "items": items}).encode(), 1 << 16)
    assert found == items
    assert early == 0


def test_what_stands_before_the_first_item_is_looked_through_once() -> None:
    body = json.dumps({"metadata": METADATA, "note": "x" * (1 << 21), "items": [item(0, 1), item(1, 2)]})
    begun = time.process_time()
    found, parser, early = parsed(body.encode(), 512)
    assert time.process_time() - begun < 0.5
    assert (found, parser.version, early) == ([item(0, 1), item(1, 2)], "9", 1)


@pytest.mark.parametrize("items", [None, []])
def test_an_empty_list_is_a_list(items: Any) -> None:
    found, parser, _ = parsed(json.dumps({"metadata": METADATA, "items": items}).encode(), 10)
    assert found == []
    assert parser.version == "9"


@pytest.mark.parametrize("cut", [1, 5, 60, 120])
def test_half_a_list_is_none(cut: int) -> None:
    body = json.dumps({"metadata": METADATA, "items": [item(0, 1), item(1, 2)]}).encode()
    with pytest.raises(msgspec.DecodeError):
        parsed(body[:-cut], 50)


def test_an_item_that_does_not_end_is_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("informers.listing.LONGEST", 1000)
    body = json.dumps({"metadata": METADATA, "items": [item(0, "x" * 5000)]}).encode()
    with pytest.raises(MalformedAnswer, match="more than 1000 bytes"):
        parsed(body, 100)


def test_a_line_that_does_not_end_is_not_kept_for_ever() -> None:
    lines = LineSplitter(longest=1000)
    with pytest.raises(MalformedAnswer, match="more than 1000 bytes"):
        for _ in range(20):
            list(lines.feed(b"x" * 100))
    assert lines.pending <= 1100


def ends_within(count: int) -> list[dict[str, Any]]:
    return [{"apiVersion": "v1", "n": number} for number in range(count + 1)]


@pytest.mark.parametrize(("within", "early"), [(0, 2), (62, 2), (63, 2), (64, 0)])
def test_so_many_ends_within_an_item_are_tried_for_each_item_anew(within: int, early: int) -> None:
    items = [item(number, ends_within(within)) for number in range(3)]
    body = json.dumps({"metadata": METADATA, "items": items}).encode()
    found, parser, told = parsed(body, 1 << 16)
    assert (found, parser.version, parser.token) == (items, "9", "more")
    assert told == early


def test_a_list_has_no_version_before_it_has_ended() -> None:
    parser = ListParser(Snapshot.from_json)
    list(parser.feed(json.dumps({"metadata": METADATA, "items": [item(0, 1)]}).encode()))
    assert (parser.version, parser.token) == ("", "")


@pytest.mark.parametrize(
    ("begun", "kept"),
    [(b'{"items":[', b'{"apiVersion":"'), (b"", b'{"metadata":{"remainingItemCount":'), (b"", b"")],
)
def test_as_much_is_kept_of_what_does_not_end_as_an_item_may_take(
    monkeypatch: pytest.MonkeyPatch, begun: bytes, kept: bytes
) -> None:
    monkeypatch.setattr("informers.listing.LONGEST", 1000)
    parser = ListParser(Snapshot.from_json)
    list(parser.feed(begun + kept))
    list(parser.feed(b"1" * (1000 - len(kept))))
    with pytest.raises(MalformedAnswer, match=r"^an item of a list of more than 1000 bytes$"):
        list(parser.feed(b"1"))
