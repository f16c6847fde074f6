"""Who wrote a field, from an object's managedFields."""

from collections.abc import Mapping, Sequence
from typing import Any


def writer_of(fields: Sequence[Mapping[str, Any]], paths: Sequence[str], but: str) -> str:
    """The last field manager, other than `but`, that wrote one of `paths`; empty if none is known.

    Without paths, the last one that wrote anything.
    """
    writers = [
        (entry.get("time") or "", entry["manager"])
        for entry in fields
        if entry.get("manager") not in (None, "", but) and _has_any(entry.get("fieldsV1") or {}, paths)
    ]
    return max(writers)[1] if writers else ""


def _has_any(owned: Mapping[str, Any], paths: Sequence[str]) -> bool:
    return not paths or any(_has(owned, path) for path in paths)


def _has(owned: Mapping[str, Any], path: str) -> bool:
    """Whether a set of fields has that path, what is around it, or something within it.

    All elements of a list count as one. Names may have dots, as those of annotations do.
    """
    return any(
        rest[:1] in ("", "[") or (rest[0] == "." and (not inner or _has(inner, rest)))
        for name, inner in owned.items()
        if (rest := path.removeprefix(f".{name.removeprefix('f:')}")) != path
    )
