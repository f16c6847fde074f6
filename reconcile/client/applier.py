"""Intents: what an object shall have, created or applied; one that the object has already is not sent."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar, overload

from informers import APIResource, Cache, Clock, Informer, OwnedByOther, Snapshot, StaleVersion, Transport
from informers.applied import Appliers
from informers.discovery import Discovery
from reconcile.client.apply_marks import AppliedIntents, Place, intent_of, without_server_set
from reconcile.client.former_managers import has_applied, is_in_the_way, renamed
from reconcile.client.limits import RateLimiter
from reconcile.client.manifest_text import manifest_of
from reconcile.client.reader import managed_fields_of
from reconcile.client.sender import APPLY_PATCH, JSON, FieldValidation
from reconcile.client.writer import Writer
from reconcile.models import Intent, Object, Unstructured, decode, encode, kind_of, unstructured_kind

O = TypeVar("O", bound=Object)  # noqa: E741

APPLY_ATTEMPTS = 5


class Applier(Writer):
    """A writer that also creates and applies whole objects: models, mappings and manifests in YAML."""

    def __init__(
        self,
        transport: Transport,
        *,
        cache: Cache | None = None,
        field_manager: str = "reconcile",
        clock: Clock | None = None,
        namespace: str = "",
        dry_run: bool = False,
        field_validation: FieldValidation | None = None,
        limiter: RateLimiter | None = None,
    ) -> None:
        super().__init__(
            transport,
            cache=cache,
            field_manager=field_manager,
            clock=clock,
            namespace=namespace,
            dry_run=dry_run,
            field_validation=field_validation,
            limiter=limiter,
        )
        self._intents = AppliedIntents()
        self._discovery = Discovery(transport)
        self._models: dict[APIResource, type[Unstructured]] = {}

    @overload
    async def create(self, obj: O) -> O: ...
    @overload
    async def create(self, obj: Mapping[str, Any] | str) -> Unstructured: ...
    async def create(self, obj: Object | Mapping[str, Any] | str) -> Object:
        """Create an object: a model, a mapping, or a manifest in YAML.

        What only a server sets is left out, so what was read somewhere may be created elsewhere. Raises
        AlreadyExists, Invalid, Forbidden; and StaleVersion for the first object of a kind with a generated
        name that a reconcile creates after the start: the run is repeated once the cache is certainly up to
        date, since no name that is taken would refuse a second object.
        """
        if isinstance(obj, Mapping | str):
            obj = await self.unstructured(obj)
        obj = self._placed(obj)
        resource = kind_of(obj).resource
        body = without_server_set(encode(obj))
        body.pop("status", None)
        path = resource.path(obj.namespace)
        if self.run is not None:
            self.run.wants(resource, obj.key, "", body)
        if not obj.name:
            self._decided_on_certain_state(resource)
        written = await self._write("POST", resource, obj.key, path, body, JSON)
        return self.decoded(type(obj), written)

    @overload
    async def apply(
        self, obj: Intent[O], *, force: bool = True, unforced: Collection[str] = (), subresource: str = ""
    ) -> O: ...
    @overload
    async def apply(
        self,
        obj: Mapping[str, Any] | str,
        *,
        force: bool = True,
        unforced: Collection[str] = (),
        subresource: str = "",
    ) -> Unstructured: ...
    async def apply(
        self,
        obj: Intent[Object] | Object | Mapping[str, Any] | str,
        *,
        force: bool = True,
        unforced: Collection[str] = (),
        subresource: str = "",
    ) -> Object:
        """Make the object have what `obj` says (server-side apply), whoever else writes the rest.

        `obj` is an intent, a mapping, or a manifest in YAML (ValueError where it is none). An object that
        was read is a type error, and raises TypeError. Nothing is sent where the object, as it was last
        seen, says that this field manager applied just that and nothing of it has changed. With `force`,
        fields that others own are taken over, except those named in `unforced` (`.spec.replicas`, or a path
        above); without, and for those, OwnedByOther is raised.
        """
        if isinstance(obj, Mapping | str):
            obj = await self.unstructured(obj)
        obj = self._placed(obj.object if isinstance(obj, Intent) else obj)
        resource, body = kind_of(obj).resource, intent_of(obj, subresource)
        place = Place(resource, obj.key, self.field_manager, subresource)
        mark = place.mark(body)
        if self.run is not None:
            self.run.wants(resource, obj.key, subresource, body)
        stored = None if self.dry_run else await self._unchanged(place, mark)
        if stored is not None:
            self._kept(resource, obj.key)
            return self.decoded(type(obj), stored)
        written = await self._apply(place, body, force, unforced)
        if not self.dry_run:
            self._intents.applied(place, body, written, self._holder(place, written))
        return self.decoded(type(obj), written)

    async def unstructured(self, manifest: Mapping[str, Any] | str) -> Unstructured:
        """A manifest as an object, its resource asked of the server. Raises UnknownKind, ValueError."""
        if isinstance(manifest, str):
            manifest = manifest_of(manifest)
        api_version, kind = manifest.get("apiVersion"), manifest.get("kind")
        if not isinstance(api_version, str) or not isinstance(kind, str):
            raise ValueError("a manifest needs apiVersion and kind")
        resource = await self._discovery.resource(api_version, kind)
        model = self._models.get(resource)
        if model is None:
            model = unstructured_kind(
                api_version, kind, plural=resource.plural, namespaced=resource.namespaced
            )
            self._models[resource] = model
        return decode(model, manifest)

    # --- within ---------------------------------------------------------------------------------

    async def _unchanged(self, place: Place, mark: bytes) -> Snapshot | None:
        """The stored state, if applying the intent of that mark would change nothing of it."""
        resource, key = place.resource, place.key
        informer = self._informer(resource, key.namespace)
        if informer is not None:
            saw_all = informer.mark_applies(place.field_manager)
            if self._journal.doubts(resource, key):
                await self.settle(resource, key)
            store = informer.store
            cached = store.get(key)
            # Mostly the one mark of an object is that of the intent; only otherwise there is more to look at.
            if cached is not None and (
                cached.applied == mark or self._holds(place, mark, cached, store.noted(key), saw_all=saw_all)
            ):
                if store.shape.keeps_all:
                    return cached
                return await self._unchanged_live(place, mark, store.noted(key))
        learned = self._intents.remembers(place, mark)
        return await self._unchanged_live(place, mark, learned) if learned else None

    async def _unchanged_live(self, place: Place, mark: bytes, learned: bytes) -> Snapshot | None:
        stored = await self.read(place.resource, place.key, self._appliers(place))
        return stored if stored is not None and self._holds(place, mark, stored, learned) else None

    def _holds(
        self, place: Place, mark: bytes, stored: Snapshot, learned: bytes, *, saw_all: bool = True
    ) -> bool:
        """Whether the intent holds, and nothing there is still of a former field manager."""
        return self._intents.holds(mark, stored, learned, saw_all=saw_all) and not any(
            place.of(manager).owns_in(stored) for manager in self.former_field_managers
        )

    def _appliers(self, place: Place) -> Appliers:
        return Appliers(place.resource.api_version, [place.field_manager, *self.former_field_managers])

    def _holder(self, place: Place, written: Snapshot) -> Informer | None:
        """The informer that has an object, or will have it soon, with its marks."""
        informer = self._informer(place.resource, place.key.namespace)
        if informer is None or informer.store.shape.metadata_only or not informer.selects(written):
            return None
        return informer

    async def _apply(
        self, place: Place, body: Mapping[str, Any], force: bool, unforced: Collection[str]
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
        self, place: Place, body: Mapping[str, Any], unforced: Collection[str]
    ) -> Snapshot:
        """Take over the fields that others own, at a version at which none of `unforced` was theirs."""
        for _ in range(APPLY_ATTEMPTS):
            stored = await self.read(place.resource, place.key)
            version = {} if stored is None else {"resourceVersion": str(stored.version)}
            guarded = {**body, "metadata": {**body["metadata"], **version}}
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

    async def _send_intent(self, place: Place, body: Mapping[str, Any], *, force: bool) -> Snapshot:
        former = self.former_field_managers
        try:
            answer, written = await self._send_once(place, body, force=force)
            if (
                not former
                or self.dry_run
                or not has_applied(managed_fields_of(answer), former, place.subresource)
            ):
                return written
        except OwnedByOther as error:
            if self.dry_run or not is_in_the_way(error, former):
                raise
        await self._succeed(place)
        # Once more: now the server drops what only the former field manager had applied.
        return (await self._send_once(place, body, force=force))[1]

    async def _send_once(
        self, place: Place, body: Mapping[str, Any], *, force: bool
    ) -> tuple[bytes, Snapshot]:
        resource, key = place.resource, place.key
        path = resource.path(key.namespace, key.name, place.subresource)
        query = {"force": "true" if force else "false"}
        return await self._answered(
            "PATCH", resource, key, path, body, APPLY_PATCH, query, self._appliers(place)
        )

    async def _succeed(self, place: Place) -> None:
        """Make the fields of the former field managers ours. Raises NotFound, and StaleVersion in the end."""
        resource, key = place.resource, place.key
        for attempt in range(1, APPLY_ATTEMPTS + 1):
            path = resource.path(key.namespace, key.name)
            stored, fields = await self._ask(resource, key, path, read=_with_entries)
            guard = {"uid": stored.uid, "resourceVersion": str(stored.version)}
            entries = renamed(fields, self.former_field_managers, self.field_manager)
            patch = {"metadata": {"managedFields": entries}}
            try:
                await self.patch(resource, key, patch, guard=guard, subresource=place.subresource)
                return
            except StaleVersion:
                if attempt == APPLY_ATTEMPTS:
                    raise


def _with_entries(answer: bytes) -> tuple[Snapshot, Sequence[Mapping[str, Any]]]:
    return Snapshot.from_json(answer), managed_fields_of(answer)


def _names(error: OwnedByOther, fields: Collection[str]) -> bool:
    """Whether a conflict is about one of these fields, or something within one."""
    return any(
        cause.field == field or cause.field.startswith((f"{field}.", f"{field}["))
        for cause in error.causes
        for field in fields
    )
