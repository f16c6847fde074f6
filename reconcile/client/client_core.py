"""The part of a client that its reads, writes and applies share, for the runtime."""

from collections.abc import Sequence
from typing import Any, Self, TypeVar

from attrs import define, field

from informers import APIResource, Cache, Clock, Informer, Key, Snapshot, Transport
from reconcile.client.apply_marks import AppliedIntents
from reconcile.client.buckets import BUCKET_LABEL
from reconcile.client.decoded_objects import DecodedObjects
from reconcile.client.manifests import ManifestObjects
from reconcile.client.object_indexes import IndexedReads
from reconcile.client.own_writes import Freshness, Journal
from reconcile.client.redaction import NO_SECRETS, DeclaredFields, SecretValues
from reconcile.client.sender import FieldValidation, Sender
from reconcile.models import Object, decode, kind_of
from reconcile.runs.run_record import NO_RUN, RunRecord
from reconcile.runs.write_events import WriteObserver

O = TypeVar("O", bound=Object)  # noqa: E741


@define(eq=False, slots=False)
class ClientCore:
    """The state shared by the parts of a client; `observers` get each write, in this order."""

    transport: Transport
    cache: Cache | None
    clock: Clock
    sender: Sender
    journal: Journal
    manifests: ManifestObjects
    namespace: str
    field_manager: str
    dry_run: bool
    field_validation: FieldValidation | None
    former_field_managers: Sequence[str] = field(default=(), init=False)
    former_updaters: Sequence[str] = field(default=(), init=False)
    freshness: Freshness = field(factory=Freshness, init=False)
    intents: AppliedIntents = field(factory=AppliedIntents, init=False)
    of_run: bool = field(default=False, init=False)
    run: RunRecord = field(default=NO_RUN, init=False)
    secrets: SecretValues = field(default=NO_SECRETS, init=False)
    certain: frozenset[APIResource] = field(default=frozenset(), init=False)
    """The resources whose cache was up to date when the run began."""
    observers: Sequence[WriteObserver] = field(init=False)
    added_observers: Sequence[WriteObserver] = field(default=(), init=False)
    indexed: IndexedReads = field(factory=IndexedReads, init=False)
    secret_fields: DeclaredFields = field(factory=dict, init=False)
    _decoded: DecodedObjects = field(factory=DecodedObjects, init=False)

    def __attrs_post_init__(self) -> None:
        self.observers = (self.journal,)

    def changed(self, **changes: Any) -> Self:
        """A copy with other values in some fields; attrs' evolve() is too slow for one copy per run."""
        copy = object.__new__(type(self))
        copy.__dict__ = {**self.__dict__, **changes}
        return copy

    def bound(
        self,
        journal: Journal,
        field_manager: str = "",
        former_field_managers: Sequence[str] | None = None,
        beside: "ClientCore | None" = None,
        observers: Sequence[WriteObserver] | None = None,
        former_updaters: Sequence[str] | None = None,
    ) -> Self:
        """A copy for one run, with its own `journal`; `beside` is that of the same run in another cluster.

        The next apply takes over fields of `former_field_managers`, and the first one of an object those
        that `former_updaters` wrote without apply. `observers` are added (None: as here).
        """
        run = RunRecord() if beside is None else beside.run.elsewhere()
        secrets = SecretValues(self.secret_fields) if beside is None else beside.secrets
        added = self.added_observers if observers is None else observers
        former = self.former_field_managers if former_field_managers is None else former_field_managers
        return self.changed(
            journal=journal,
            run=run,
            secrets=secrets,
            # Secrets first: the error of an observer after it may quote the body. The journal comes before
            # what may look at the cache.
            observers=(secrets, journal, run, *added),
            added_observers=added,
            field_manager=field_manager or self.field_manager,
            former_field_managers=former,
            former_updaters=self.former_updaters if former_updaters is None else former_updaters,
            of_run=True,
            certain=self.freshness.certain,
        )

    # --- places ---------------------------------------------------------------------------------

    def namespace_of(self, resource: APIResource, namespace: str) -> str:
        """The namespace to ask for in this view. Raises ValueError for one outside of it."""
        if not self.namespace or not resource.namespaced:
            return namespace
        if namespace not in ("", self.namespace):
            raise ValueError(
                f"this client is a view of namespace {self.namespace!r}; it cannot reach {resource} in "
                f"{namespace!r}"
            )
        return self.namespace

    def key_of(self, resource: APIResource, key: Key) -> Key:
        """A key in the namespace of this view. Raises ValueError for one outside of it."""
        return Key(self.namespace_of(resource, key.namespace), key.name) if self.namespace else key

    def placed(self, obj: O) -> O:
        """The object in the namespace of this view. Raises ValueError for one without a namespace."""
        resource = kind_of(obj).resource
        namespace = self.namespace_of(resource, obj.namespace)
        if resource.namespaced and not namespace:
            raise ValueError(f"{resource} {obj.name!r} has no namespace: set metadata.namespace")
        return obj if namespace == obj.namespace else obj.with_metadata(namespace=namespace)

    # --- buckets --------------------------------------------------------------------------------

    def labelled(self, obj: O, *, if_owned: bool = False) -> O:
        """The object with the label of the run's bucket, if the run's object controls it, or just owns it.

        By that label the replica that holds the bucket follows the object.
        """
        tenure, primary = self.run.tenure, self.run.primary
        if tenure is None or primary is None:
            return obj
        owners = [owner for owner in obj.metadata.owner_references if owner.uid == primary.uid]
        if not any(owner.controller or if_owned for owner in owners):
            return obj
        return obj.with_metadata(labels={**obj.metadata.labels, BUCKET_LABEL: tenure.label})

    # --- the cache ------------------------------------------------------------------------------

    def informer(self, resource: APIResource, namespace: str) -> Informer | None:
        """The informer with all objects of a resource in a namespace (empty: in all it follows)."""
        informer = None if self.cache is None else self.cache.find(resource)
        if informer is None or (namespace and not informer.covers(namespace)):
            return None
        return informer

    def cached(self, resource: APIResource, key: Key) -> Snapshot | None:
        informer = None if self.cache is None else self.cache.find(resource)
        return None if informer is None else informer.store.get(key)

    def keeps_all(self, resource: APIResource) -> bool:
        """Whether reads from the cache give the whole object."""
        informer = None if self.cache is None else self.cache.find(resource)
        return informer is None or informer.store.shape.keeps_all

    def lacks(self, resource: APIResource, pointer: str) -> bool:
        """Whether the cache drops the field at a JSON pointer from objects of a resource."""
        informer = None if self.cache is None else self.cache.find(resource)
        return informer is not None and informer.store.lacks(pointer)

    def decoded(self, model: type[O], snapshot: Snapshot, *, keep: bool = True) -> O:
        """The object of a snapshot; with a cache, decoded once per state. Raises DecodeError."""
        if self.cache is None:
            return decode(model, snapshot.raw)
        return self._decoded.of(model, snapshot, keep=keep)

    # --- secrets --------------------------------------------------------------------------------

    def redacted(self, text: str) -> str:
        return self.secrets.redact(text)

    def note_secrets(self, resource: APIResource, *snapshots: Snapshot | None) -> None:
        """Remember the secret values of objects that were read, to keep them out of texts."""
        if self.secrets.may_be_in(resource):
            for snapshot in snapshots:
                if snapshot is not None:
                    self.secrets.add(resource, snapshot.raw)
