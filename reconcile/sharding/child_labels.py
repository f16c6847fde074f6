"""Gives children the label of their bucket that were made without it, or for another owner.

Replicas choose children by that label, so one without is invisible to the replica that works on its owner.
The runtime labels what its runs make. What remains are children from before the operator was shared, those
that other programs make or adopt, and those of a ring with another number of buckets.
"""

from collections.abc import Collection, Sequence
from functools import partial

import anyio
from attrs import define, field

from informers import (
    ApiError,
    APIResource,
    Delta,
    Informer,
    InformerOptions,
    Key,
    NotFound,
    PreconditionFailed,
    Snapshot,
    StaleVersion,
    get_logger,
)
from informers.broadcast import Broadcast
from informers.informer_share import Share
from reconcile.client.buckets import BUCKET_LABEL, Buckets
from reconcile.client.client import Client

RETRY_SECONDS = 5.0
"""Until a label that could not be written is tried again; a role may have to change first."""

_log = get_logger("reconcile.sharding")


def missing_label(snapshot: Snapshot, owners: Collection[tuple[str, str]], buckets: Buckets) -> str:
    """The label that a child of one of these owners, group and kind, should have; empty if it has it.

    What no such owner controls is not ours to label.
    """
    for owner in snapshot.owners:
        if owner.controller and (owner.group, owner.kind) in owners:
            label = buckets.label(buckets.of(owner.uid))
            return "" if snapshot.labels.get(BUCKET_LABEL) == label else label
    return ""


@define(eq=False)
class ChildLabels:
    """Labels the children of these owners, each the group and kind of a primary object."""

    client: Client
    buckets: Buckets
    owners: Collection[tuple[str, str]]
    namespaces: Sequence[str] = ()
    _misplaced: dict[tuple[APIResource, Key], Snapshot] = field(factory=dict, init=False)
    _found: Broadcast = field(factory=Broadcast, init=False)

    def watch(self, informer: Informer) -> None:
        """Have `correct` label what comes to this informer with the label of another owner."""
        informer.add_handler(partial(self._note, informer.resource))

    async def correct(self) -> None:
        """Correct labels until cancelled: a child that was adopted lies with the replica of its old owner."""
        while True:
            await self._found.wait_until(lambda: bool(self._misplaced))
            failed = []
            for (resource, key), snapshot in [*self._misplaced.items()]:
                del self._misplaced[resource, key]
                if not await self._label(resource, snapshot):
                    failed.append((resource, snapshot))
            if failed:
                await anyio.sleep(RETRY_SECONDS)
            for resource, snapshot in failed:
                self._misplaced.setdefault((resource, snapshot.key), snapshot)

    async def label_all(self, resource: APIResource) -> None:
        """Returns when each child has its label, however long that takes."""
        await self._keep(resource, "", until_done=True)

    async def keep(self, resource: APIResource) -> None:
        """Label children that come without a label, until cancelled."""
        await self._keep(resource, f"!{BUCKET_LABEL}", until_done=False)

    async def _keep(self, resource: APIResource, labels: str, *, until_done: bool) -> None:
        options = InformerOptions(namespaces=self.namespaces, labels=labels, metadata_only=True)
        informer = Informer(
            self.client.transport,
            resource,
            options=options,
            clock=self.client.clock,
            share=Share(keeps=lambda snapshot: self._missing(snapshot) != ""),
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(informer.run)
            await informer.wait_synced()
            while True:
                seen = informer.store.version
                failed = [one for one in informer.store.list() if not await self._label(resource, one)]
                if until_done and not len(informer.store):
                    break
                if failed:
                    await anyio.sleep(RETRY_SECONDS)
                else:
                    await informer.wait_version(seen + 1, RETRY_SECONDS)
            tasks.cancel_scope.cancel()

    def _note(self, resource: APIResource, delta: Delta) -> None:
        key = delta.last.key
        self._misplaced.pop((resource, key), None)
        if delta.new is not None and self._missing(delta.new):
            self._misplaced[resource, key] = delta.new
            self._found.notify()

    def _missing(self, snapshot: Snapshot) -> str:
        return missing_label(snapshot, self.owners, self.buckets)

    async def _label(self, resource: APIResource, snapshot: Snapshot) -> bool:
        patch = {"metadata": {"labels": {BUCKET_LABEL: self._missing(snapshot)}}}
        guard = {"uid": snapshot.uid, "resourceVersion": str(snapshot.version)}
        try:
            await self.client.raw.patch(resource, snapshot.key, patch, guard=guard)
        except (NotFound, PreconditionFailed, StaleVersion):
            return True  # it is gone, or comes again as it is now
        except ApiError as error:
            _log.warning(
                "a child has no label of its bucket, so the replica of its owner does not see it",
                child=f"{resource} {snapshot.key}",
                error=str(error),
            )
            return False
        return True
