"""The JSON patch (RFC 6902) that leads from one document to another."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from informers.apimachinery.json_pointers import pointer_below
from reconcile.client.diff import same, same_ends

Operation = dict[str, Any]


def json_patch(before: Any, after: Any) -> list[Operation]:
    """The operations that turn `before` into `after`, in order; empty where they are equal.

    Lists that begin and end alike keep these items: an appended item is one `add`. `1` and `true` differ, as
    in JSON.
    """
    return list(_changes(before, after, ""))


def _changes(before: Any, after: Any, path: str) -> Iterator[Operation]:
    if before is after:
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        yield from _member_changes(before, after, path)
    elif _is_list(before) and _is_list(after):
        yield from _item_changes(before, after, path)
    elif not same(before, after):
        yield {"op": "replace", "path": path, "value": after}


def _member_changes(before: Mapping[str, Any], after: Mapping[str, Any], path: str) -> Iterator[Operation]:
    for name in before:
        if name not in after:
            yield {"op": "remove", "path": pointer_below(path, name)}
    for name, value in after.items():
        below = pointer_below(path, name)
        if name in before:
            yield from _changes(before[name], value, below)
        else:
            yield {"op": "add", "path": below, "value": value}


def _item_changes(before: Sequence[Any], after: Sequence[Any], path: str) -> Iterator[Operation]:
    head, tail = same_ends(before, after)
    old, new = len(before) - head - tail, len(after) - head - tail
    for index in range(head, head + min(old, new)):
        yield from _changes(before[index], after[index], f"{path}/{index}")
    for index in range(head + old - 1, head + new - 1, -1):  # from the end: removing shifts what follows
        yield {"op": "remove", "path": f"{path}/{index}"}
    for index in range(head + old, head + new):
        yield {"op": "add", "path": f"{path}/{index}", "value": after[index]}


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)
