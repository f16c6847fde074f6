"""What a write changed, as places, paths and fingerprints of values; no value itself is kept."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from informers import Key, Resource, Snapshot
from reconcile.runs.run_record import Sent
from reconcile.storms.echoes import SERVER_SET

PATHS_OF_A_WRITE = 32
"""Of a write that changes more, the rest is not followed."""

ABSENT = 0
PRESENT = 1
WHOLE = ""
"""The path of the object itself: it was made, deleted, or written without any effect."""


_SERVER_SET = frozenset(f".metadata.{name}" for name in SERVER_SET)


Change = tuple[str, Any, Any]
"""Path, old and new value."""


class Spot(NamedTuple):
    """A field of an object: where writes meet."""

    resource: Resource
    key: Key
    path: str


class Step(NamedTuple):
    """One write to one field, by the fingerprint of what it has after."""

    spot: Spot
    after: int
    made: bool = False
    """The object itself was made or deleted."""


def steps_of(sent: Sent) -> Iterator[Step]:
    """What a write changed; one that changed nothing is a step of the whole object to what it was."""
    if sent.dry:
        return
    if sent.method == "DELETE":
        yield Step(Spot(sent.resource, sent.key, WHOLE), ABSENT, made=True)
        return
    if sent.written is None:
        return
    if sent.base is None or not sent.base.is_same_object(sent.written):
        if sent.fresh:
            yield Step(Spot(sent.resource, sent.key, WHOLE), PRESENT, made=True)
        return
    if sent.base.version == sent.written.version:
        yield Step(Spot(sent.resource, sent.key, WHOLE), PRESENT)
        return
    for path, _, new in changes_of(sent):
        yield Step(Spot(sent.resource, sent.key, path), fingerprint(new))


def paths_of(sent: Sent) -> tuple[str, ...]:
    """Which fields a write changed, for people."""
    if sent.dry or sent.method == "DELETE" or sent.base is None or sent.written is None:
        return ()
    if sent.base.version == sent.written.version or not sent.base.is_same_object(sent.written):
        return ()
    return tuple(path for path, _, _ in changes_of(sent))


def changes_of(sent: Sent) -> Sequence[Change]:
    """How a write changed an object that was known before and is now; found once, as several ask."""
    if sent.changes is None:
        assert sent.base is not None
        assert sent.written is not None
        sent.changes = differences(sent.base, sent.written)
    return sent.changes


def differences(old: Snapshot, new: Snapshot) -> Sequence[Change]:
    """Where two states differ, what a server keeps for itself aside: path, old and new value."""
    found: list[Change] = []
    for path, before, after in _differences(old.to_dict(), new.to_dict(), ""):
        if len(found) == PATHS_OF_A_WRITE:
            break
        if path not in _SERVER_SET:
            found.append((path, before, after))
    return found


def differing(old: Any, new: Any) -> Sequence[Change]:
    """Where two values differ: path, old and new value."""
    return [*_differences(old, new, "")]


def _differences(old: Any, new: Any, path: str) -> Iterator[Change]:
    if old == new:
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in sorted({*old, *new}):
            yield from _differences(old.get(name), new.get(name), f"{path}.{name}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, one in enumerate(old):
            yield from _differences(one, new[number], f"{path}[{number}]")
    else:
        yield path, old, new


def fingerprint(value: Any) -> int:
    """The same for equal values, in this process."""
    return hash(msgspec.json.encode(value, order="deterministic"))
