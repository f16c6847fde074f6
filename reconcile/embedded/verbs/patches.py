"""JSON patch (RFC 6902) and JSON merge patch (RFC 7396), as in the API server.

Apart from `merge_into`, functions return a new document that shares nothing with their arguments.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from attrs import define

from informers.apimachinery.json_pointers import pointer_steps
from reconcile.embedded.protocol.api_failure import ApiFailure
from reconcile.embedded.refusals import bad_request
from reconcile.embedded.schema import ResourceSchema
from reconcile.embedded.schema.json_values import copied, same
from reconcile.embedded.verbs.strategic_merge import merge_maps

# maxJSONPatchOperations in kube-apiserver's patch.go.
MAX_OPERATIONS: Final = 10_000
# Bytes that the `copy` operations of one patch may add: kube-apiserver sets jsonpatch's
# AccumulatedCopySizeLimit to the largest body that it reads.
MAX_COPIED: Final = 3 * 1024 * 1024
# List items that the operations of one patch may shift.
MAX_MOVED: Final = 100_000_000
_INDEX_DIGITS: Final = 9

_REJECTED = "the server rejected our request due to an error in our request"


class _Inapplicable(Exception):
    """The document does not allow an operation."""


def merge_patch(doc: dict[str, Any], patch: Any) -> dict[str, Any]:
    """`doc` with a merge patch. Raises ApiFailure (400) if `patch` is not an object."""
    if not isinstance(patch, dict):
        raise bad_request("a merge patch must be an object")
    return merge_into(copied(doc), copied(patch))


def merge_into(doc: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Merge in place, for callers that own both: `doc` changes, and may share parts with `patch`."""
    for name, member in patch.items():
        if member is None:
            doc.pop(name, None)
        elif isinstance(member, dict):
            value = doc.get(name)
            doc[name] = merge_into(value if isinstance(value, dict) else {}, member)
        else:
            doc[name] = without_nulls(member) if isinstance(member, list) else member
    return doc


def without_nulls(value: Any) -> Any:
    """A new list of a merge patch as the API server's library takes it, which the RFC would keep whole."""
    if isinstance(value, list):
        return [without_nulls(item) for item in value if item is not None]
    if isinstance(value, dict):
        return {name: without_nulls(member) for name, member in value.items() if member is not None}
    return value


def strategic_merge(doc: dict[str, Any], patch: dict[str, Any], schema: ResourceSchema) -> dict[str, Any]:
    """`doc` with a strategic merge patch, whose lists merge by the keys in the schema.

    `$patch`, `$retainKeys`, `$setElementOrder` and `$deleteFromPrimitiveList` are supported. New items of a
    list come first unless `$setElementOrder` says otherwise. Raises ApiFailure: 400 for a malformed patch,
    500 without a reason for an item that lacks its merge key.
    """
    return merge_maps(copied(doc), copied(patch), schema.whole)


def json_patch(doc: dict[str, Any], ops: Any) -> dict[str, Any]:
    """`doc` after all operations. As in the API server and unlike the RFC, `replace` may add a member.

    Raises:
        ApiFailure: 400 if `ops` is not a list of operations, 413 if there are too many, 422 if one cannot be
            applied, a `test` fails, or they copy or move too much.
    """
    if not isinstance(ops, list) or not all(isinstance(op, dict) for op in ops):
        raise bad_request("a JSON patch must be a list of operations")
    words = (op.get(name) for op in ops for name in ("op", "path", "from"))
    if not all(word is None or isinstance(word, str) for word in words):
        raise bad_request("error decoding patch: op, path and from must be strings")
    if len(ops) > MAX_OPERATIONS:
        message = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(ops)}"
        raise ApiFailure(413, "RequestEntityTooLarge", message, {})
    result = copied(doc)
    effort = _Effort()
    for op in ops:
        try:
            operation = _OPERATIONS.get(op.get("op"))
            if operation is None:
                raise _Inapplicable(f"unexpected kind of operation: {op.get('op')}")
            result = operation(result, op, effort)
        except _Inapplicable as error:
            raise ApiFailure(422, "Invalid", f"{_REJECTED}: {error}", {}) from None
    if not isinstance(result, dict):
        raise ApiFailure(422, "Invalid", f"{_REJECTED}: the result is not an object", {})
    return result


