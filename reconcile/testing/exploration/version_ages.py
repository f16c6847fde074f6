"""How old a version of an object is for one process, in a form that is the same in every run.

Versions differ from run to run. What follows from one is decided by whether it is the newest on the server,
and by whether the process has it, or which of the lines on their way to it have it.
"""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from attrs import frozen

from informers import APIResource, Informer, Key
from reconcile.client.own_writes import Absence, Journal, OwnWrite, Refusal, is_shown
from reconcile.embedded.log import StorageKey
from reconcile.testing.exploration.content_digests import ContentDigests
from reconcile.testing.exploration.schedule_gates import ChosenLines
from reconcile.testing.recorded_requests import target_of

Age: TypeAlias = tuple[object, ...]


@frozen
class VersionAges:
    """Of one process, with its informers and the watches whose lines have not reached them yet."""

    informers: Sequence[Informer]
    watches: Sequence[ChosenLines]
    digests: ContentDigests

    def age(self, resource: StorageKey, key: Key, version: int) -> Age:
        """How old a version of one object is."""
        stored = self.digests.log.get(resource, key)
        newest = 0 if stored is None else stored.version
        cached = [one.store.get(key) for one in self.informers if storage_key_of(one.resource) == resource]
        return (
            version == newest,
            [_order(version, one.version) for one in cached if one is not None],
            self._coming(resource, version),
        )

    def expected(self, journal: Journal) -> tuple[object, ...]:
        """What a key waits to see of its own writes. Nothing follows from what its caches show already."""
        writes = (self._expected(*place, write) for place, write in journal._writes.items())
        return (
            sorted(one for one in writes if one is not None),
            sorted((str(resource), self._name(key)) for resource, key in journal._unknown),
            sorted(map(str, journal._certain)),
        )

    def _expected(
        self, resource: APIResource, key: Key, write: OwnWrite | Absence | Refusal
    ) -> tuple[object, ...] | None:
        informer = next((one for one in self.informers if one.resource == resource), None)
        if informer is None or is_shown(write, informer):
            return None
        uid, version = ("", 0) if isinstance(write, Absence) else (write.uid, write.version)
        return (
            str(resource),
            self._name(key),
            type(write).__name__,
            bool(uid) and self.digests.exists(uid),
            self._coming(storage_key_of(resource), version),
        )

    def _coming(self, resource: StorageKey, version: int) -> list[int]:
        return [_order(version, line) for line in self._versions_coming(resource)]

    def _versions_coming(self, resource: StorageKey) -> Iterator[int]:
        for watch in self.watches:
            target = target_of(watch.path)
            if (target.group, target.resource) == resource:
                yield from (line.version for line in watch.lines)

    def _name(self, key: Key | None) -> str:
        return "" if key is None else self.digests.name(key)


def storage_key_of(resource: APIResource) -> StorageKey:
    """Where a server keeps the objects of a resource."""
    return resource.group, resource.plural


def _order(version: int, other: int) -> int:
    return (version > other) - (version < other)
