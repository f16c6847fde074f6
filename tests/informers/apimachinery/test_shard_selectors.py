"""Shard selectors: which bounds are taken, and which objects a range contains."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from informers.apimachinery.shard_selectors import SHARD_EXAMPLE, fnv1a, parse_shard_selector

FOOBAR, A = 0x85944171F73967E8, 0xAF63DC4C8601EC8C
"""The hashes of these texts, from the test vectors of FNV-1a (draft-eastlake-fnv)."""
LAST = 1 << 64


def shard(*ranges: tuple[str, int, int]) -> str:
    return " || ".join(f"shardRange(object.metadata.{of},'{s:#018x}','{e:#018x}')" for of, s, e in ranges)


@pytest.mark.parametrize(
    ("ranges", "contained"),
    [
        ([("uid", FOOBAR, FOOBAR + 1)], True),
        ([("uid", FOOBAR + 1, LAST)], False),
        ([("uid", 0, FOOBAR)], False),
        ([("namespace", A, A + 1)], True),
        ([("namespace", FOOBAR, FOOBAR + 1)], False),
        ([("uid", 0, 1), ("uid", FOOBAR, FOOBAR + 1)], True),
        ([("uid", 0, 1), ("uid", FOOBAR + 1, FOOBAR + 2)], False),
    ],
)
def test_a_range_includes_its_start_and_excludes_its_end(
    ranges: list[tuple[str, int, int]], contained: bool
) -> None:
    for text in (shard(*ranges), shard(*ranges).replace(" ", "")):
        assert any(one.contains("foobar", "a") for one in parse_shard_selector(text)) is contained


@given(st.integers(1, LAST - 1), st.text(max_size=8))
def test_adjacent_ranges_contain_each_object_once(bound: int, uid: str) -> None:
    ranges = parse_shard_selector(shard(("uid", 0, bound), ("uid", bound, LAST)))
    assert [one.contains(uid, "") for one in ranges].count(True) == 1


def test_the_hash_of_the_empty_text_is_the_offset_of_fnv1a() -> None:
    assert fnv1a("") == 0xCBF29CE484222325


def test_an_empty_text_has_no_ranges() -> None:
    assert parse_shard_selector(" ") == ()


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("0x0", "0x8000000000000000"),
        ("0x0000000000000000", "0x8000"),
        ("0x0000000000000000", "0xFFFFFFFFFFFFFFFF"),
        ("0x0000000000000000", "0x10000000000000001"),
        ("8", "0x8000000000000000"),
    ],
)
def test_a_bound_of_the_wrong_length_is_refused_with_an_example(start: str, end: str) -> None:
    with pytest.raises(ValueError, match="expected bounds of 16 lower-case hex digits") as refused:
        parse_shard_selector(f"shardRange(object.metadata.uid,'{start}','{end}')")
    example = str(refused.value).partition("such as ")[2]
    assert example == SHARD_EXAMPLE
    assert parse_shard_selector(example)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (shard(("uid", 1, 1)), "expected a start below the end"),
        (shard(("uid", 0, 1), ("namespace", 0, 1)), "expected ranges of uid, or of namespace, not of both"),
        (shard(("name", 0, 1)), "such as shardRange"),
        ("half of them", "such as shardRange"),
        (f"{SHARD_EXAMPLE} ||", "such as shardRange"),
    ],
)
def test_text_that_is_not_a_shard_selector_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=r"^invalid shard selector ") as refused:
        parse_shard_selector(text)
    assert problem in str(refused.value)
