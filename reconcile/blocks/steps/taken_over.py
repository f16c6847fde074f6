"""What an operator on kopf has handled of an object before its successor does."""

from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar

from attrs import frozen

from reconcile.controller.context import Context, output_of
from reconcile.models import DecodeError, Object, decode
from reconcile.predecessors import HandlerProgress, KopfTraces, last_handled_copy, traces_on

T = TypeVar("T", bound=Object)

_NOT_COPIED = frozenset({"apiVersion", "kind", "metadata", "status"})


@frozen
class Handled(Generic[T]):
    """An object `now`, and as kopf handled it to the end last: `before`, None where it never did.

    `succeeded` are the handlers that are through with a change that is under way.
    """

    names: KopfTraces
    now: T
    before: T | None
    succeeded: tuple[HandlerProgress, ...] = ()

    def has_succeeded(self, handlers: Iterable[str]) -> bool:
        """Whether one of these ids of handlers is among them."""
        forms = {form for handler in handlers for form in (handler, *self.names.names_of(handler))}
        return any(
            one.handler in forms or f"{self.names.prefix}/{one.handler}" in forms for one in self.succeeded
        )


async def handled(ctx: Context[T], names: KopfTraces) -> Handled[T] | None:
    """What kopf has handled of the object of a run; None where that has gone.

    It is read live, since a cache may be without annotations. Raises DecodeError, and errors of requests.
    """
    live = await output_of(ctx).live()
    if live is None:
        return None
    snapshot, now = live
    document = snapshot.to_dict()
    traces = traces_on(document, names)
    before = _before(now, document, names) if traces.last_handled else None
    return Handled(names, now, before, tuple(one for one in traces.progress if one.success))


def _before(now: T, document: Mapping[str, Any], names: KopfTraces) -> T:
    """By kopf's copy; as it is now where that says nothing.

    `adopt kopf switch --finished` writes an empty one when a person has finished a creation.
    """
    copy = last_handled_copy(document, names) or {}
    parts = {name: part for name, part in copy.items() if name not in _NOT_COPIED}
    if not parts:
        return now
    kept = {name: part for name, part in document.items() if name in _NOT_COPIED}
    metadata = copy.get("metadata")
    if isinstance(metadata, dict):
        own = {name: metadata.get(name) or {} for name in ("labels", "annotations")}
        kept["metadata"] = {**document["metadata"], **own}
    try:
        return decode(type(now), {**kept, **parts})
    except DecodeError:  # of a version of the kind, or a copy, that is none of the model's
        return now
