"""Kubernetes' CEL functions for semantic versions, whose grammar and order are the semver library's."""

import re
from typing import Final

from semver import Version

from reconcile.embedded.schema.cel.network import Opaque

_SHORT: Final = re.compile(r"[+-]")


def semver(text: str, normalise: bool = False) -> Opaque:
    """`semver(text)`; raises ValueError unless it is a version.

    `normalise` takes a leading `v`, zeros before numbers, and versions of one or two numbers.
    """
    return {"semver": str(Version.parse(_normalised(text) if normalise else text))}


def is_semver(text: str, normalise: bool = False) -> bool:
    """`isSemver(text)`."""
    try:
        semver(text, normalise)
    except ValueError:
        return False
    return True


def major(version: Opaque) -> int:
    """`version.major()`."""
    return _held(version).major


def minor(version: Opaque) -> int:
    """`version.minor()`."""
    return _held(version).minor


def patch(version: Opaque) -> int:
    """`version.patch()`."""
    return _held(version).patch


def compare(left: Opaque, right: Opaque) -> int:
    """`version.compareTo(other)`: -1, 0 or 1; build metadata does not count."""
    return _held(left).compare(_held(right))


def _held(version: Opaque) -> Version:
    return Version.parse(version["semver"])


def _normalised(text: str) -> str:
    parts = [_without_zeros(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3 and _SHORT.search(parts[-1]):
        raise ValueError("short version cannot contain PreRelease/Build meta data")
    return ".".join((*parts, "0", "0")[:3])


def _without_zeros(part: str) -> str:
    if len(part) < 2:
        return part
    rest = part.lstrip("0")
    return rest if rest[:1] and rest[0] in "0123456789" else f"0{rest}"
