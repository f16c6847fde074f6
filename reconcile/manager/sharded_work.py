"""The work of one replica on its buckets: its informers, its runners, and what its caches have reached."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import anyio
from attrs import define, field

from informers import ApiError, APIResource, Informer, get_logger
from informers.informer_share import Share
from reconcile.client.own_writes import CacheBehind
from reconcile.controller.held_buckets import HeldBuckets
from reconcile.controller.run_observer import BucketObserver
from reconcile.controller.runner import Runner
from reconcile.manager.managed_clusters import ManagedCluster
from reconcile.sharding.options import Sharding
from reconcile.sharding.shared_kinds import Sharing, is_filtered, share_of

LATE_SECONDS = 30.0
"""A replica is slow when at each look for so long some change has waited for a worker."""

RETRY_SECONDS = 1.0
"""Until the server is asked again that did not answer as it should: a hand-over waits, and fails nothing."""

_WHOLE = Share(keeps=lambda _: True)

_log = get_logger("reconcile.sharding")


@define(eq=False)
class ShardedWork:
    """Directed by a member of the ring (see `BucketWork`). `shared` are the resources that replicas share.

    `held` are the buckets of objects; `leading` has the one bucket of the controllers that need all objects.
    `served`: the server selects by shard. `observer` gets each change.
    """

    sharding: Sharding
    cluster: ManagedCluster
    shared: Mapping[APIResource, Sharing]
    held: HeldBuckets
    leading: HeldBuckets
    served: bool = False
    observer: BucketObserver | None = None
    labelled: anyio.Event = field(factory=anyio.Event)
    """Set when all children carry the label of their bucket: before, they cannot be found by it."""
    _followed: frozenset[int] = field(default=frozenset(), init=False)
    _read: dict[tuple[APIResource, int], int] = field(factory=dict, init=False)
    """The version at which the objects of a bucket were read, since when it is followed."""
    _unclean: set[int] = field(factory=set, init=False)
    _behind_since: float = field(default=math.inf, init=False)

    def share(self, resource: APIResource, buckets: Collection[int]) -> Share | None:
        """What is followed of a resource for these buckets; None: all of it."""
        sharing = self.shared.get(resource)
        return None if sharing is None else share_of(sharing, self.held.buckets, buckets)

    def initial_share(self, resource: APIResource) -> Share | None:
        return self.share(resource, self._followed)

    async def follow(self, buckets: frozenset[int]) -> None:
        gained = buckets - self._followed
        self._read = {place: version for place, version in self._read.items() if place[1] in buckets}
        self._followed = buckets
        async with anyio.create_task_group() as tasks:
            for informer in self.informers():
                tasks.start_soon(self._follow, informer, buckets, gained)

    async def _follow(self, informer: Informer, buckets: Collection[int], gained: Collection[int]) -> None:
        share, resource = self.share(informer.resource, buckets), informer.resource
        assert share is not None
        if self.observer is not None:
            self.observer.followed(resource, buckets)
        read = await informer.set_share(share, self.share(resource, gained) if gained else None)
        self._read |= {(resource, bucket): read for bucket in gained}

    async def catch_up(self, buckets: Collection[int], reached: Mapping[str, int] | None) -> None:
        await self.labelled.wait()
        if reached is None:
            self._unclean.update(buckets)
        async with anyio.create_task_group() as tasks:
            for informer in self.cluster.cache:
                tasks.start_soon(self._catch_up, informer, buckets, reached)

    async def _catch_up(
        self, informer: Informer, buckets: Collection[int], reached: Mapping[str, int] | None
    ) -> None:
        resource, sharing = informer.resource, self.shared.get(informer.resource)
        part = self.share(resource, buckets) or _WHOLE
        filtered = sharing is not None and is_filtered(sharing, self.served)
        if reached is not None:
            version = reached.get(str(resource), 0)
            # What is followed whole was not read when the buckets came.
            if any(self._read.get((resource, bucket), 0) < version for bucket in buckets):
                await informer.catch_up(version, part, filtered)
        elif filtered:
            await informer.refresh(part)
        else:
            await informer.catch_up(await self._present_version(informer), part, filtered)

    async def _present_version(self, informer: Informer) -> int:
        while True:
            try:
                return await self.cluster.client.raw.version(informer.resource, informer.namespace)
            except ApiError as error:
                _log.warning(
                    "buckets wait until the server says how far it is",
                    resource=str(informer.resource),
                    error=str(error),
                )
                await anyio.sleep(RETRY_SECONDS)

    def hold(self, epochs: Mapping[int, int]) -> None:
        clean = self._unclean.isdisjoint(epochs)
        if self.observer is not None:
            self.observer.held(epochs, clean)
        for bucket, epoch in epochs.items():
            (self.leading if bucket == self.sharding.leading else self.held).hold(bucket, epoch)
        self._unclean.difference_update(epochs)
        for runner in self.cluster.runners:
            runner.gain(self._of(runner, epochs), clean=clean)

    def close(self, buckets: Collection[int]) -> Sequence[Collection[int]]:
        if self.observer is not None:
            self.observer.closed(buckets)
        self.held.close(buckets)
        self.leading.close(buckets)
        busy = {bucket for runner in self.cluster.runners for bucket in runner.at_work_in(buckets)}
        idle = [bucket for bucket in buckets if bucket not in busy]
        # To release a bucket is to look through all that its runners remember, so idle ones go together.
        return [part for part in (idle, *([bucket] for bucket in sorted(busy))) if part]

    async def release(self, buckets: Collection[int]) -> None:
        async with anyio.create_task_group() as tasks:
            for runner in self.cluster.runners:
                tasks.start_soon(self._release, runner, self._of(runner, buckets))

    async def _release(self, runner: Runner[Any], buckets: Collection[int]) -> None:
        while buckets and runner in tuple(self.cluster.runners):  # else it was removed
            try:
                await runner.release(buckets)
            except (CacheBehind, ApiError) as error:
                _log.warning("buckets stay here until the cache shows all writes", error=str(error))
                await anyio.sleep(RETRY_SECONDS)
            else:
                return

    def drop(self, buckets: Collection[int]) -> None:
        if self.observer is not None:
            self.observer.dropped(buckets)
        for runner in self.cluster.runners:
            runner.cancel_runs(self._of(runner, buckets))
        self.held.drop(buckets)
        self.leading.drop(buckets)

    def seen(self) -> Mapping[str, int]:
        return {str(informer.resource): informer.store.newest for informer in self.cluster.cache}

    def late(self) -> bool:
        """Whether changes have waited for workers ever since LATE_SECONDS, while the server kept up."""
        reach, now = self.cluster.cache.reach, anyio.current_time()
        # While the server is out of reach or asks for patience, keys wait wherever they are.
        waits = not (reach.troubled or reach.ramping) and any(map(_has_backlog, self.cluster.runners))
        self._behind_since = min(self._behind_since, now) if waits else math.inf
        return now - self._behind_since > LATE_SECONDS

    @property
    def leads(self) -> bool:
        """Whether this replica has the bucket of the controllers that need all objects."""
        return self.leading.epoch(self.sharding.leading) > 0

    def informers(self) -> Collection[Informer]:
        """Those of resources that replicas share."""
        return [informer for informer in self.cluster.cache if informer.resource in self.shared]

    def _of(self, runner: Runner[Any], buckets: Collection[int]) -> Collection[int]:
        """Those of these buckets that concern a controller."""
        whole = not runner.controller.sharded
        return [bucket for bucket in buckets if (bucket == self.sharding.leading) == whole]


def _has_backlog(runner: Runner[Any]) -> bool:
    """Whether a change waits for a worker; what was gained or replayed may wait behind it."""
    return runner.working and any(priority >= 0 for priority in runner.queue.status().depths)
