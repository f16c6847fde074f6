"""Lets a reconcile see its own writes: what one key has written and its cache may not show yet.

The cache shows a write when it holds the object at that version or later, or has reached that version as a
whole; it shows a deletion when that uid is absent or terminating. After a write of unknown outcome the object
is read live, and the cache must show that state; where the name is unknown, the cache must reach the version
of a consistent list. After a write refused as stale, it must show a newer state of that object. (cluster-api
#13720, controller-runtime #3472, KEP-5647.)
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import Protocol, TypeVar

import anyio
from attrs import define, field, frozen

from informers import (
    AlreadyExists,
    ApiError,
    APIResource,
    Cache,
    Informer,
    Key,
    NotFound,
    PreconditionFailed,
    Snapshot,
    StaleVersion,
)
from reconcile.runs.write_events import Answered, Failed, WriteObserver

P = TypeVar("P", bound=tuple[APIResource, Key | None])

PATIENCE = 5.0
"""Seconds to wait for the cache, and again after a relist. A watch is normally late by milliseconds; one that
is late by seconds is likely to be broken without an error."""
SHORT_PATIENCE = 0.5
"""Seconds to wait for a version only. A store reaches it with the next event or bookmark of the resource,
which may be a minute away, so a relist is faster."""


class CacheBehind(Exception):
    """The cache does not show a write of this key, even after a relist."""


class Live(Protocol):
    """Reads from the server, past every cache."""

    def version(self, resource: APIResource, namespace: str = "") -> Awaitable[int]: ...

    def read(self, resource: APIResource, key: Key) -> Awaitable[Snapshot | None]: ...


@frozen
class OwnWrite:
    """A write or deletion; `state` is the object in the server's answer, if that was the whole object."""

    resource: APIResource
    key: Key
    uid: str
    version: int
    deleted: bool = False
    state: Snapshot | None = None

    def shown_by(self, informer: Informer, cached: Snapshot | None) -> bool:
        """Whether the store of an informer, with `cached` for the key, shows the write."""
        if self.deleted:
            return cached is None or cached.uid != self.uid or cached.terminating
        # Events of one resource come in the order of versions: what reached a later one has this one.
        if self.version and informer.store.version >= self.version:
            return True
        # A write may take an object out of the informer's selection: then it is to be absent.
        if self.state is not None and not informer.selects(self.state):
            return cached is None
        return cached is not None and cached.uid == self.uid and cached.version >= self.version

    def is_lost(self, informer: Informer) -> bool:
        """Whether the object was deleted before the store had it: a list without it followed its creation.

        No change of the store tells of that.
        """
        if self.deleted or not 0 < self.version <= informer.store.version:
            return False
        if not informer.covers(self.key.namespace) or (self.state and not informer.selects(self.state)):
            return False
        cached = informer.store.get(self.key)
        return cached is None or cached.uid != self.uid


@frozen
class Absence:
    """An object that the server does not have, under any uid."""

    resource: APIResource
    key: Key

    def shown_by(self, informer: Informer, cached: Snapshot | None) -> bool:
        return cached is None or cached.terminating


@frozen
class Refusal:
    """A write refused because the object is newer than `version`, though it is unknown by how much."""

    resource: APIResource
    key: Key
    uid: str
    version: int

    def shown_by(self, informer: Informer, cached: Snapshot | None) -> bool:
        return cached is None or cached.uid != self.uid or cached.version > self.version


def is_shown(write: OwnWrite | Absence | Refusal, informer: Informer) -> bool:
    """Whether the informer's store shows what was noted, or can never hold the object."""
    if not informer.covers(write.key.namespace):
        return True
    return write.shown_by(informer, informer.store.get(write.key))


