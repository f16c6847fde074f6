"""From two states of an object to the merge patch that leads from one to the other."""

from collections.abc import Mapping
from typing import Any


def merge_diff(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The RFC 7386 patch that makes `before` into `after`: empty where they are equal.

    Explicit zeros, empty strings and False are values like any other; only what is absent from
    `after` becomes null. Lists are replaced whole: see `touches_list`.
    """
    patch: dict[str, Any] = {name: None for name in before if name not in after}
    for name, value in after.items():
        if name not in before:
            patch[name] = value
            continue
        old = before[name]
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            inner = merge_diff(old, value)
            if inner:
                patch[name] = inner
        elif not same(old, value):
            patch[name] = value
    return patch


def touches_list(patch: Any) -> bool:
    """Whether a merge patch replaces a list, and so could undo what somebody else did to it."""
    if isinstance(patch, Mapping):
        return any(touches_list(value) for value in patch.values())
    return isinstance(patch, list | tuple)


def same(one: Any, other: Any) -> bool:
    """Equality of JSON, in which True is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(value, other[name]) for name, value in one.items())
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def contains(live: Any, intent: Any) -> bool:
    """Whether `live` has all that `intent` says; what the server added beside it does not matter."""
    if isinstance(intent, Mapping):
        return isinstance(live, Mapping) and all(
            name in live and contains(live[name], value) for name, value in intent.items()
        )
    if isinstance(intent, list | tuple):
        return (
            isinstance(live, list | tuple) and len(live) == len(intent) and all(map(contains, live, intent))
        )
    return same(live, intent)
