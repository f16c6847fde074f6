"""What a version changes, from a changelog in the format of Keep a Changelog. Pure functions."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from attrs import frozen

KINDS: Final = ("added", "changed", "deprecated", "removed", "fixed", "security")
_VERSION: Final = re.compile(r"##\s+\[?v?(?P<version>[^\s\]]+)")
_SECTION: Final = re.compile(r"###\s+(?P<kind>\w+)")
_ITEM: Final = re.compile(r"[-*]\s+(?P<text>.+)")
_LINK: Final = re.compile(r"\[([^\]]+)\]\([^)]*\)")


@frozen
class Change:
    kind: str
    """One of `KINDS`."""
    description: str


def changes_of(changelog: str, version: str) -> Sequence[Change]:
    """The changes below the heading of a version; none if it has no heading."""
    return [
        Change(kind, _LINK.sub(r"\1", text)) for kind, text in _items(changelog, version) if kind in KINDS
    ]


def _items(changelog: str, version: str) -> Iterator[tuple[str, str]]:
    """Each item with the kind of its section, its lines made one."""
    is_version, kind, item = False, "", ""
    for line in [*changelog.splitlines(), "## end"]:
        continued = item and line[:1] in (" ", "\t") and line.strip()
        if continued:
            item = f"{item} {line.strip()}"
            continue
        if item:
            yield kind, item
            item = ""
        if heading := _VERSION.match(line):
            is_version, kind = heading["version"] == version, ""
        elif section := _SECTION.match(line):
            kind = section["kind"].lower()
        elif is_version and kind and (found := _ITEM.match(line)):
            item = found["text"].strip()