@define
class Journal(WriteObserver):
    """The unseen writes of one key. `on_wait` gets the seconds of each wait, and whether it failed."""

    on_wait: Callable[[float, bool], None] | None = None
    _writes: dict[tuple[APIResource, Key], OwnWrite | Absence | Refusal] = field(factory=dict, init=False)
    _unknown: dict[tuple[APIResource, Key | None], None] = field(factory=dict, init=False)
    _certain: set[APIResource] = field(factory=set, init=False)

    def answered(self, answered: Answered) -> None:
        """Note the state that the cache must show after a write."""
        if answered.dry:
            return
        resource, key, written = answered.resource, answered.key, answered.written or answered.scale
        if answered.method == "DELETE":
            uid = answered.sent.guard.get("uid", "")
            if not uid:  # of an object that was not read: no cache could tell whether it still shows it
                self.doubt(resource, key)
                return
            self._writes[resource, key] = OwnWrite(resource, key, uid, 0, deleted=True)
        elif written is not None and written.uid:
            self._note(resource, written, answered.written)
        else:  # the answer to a POST of a subresource does not say what became of the object
            self.doubt(resource, key)

    def failed(self, failed: Failed) -> None:
        """Note what an error reveals: that the cache is behind the object, or wrong about it.

        Of the four kinds of 409, only a conflict of field owners reveals nothing: it names no version.
        """
        sent, error = failed.sent, failed.error
        version = str(sent.guard.get("resourceVersion", ""))
        if isinstance(error, StaleVersion) and version.isdecimal():
            refusal = Refusal(sent.resource, sent.key, str(sent.guard.get("uid", "")), int(version))
            self._writes[sent.resource, sent.key] = refusal
        elif (
            isinstance(error, StaleVersion | AlreadyExists | PreconditionFailed | NotFound)
            or not isinstance(error, ApiError)  # cancelled, perhaps after the server had acted
            or error.may_have_acted
        ):
            self.doubt(sent.resource, sent.key)

    def doubt(self, resource: APIResource, key: Key) -> None:
        """Note an unknown outcome, or a wrong cache; without a name, of an object that the server named."""
        self._unknown[resource, key if key.name else None] = None

    def _note(self, resource: APIResource, identity: Snapshot, state: Snapshot | None = None) -> None:
        key = identity.key
        self._writes[resource, key] = OwnWrite(resource, key, identity.uid, identity.version, state=state)

    def is_certain(self, resource: APIResource) -> bool:
        """Whether the cache of a resource has reached the version of a consistent list for this key."""
        return resource in self._certain

    def lost(self, informer: Informer) -> Sequence[Key]:
        """The objects of this informer that were written, and deleted before its store had them."""
        return [
            key
            for (resource, key), write in self._writes.items()
            if resource == informer.resource and isinstance(write, OwnWrite) and write.is_lost(informer)
        ]

    def __bool__(self) -> bool:
        return bool(self._writes or self._unknown)

    def doubts(self, resource: APIResource, key: Key) -> bool:
        """Whether the cache may not show yet what was written to one object."""
        unknown = self._unknown
        return (resource, key) in self._writes or (resource, key) in unknown or (resource, None) in unknown

    async def settle(
        self, cache: Cache, live: Live, only: APIResource | None = None, key: Key | None = None
    ) -> None:
        """Wait until the cache shows the writes. Raises CacheBehind after a relist, or read errors."""
        started = anyio.current_time()
        behind = False
        try:
            await self._settle(cache, live, only, key)
        except CacheBehind:
            behind = True
            raise
        finally:
            if self.on_wait is not None:
                self.on_wait(anyio.current_time() - started, behind)

    async def _settle(self, cache: Cache, live: Live, only: APIResource | None, key: Key | None) -> None:
        # First what is not known: a live read may replace or add an expected write.
        for resource, unknown in _within(self._unknown, only, key):
            await self._find_out(cache, live, resource, unknown)
            self._unknown.pop((resource, unknown), None)
            if unknown is None:
                self._certain.add(resource)
        for place, write in [(place, self._writes[place]) for place in _within(self._writes, only, key)]:
            informer = cache.find(write.resource)
            if informer is not None and isinstance(write, Refusal | Absence):
                await self._look_again(cache, live, informer, write)
            elif informer is not None:
                await _wait(informer, partial(is_shown, write, informer), PATIENCE)
            if self._writes.get(place) is write:  # the key may have written it again meanwhile
                del self._writes[place]

    async def _look_again(
        self, cache: Cache, live: Live, informer: Informer, write: Refusal | Absence
    ) -> None:
        """Wait for a state of unknown version; if it does not come, for the server's present one.

        After a refusal there may be no newer state to come. And an object that was absent may exist by now:
        created by others, or by the create of unknown outcome itself, carried out late.
        """
        seen = partial(is_shown, write, informer)
        if seen() or await informer.wait_until(seen, SHORT_PATIENCE):
            return
        await self._find_out(cache, live, write.resource, write.key)
        noted = self._writes.pop((write.resource, write.key))
        await _wait(informer, partial(is_shown, noted, informer), PATIENCE)

    async def _find_out(self, cache: Cache, live: Live, resource: APIResource, key: Key | None) -> None:
        informer = cache.find(resource)
        if informer is None:
            return
        if key is None:
            version = await _consistent_version(live, informer)
            await _wait(informer, partial(_reached, informer, version), SHORT_PATIENCE)
            return
        found = await live.read(resource, key)
        if found is not None:
            self._note(resource, found, found)
        else:
            self._writes[resource, key] = Absence(resource, key)


