"""The merge patch that leads from one state of an object to another."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from informers.apimachinery.json_pointers import pointer_below

IDENTITIES = ("uid", "name", "type", "key", "mountPath", "devicePath", "topologyKey", "containerPort", "port")
"""Members that identify list elements: the common list-map keys of the Kubernetes API, most specific first. A
guess, since no schema is at hand; where it fails, elements are matched by position."""

_SCALARS = frozenset({str, int, float, bool, type(None)})
_ABSENT = object()

Difference = tuple[str, Any, Any]
"""Path, old and new value."""


def merge_diff(
    before: Mapping[str, Any], after: Mapping[str, Any], raw: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The RFC 7386 patch that turns `before` into `after`; empty where they are equal.

    Zeros, empty strings and False are ordinary values; only what is absent from `after` becomes null. A list
    is replaced whole. Where `before` shows only a part of the stored object, `raw` is that object: the
    elements of a changed list then keep the members that `before` does not show.
    """
    patch: dict[str, Any] = {name: None for name in before if name not in after}
    for name, value in after.items():
        if name not in before:
            patch[name] = value
            continue
        old, stored = before[name], None if raw is None else raw.get(name)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            inner = merge_diff(old, value, stored if isinstance(stored, Mapping) else None)
            if inner:
                patch[name] = inner
        elif not same(old, value):
            patch[name] = _rewritten(old, value, stored)
    return patch


def merged(target: Any, patch: Any) -> Any:
    """The result of a merge patch (RFC 7386) on `target`; neither is changed."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(target) if isinstance(target, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def overlaid(before: Any, after: Any, raw: Any) -> Any:
    """`raw`, of which `before` is a view, with the changes from `before` to `after`, null included."""
    if before is after:
        return raw
    if not (isinstance(before, Mapping) and isinstance(after, Mapping) and isinstance(raw, Mapping)):
        return raw if same(before, after) else _rewritten(before, after, raw)
    changes: dict[str, Any] = {}
    for name, value in after.items():
        if name not in before:
            changes[name] = value
        elif name not in raw:
            if not same(before[name], value):
                changes[name] = value
        elif (inner := overlaid(before[name], value, raw[name])) is not raw[name]:
            changes[name] = inner
    removed = [name for name in before if name not in after and name in raw]
    if not (changes or removed):
        return raw
    result = {**raw, **changes}
    for name in removed:
        del result[name]
    return result


def sets_null(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether a value becomes null, which a merge patch cannot express: its null removes, in lists too."""
    for name, value in after.items():
        old = before.get(name)
        if value is None and (name not in before or old is not None):
            return True
        if isinstance(value, Mapping) and sets_null(old if isinstance(old, Mapping) else {}, value):
            return True
        if _is_list(value) and value != old and _holds_null(value):
            return True
    return False


def _holds_null(value: object) -> bool:
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return value is None or any(map(_holds_null, inner))


