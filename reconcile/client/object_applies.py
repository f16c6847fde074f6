"""Server-side apply: an intent that the object already fulfils is not sent."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from attrs import frozen

from informers import APIResource, Informer, Key, NotFound, OwnedByOther, Snapshot, StaleVersion
from informers.applied import Appliers
from reconcile.client.apply_marks import ApplyKey, intent_of, without_server_set
from reconcile.client.client_core import ClientCore
from reconcile.client.former_managers import absorbed, has_applied, is_in_the_way, renamed
from reconcile.client.object_reads import ObjectReads, managed_fields_of, object_path, stored_object
from reconcile.client.object_writes import ObjectWrites
from reconcile.client.patch_types import APPLY
from reconcile.models import Object, encode, kind_of

APPLY_ATTEMPTS = 5


@frozen(eq=False)
class ObjectApplies:
    core: ClientCore
    reads: ObjectReads
    writes: ObjectWrites

    async def create(self, obj: Object) -> Snapshot:
        core = self.core
        obj = core.labelled(core.placed(obj), if_owned=True)
        resource = kind_of(obj).resource
        body = without_server_set(encode(obj))
        body.pop("status", None)
        core.run.note_desired(resource, obj.key, "", body)
        if not obj.name:
            self._decide_on_certain_state(resource)
        await self._know_owner(obj)
        return (await self.writes.send_object("POST", resource, obj.key, body))[0]

    async def apply(self, obj: Object, force: bool, unforced: Collection[str], subresource: str) -> Snapshot:
        """Apply an object, unless its last seen state shows that this manager applied exactly that."""
        core = self.core
        obj = core.labelled(core.placed(obj))
        resource, body = kind_of(obj).resource, intent_of(obj, subresource)
        place = ApplyKey(resource, obj.key, core.field_manager, subresource)
        mark = place.mark(body)
        core.run.note_desired(resource, obj.key, subresource, body)
        # A dry run is to have the server's judgement, admission included, so it is always sent.
        stored = None if core.dry_run else await self._unchanged(place, mark)
        if stored is not None:
            core.run.note_kept(resource, obj.key)
            return stored
        if core.cached(resource, obj.key) is None:
            await self._know_owner(obj)
        if core.former_updaters and not subresource and not core.dry_run:
            await self._absorb(place)
        written = await self._apply(place, body, force, unforced)
        if not core.dry_run:
            core.intents.applied(place, body, written, self._holder(place, written))
        return written

    def _decide_on_certain_state(self, resource: APIResource) -> None:
        """Before a create that no server refuses. Raises StaleVersion if the cache may be behind."""
        core = self.core
        if core.cache is None or core.cache.find(resource) is None or not core.of_run:
            return
        if core.dry_run or resource in core.certain:
            return
        # That the cache is up to date now proves nothing: the decision rests on earlier reads. So only a run
        # that began after the cache had reached the version of a consistent list may go on.
        if not core.journal.is_certain(resource):
            core.journal.doubt(resource, Key("", ""))
            why = f"the cache of {resource} may be behind a predecessor's: decide again once it has caught up"
            raise StaleVersion(409, "Conflict", why)
        core.freshness.note_certain(resource)

    async def _know_owner(self, child: Object) -> None:
        """Before a child is made in a run that the end of another has woken: is the owner still there?

        Children are deleted after or with their owner. But no two watches are in step, so the end of the
        children may be known first, and they would be made again for an owner that is no more. Raises
        StaleVersion where the server has it no longer, or deletes it.
        """
        core, record = self.core, self.core.run
        owner, resource = record.primary, record.primary_resource
        if core.cache is None or core.dry_run or owner is None or resource is None or owner.terminating:
            return
        if record.owner_is_there or all(of.uid != owner.uid for of in child.metadata.owner_references):
            return
        # Of whatever kind: the end of the one that is missing may have come after the run began.
        if not any(cause.verb == "deleted" and cause.resource != resource for cause in record.causes):
            return
        stored = await self.reads.read(resource, owner.key)
        if stored is None or stored.uid != owner.uid or stored.terminating:
            core.journal.doubt(resource, owner.key)  # the next run waits until the cache shows it
            raise StaleVersion(409, "Conflict", f"{resource} {str(owner.key)!r} is deleted: decide again")
        record.owner_is_there = True

    # --- what need not be sent ------------------------------------------------------------------

    async def _unchanged(self, place: ApplyKey, mark: bytes) -> Snapshot | None:
        """The stored state, if applying the intent of that mark would change nothing of it."""
        core, resource, key = self.core, place.resource, place.key
        informer = core.informer(resource, key.namespace)
        if informer is not None:
            saw_all = informer.mark_applies(place.field_manager)
            if core.journal.doubts(resource, key):
                await self.reads.settle(resource, key)
            if informer.tapped:
                await informer.look()
            store = informer.store
            cached = store.get(key)
            # Mostly the one mark of an object is that of the intent: nothing else is looked at then.
            if cached is not None and (
                cached.applied == mark or self._holds(place, mark, cached, store.noted(key), saw_all=saw_all)
            ):
                if store.shape.keeps_all:
                    return cached
                return await self._unchanged_live(place, mark, store.noted(key))
        learned = core.intents.remembers(place, mark)
        return await self._unchanged_live(place, mark, learned) if learned else None

    async def _unchanged_live(self, place: ApplyKey, mark: bytes, learned: bytes) -> Snapshot | None:
        stored = await self.reads.read(place.resource, place.key, self._appliers(place))
        return stored if stored is not None and self._holds(place, mark, stored, learned) else None

    def _holds(
        self, place: ApplyKey, mark: bytes, stored: Snapshot, learned: bytes, *, saw_all: bool = True
    ) -> bool:
        """Whether the intent holds, and no field there still belongs to a former field manager."""
        core = self.core
        return core.intents.holds(mark, stored, learned, saw_all=saw_all) and not any(
            place.of(manager).owns_in(stored) for manager in core.former_field_managers
        )

    def _appliers(self, place: ApplyKey) -> Appliers:
        return Appliers(place.resource.api_version, [place.field_manager, *self.core.former_field_managers])

    def _holder(self, place: ApplyKey, written: Snapshot) -> Informer | None:
        """The informer that has or will soon have an object, with its marks."""
        informer = self.core.informer(place.resource, place.key.namespace)
        if informer is None or informer.store.shape.metadata_only or not informer.selects(written):
            return None
        return informer

    # --- what is sent ---------------------------------------------------------------------------

    async def _apply(
        self, place: ApplyKey, body: Mapping[str, Any], force: bool, unforced: Collection[str]
    ) -> Snapshot:
        if not unforced:
            return await self._send_intent(place, body, force=force)
        try:
            return await self._send_intent(place, body, force=False)
        except OwnedByOther as error:
            if not force or _names(error, unforced):
                raise
        return await self._apply_except(place, body, unforced)

    async def _apply_except(
        self, place: ApplyKey, body: Mapping[str, Any], unforced: Collection[str]
    ) -> Snapshot:
        """Take over the fields that others own, at a version at which they own none of `unforced`."""
        for _ in range(APPLY_ATTEMPTS):
            stored = await self.reads.read(place.resource, place.key)
            version = {} if stored is None else {"resourceVersion": str(stored.version)}
            guarded = {**body, "metadata": {**body["metadata"], **version}}
            # First without force: its conflicts say who owns what at this very version.
            try:
                return await self._send_intent(place, guarded, force=False)
            except StaleVersion:
                continue
            except OwnedByOther as error:
                if _names(error, unforced):
                    raise
            try:
                return await self._send_intent(place, guarded, force=True)
            except StaleVersion:
                continue
        raise StaleVersion(409, "Conflict", f"others keep changing {place.resource} {str(place.key)!r}")

    async def _send_intent(self, place: ApplyKey, body: Mapping[str, Any], *, force: bool) -> Snapshot:
        former = self.core.former_field_managers
        try:
            written, answer = await self._send_once(place, body, force=force)
            if (
                not former
                or self.core.dry_run
                or not has_applied(managed_fields_of(answer), former, place.subresource)
            ):
                return written
        except OwnedByOther as error:
            if self.core.dry_run or not is_in_the_way(error, former):
                raise
        await self._take_over(place)
        # Once more: now the server drops what only the former field manager had applied.
        return (await self._send_once(place, body, force=force))[0]

    async def _send_once(
        self, place: ApplyKey, body: Mapping[str, Any], *, force: bool
    ) -> tuple[Snapshot, bytes]:
        return await self.writes.send_object(
            "PATCH",
            place.resource,
            place.key,
            body,
            APPLY.headers,
            subresource=place.subresource,
            query={"force": "true" if force else "false"},
            appliers=self._appliers(place),
        )

    async def _absorb(self, place: ApplyKey) -> None:
        """Before the first apply of an object: own what former updaters wrote. Raises StaleVersion.

        Before, so that a crash in between leaves an object that is owned too far and not too little: the
        apply then drops what the intent does not name. Later on it would take what others wrote since.
        """
        core, resource, key = self.core, place.resource, place.key
        informer = core.informer(resource, key.namespace)
        cached = None if informer is None else informer.store.get(key)
        if cached is not None and place.owns_in(cached):
            return
        # The object of the run is the user's: what kopf wrote there is bookkeeping, and is removed as such.
        own = core.run.primary.uid if core.run.primary is not None else ""
        for attempt in range(1, APPLY_ATTEMPTS + 1):
            try:
                path = object_path(resource, key)
                stored, entries = await self.reads.ask(resource, key, path, read=_with_entries)
            except NotFound:
                return
            if has_applied(entries, (core.field_manager,), "") or stored.uid == own:
                return
            manager, version = core.field_manager, resource.api_version
            taken = absorbed(entries, core.former_updaters, manager, version)
            if taken is None:
                return
            guard = {"uid": stored.uid, "resourceVersion": str(stored.version)}
            try:
                await self.writes.patch(resource, key, {"metadata": {"managedFields": taken}}, guard=guard)
                return
            except StaleVersion:
                if attempt == APPLY_ATTEMPTS:
                    raise

    async def _take_over(self, place: ApplyKey) -> None:
        """Take over the fields of former field managers. Raises NotFound, and StaleVersion in the end."""
        core, resource, key = self.core, place.resource, place.key
        path = object_path(resource, key)
        for attempt in range(1, APPLY_ATTEMPTS + 1):
            stored, entries = await self.reads.ask(resource, key, path, read=_with_entries)
            guard = {"uid": stored.uid, "resourceVersion": str(stored.version)}
            renamed_entries = renamed(entries, core.former_field_managers, core.field_manager)
            patch = {"metadata": {"managedFields": renamed_entries}}
            try:
                await self.writes.patch(resource, key, patch, guard=guard, subresource=place.subresource)
                return
            except StaleVersion:
                if attempt == APPLY_ATTEMPTS:
                    raise


def _with_entries(answer: bytes) -> tuple[Snapshot, Sequence[Mapping[str, Any]]]:
    return stored_object(answer), managed_fields_of(answer)


def _names(error: OwnedByOther, fields: Collection[str]) -> bool:
    return any(
        cause.field == field or cause.field.startswith((f"{field}.", f"{field}["))
        for cause in error.causes
        for field in fields
    )