@define
class _Effort:
    """The cost of all operations of one patch so far."""

    copied: int = 0
    moved: int = 0

    def copy(self, value: Any) -> Any:
        """A limited copy: each could double the document for the next one."""
        self.copied += _size(value)
        if self.copied > MAX_COPIED:
            raise _Inapplicable(
                "unable to complete the copy, the accumulated size increase of copy is "
                f"{self.copied}, exceeding the limit {MAX_COPIED}"
            )
        return copied(value)

    def shift(self, container: list[Any]) -> None:
        """Count the items that an insertion or a removal shifts."""
        self.moved += len(container)
        if self.moved > MAX_MOVED:
            raise _Inapplicable("the operations insert and remove too much in long lists")


def _size(value: Any) -> int:
    try:
        return len(msgspec.json.encode(value))
    except RecursionError:
        raise _Inapplicable("the result is nested too deeply") from None


def _set(doc: Any, op: Mapping[str, Any], effort: _Effort) -> Any:
    path = _pointer(op, "path")
    if "value" not in op:
        raise _Inapplicable("the operation has no value")
    return _put(doc, path, copied(op["value"]), effort, insert=op["op"] == "add")


def _remove(doc: Any, op: Mapping[str, Any], effort: _Effort) -> Any:
    _take(doc, _pointer(op, "path"), effort)
    return doc


def _move(doc: Any, op: Mapping[str, Any], effort: _Effort) -> Any:
    source, target = _pointer(op, "from"), _pointer(op, "path")
    if target[: len(source)] == source and target != source:
        raise _Inapplicable("cannot move a value into itself")
    return _put(doc, target, _take(doc, source, effort), effort, insert=True)


def _copy(doc: Any, op: Mapping[str, Any], effort: _Effort) -> Any:
    source = _pointer(op, "from")
    parent = _get(doc, source[:-1]) if source else None
    # As in the real server, a member that is missing is copied as null.
    missing = isinstance(parent, dict) and source[-1] not in parent
    value = None if missing else _get(doc, source)
    return _put(doc, _pointer(op, "path"), effort.copy(value), effort, insert=True)


def _test(doc: Any, op: Mapping[str, Any], effort: _Effort) -> Any:
    path = _pointer(op, "path")
    expected = op.get("value")
    parent = _get(doc, path[:-1]) if path else None
    missing = isinstance(parent, dict) and path[-1] not in parent
    actual = None if missing else _get(doc, path)
    if not same(actual, expected):
        raise _Inapplicable(f"testing value {op['path']} failed")
    return doc


_OPERATIONS: Mapping[str | None, Callable[[Any, Mapping[str, Any], _Effort], Any]] = {
    "add": _set,
    "copy": _copy,
    "move": _move,
    "remove": _remove,
    "replace": _set,
    "test": _test,
}


def _pointer(op: Mapping[str, Any], member: str) -> list[str]:
    text = op.get(member)
    if not isinstance(text, str):
        raise _Inapplicable(f"the operation has no {member}")
    try:
        return list(pointer_steps(text))
    except ValueError:
        raise _Inapplicable(f"{member} {text} does not begin with a slash") from None


def _get(doc: Any, path: list[str]) -> Any:
    for part in path:
        doc = _member(doc, part)
    return doc


def _member(container: Any, part: str) -> Any:
    if isinstance(container, dict):
        if part not in container:
            raise _Inapplicable(f"missing path: {part}")
        return container[part]
    if isinstance(container, list):
        return container[_index(part, len(container) - 1)]
    raise _Inapplicable(f"missing path: {part}")


def _put(doc: Any, path: list[str], value: Any, effort: _Effort, *, insert: bool) -> Any:
    if not path:
        return value
    container, last = _get(doc, path[:-1]), path[-1]
    if isinstance(container, dict):
        container[last] = value
    elif isinstance(container, list) and insert:
        effort.shift(container)
        container.insert(len(container) if last == "-" else _index(last, len(container)), value)
    elif isinstance(container, list):
        container[_index(last, len(container) - 1)] = value
    else:
        raise _Inapplicable(f"missing path: {last}")
    return doc


def _take(doc: Any, path: list[str], effort: _Effort) -> Any:
    if not path:
        raise _Inapplicable("the whole document cannot be removed")
    container, last = _get(doc, path[:-1]), path[-1]
    value = _member(container, last)
    if isinstance(container, list):
        effort.shift(container)
    del container[last if isinstance(container, dict) else int(last)]
    return value


def _index(part: str, highest: int) -> int:
    if not (part.isascii() and part.isdigit() and len(part) <= _INDEX_DIGITS) or int(part) > highest:
        raise _Inapplicable(f"invalid index: {part}")
    return int(part)
