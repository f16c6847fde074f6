"""What a conversion loses, kept in an annotation until the object is converted back.

A difference has one entry a field: the value `was` that the way there and back gives, and the value that the
field `is` in truth; a missing member stands for an absent field. It is put back only where the field still
has the value that it was given: elsewhere another client has changed it since.
"""

from collections.abc import Mapping
from typing import Any, Final

from reconcile.client.diff import same

_ABSENT: Final = object()

Kept = dict[str, Any]
"""{"was", "is"} of a field; {"fields": name to Kept} of an object; {"items": [[index, item, Kept], ...]} of
a list, where the item is what the way there and back gives. As JSON."""


def lost(back: Any, truth: Any) -> Kept | None:
    """What the way there and back, which gave `back`, lost of `truth`; None if nothing."""
    if isinstance(back, Mapping) and isinstance(truth, Mapping):
        fields = {
            name: kept
            for name in [*truth, *(name for name in back if name not in truth)]
            if (kept := lost(back.get(name, _ABSENT), truth.get(name, _ABSENT))) is not None
        }
        return {"fields": fields} if fields else None
    if _is_list(back) and _is_list(truth) and len(back) == len(truth):
        pairs = enumerate(zip(back, truth, strict=True))
        items = [[n, was, kept] for n, (was, item) in pairs if (kept := lost(was, item)) is not None]
        return {"items": items} if items else None
    if back is truth or (back is not _ABSENT and truth is not _ABSENT and same(back, truth)):
        return None
    return {name: value for name, value in (("was", back), ("is", truth)) if value is not _ABSENT}


def restored(value: Any, kept: Any) -> Any:
    """`value` with what was lost, wherever it still agrees; it is not changed itself.

    `kept` comes from an annotation, which any client may have written: what is not a difference is ignored.
    """
    result = _restored(value, kept)
    return value if result is _ABSENT else result


def _restored(value: Any, kept: Any) -> Any:
    if not isinstance(kept, Mapping):
        return value
    fields, items = kept.get("fields"), kept.get("items")
    if isinstance(fields, Mapping):
        return _with_fields(value, fields) if isinstance(value, Mapping) else value
    if _is_list(items):
        return _with_items(list(value), items) if _is_list(value) else value
    if not kept.keys() <= {"was", "is"}:
        return value
    was = kept.get("was", _ABSENT)
    agrees = value is was or (value is not _ABSENT and was is not _ABSENT and same(value, was))
    return kept.get("is", _ABSENT) if agrees else value


def _with_fields(value: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(value)
    for name, kept in fields.items():
        field = _restored(value.get(name, _ABSENT), kept)
        if field is not _ABSENT:
            result[name] = field
        else:
            result.pop(name, None)
    return result


def _with_items(items: list[Any], entries: Any) -> list[Any]:
    """Each entry goes to the item at its place, or to the first that is as it was: items may have moved."""
    taken: set[int] = set()
    for entry in entries:
        if not (_is_list(entry) and len(entry) == 3 and isinstance(entry[0], int)):
            continue
        place, was, kept = entry
        others = (index for index in range(len(items)) if index != place)
        for index in (place, *others):
            if 0 <= index < len(items) and index not in taken and same(items[index], was):
                taken.add(index)
                result = _restored(items[index], kept)
                if result is not _ABSENT:
                    items[index] = result
                break
    return items


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)
