"""Your own writes are visible: what one key has written and its cache may not show yet.

A write counts as seen when the store holds that object at that version or later, or when the store
as a whole has reached the version. A deletion is seen when that uid is absent or terminating. A
write of unknown outcome is seen when the store has reached a version that a consistent list gave
afterwards. (cluster-api #13720, controller-runtime #3472, KEP-5647.)
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

from attrs import define, field, frozen

from informers import Cache, Informer, Key, Resource, Snapshot

PATIENCE = 5.0
"""Seconds to wait for the cache, and once more after a relist."""


class CacheBehind(Exception):
    """The cache does not show a write of this key, even after a relist."""


class HasVersion(Protocol):
    """Asks the server for the version of a resource, as of now."""

    def __call__(self, resource: Resource, namespace: str) -> Awaitable[int]:
        """The resourceVersion of a consistent list."""
        ...


@frozen
class Write:
    """An object that was written, at the version that the server gave, or its deletion."""

    resource: Resource
    key: Key
    uid: str
    version: int
    deleted: bool = False

    def seen_in(self, informer: Informer) -> bool:
        """Whether a reader of this informer sees the write, or can never see the object."""
        if not informer.covers(self.key.namespace):
            return True
        known = informer.store.get(self.key)
        if self.deleted:
            return known is None or known.uid != self.uid or known.terminating
        if self.version and informer.store.version >= self.version:
            return True
        return known is not None and known.uid == self.uid and known.version >= self.version


@define
class Journal:
    """What one key wrote and has not seen yet."""

    _writes: dict[tuple[Resource, Key], Write] = field(factory=dict, init=False)
    _uncertain: set[Resource] = field(factory=set, init=False)

    def wrote(self, resource: Resource, snapshot: Snapshot) -> None:
        """A create, an apply, an update or a patch came back with this."""
        self._writes[resource, snapshot.key] = Write(resource, snapshot.key, snapshot.uid, snapshot.version)

    def deleted(self, resource: Resource, key: Key, uid: str) -> None:
        """A delete of that uid was accepted."""
        self._writes[resource, key] = Write(resource, key, uid, 0, deleted=True)

    def stale(self, resource: Resource, key: Key, uid: str, version: int) -> None:
        """The server refused a write because the object is newer than `version`."""
        self._writes[resource, key] = Write(resource, key, uid, version + 1)

    def unknown(self, resource: Resource) -> None:
        """A write may have happened, or the cache was found to be wrong about some object."""
        self._uncertain.add(resource)

    def __bool__(self) -> bool:
        return bool(self._writes or self._uncertain)

    async def settle(self, cache: Cache, ask: HasVersion, only: Resource | None = None) -> None:
        """Wait until the cache shows everything noted here (of one resource, if `only`).

        Raises CacheBehind when even a relist did not bring it, and the error of the request that
        asks for a version.
        """
        for resource in [r for r in self._uncertain if only in (None, r)]:
            informer = cache.find(resource)
            if informer is not None:
                version = await ask(resource, informer.namespace)
                await _wait(informer, lambda i=informer, v=version: i.store.version >= v)  # type: ignore[misc]
            self._uncertain.discard(resource)
        for place, write in [(p, w) for p, w in self._writes.items() if only in (None, w.resource)]:
            informer = cache.find(write.resource)
            if informer is not None:
                await _wait(informer, lambda i=informer, w=write: w.seen_in(i))  # type: ignore[misc]
            if self._writes.get(place) is write:
                del self._writes[place]


async def _wait(informer: Informer, seen: Callable[[], bool]) -> None:
    if seen() or await informer.wait_until(seen, PATIENCE):
        return
    informer.relist()
    if not await informer.wait_until(seen, PATIENCE):
        raise CacheBehind(f"the cache of {informer.resource} does not show an own write after a relist")
