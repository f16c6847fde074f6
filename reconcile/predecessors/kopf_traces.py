"""What a kopf operator leaves on the objects that it keeps, and how to tell it from everything else.

On an object, given as its JSON:

- a finalizer, if the operator has handlers of deletions or daemons;
- annotations under a prefix: a copy of what was handled last, **with Secret data if the object has any**;
  records of progress; a dummy that is written to wake the operator; a mark that the prefix is kopf's, unless
  the prefix says so itself. Each under one name or two: the older form has at most 63 characters with its
  prefix, the newer one has them without;
- `status.kopf`, in older versions or by choice, with the same things;
- `status.<handler>`, what a handler returned. People and other operators may read it, so it is never removed
  here.

Sources: kopf 1.45, `_cogs/configs/conventions.py`, `progress.py`, `diffbase.py`. The annotations of an object
may have any content: every client with the right to write it can set them.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import frozen

from reconcile.predecessors.kopf_names import KOPF_MANAGER, LAST_HANDLED, PREFIX, KopfTraces, safe
from reconcile.predecessors.kopf_progress import (
    HandlerProgress,
    progress_in_annotation,
    progress_in_status,
)

DUMMY = "touch-dummy"
MARKER = "kopf-managed"
STATUS_FIELDS = ("progress", "dummy", LAST_HANDLED)
OF_DEPLOYMENT = "-ofDRS"
"""What names end in on ReplicaSets of Deployments, onto which Kubernetes copies annotations."""


@frozen
class ObjectTraces:
    """What is on one object.

    `annotations` are the names of those that may go. `last_handled` is whether it has been handled to the
    end, once at least; `progress` has each handler of the change under way once. `status_fields` are those
    of `status.<status_field>` that are kopf's. `results` are the fields of `status` that kopf wrote, and
    others may read.
    """

    annotations: tuple[str, ...] = ()
    finalizer: bool = False
    last_handled: bool = False
    progress: tuple[HandlerProgress, ...] = ()
    status_fields: tuple[str, ...] = ()
    results: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything is left that has to go."""
        return bool(self.annotations or self.finalizer or self.status_fields)

    @property
    def half_created(self) -> tuple[HandlerProgress, ...]:
        """The handlers of its creation that have begun and not ended; what they did outside is not known.

        A record without a purpose is one of the creation if the object was never handled to the end.
        """
        return tuple(
            record
            for record in self.progress
            if record.unfinished
            and (record.purpose == "create" or (not record.purpose and not self.last_handled))
        )

    @property
    def begun(self) -> bool:
        """Whether kopf holds it, and has not handled it to the end once, and says no more.

        The first handler of its creation may have been called: kopf writes the finalizer before that, and its
        first record after. Operators without such a handler (daemons, timers alone) leave the same.
        """
        return self.finalizer and not self.last_handled and not self.progress


def traces_on(obj: Mapping[str, Any], names: KopfTraces) -> ObjectTraces:
    """What one kopf operator left on an object."""
    metadata, status = _mapping(obj.get("metadata")), _mapping(obj.get("status"))
    prefix = f"{names.prefix}/"
    annotations = {
        name: value
        for name, value in _mapping(metadata.get("annotations")).items()
        if isinstance(name, str) and name.startswith(prefix)
    }
    kept = _mapping(status.get(names.status_field))
    fixed = _fixed_names(names) if annotations else _NOTHING
    records = {
        name: record
        for name, value in annotations.items()
        if name not in fixed.all and (record := progress_in_annotation(name[len(prefix) :], value))
    }
    finalizers = metadata.get("finalizers")
    return ObjectTraces(
        annotations=tuple(name for name in annotations if name in fixed.all or name in records),
        finalizer=isinstance(finalizers, list) and names.finalizer in finalizers,
        last_handled=not fixed.last_handled.isdisjoint(annotations) or LAST_HANDLED in kept,
        progress=_once(names, (*records.values(), *progress_in_status(kept.get("progress")))),
        status_fields=tuple(name for name in STATUS_FIELDS if name in kept),
        results=results_in(metadata, names.status_field),
    )


