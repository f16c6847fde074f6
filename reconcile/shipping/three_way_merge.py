"""Merges two changes of a text by lines. Where both changed the same ones, the author's are kept. Pure."""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from attrs import frozen


@frozen
class Overlap:
    """Lines that both sides changed: where the author's begin in the result, and what was generated."""

    line: int
    generated: str


@frozen
class Merged:
    text: str
    overlaps: Sequence[Overlap] = ()


@frozen
class _Region:
    """The same part of the three texts."""

    base: Sequence[str]
    yours: Sequence[str]
    theirs: Sequence[str]


def merge(base: str, yours: str, theirs: str) -> Merged:
    """What `yours` and `theirs`, each made of `base`, say together. `yours` wins where they disagree."""
    lines: list[str] = []
    overlaps: list[Overlap] = []
    for region in _regions(*(text.splitlines(keepends=True) for text in (base, yours, theirs))):
        if region.yours == region.base:
            lines += region.theirs
            continue
        if region.theirs not in (region.base, region.yours):
            overlaps.append(Overlap(len(lines) + 1, "".join(region.theirs)))
        lines += region.yours
    return Merged("".join(lines), overlaps)


def _regions(base: Sequence[str], yours: Sequence[str], theirs: Sequence[str]) -> Iterator[_Region]:
    """The texts from one line that is the same in all to the next, and these lines themselves."""
    in_yours, in_theirs = _places(base, yours), _places(base, theirs)
    at_base = at_yours = at_theirs = 0
    for number, line in enumerate(base):
        if number not in in_yours or number not in in_theirs:
            continue
        to_yours, to_theirs = in_yours[number], in_theirs[number]
        if number > at_base or to_yours > at_yours or to_theirs > at_theirs:
            yield _Region(base[at_base:number], yours[at_yours:to_yours], theirs[at_theirs:to_theirs])
        yield _Region([line], [line], [line])
        at_base, at_yours, at_theirs = number + 1, to_yours + 1, to_theirs + 1
    yield _Region(base[at_base:], yours[at_yours:], theirs[at_theirs:])


def _places(base: Sequence[str], other: Sequence[str]) -> dict[int, int]:
    """Where lines of `base` are in `other`, by their number, in the same order."""
    start = _same(base, other)
    end = _same(base[start:][::-1], other[start:][::-1])  # comparing all lines of a long file takes long
    old, new = base[start : len(base) - end], other[start : len(other) - end]
    middle = SequenceMatcher(None, old, new, autojunk=False)
    places = {number: number for number in range(start)}
    for block in middle.get_matching_blocks():
        places |= {start + block.a + number: start + block.b + number for number in range(block.size)}
    return places | {len(base) - number: len(other) - number for number in range(end, 0, -1)}


def _same(some: Sequence[str], others: Sequence[str]) -> int:
    """How many of the first lines are the same."""
    pairs = zip(some, others, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(some), len(others)))
