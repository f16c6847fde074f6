"""A list taken apart while it arrives."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from informers import MalformedAnswer, Snapshot
from informers.line_splitter import LineSplitter
from informers.listing import ListParser
from tests.helpers.processor_time import bounded

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
def test_a_list_yields_its_items_in_any_formatting_and_chunking(
    contents: list[Any], style: dict[str, Any], size: int, last: bool
) -> None:
    items = [item(number, content) for number, content in enumerate(contents)]
    body = {"kind": "ThingList", "metadata": METADATA, "items": items}
    if last:
        body = {"items": items, "kind": "ThingList", "metadata": METADATA}
    found, parser, _ = parsed(json.dumps(body, **style).encode(), size)
    assert found == items
    assert (parser.version, parser.token) == ("9", "more")


def test_items_are_available_before_the_list_has_ended() -> None:
    body = json.dumps({"metadata": METADATA, "items": [item(number, "x" * 50) for number in range(100)]})
    assert parsed(body.encode(), 1000)[2] == 99


def test_an_item_full_of_apparent_ends_costs_memory_but_no_time() -> None:
    trap = [{"apiVersion": "v1", "n": number} for number in range(2000)]
    items = [item(0, trap), item(1, trap)]
    found, _, early = parsed(json.dumps({"metadata": METADATA, "items": items}).encode(), 1 << 16)
    assert found == items
    assert early == 0


def test_the_text_before_the_first_item_is_scanned_once() -> None:
    body = json.dumps({"metadata": METADATA, "note": "x" * (1 << 21), "items": [item(0, 1), item(1, 2)]})
    with bounded(0.5):
        found, parser, early = parsed(body.encode(), 512)
    assert (found, parser.version, early) == ([item(0, 1), item(1, 2)], "9", 1)


@pytest.mark.parametrize("items", [None, []])
def test_an_empty_list_is_valid(items: Any) -> None:
    found, parser, _ = parsed(json.dumps({"metadata": METADATA, "items": items}).encode(), 10)
    assert found == []
    assert parser.version == "9"


@pytest.mark.parametrize("cut", [1, 5, 60, 120])
def test_a_truncated_list_is_an_error(cut: int) -> None:
    body = json.dumps({"metadata": METADATA, "items": [item(0, 1), item(1, 2)]}).encode()
    with pytest.raises(msgspec.DecodeError):
        parsed(body[:-cut], 50)


def test_the_size_of_an_unfinished_item_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("informers.listing.LONGEST", 1000)
    body = json.dumps({"metadata": METADATA, "items": [item(0, "x" * 5000)]}).encode()
    with pytest.raises(MalformedAnswer, match="more than 1000 bytes"):
        parsed(body, 100)


def test_the_size_of_an_unfinished_line_is_bounded() -> None:
    lines = LineSplitter(longest=1000)
    with pytest.raises(MalformedAnswer, match="more than 1000 bytes"):
        for _ in range(20):
            list(lines.feed(b"x" * 100))
    assert lines.pending <= 1100


def ends_within(count: int) -> list[dict[str, Any]]:
    return [{"apiVersion": "v1", "n": number} for number in range(count + 1)]


@pytest.mark.parametrize(("within", "early"), [(0, 2), (62, 2), (63, 2), (64, 0)])
def test_the_bound_on_apparent_ends_applies_to_each_item_separately(within: int, early: int) -> None:
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
def test_an_unfinished_item_is_kept_up_to_the_largest_size_of_an_item(
    monkeypatch: pytest.MonkeyPatch, begun: bytes, kept: bytes
) -> None:
    monkeypatch.setattr("informers.listing.LONGEST", 1000)
    parser = ListParser(Snapshot.from_json)
    list(parser.feed(begun + kept))
    list(parser.feed(b"1" * (1000 - len(kept))))
    with pytest.raises(MalformedAnswer, match=r"^an item of a list of more than 1000 bytes$"):
        list(parser.feed(b"1"))
