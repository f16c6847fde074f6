"""What kopf takes an object for when its process starts, by kopf's own functions."""

from collections.abc import Sequence
from typing import Any, Final

from kopf._cogs.configs.diffbase import AnnotationsDiffBaseStorage
from kopf._cogs.configs.progress import SmartProgressStorage
from kopf._cogs.structs import bodies, diffs
from kopf._cogs.structs.references import Resource
from kopf._core.intents.causes import Reason, detect_changing_cause

from reconcile.adoption.kopf_return import Path
from reconcile.predecessors import KopfTraces

_KOPFS: Final = KopfTraces()


def cause_of(obj: dict[str, Any], names: KopfTraces = _KOPFS, fields: Sequence[Path] = ()) -> Reason:
    """What kopf takes the object for when its process starts."""
    body = bodies.Body(obj)  # type: ignore[arg-type]
    storage = AnnotationsDiffBaseStorage(prefix=names.prefix)
    progress = SmartProgressStorage(prefix=names.prefix)
    extra: Any = fields
    old, new = storage.fetch(body=body), storage.build(body=body, extra_fields=extra)
    old = None if old is None else progress.clear(essence=old)
    new = progress.clear(essence=new)
    event: Any = {"type": None, "object": obj}
    unused: Any = None
    cause = detect_changing_cause(
        finalizer=names.finalizer,
        raw_event=event,
        body=body,
        old=old,
        new=new,
        diff=diffs.diff(old, new),
        initial=True,
        resource=Resource("example.com", "v1", "sites"),
        indices=unused,
        logger=unused,
        patch=unused,
        memo=unused,
    )
    return cause.reason
