"""What a hand-over does when the server does not answer."""

from collections.abc import Collection, Mapping, Set
from typing import Any, cast

import anyio
import anyio.lowlevel
from attrs import define, field

from informers import ApiError, APIResource
from reconcile.client.buckets import Buckets
from reconcile.client.own_writes import CacheBehind
from reconcile.controller.held_buckets import HeldBuckets
from reconcile.manager.sharded_work import ShardedWork
from reconcile.models import kind_of
from reconcile.sharding import Sharding
from reconcile.sharding.shared_kinds import Sharing
from tests.helpers.managers import Toy
from tests.helpers.scenarios import simulated

TOYS = kind_of(Toy).resource
SHARED = {TOYS: Sharing.BOTH}


@define(eq=False)
class Broken:
    """A cluster with one runner and one informer, whose reads fail as often as there are errors."""

    errors: list[Exception]
    done: list[object] = field(factory=list)
    resource: APIResource = TOYS
    namespace: str = ""

    @property
    def cluster(self) -> Any:
        return self

    runners = cache = property(lambda self: [self])
    client = raw = controller = store = cluster
    sharded = True
    newest = 3

    async def _read(self) -> None:
        await anyio.lowlevel.checkpoint()
        if self.errors:
            raise self.errors.pop()

    async def release(self, buckets: Collection[int]) -> None:
        await self._read()
        self.done.append(buckets)

    async def version(self, resource: APIResource, namespace: str) -> int:
        await self._read()
        return 7

    def at_work_in(self, buckets: Collection[int]) -> Set[int]:
        return {2, 3}.intersection(buckets)

    async def set_share(self, share: object, gained: object) -> int:
        return 5

    async def catch_up(self, version: int, part: object, filtered: bool) -> None:
        self.done.append(version)


def work(broken: Broken, shared: Mapping[APIResource, Sharing] = SHARED) -> ShardedWork:
    held = HeldBuckets(Buckets(4))
    made = ShardedWork(Sharding("ring", buckets=4), cast(Any, broken), shared, held, held)
    made.labelled.set()
    return made


@simulated
async def test_buckets_are_released_when_the_server_answers_again() -> None:
    broken = Broken([ApiError(500, "InternalError", "no"), CacheBehind("no")])
    await work(broken).release([1])
    assert broken.done == [[1]]


def test_a_bucket_with_runs_is_released_apart_from_all_others() -> None:
    assert work(Broken([])).close([0, 1, 2, 3]) == [[0, 1], [2], [3]]
    assert work(Broken([])).close([2]) == [[2]]


@simulated
async def test_buckets_that_were_read_late_enough_need_not_catch_up() -> None:
    broken = Broken([])
    at_work = work(broken)
    await at_work.follow(frozenset({1, 2}))
    await at_work.catch_up([1], {str(TOYS): 5})
    assert broken.done == []
    await at_work.catch_up([1, 2], {str(TOYS): 6})
    assert broken.done == [6]
    await at_work.follow(frozenset({2}))
    await at_work.catch_up([1], {str(TOYS): 5})
    assert broken.done == [6, 5]


@simulated
async def test_what_is_followed_whole_catches_up_too() -> None:
    broken = Broken([])
    at_work = work(broken, {})
    await at_work.follow(frozenset({1, 2}))
    assert at_work.seen() == {str(TOYS): 3}
    await at_work.catch_up([1], {str(TOYS): 5})
    await at_work.catch_up([at_work.sharding.leading], {str(TOYS): 6})
    await at_work.catch_up([2], None)
    assert broken.done == [5, 6, 7]


@simulated
async def test_buckets_of_a_dead_member_wait_for_a_server_that_answers() -> None:
    broken = Broken([ApiError(503, "ServiceUnavailable", "no")] * 3)
    await work(broken).catch_up([1], None)
    assert broken.done == [7]