def last_handled_copy(obj: Mapping[str, Any], names: KopfTraces) -> Mapping[str, Any] | None:
    """kopf's copy of an object as it was when it was handled to the end last; None where none can be read."""
    metadata, status = _mapping(obj.get("metadata")), _mapping(obj.get("status"))
    annotations = _mapping(metadata.get("annotations"))
    forms = _every_form(names, (LAST_HANDLED, LAST_HANDLED + OF_DEPLOYMENT))
    kept = _mapping(status.get(names.status_field)).get(LAST_HANDLED)
    for text in (*(annotations.get(form) for form in forms), kept):
        copy = _parsed(text) if isinstance(text, str) else text
        if isinstance(copy, Mapping):
            return copy
    return None


def removal(traces: ObjectTraces, names: KopfTraces) -> Mapping[str, Any]:
    """The merge patch of metadata that removes the annotations; empty where there are none."""
    if not traces.annotations:
        return {}
    return {"metadata": {"annotations": dict.fromkeys(traces.annotations)}}


def release(traces: ObjectTraces, names: KopfTraces) -> Mapping[str, str | None]:
    """The annotations after which a half-created object counts as created, for kopf too; None: it goes."""
    records = (form for record in traces.half_created for form in names.names_of(record.handler))
    gone = dict.fromkeys(form for form in records if form in traces.annotations)
    return gone if traces.last_handled else {**gone, names.names_of(LAST_HANDLED)[0]: "{}"}


def status_removal(traces: ObjectTraces, status: object, names: KopfTraces) -> Mapping[str, Any]:
    """The merge patch that removes what kopf keeps in a status, and its place if nothing else is there."""
    if not traces.status_fields:
        return {}
    kept = _mapping(_mapping(status).get(names.status_field))
    gone = None if kept.keys() <= set(STATUS_FIELDS) else dict.fromkeys(traces.status_fields)
    return {"status": {names.status_field: gone}}


def prefixes_in_use(obj: Mapping[str, Any]) -> tuple[str, ...]:
    """Every prefix of the annotations of an object under which some kopf operator works, sorted."""
    found = set()
    for name in _mapping(_mapping(obj.get("metadata")).get("annotations")):
        prefix, slash, rest = name.partition("/") if isinstance(name, str) else ("", "", "")
        if slash and (rest == MARKER or prefix == PREFIX or prefix.endswith(f".{PREFIX}")):
            found.add(prefix)
    return tuple(sorted(found))


def results_in(metadata: Mapping[str, Any], status_field: str = "kopf") -> tuple[str, ...]:
    """The fields of `status` that kopf wrote, by `managedFields`: what handlers returned or patched."""
    entries = metadata.get("managedFields")
    fields = {
        name[2:]
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, Mapping) and entry.get("manager") == KOPF_MANAGER
        for name in _mapping(_mapping(entry.get("fieldsV1")).get("f:status"))
        if isinstance(name, str) and name.startswith("f:")
    }
    return tuple(sorted(fields - {status_field}))


# --- names --------------------------------------------------------------------------------------


@frozen
class _FixedNames:
    last_handled: frozenset[str] = frozenset()
    all: frozenset[str] = frozenset()


_NOTHING = _FixedNames()


def _fixed_names(names: KopfTraces) -> _FixedNames:
    """The annotations that are not records of a handler."""
    last_handled = frozenset(_every_form(names, (LAST_HANDLED, LAST_HANDLED + OF_DEPLOYMENT)))
    others = _every_form(names, (DUMMY, DUMMY + OF_DEPLOYMENT))
    return _FixedNames(last_handled, last_handled | {*others, f"{names.prefix}/{MARKER}"})


def _every_form(names: KopfTraces, of: Iterable[str]) -> Iterable[str]:
    return (form for name in of for form in names.names_of(name))


def _once(names: KopfTraces, records: Iterable[HandlerProgress]) -> tuple[HandlerProgress, ...]:
    """Each handler once: an older name is that of another record, and the status repeats the annotations."""
    found = list(records)
    older = {
        form.partition("/")[2]
        for record in found
        for form in names.names_of(record.handler)
        if form.partition("/")[2] != safe(record.handler)
    }
    kept: dict[str, HandlerProgress] = {}
    for record in found:
        handler = safe(record.handler)
        if handler in older or (record.place == "status" and handler in kept):
            continue
        kept.setdefault(handler, record)
    return tuple(kept.values())


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
