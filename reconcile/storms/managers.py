"""Who wrote a field, from an object's managedFields."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

_PART = re.compile(r"\.([^.\[]+)|\[(\d+)\]")


def writer_of(fields: Sequence[Mapping[str, Any]], paths: Sequence[str], but: str = "") -> str:
    """The field manager, other than `but`, that was the last to write one of `paths`; empty if none is known.

    Without paths, the one that was the last to write anything.
    """
    found = [
        (entry.get("time") or "", entry.get("manager") or "")
        for entry in fields
        if entry.get("manager") != but and _has_any(entry.get("fieldsV1") or {}, paths)
    ]
    return max(found, default=("", ""))[1]


def _has_any(owned: Mapping[str, Any], paths: Sequence[str]) -> bool:
    return not paths or any(_has(owned, path) for path in paths)


def _has(owned: Mapping[str, Any], path: str) -> bool:
    """Whether a set of fields has that path, or something within it. Elements of lists are not told apart."""
    for name, number in _PART.findall(path):
        if number:
            return True
        inner = owned.get(f"f:{name}")
        if inner is None:
            return False
        if not inner:
            return True
        owned = inner
    return True
