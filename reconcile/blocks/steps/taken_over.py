"""What an operator on kopf has handled of an object before its successor does."""

from typing import TypeVar

from reconcile.controller.context import Context, output_of
from reconcile.controller.declaration import Predecessor
from reconcile.models import DecodeError, Object, decode
from reconcile.predecessors import last_handled_copy, traces_on

T = TypeVar("T", bound=Object)

_NOT_COPIED = frozenset({"apiVersion", "kind", "metadata", "status"})


async def as_handled(ctx: Context[T], predecessor: Predecessor) -> T | None:
    """The object as the predecessor handled it last; None where it has not handled it to the end once.

    As it is now, where the copy says nothing of it: `adopt kopf switch --finished` writes an empty one when a
    person has finished a creation. It is read live, since a cache may be without annotations. Raises
    DecodeError, and errors of requests.
    """
    if predecessor.traces is None:
        return None
    live = await output_of(ctx).live()
    if live is None:
        return None
    snapshot, present = live
    document = snapshot.to_dict()
    if not traces_on(document, predecessor.traces).last_handled:
        return None
    copy = last_handled_copy(document, predecessor.traces) or {}
    kept = {name: part for name, part in document.items() if name in _NOT_COPIED}
    handled = {name: part for name, part in copy.items() if name not in _NOT_COPIED}
    if not handled:
        return present
    metadata = copy.get("metadata")
    if isinstance(metadata, dict):
        own = {name: metadata.get(name) or {} for name in ("labels", "annotations")}
        kept["metadata"] = {**document["metadata"], **own}
    try:
        return decode(type(present), {**kept, **handled})
    except DecodeError:  # of a version of the kind, or a copy, that is none of the model's
        return present
