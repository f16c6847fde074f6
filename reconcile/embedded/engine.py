"""What all verbs share: the log, the resources, the clock, and the one way to commit a change."""

import datetime
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any

from attrs import Factory, define, field, frozen

from informers.clock import Clock
from informers.resource import Key
from reconcile.embedded.admission.chain import AdmissionFunction, Guard
from reconcile.embedded.admission.phases import Phases
from reconcile.embedded.auth import Access, Tokens
from reconcile.embedded.conversion_reviews import WebhookConverter
from reconcile.embedded.kinds import Catalogue
from reconcile.embedded.kubectl.tables import Tables
from reconcile.embedded.log import DEFINITIONS, NAMESPACES, Log, StorageKey, Stored, StoredChange, state_of
from reconcile.embedded.protocol.api_failure import ApiFailure
from reconcile.embedded.refusals import bare_server_error
from reconcile.embedded.registry import ResourceRegistry
from reconcile.embedded.served import Converter, ServedResource
from reconcile.embedded.stored_forms import encode, to_storage
from reconcile.embedded.webhook_calls import WebhookCalls

# etcd's default of --max-request-bytes.
MAX_STORED_BYTES = 1536 * 1024
# Limit for all objects together: the default quota of a real server's etcd.
MAX_STORE_BYTES = 2 * 1024 * 1024 * 1024


@frozen
class StoredObjects:
    """The stored objects of every kind, for admission plugins."""

    _log: Log

    def every(self, group: str, plural: str) -> Iterator[dict[str, Any]]:
        return (stored.decode() for stored in self._log.snapshot((group, plural)))

    def within(self, group: str, plural: str, namespace: str) -> Iterator[dict[str, Any]]:
        return (stored.decode() for stored in self._log.within((group, plural), namespace))

    def named(self, group: str, plural: str, name: str, namespace: str = "") -> dict[str, Any] | None:
        stored = self._log.get((group, plural), Key(namespace, name))
        return None if stored is None else stored.decode()


@define(eq=False)
class Engine:
    clock: Clock
    log: Log
    registry: ResourceRegistry
    kinds: Catalogue
    access: Access
    given_converter: Converter | None = None
    admission: list[AdmissionFunction] = field(factory=list)
    guards: list[Guard] = field(factory=list)
    phases: Phases = field(factory=Phases)
    calls: WebhookCalls = field(init=False, factory=WebhookCalls)
    table: Tables = field(init=False, default=Factory(lambda self: Tables(self.clock), takes_self=True))
    others: StoredObjects = field(
        init=False, default=Factory(lambda self: StoredObjects(self.log), takes_self=True)
    )
    tokens: Tokens = field(
        init=False, default=Factory(lambda self: Tokens(self.clock, self.log), takes_self=True)
    )

    @cached_property
    def converter(self) -> Converter:
        """The one that was given, or conversion webhooks."""
        return self.given_converter or WebhookConverter(self.calls, lambda: str(self.clock.uuid()))

    def now(self) -> str:
        return timestamp(self.clock.now())

    def get(self, resource: ServedResource, namespace: str, name: str) -> Stored | None:
        return self.log.get(resource.storage_key, Key(namespace, name))

    def definition_of(self, resource: ServedResource) -> Stored | None:
        return self.log.get(DEFINITIONS, Key("", f"{resource.plural}.{resource.group}"))

    def is_finished(self, resource: ServedResource, obj: Mapping[str, Any]) -> bool:
        """Whether a terminating object can be removed: it has no finalizer and no grace period left."""
        metadata = obj["metadata"]
        if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
            return False
        if resource.storage_key == NAMESPACES and (obj.get("spec") or {}).get("finalizers"):
            return False
        return not metadata.get("deletionGracePeriodSeconds")

    def put(self, resource: ServedResource, obj: dict[str, Any]) -> Stored:
        """Commit an object in its storage version, and set its `metadata.resourceVersion` in place.

        Raises ApiFailure (500) if the object or the whole store is too large, as etcd does, or while the disk
        takes no writes.
        """
        metadata = obj["metadata"]
        version = self.log.next_version
        metadata["resourceVersion"] = str(version)
        kept = to_storage(resource, obj)
        # Lists of built-in kinds rely on the kind coming first, and the apiVersion next.
        body = encode({"kind": kept["kind"], "apiVersion": kept["apiVersion"], **kept})
        if len(body) > MAX_STORED_BYTES:
            raise bare_server_error("etcdserver: request is too large")
        if self.log.stored + len(body) > MAX_STORE_BYTES:
            raise bare_server_error("etcdserver: mvcc: database space exceeded")
        stored = state_of(resource, obj, version, body)
        self.log.append(resource.storage_key, stored.key, stored)
        return stored

    def put_if_it_fits(self, resource: ServedResource, obj: dict[str, Any]) -> None:
        """Commit what a controller made of an object, which stays as it is where `put` refuses that."""
        with suppress(ApiFailure):
            self.put(resource, obj)

    def remove(self, storage_key: StorageKey, key: Key) -> StoredChange:
        return self.log.append(storage_key, key, None)


def timestamp(moment: datetime.datetime) -> str:
    """RFC 3339 in whole seconds, UTC."""
    return f"{moment.isoformat(timespec='seconds')[:19]}Z"
