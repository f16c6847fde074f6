"""Storms, reads and writes in words: for events, logs and /debug."""

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define

from informers import Snapshot
from reconcile.runs.diagnostics import observing
from reconcile.runs.run_request import Cause, Request
from reconcile.runs.write_events import EndedWrite
from reconcile.storms.changes import paths_of
from reconcile.storms.detection import WakeLoop
from reconcile.storms.loop_throttle import LoopThrottle
from reconcile.storms.meter import ActiveKey

REASON = "ReconcileStorm"
PATHS_SHOWN = 5
WAITED_FOR_ITSELF = (
    "a run changed the status of its own object and returned, and the next one had more to do although "
    "nothing else had changed: a status write does not wake its own reconciler. Return Result(requeue=True) "
    "where there is more to do"
)
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@define(eq=False)
class Storm:
    """A key in a loop since `since` (event loop's seconds), and how it is slowed.

    `trigger` is the change that wakes it, `manager` the field manager of its own writes, `other` that of the
    other writer in a fight, as far as it is known.
    """

    request: Request
    loop: WakeLoop
    since: float
    manager: str
    other: str
    trigger: Cause | None
    throttle: LoopThrottle
    runs: int
    writes: int

    def message(self) -> str:
        loop = self.loop
        fields = _some(loop.paths) or "the object itself"
        place = f"{fields} of {loop.resource.kind} {loop.key}"
        if loop.kind == "fought":
            what = f"in a fight over {place} with {self.other or 'another writer'}"
        elif loop.kind == "churning":
            what = f"makes objects of kind {loop.resource.kind} and deletes them again, of late {loop.key}"
        elif loop.kind == "rewritten":
            what = f"woken by its own writes to {place}"
        else:
            what = f"writes {place} round in a circle of {loop.values}"
        return (
            f"{what}; trigger: {self.trigger_name()}; field manager: {self.manager}; "
            f"{self.writes} writes in {self.runs} runs without a change of the spec"
        )

    def trigger_name(self) -> str:
        """The object whose changes wake the key, or its timer."""
        trigger = self.trigger
        if trigger is None or trigger.resource is None:
            return "its own timer"
        return f"{trigger.resource.kind} {trigger.key}"

    def shown(self, now: float) -> Mapping[str, Any]:
        return {
            "kind": self.loop.kind,
            "object": f"{self.loop.resource.kind} {self.loop.key}",
            "paths": list(self.loop.paths),
            "trigger": self.trigger_name(),
            "manager": self.manager,
            "other_writer": self.other,
            "since": round(now - self.since, 3),
            "interval": self.throttle.seconds,
            "next_run_in": round(max(0.0, self.throttle.held_until - now), 3),
            "message": self.message(),
        }


def storm_of(
    request: Request, loop: WakeLoop, active: ActiveKey, manager: str, throttle: LoopThrottle, now: float
) -> Storm:
    other = active.manager if loop.kind in ("fought", "flipping") else ""
    if loop.kind == "fought":
        trigger = active.foreign
    elif loop.kind == "flipping":
        trigger = active.foreign or active.echo
    else:
        trigger = active.echo or active.foreign
    return Storm(request, loop, now, manager, other, trigger, throttle, active.runs, active.writes)


@observing(lambda sent: f"{sent.method} {sent.resource.plural} {sent.key}")
def describe_write(sent: EndedWrite) -> str:
    """A request for a change in one line: `patch configmaps default/c: .data.x -> version 12`."""
    what = f"{sent.resource.plural}/{sent.subresource}" if sent.subresource else sent.resource.plural
    applies = sent.method == "PATCH" and isinstance(sent.body, Mapping) and "apiVersion" in sent.body
    verb = "apply" if applies else _VERBS.get(sent.method, sent.method)
    if sent.method == "DELETE":
        return f"{verb} {what} {sent.key}"
    if sent.written is None:
        return f"{verb} {what} {sent.key}: refused or without an object for an answer"
    if _ends(sent.base, sent.written):
        # Some servers answer with the version from before: it would be shown as a write without effect.
        return f"{verb} {what} {sent.key}: .metadata.finalizers, removed the last one"
    if sent.base is not None and sent.base.version == sent.written.version:
        return f"{verb} {what} {sent.key}: changed nothing"
    paths = _some(paths_of(sent))
    return f"{verb} {what} {sent.key}{': ' if paths else ''}{paths} -> version {sent.written.version}"


def _ends(base: Snapshot | None, written: Snapshot) -> bool:
    """Whether a write ends an object: it was being deleted, and no finalizer is left."""
    return base is not None and base.terminating and bool(base.finalizers) and not written.finalizers


def _some(paths: Sequence[str]) -> str:
    more = len(paths) - PATHS_SHOWN
    return ", ".join(paths[:PATHS_SHOWN]) + (f" and {more} more" if more > 0 else "")
