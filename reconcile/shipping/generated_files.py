"""Generated files that people edit: what is to be written when they are generated again. Pure functions.

A file is compared with what was generated last (the base), so an edit is told from an older generation.
"""

from collections.abc import Iterator, Mapping, Sequence
from difflib import unified_diff

from attrs import frozen

from reconcile.shipping.three_way_merge import merge


@frozen
class Change:
    """A file that is written, or for `after=None` deleted."""

    path: str
    before: str | None
    after: str | None


@frozen
class Kept:
    """Where an edit is kept although something else was generated; `line` is 0 for the whole file."""

    path: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.reason}" if self.line else f"{self.path}: {self.reason}"


@frozen
class Update:
    changes: Sequence[Change]
    """With the edits of each file in it."""
    edited: Sequence[str]
    """The files that are not as they were generated."""
    kept: Sequence[Kept]


def update_of(base: Mapping[str, str], yours: Mapping[str, str], theirs: Mapping[str, str]) -> Update:
    """What makes of the files `yours` those of a new generation, `theirs`, without any edit being lost."""
    changes: list[Change] = []
    edited: list[str] = []
    kept: list[Kept] = []
    for path in sorted({*base, *theirs}):
        old, own, new = (files.get(path) for files in (base, yours, theirs))
        if own == new:
            continue
        if own == old:
            changes.append(Change(path, own, new))
            continue
        edited.append(path)
        if new == old:
            continue
        if old is None or own is None or new is None:
            kept.append(Kept(path, 0, _reason(old, own, new)))
            continue
        merged = merge(old, own, new)
        if merged.text != own:
            changes.append(Change(path, own, merged.text))
        kept += [Kept(path, one.line, _generated(one.generated)) for one in merged.overlaps]
    return Update(changes, edited, kept)


def _reason(old: str | None, own: str | None, new: str | None) -> str:
    if own is None:
        return "you deleted it, and it is generated differently now"
    if new is None:
        return "you changed it, and it is not generated any more"
    return "it is not from here, and a file of this name is generated"


def _generated(text: str) -> str:
    lines = text.splitlines()
    if not lines:
        return "you changed it, and it is not generated any more"
    more = f" (and {len(lines) - 1} more lines)" if len(lines) > 1 else ""
    return f"you changed it, and generated is {lines[0].strip()!r}{more}"


def diff_of(changes: Sequence[Change], folder: str) -> str:
    """The changes as a unified diff of files in a folder."""
    return "".join(line for change in changes for line in _diff(change, folder))


def _diff(change: Change, folder: str) -> Iterator[str]:
    name = f"{folder}/{change.path}"
    before, after = ((text or "").splitlines(keepends=True) for text in (change.before, change.after))
    old, new = ("/dev/null" if text is None else name for text in (change.before, change.after))
    for line in unified_diff(before, after, old, new):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
