"""Ranges of indexes as Jobs write them: `1,3-5,7`."""

import re
from typing import Final

_NUMBER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
# More digits than an index can have.
_DIGITS: Final = 18
Range = tuple[int, int]


def index_ranges(text: str, completions: int) -> list[Range]:
    """The ranges, each with its first and last index.

    Raises ValueError for a text that is not increasing, or has an index that is not below `completions`.
    """
    ranges: list[Range] = []
    for part in text.split(",") if text else ():
        found = _range(part, completions)
        if ranges and ranges[-1][1] >= found[0]:
            raise ValueError(f"non-increasing order, previous: {ranges[-1][1]}, current: {found[0]}")
        ranges.append(found)
    return ranges


def first_overlap(some: str, others: str, completions: int) -> int | None:
    """The first index that both texts have; parts that are no ranges are passed over."""
    first, second = (_readable(text, completions) for text in (some, others))
    common = [max(a, c) for a, b in first for c, d in second if a <= d and c <= b]
    return min(common, default=None)


def _readable(text: str, completions: int) -> list[Range]:
    ranges: list[Range] = []
    for part in text.split(",") if text else ():
        try:
            ranges.append(_range(part, completions))
        except ValueError:
            continue
    return ranges


def _range(text: str, completions: int) -> Range:
    limits = text.split("-")
    if len(limits) > 2:
        raise ValueError(f'the fragment "{text}" has more than two parts that are separated by a hyphen')
    first, last = _index(limits[0], completions), _index(limits[-1], completions)
    if len(limits) > 1 and first >= last:
        raise ValueError(f"non-increasing order, previous: {first}, current: {last}")
    return first, last


def _index(text: str, completions: int) -> int:
    if not _NUMBER.fullmatch(text) or len(text) > _DIGITS:
        raise ValueError(f'cannot convert string to integer for index: "{text}"')
    if int(text) >= completions:
        raise ValueError(f'too large index: "{text}"')
    return int(text)
