"""Taking one object over from an operator on kopf, within the runs for it.

The steps are ordered so that a crash between any two of them leads to the same end, and so that kopf can have
the object back until a run has succeeded:

1. An object that kopf began to create and did not finish, or may have begun to create, is held, and nothing
   of it is changed. So is any object of kopf while the controller is a draft with parts that are not written.
2. The finalizer gives way to the controller's in one write, as every former finalizer does.
3. The author's function runs.
4. Only after it has returned kopf's annotations go, in one write, and then its part of the status. Where it
   has done only a part (`Steps`), they stay for the runs that do the rest.
"""

from typing import Any

from attrs import frozen

from informers import Key, NotFound, Snapshot
from reconcile.client.client import Client, core_of, reads_of
from reconcile.controller.declaration import Controller
from reconcile.controller.event_recorder import Recorder
from reconcile.controller.run_output import PendingEvent
from reconcile.models.fields import fields_of
from reconcile.models.objects import status_part
from reconcile.predecessors import KopfTraces, ObjectTraces, removal, status_removal, traces_on
from reconcile.runs.run_request import TerminalError

SHOWN = 5
"""How many handlers an error names."""
SHOWN_CHARACTERS = 80
"""How much of a handler's name or time is shown: the object may have longer ones."""


class HalfCreated(TerminalError):
    """kopf began to create what an object stands for, and did not finish; the object is held."""


class UnwrittenDraft(TerminalError):
    """A draft that is not written to the end met an object of the operator on kopf that it replaces."""

    def __init__(self, controller: Controller[Any], key: Key) -> None:
        predecessor = controller.predecessor
        assert predecessor is not None
        names = predecessor.unwritten
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        super().__init__(
            f"{controller.name}: {', '.join(names[:SHOWN])}{more} of the draft are not written, and "
            f"{controller.resource.name} {key} was kept by {predecessor.name}: a run would take its "
            "traces away. Write them and take their names out of unwritten=; --dry-run shows what they "
            "would write"
        )


@frozen
class KopfTakeover:
    """What is left to do for an object after its first good run."""

    client: Client
    controller: Controller[Any]
    names: KopfTraces
    seen: Snapshot

    @classmethod
    async def of(
        cls, controller: Controller[Any], client: Client, snapshot: Snapshot, recorder: Recorder
    ) -> "KopfTakeover | None":
        """The takeover of an object with traces, or None.

        Raises HalfCreated, UnwrittenDraft, and errors of reads.
        """
        predecessor = controller.predecessor
        if predecessor is None or predecessor.traces is None:
            return None
        names = predecessor.traces
        seen = await _whole(client, controller, snapshot, names)
        if seen is None:
            return None
        traces = traces_on(seen.to_dict(), names)
        if traces and predecessor.unwritten and not client.dry_run:
            raise UnwrittenDraft(controller, snapshot.key)
        if (traces.half_created or traces.begun) and predecessor.unfinished == "hold":
            error = HalfCreated(_half_created(controller, names, snapshot, traces))
            subject = core_of(client).decoded(controller.kind, snapshot)
            recorder.record(subject, PendingEvent("Warning", "HalfCreated", str(error)))
            raise error
        return cls(client, controller, names, seen) if traces else None

    async def finish(self) -> None:
        """Remove what is kopf's. Raises StaleVersion where the object has changed meanwhile."""
        resource, key = self.controller.resource, self.seen.key
        latest = core_of(self.client).run.state_of(resource, key) or self.seen
        if latest.uid != self.seen.uid:
            return
        traces = traces_on(latest.to_dict(), self.names)
        raw = self.client.raw
        try:
            # Guarded by the version: were kopf still at work, its next record would not be lost unseen.
            if patch := removal(traces, self.names):
                latest = await raw.patch(resource, key, patch, guard=_guard(latest))
            patch = status_removal(traces, latest.to_dict().get("status"), self.names)
            if patch and any(field.name == "status" for field in fields_of(self.controller.kind)):
                part = status_part(self.controller.kind)
                await raw.patch(resource, key, patch, guard=_guard(latest), subresource=part)
        except NotFound:
            return


async def _whole(
    client: Client, controller: Controller[Any], snapshot: Snapshot, names: KopfTraces
) -> Snapshot | None:
    """The object with its annotations and status: read live where the cache drops some of them."""
    places = ("/metadata/annotations", f"/status/{names.status_field}")
    if not any(core_of(client).lacks(controller.resource, place) for place in places):
        return snapshot
    live = await reads_of(client).read(controller.resource, snapshot.key)
    return live if live is not None and live.uid == snapshot.uid else None


def _guard(snapshot: Snapshot) -> dict[str, str]:
    return {"uid": snapshot.uid, "resourceVersion": str(snapshot.version)}


def _half_created(
    controller: Controller[Any], names: KopfTraces, snapshot: Snapshot, traces: ObjectTraces
) -> str:
    """What is known of the creation, and how a person releases the object."""
    return (
        f"{_known(snapshot, traces)}. What it did outside of the cluster is not known, so the object is "
        f"held. See to it, then release the object: {_release(controller, names, snapshot.key)}"
    )


def _known(snapshot: Snapshot, traces: ObjectTraces) -> str:
    records, key = traces.half_created, snapshot.key
    if not records:
        return f"kopf may have begun to create {key}: it holds it, and has not handled it to the end once"
    handlers = ", ".join(
        f"{record.handler[:SHOWN_CHARACTERS]!r} (since {record.started[:SHOWN_CHARACTERS]!r})"
        for record in records[:SHOWN]
    )
    more = f" and {len(records) - SHOWN} more" if len(records) > SHOWN else ""
    return f"kopf began to create {key} and did not finish: handler {handlers}{more}"


def _release(controller: Controller[Any], names: KopfTraces, key: Key) -> str:
    kopf = KopfTraces()
    others = [f" --prefix {names.prefix}"] if names.prefix != kopf.prefix else []
    others += [f" --finalizer {names.finalizer}"] if names.finalizer != kopf.finalizer else []
    others += [f" --peering {names.peering}"] if names.peering not in ("", kopf.peering) else []
    command = f"reconcile adopt kopf switch --kind {controller.resource.name}{''.join(others)}"
    return f"{command} --finished {key}"
