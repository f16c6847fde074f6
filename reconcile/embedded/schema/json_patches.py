"""JSON patches (RFC 6902) as the API server's library applies them.

Unlike in the RFC, `replace` may add a member, and a missing member is copied as null.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from attrs import define

from informers.apimachinery.json_pointers import pointer_steps
from reconcile.embedded.schema.json_values import copied, same

MAX_COPIED: Final = 3 * 1024 * 1024
"""Bytes that the `copy` operations of one patch may add: kube-apiserver sets jsonpatch's
AccumulatedCopySizeLimit to the largest body that it reads."""

MAX_MOVED: Final = 100_000_000
"""List items that the operations of one patch may shift."""

_INDEX_DIGITS: Final = 9
_MISSING: Final = "missing value"
_NO_INDEX: Final = "invalid index referenced"


class InapplicablePatch(Exception):
    """The document does not allow an operation; the text is that of the API server's library."""


class FailedTest(InapplicablePatch):
    """The document has another value than a `test` expects."""


def apply_operations(doc: Any, ops: Sequence[Mapping[str, Any]]) -> Any:
    """A new document that shares nothing with `doc`: the result of operations whose words are texts.

    Raises InapplicablePatch, also if they copy or move too much.
    """
    result = copied(doc)
    effort = _Effort()
    for op in ops:
        operation = _OPERATIONS.get(op.get("op"))
        if operation is None:
            raise InapplicablePatch(f"Unexpected kind: {op.get('op')}")
        result = operation(result, op, effort)
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
            raise InapplicablePatch(
                "Unable to complete the copy, the accumulated size increase of copy is "
                f"{self.copied}, exceeding the limit {MAX_COPIED}"
            )
        return copied(value)

    def shift(self, container: list[Any]) -> None:
        """Count the items that an insertion or a removal shifts."""
        self.moved += len(container)
        if self.moved > MAX_MOVED:
            raise InapplicablePatch("the operations insert and remove too much in long lists")


def _size(value: Any) -> int:
    try:
        return len(msgspec.json.encode(value))
    except RecursionError:
        raise InapplicablePatch("the result is nested too deeply") from None


def _add(doc: Any, op: Mapping[str, Any], effort: _Effort) -> Any:
    text, path = _pointer(op, "path")
    container = _container(doc, path, f'add operation does not apply: doc is missing path: "{text}"')
    return _put(doc, container, path, _value(op), effort, f"error in add for path: '{text}'")


def _replace(doc: Any, op: Mapping[str, Any], effort: _Effort) -> Any:
    text, path = _pointer(op, "path")
    if not path:
        return _value(op)
    absent = "replace operation does not apply: doc is missing"
    container, last = _container(doc, path, f"{absent} path: {text}"), path[-1]
    if isinstance(container, list):
        container[_index(last, len(container) - 1, f"{absent} key: {text}")] = _value(op)
    else:
        container[last] = _value(op)
    return doc


def _remove(doc: Any, op: Mapping[str, Any], effort: _Effort) -> Any:
    text, path = _pointer(op, "path")
    container = _container(doc, path, f'remove operation does not apply: doc is missing path: "{text}"')
    _take(container, path, effort, f"error in remove for path: '{text}'")
    return doc


def _move(doc: Any, op: Mapping[str, Any], effort: _Effort) -> Any:
    text, source = _pointer(op, "from")
    _, target = _pointer(op, "path")
    if target[: len(source)] == source and target != source:
        raise InapplicablePatch("cannot move a value into itself")
    container = _container(doc, source, f"move operation does not apply: doc is missing from path: {text}")
    moved = _take(container, source, effort, f"error in move for path: '{text}'")
    return _put_copy(doc, op, "move", moved, effort)


