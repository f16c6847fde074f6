"""A law: whatever share an informer follows, and whatever goes wrong, its store ends equal to it."""

import random
from collections.abc import Awaitable, Callable, Collection, Sequence

import anyio
import pytest
from attrs import define, field
from hypothesis import given, settings
from hypothesis import strategies as st

from informers import Delta, Informer, Key, Reachability, Snapshot, Store, get_logger
from informers.handlers import Handlers
from informers.informer_share import Share
from informers.reflector_state import StageObjects, UnstageObject
from informers.sink import Sink
from informers.store_effects import Drop, Effect, Merge, StageLeft
from reconcile import Client
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.kinds import ConfigMap
from reconcile.models import ObjectMeta
from reconcile.testing import FaultPlan, FaultyTransport, LateTransport, VirtualClock, simulate
from tests.informers.informed import CONFIG_MAPS
from tests.informers.shares import BUCKET, BUCKETS, WithoutShards, labelled, of_uid, sharded, unfiltered
from tests.informers.test_informer import PLANS

ShareOf = Callable[[Collection[int]], Share]


@define(eq=False)
class Witness:
    """Hears every change, and holds that nothing is brought back from the past.

    An object that leaves may come back, and perhaps has ended meanwhile: its share or its label has changed.
    """

    relabels: bool
    gone: set[str] = field(factory=set)
    """The uids of objects that the server does not have any more."""
    held: dict[Key, Snapshot] = field(factory=dict)
    newest: dict[str, int] = field(factory=dict)
    ended: set[str] = field(factory=set)

    problems: list[str] = field(factory=list)

    def __call__(self, delta: Delta) -> None:
        if delta.new is None:
            uid = self.held.pop(delta.last.key).uid
            if uid in self.gone and not (delta.left or self.relabels):
                self.ended.add(uid)
            return
        new, before = delta.new, self.held.get(delta.new.key)
        self.expect(new.uid not in self.ended, f"{new} came back after its end")
        self.expect(new.version >= self.newest.get(new.uid, 0), f"{new} replaced a newer state")
        self.expect(before is None or new.version > before.version, f"{new} came after {before}")
        self.expect((delta.old is None) == (before is None), f"{new} does not follow from {before}")
        self.held[new.key], self.newest[new.uid] = new, new.version

    def expect(self, holds: bool, problem: str) -> None:
        if not holds:
            self.problems.append(problem)


@define(eq=False)
class Copy:
    """Carries out all effects in another store, which follows no share, and begins anew now and then.

    Each effect comes before the change, so the stores are equal then.
    """

    informer: Informer
    chance: random.Random
    store: Store = field(factory=Store)
    begun: int = 0
    _sink: Sink = field(init=False)
    _staging: bool = False

    def __attrs_post_init__(self) -> None:
        self._begin(Store())

    def _begin(self, store: Store) -> None:
        self.store = store
        self._sink = Sink("", store, Handlers(get_logger("copy")), lambda _: True, lambda: None, lambda: None)

    def read(self, raw: bytes, snapshot: Snapshot) -> None:
        """Nothing to note."""

    def applied(self, part: str, effect: Effect) -> None:
        self.check()
        if not self._staging and self.chance.random() < 0.05:
            # As a file of a recording begins.
            self.begun += 1
            self._begin(Store())
            self.store.replace(self.informer.store.held(), self.informer.store.version)
        if not isinstance(effect, Merge | Drop):
            self._staging = isinstance(effect, StageObjects | StageLeft | UnstageObject)
        self._sink.apply(effect)

    def check(self) -> None:
        original = self.informer.store
        assert {one.key: one for one in self.store} == {one.key: one for one in original}
        assert self.store.version == original.version

    async def look(self) -> None:
        """Nothing to note."""

    async def wait(self, wait: Callable[[], Awaitable[None]]) -> None:
        await wait()