def needs_version(patch: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Whether a merge patch could undo another writer's change, so that it must name its version.

    It could where it replaces or removes a list, and where it chooses between the members of a union: a
    changed `type`, or one member set in place of another.
    """
    removed = list(patch.values()).count(None)
    if 0 < removed < len(patch) or ("type" in patch and not isinstance(patch["type"], Mapping)):
        return True
    for name, value in patch.items():
        old = before.get(name)
        if _is_list(value) or (value is None and holds_list(old)):
            return True
        inner = old if isinstance(old, Mapping) else {}
        if isinstance(value, Mapping) and needs_version(value, inner):
            return True
    return False


def pointers(patch: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """The JSON pointers (RFC 6901) of the fields that a merge patch changes."""
    for name, value in patch.items():
        here = pointer_below(above, name)
        if isinstance(value, Mapping) and value:
            yield from pointers(value, here)
        else:
            yield here


def same(one: Any, other: Any) -> bool:
    """Equality of JSON values, in which True is not 1."""
    if one is other:
        return True
    kind = type(one)
    if kind is type(other):  # most values, and `isinstance` is slower
        if kind in _SCALARS:
            return bool(one == other)
        if kind is dict:
            return len(one) == len(other) and _same_members(one, other)
        if kind is list:
            return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(value, other[name]) for name, value in one.items())
    if _is_list(one) and _is_list(other):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def _same_members(one: dict[str, Any], other: dict[str, Any]) -> bool:
    for name, value in one.items():
        found = other.get(name, _ABSENT)
        if found is not value and not same(value, found):
            return False
    return True


def projected(live: Any, intent: Any) -> Any:
    """The fields of `live` that `intent` names; a list of another length than the intent's is kept whole."""
    if isinstance(intent, Mapping) and isinstance(live, Mapping):
        return {name: projected(live[name], value) for name, value in intent.items() if name in live}
    if _is_list(intent) and _is_list(live) and len(intent) == len(live):
        return list(map(projected, live, intent))
    return live


# --- lists ----------------------------------------------------------------------------------------


def _rewritten(before: Any, after: Any, raw: Any) -> Any:
    """`after`, with the elements that come from `before` written from their stored form."""
    if not (_is_list(before) and _is_list(after) and _is_list(raw) and len(before) == len(raw)):
        return after
    origins = _origins(before, after)
    return [
        element if origin is None else overlaid(before[origin], element, raw[origin])
        for element, origin in zip(after, origins, strict=True)
    ]


def _origins(before: Sequence[object], after: Sequence[object]) -> list[int | None]:
    """For each element of `after`, its position in `before`: unchanged, of the same identity, or in place."""
    head, tail = same_ends(before, after)
    middle = range(head, len(after) - tail)
    end = len(before) - tail
    free = FreePlaces(before, range(head, end))
    found = (free.take(place, after[place]) for place in middle)
    origins: list[int | None] = [*range(head), *found, *range(end, len(before))]
    by_identity = _places_by(_identity_key, before, free.places)
    for place in middle:
        if origins[place] is None and (alike := by_identity.get(_identity_key(after[place]))):
            origins[place] = alike.pop()
    if len(before) == len(after):
        taken = set(origins)
        for place in middle:
            if origins[place] is None and place not in taken and not _differ(before[place], after[place]):
                origins[place] = place
    return origins


def same_ends(one: Sequence[object], other: Sequence[object]) -> tuple[int, int]:
    """How many elements two lists have in common at their beginning, and at their end after that."""
    shorter = min(len(one), len(other))
    head = 0
    while head < shorter and same(one[head], other[head]):
        head += 1
    tail = 0
    while tail < shorter - head and same(one[-1 - tail], other[-1 - tail]):
        tail += 1
    return head, tail


class FreePlaces:
    """Places in a list, each of which is taken once, in a time that does not grow with their number."""

    def __init__(self, elements: Sequence[object], places: Iterable[int]) -> None:
        self.places = set(places)
        """Those that are free."""
        self._elements = elements
        self._by_key: dict[bytes | None, list[int]] | None = None

    def take(self, place: int, value: object) -> int | None:
        """`place` if `value` is there, or the first place where it is; None for none."""
        if place in self.places and same(self._elements[place], value):
            self.places.remove(place)
            return place
        if self._by_key is None:
            self._by_key = _places_by(_key_of, self._elements, self.places)
        found = self._by_key.get(_key_of(value)) if self._by_key else None
        while found:
            if (first := found.pop()) in self.places:
                self.places.remove(first)
                return first
        return None


def _places_by(
    key: Callable[[object], bytes | None], elements: Sequence[object], places: Iterable[int]
) -> dict[bytes | None, list[int]]:
    """Places by the keys of their elements, each list from the last to the first; None is no key."""
    found: dict[bytes | None, list[int]] = {}
    for place in sorted(places, reverse=True):
        if (one := key(elements[place])) is not None:
            found.setdefault(one, []).append(place)
    return found


def _key_of(value: object) -> bytes:
    """Equal for JSON values that are `same`, and for no others."""
    return msgspec.json.encode(_comparable(value), order="sorted")


def _comparable(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: _comparable(inner) for name, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return list(map(_comparable, value))
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _identity_key(element: object) -> bytes | None:
    identity = _identity(element)
    return None if identity is None else _key_of(identity)


def _identity(element: object) -> tuple[str, object] | None:
    if not isinstance(element, Mapping):
        return None
    return next(((name, element[name]) for name in IDENTITIES if name in element), None)


def _differ(one: object, other: object) -> bool:
    mine, theirs = _identity(one), _identity(other)
    return mine is not None and theirs is not None and mine[0] == theirs[0]


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple)


def holds_list(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(holds_list(inner) for inner in value.values())
    return _is_list(value)


def value_differences(old: object, new: object, path: str = "") -> Iterator[Difference]:
    if old == new:
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in sorted({*old, *new}):
            yield from value_differences(old.get(name), new.get(name), f"{path}.{name}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from value_differences(before, after, f"{path}[{number}]")
    else:
        yield path, old, new