def _copy(doc: Any, op: Mapping[str, Any], effort: _Effort) -> Any:
    text, source = _pointer(op, "from")
    found = doc
    if source:
        absent = f"copy operation does not apply: doc is missing from path: {text}"
        container = _container(doc, source, absent)
        found = _read(container, source[-1], f"error in copy for from: '{text}'")
    return _put_copy(doc, op, "copy", effort.copy(found), effort)


def _put_copy(doc: Any, op: Mapping[str, Any], word: str, value: Any, effort: _Effort) -> Any:
    text, path = _pointer(op, "path")
    absent = f"{word} operation does not apply: doc is missing destination path: {text}"
    container = _container(doc, path, absent)
    return _put(doc, container, path, value, effort, f"error in {word} for path: '{text}'")


def _test(doc: Any, op: Mapping[str, Any], effort: _Effort) -> Any:
    text, path = _pointer(op, "path")
    found = doc
    if path:
        container = _container(doc, path, f"test operation does not apply: is missing path: {text}")
        found = _read(container, path[-1], f"error in test for path: '{text}'")
    if not same(found, op.get("value")):
        raise FailedTest(f"testing value {text} failed: test failed")
    return doc


_OPERATIONS: Final[Mapping[str | None, Callable[[Any, Mapping[str, Any], _Effort], Any]]] = {
    "add": _add,
    "copy": _copy,
    "move": _move,
    "remove": _remove,
    "replace": _replace,
    "test": _test,
}


def _value(op: Mapping[str, Any]) -> Any:
    if "value" not in op:
        raise InapplicablePatch("the operation has no value")
    return copied(op["value"])


def _pointer(op: Mapping[str, Any], member: str) -> tuple[str, list[str]]:
    text = op.get(member)
    if not isinstance(text, str):
        raise InapplicablePatch(f"the operation has no {member}")
    try:
        return text, list(pointer_steps(text))
    except ValueError:
        raise InapplicablePatch(f"{member} {text} does not begin with a slash") from None


def _container(doc: Any, path: Sequence[str], absent: str) -> Any:
    """The object or list that the last step of a path is in; `absent` says that there is none."""
    for step in path[:-1]:
        if isinstance(doc, dict) and step in doc:
            doc = doc[step]
        elif isinstance(doc, list) and (at := _number(step)) is not None and at < len(doc):
            doc = doc[at]
        else:
            raise InapplicablePatch(f"{absent}: {_MISSING}")
    if path and not isinstance(doc, dict | list):
        raise InapplicablePatch(f"{absent}: {_MISSING}")
    return doc


def _read(container: Any, step: str, fault: str) -> Any:
    if isinstance(container, dict):
        return container.get(step)
    return container[_index(step, len(container) - 1, fault)]


def _put(doc: Any, container: Any, path: Sequence[str], value: Any, effort: _Effort, fault: str) -> Any:
    if not path:
        return value
    last = path[-1]
    if isinstance(container, dict):
        container[last] = value
        return doc
    at = len(container) if last == "-" else _index(last, len(container), fault)
    effort.shift(container)
    container.insert(at, value)
    return doc


def _take(container: Any, path: Sequence[str], effort: _Effort, fault: str) -> Any:
    if not path:
        raise InapplicablePatch("the whole document cannot be removed")
    last = path[-1]
    if isinstance(container, dict):
        if last not in container:
            raise InapplicablePatch(f"{fault}: Unable to remove nonexistent key: {last}: {_MISSING}")
        return container.pop(last)
    at = _index(last, len(container) - 1, fault)
    effort.shift(container)
    return container.pop(at)


def _number(step: str) -> int | None:
    """A list index as paths write it; None for any other text."""
    return int(step) if step.isascii() and step.isdigit() and len(step) <= _INDEX_DIGITS else None


def _index(step: str, highest: int, fault: str) -> int:
    at = _number(step)
    if at is None:
        raise InapplicablePatch(f"{fault}: value was not a proper array index: '{step}'")
    if at > highest:
        raise InapplicablePatch(f"{fault}: Unable to access invalid index: {at}: {_NO_INDEX}")
    return at