@define(eq=False)
class Play:
    """Writes objects with labels and changes the share, at random."""

    client: Client
    informer: Informer
    share_of: ShareOf
    by_label: bool
    filtered: bool
    chance: random.Random
    witness: Witness
    share: frozenset[int]
    relabels: bool
    read: bool = True
    """Whether what was gained last was waited for."""

    async def go_on(self, times: int) -> None:
        for number in range(times):
            await self.write(number)
            await anyio.sleep(self.chance.choice([0, 0, 0.1, 1]))

    async def write(self, number: int) -> None:
        name, bucket = self.chance.choice("abcdefgh"), str(self.chance.choice(BUCKETS))
        found = await self.client.find(ConfigMap, name, "default")
        if found is None:
            await self.client.create(ConfigMap(metadata=ObjectMeta(name, "default", labels={BUCKET: bucket})))
        elif self.chance.random() < 0.4:
            await self.client.delete(found)
            self.witness.gone.add(found.metadata.uid)
        elif self.relabels and self.chance.random() < 0.4:
            await self.client.raw.merge(found, {"metadata": {"labels": {BUCKET: bucket}}}, guard={})
        else:
            await self.client.raw.merge(found, {"data": {"n": str(number)}}, guard={})

    async def change_share(self) -> None:
        """Follow other buckets; what is gained is in the store afterwards, as it was before or later."""
        to = frozenset(bucket for bucket in BUCKETS if self.chance.random() < 0.5) or frozenset({0})
        gained = self.share_of(to - self.share) if to - self.share else None
        before = await self.of(to - self.share)
        self.share, self.read = to, False
        read = await self.informer.set_share(self.share_of(to), gained)
        assert read >= max((int(one.metadata.resource_version) for one in before), default=0) or not read
        await self.holds(before)
        self.read = True

    async def refresh(self) -> None:
        part = frozenset(bucket for bucket in self.share if self.chance.random() < 0.5) or self.share
        before = await self.of(part)
        await self.informer.refresh(self.share_of(part))
        await self.holds(before)

    async def catch_up(self) -> None:
        if not self.read:
            await self.informer.refresh(self.share_of(self.share))
        before = await self.of(self.share)
        newest = max((int(one.metadata.resource_version) for one in before), default=0)
        await self.informer.catch_up(newest, self.share_of(self.share), filtered=self.filtered)
        await self.holds(before)

    async def of(self, buckets: Collection[int]) -> Sequence[ConfigMap]:
        found = await self.client.list(ConfigMap)
        return [one for one in found if self.bucket(one) in buckets]

    def bucket(self, one: ConfigMap) -> int:
        return int(one.metadata.labels[BUCKET]) if self.by_label else of_uid(one.metadata.uid)

    async def holds(self, expected: Sequence[ConfigMap]) -> None:
        """The store has all of these that were not written since."""
        shown = {held.uid: held.version for held in self.informer.store}
        now = {one.metadata.uid: one.metadata.resource_version for one in await self.client.list(ConfigMap)}
        for one in expected:
            version = one.metadata.resource_version
            if now.get(one.metadata.uid) == version:
                assert shown.get(one.metadata.uid) == int(version), f"{one.metadata.name} is missing"


@pytest.mark.rule("inv-26", "inv-28")
@pytest.mark.parametrize("kind", ["labels", "shards", "ignored", "unfiltered"])
@settings(max_examples=25, deadline=None)
@given(plan=PLANS, seed=st.integers(0, 100_000), relabels=st.booleans())
def test_whatever_happens_the_store_ends_equal_to_the_share_and_nothing_comes_back_from_the_past(
    kind: str, plan: FaultPlan, seed: int, relabels: bool
) -> None:
    chance = random.Random(seed)
    share_of = {"labels": labelled, "unfiltered": unfiltered}.get(kind, sharded)

    async def run() -> None:
        clock = VirtualClock(seed)
        server = ApiServer(clock=clock)
        direct = InProcessTransport(server)
        transport = FaultyTransport(LateTransport(direct, seed, lag=(0.01, 4)), plan)
        reach = Reachability(transport, clock)
        informer = Informer(
            WithoutShards(transport) if kind == "ignored" else transport,
            CONFIG_MAPS,
            share=share_of({0, 1}),
            clock=clock,
            reach=reach,
        )
        witness, copy = Witness(relabels), Copy(informer, chance)
        informer.tapped_by(copy)
        informer.add_handler(witness)
        play = Play(
            Client(direct, clock=clock),
            informer,
            share_of,
            kind in ("labels", "unfiltered"),
            kind in ("labels", "shards"),
            chance,
            witness,
            frozenset({0, 1}),
            relabels,
        )
        await play.go_on(10)
        acts = [play.change_share, play.change_share, play.refresh, play.catch_up]
        async with anyio.create_task_group() as group:
            reach.start(group)
            group.start_soon(informer.run)
            group.start_soon(play.go_on, 60)
            for _ in range(10):
                await anyio.sleep(chance.choice([0, 0.3, 3]))
                patience = chance.choice([0.01, 1, 1000, 1000, 1000])
                with anyio.move_on_after(patience):
                    await chance.choice(acts)()
                if chance.random() < 0.1:
                    informer.relist()
            await anyio.sleep(700)
            reach.end()
            group.cancel_scope.cancel()
        truth = {one.key: int(one.metadata.resource_version) for one in await play.of(play.share)}
        assert {held.key: held.version for held in informer.store} == truth
        assert {held.key: held.version for held in witness.held.values()} == truth
        assert not witness.problems
        copy.check()
        assert len(transport.requests) < 400

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("informers.reflector.PAGE", 3)
        simulate(run, seed=seed, limit_seconds=100_000)
