"""The effects of a write: fields and fingerprints of values, but no values; and who wrote a field."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import msgspec

from informers import APIResource, Key, Snapshot
from informers.apimachinery.server_fields import SET_BY_EVERY_WRITE
from reconcile.client.diff import Difference, value_differences
from reconcile.runs.write_events import EndedWrite

PATHS_OF_A_WRITE = 32
"""Further paths of one write are not followed: a loop shows in the first ones, and memory stays bounded."""

ABSENT = 0
PRESENT = 1
WHOLE = ""
"""The path of the object itself: it was created, deleted, or written without any effect."""

_VOLATILE = frozenset(f".metadata.{name}" for name in SET_BY_EVERY_WRITE)

_known_differences: WeakKeyDictionary[EndedWrite, Sequence[Difference]] = WeakKeyDictionary()


class FieldRef(NamedTuple):
    resource: APIResource
    key: Key
    path: str


class FieldEffect(NamedTuple):
    """The effect of one write on one field; `after` is the fingerprint of its new value."""

    ref: FieldRef
    after: int
    made: bool = False
    """The object itself was created or deleted."""


def effects_of(sent: EndedWrite) -> Sequence[FieldEffect]:
    """The effects of a write. One without effect counts as a write of the whole object."""
    whole = FieldRef(sent.resource, sent.key, WHOLE)
    if sent.dry:
        return ()
    if sent.method == "DELETE":
        return [FieldEffect(whole, ABSENT, made=True)]
    if sent.written is None:
        return ()
    if sent.base is None or not sent.base.is_same_object(sent.written):
        return [FieldEffect(whole, PRESENT, made=True)] if sent.fresh else ()
    if sent.base.version == sent.written.version:
        return [FieldEffect(whole, PRESENT)]
    return [
        FieldEffect(FieldRef(sent.resource, sent.key, path), fingerprint(new))
        for path, _, new in _differences_of(sent)
    ]


def paths_of(sent: EndedWrite) -> tuple[str, ...]:
    """The paths of the fields that a write changed; none where the object was created or deleted."""
    if sent.dry or sent.method == "DELETE" or sent.base is None or sent.written is None:
        return ()
    if sent.base.version == sent.written.version or not sent.base.is_same_object(sent.written):
        return ()
    return tuple(path for path, _, _ in _differences_of(sent))


def _differences_of(sent: EndedWrite) -> Sequence[Difference]:
    """The changes of a write; computed once, since meter, guard and history all ask."""
    known = _known_differences.get(sent)
    if known is None:
        assert sent.base is not None
        assert sent.written is not None
        known = _known_differences[sent] = differences(sent.base, sent.written)
    return known


def differences(old: Snapshot, new: Snapshot) -> Sequence[Difference]:
    """Where two states differ, apart from the fields that the server sets."""
    found: list[Difference] = []
    for difference in value_differences(old.to_dict(), new.to_dict()):
        if len(found) == PATHS_OF_A_WRITE:
            break
        if difference[0] not in _VOLATILE:
            found.append(difference)
    return found


def fingerprint(value: Any) -> int:
    """The same number for equal values, in this process."""
    return hash(msgspec.json.encode(value, order="deterministic"))


def writer_of(fields: Sequence[Mapping[str, Any]], paths: Sequence[str], but: str) -> str:
    """The last field manager other than `but` that wrote one of `paths`, or anything; empty without one."""
    writers = [
        (entry.get("time") or "", entry["manager"])
        for entry in fields
        if entry.get("manager") not in (None, "", but) and _has_any(entry.get("fieldsV1") or {}, paths)
    ]
    return max(writers)[1] if writers else ""


def _has_any(owned: Mapping[str, Any], paths: Sequence[str]) -> bool:
    return not paths or any(_has(owned, path) for path in paths)


def _has(owned: Mapping[str, Any], path: str) -> bool:
    """Whether a set of fields has that path, one around it, or one within it; list elements count as one."""
    # Names may have dots, as those of annotations do.
    return any(
        rest[:1] in ("", "[") or (rest[0] == "." and (not inner or _has(inner, rest)))
        for name, inner in owned.items()
        if (rest := path.removeprefix(f".{name.removeprefix('f:')}")) != path
    )
