"""The laws of a merge: no change is lost, and where two disagree the author's stays."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from reconcile.shipping.three_way_merge import Overlap, merge

LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "d\n", "e\n"]), max_size=12)
TEXTS = LINES.map("".join)


def numbered(count: int) -> list[str]:
    return [f"line {number}\n" for number in range(count)]


@given(TEXTS, TEXTS)
def test_a_side_that_changed_nothing_takes_the_changes_of_the_other(base: str, changed: str) -> None:
    assert merge(base, base, changed).text == changed
    assert merge(base, changed, base).text == changed
    assert not merge(base, base, changed).overlaps
    assert not merge(base, changed, base).overlaps


@given(TEXTS, TEXTS)
def test_what_both_changed_alike_is_changed_once(base: str, changed: str) -> None:
    assert merge(base, changed, changed).text == changed
    assert not merge(base, changed, changed).overlaps


@given(TEXTS, TEXTS, TEXTS)
def test_without_an_overlap_it_is_the_same_whoever_is_the_author(base: str, one: str, other: str) -> None:
    forth, back = merge(base, one, other), merge(base, other, one)
    assert len(forth.overlaps) == len(back.overlaps)
    if not forth.overlaps:
        assert forth.text == back.text


@given(TEXTS, TEXTS, TEXTS)
def test_a_merged_text_merged_again_stays(base: str, yours: str, theirs: str) -> None:
    merged = merge(base, yours, theirs).text
    assert merge(theirs, merged, theirs).text == merged


@given(TEXTS, LINES, TEXTS)
def test_no_line_that_the_author_added_is_lost(base: str, added: Sequence[str], theirs: str) -> None:
    yours = "".join(f"mine {line}{rest}" for line, rest in zip(added, base.splitlines(True), strict=False))
    merged = merge(base, yours, theirs).text
    assert [line for line in merged.splitlines() if line.startswith("mine")] == [
        line for line in yours.splitlines() if line.startswith("mine")
    ]


def test_changes_apart_are_both_there() -> None:
    base = numbered(9)
    yours, theirs = [*base], [*base]
    yours[1], theirs[7] = "mine\n", "generated\n"
    theirs.insert(5, "new\n")
    both = [*base]
    both[1], both[7] = "mine\n", "generated\n"
    both.insert(5, "new\n")
    assert merge("".join(base), "".join(yours), "".join(theirs)).text == "".join(both)


def test_where_both_changed_a_line_the_authors_stays_and_the_other_is_told() -> None:
    base = numbered(5)
    yours, theirs = [*base], [*base]
    yours[2], theirs[2] = "mine\n", "generated\n"
    yours.insert(0, "first\n")
    merged = merge("".join(base), "".join(yours), "".join(theirs))
    assert merged.text == "".join(yours)
    assert merged.overlaps == [Overlap(line=4, generated="generated\n")]


def test_a_long_file_is_merged_at_once() -> None:
    """As a definition: thousands of lines, of which most are alike."""
    base = ["type: string\n", "type: object\n"] * 10_000
    yours, theirs = [*base], [*base]
    yours.insert(10_000, "mine\n")
    theirs.insert(19_000, "generated\n")
    merged = merge("".join(base), "".join(yours), "".join(theirs)).text.splitlines()
    assert (merged[10_000], merged[19_001], len(merged)) == ("mine", "generated", 20_002)
