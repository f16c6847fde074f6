"""What a conversion loses, kept in an annotation until the object is converted back.

A difference has one entry a field: the value `was` that the way there and back gives, and the value that the
field `is` in truth; a missing member stands for an absent field. It is put back only where the field still
has the value that it was given: elsewhere another client has changed it since.
"""

from typing import Any, Final

from reconcile.client.diff import FreePlaces, same

_ABSENT: Final = object()

Kept = dict[str, Any]
"""{"was", "is"} of a field; {"fields": name to Kept} of an object; {"items": [[index, item, Kept], ...]} of
a list, where the item is what the way there and back gives. As JSON."""


def lost(back: Any, truth: Any) -> Kept | None:
    """What the way there and back, which gave `back`, lost of `truth` (both JSON); None if nothing."""
    if type(back) is dict and type(truth) is dict:
        fields = {}
        for name, was in back.items():
            true = truth.get(name, _ABSENT)
            # Most fields: a call for each would take longer than all else.
            if was is true or (type(was) is str and type(true) is str and was == true):
                continue
            if (kept := lost(was, true)) is not None:
                fields[name] = kept
        for name, value in truth.items():
            if name not in back:
                fields[name] = {"is": value}
        return {"fields": fields} if fields else None
    if type(back) is list and type(truth) is list and len(back) == len(truth):
        items = []
        for place, was in enumerate(back):
            if (kept := lost(was, truth[place])) is not None:
                items.append([place, was, kept])
        return {"items": items} if items else None
    if truth is _ABSENT:
        return {"was": back}
    return None if same(back, truth) else {"was": back, "is": truth}


def restored(value: Any, kept: object) -> Any:
    """`value` with what was lost, wherever it still agrees; it is not changed itself.

    `kept` comes from an annotation, which any client may have written: what is not a difference is ignored.
    """
    result = _restored(value, kept)
    return value if result is _ABSENT else result


def _restored(value: Any, kept: object) -> Any:
    if not isinstance(kept, dict):
        return value
    fields, items = kept.get("fields"), kept.get("items")
    if isinstance(fields, dict):
        return _with_fields(value, fields) if isinstance(value, dict) else value
    if isinstance(items, list):
        return _with_items([*value], items) if isinstance(value, list) else value
    if not kept.keys() <= {"was", "is"}:
        return value
    was = kept.get("was", _ABSENT)
    agrees = value is was or (value is not _ABSENT and was is not _ABSENT and same(value, was))
    return kept.get("is", _ABSENT) if agrees else value


def _with_fields(value: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
    result = dict(value)
    for name, kept in fields.items():
        field = _restored(value.get(name, _ABSENT), kept)
        if field is not _ABSENT:
            result[name] = field
        else:
            result.pop(name, None)
    return result


def _with_items(items: list[Any], entries: list[object]) -> list[Any]:
    """Each entry goes to the item at its place, or to the first that is as it was: items may have moved."""
    free = FreePlaces(items, range(len(items)))
    for entry in entries:
        if not (isinstance(entry, list) and len(entry) == 3 and isinstance(entry[0], int)):
            continue
        place, was, kept = entry
        place = free.take(place, was)
        if place is not None and (result := _restored(items[place], kept)) is not _ABSENT:
            items[place] = result
    return items
