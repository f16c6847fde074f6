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


def held_version(version: Opaque) -> Version:
    """The version that a value stands for."""
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
