"""The fields in which two states of an object differ, as texts: computed only for those who look."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from informers import Snapshot, Store
from informers.apimachinery.server_fields import SET_BY_SERVER
from reconcile.client import redaction
from reconcile.client.diff import same
from reconcile.controller.write_details import WriteDetail
from reconcile.status.shown_values import (
    HIDDEN,
    ShownValues,
    Step,
    Steps,
    names_secret,
    path_text,
    pointer_of,
    shortened,
)

FIELDS_SHOWN: Final = 32
_NAMING: Final = frozenset({("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace")})
_OF_SERVER: Final = frozenset(("metadata", name) for name in SET_BY_SERVER)


class FieldChange(NamedTuple):
    """One field before and after; `named`: its list element has a `name` that tells of a secret."""

    steps: Steps
    old: Any
    new: Any
    named: bool


def fields_written(
    write: WriteDetail, before: Snapshot | None, store: Store | None, shown: ShownValues
) -> Sequence[Mapping[str, str]] | None:
    """What a write changed from `before`; None where that is not known. `store` is that of the resource.

    Fields that the store drops are left out, as the state before is without them. A deletion, a refused write
    and one of a Secret have none.
    """
    if write.secret or write.after is None:
        return ()
    if before is None or not before.is_same_object(write.after):
        if not write.fresh:
            return None
        before = None
    try:
        old: Mapping[str, Any] = {} if before is None else before.to_dict()
        return shown_changes(field_changes(old, write.after.to_dict()), store, shown)
    except RecursionError:
        return None  # no person reads that deep


def shown_changes(
    changes: Iterator[FieldChange],
    store: Store | None,
    shown: ShownValues,
    names: tuple[str, str] = ("old", "new"),
) -> Sequence[Mapping[str, str]]:
    """The first changes as texts, their values under `names`; without those that the store drops."""
    kept = (change for change in changes if store is None or not store.lacks(pointer_of(change.steps)))
    return [_shown(change, shown, names) for change in islice(kept, FIELDS_SHOWN)]


def _shown(change: FieldChange, shown: ShownValues, names: tuple[str, str]) -> Mapping[str, str]:
    old = shown.text(change.steps, change.old, named=change.named)
    new = shown.text(change.steps, change.new, named=change.named)
    # The other one may be a secret of before, which no run of now has read.
    if redaction.HIDDEN in old or redaction.HIDDEN in new:
        old, new = (f'"{HIDDEN}"' if text else "" for text in (old, new))
    path, pointer = (shown.redact(form(change.steps)) for form in (path_text, pointer_of))
    return {
        "path": shortened(path),
        "pointer": shortened(pointer),
        names[0]: shortened(old),
        names[1]: shortened(new),
    }


def field_changes(old: Any, new: Any) -> Iterator[FieldChange]:
    """Where two objects differ, apart from what the server sets and what names them."""
    return _changes(old, new, (), False)


def _changes(old: Any, new: Any, steps: Steps, named: bool) -> Iterator[FieldChange]:
    if same(old, new) or steps in _OF_SERVER or steps in _NAMING:
        return
    if _are_mappings(old, new):
        old, new = old or {}, new or {}
        secret = named or names_secret(old) or names_secret(new)
        for name in sorted({*old, *new}):
            inner = _step(steps, name)
            yield from _changes(old.get(name), new.get(name), inner, secret and name == "value")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for place, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _changes(before, after, _step(steps, place), named)
    else:
        yield FieldChange(steps, old, new, named)


def _are_mappings(old: Any, new: Any) -> bool:
    """Whether both are mappings, or one is and the other is absent; an empty one is a value of its own."""
    return all(value is None or isinstance(value, Mapping) for value in (old, new)) and bool(old or new)


def _step(steps: Steps, step: Step) -> Steps:
    return (*steps, step)