def _within(places: Collection[P], resource: APIResource | None, key: Key | None) -> Sequence[P]:
    """The places to settle; a place without a name may be any object of its resource."""
    if key is None:
        return [place for place in places if resource in (None, place[0])]
    return [place for place in ((resource, key), (resource, None)) if place in places]  # type: ignore[misc]


class NoJournal(Journal):
    """Notes nothing: without a cache every read is live and up to date."""

    def answered(self, answered: Answered) -> None:
        """Note nothing."""

    def doubt(self, resource: APIResource, key: Key) -> None:
        """Note nothing."""

    def failed(self, failed: Failed) -> None:
        """Note nothing."""

    def is_certain(self, resource: APIResource) -> bool:
        """True: a live read is never behind."""
        return True


@define
class Freshness:
    """The resources whose cache has proven to be up to date since the start, or since leadership.

    A process that has just taken over may know less than its predecessor. Before its first destructive act on
    a resource the store must have reached the version of one consistent list of one object: one request per
    resource, whatever the number of keys.

    For `certain` resources a key has waited so before it decided: runs that begin later need no proof.
    """

    certain: frozenset[APIResource] = field(default=frozenset(), init=False)

    _confirmed: set[APIResource] = field(factory=set, init=False)
    _lock: anyio.Lock | None = field(default=None, init=False)

    async def confirm(self, cache: Cache, live: Live, resource: APIResource) -> bool:
        """Wait until a store is up to date; false if it was not at the call. Raises CacheBehind."""
        informer = cache.find(resource)
        if informer is None or resource in self._confirmed:
            return True
        self._lock = lock = self._lock or anyio.Lock()
        async with lock:
            if resource in self._confirmed:
                return False
            before = informer.store.version
            version = await _consistent_version(live, informer)
            await _wait(informer, partial(_reached, informer, version), SHORT_PATIENCE)
            self._confirmed.add(resource)
        return before >= version

    def note_certain(self, resource: APIResource) -> None:
        self.certain |= {resource}

    def reset(self) -> None:
        """Ask again for every resource: this process has gained leadership."""
        self._confirmed.clear()
        self.certain = frozenset()


def _consistent_version(live: Live, informer: Informer) -> Awaitable[int]:
    """The server's present version, from a list that this process may make."""
    return live.version(informer.resource, next(iter(informer.namespaces), ""))


def _reached(informer: Informer, version: int) -> bool:
    return informer.store.version >= version


async def _wait(informer: Informer, seen: Callable[[], bool], seconds: float) -> None:
    if seen() or await informer.wait_until(seen, seconds):
        return
    informer.relist()
    if not await informer.wait_until(seen, PATIENCE):
        raise CacheBehind(f"the cache of {informer.resource} does not show an own write after a relist")
