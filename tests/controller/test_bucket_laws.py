"""Whatever is held, closed, released, dropped and changed, in whatever order: the laws of held buckets."""

from collections.abc import Sequence
from typing import TypeAlias

import anyio
import pytest
from attrs import define, field, frozen
from hypothesis import given, settings
from hypothesis import strategies as st

from reconcile import Context, Controller, Result
from reconcile.errors import BucketNotHeld
from reconcile.kinds import ConfigMap
from tests.controller.replicas import FOUR, Replica, working
from tests.helpers.managers import Toy, ToySpec, World, played

NAMES = ("a", "b", "c", "d")


@frozen
class Move:
    """The bucket of a toy goes to a replica, or to none; its holder releases it, or just drops it."""

    name: str
    to: int | None
    planned: bool = True


@frozen
class Change:
    """A toy gets another spec, is deleted, or comes back as another object."""

    name: str
    how: str


@frozen
class Wait:
    seconds: float


Step: TypeAlias = Move | Change | Wait

STEPS: st.SearchStrategy[Sequence[Step]] = st.lists(
    st.builds(Move, st.sampled_from(NAMES), st.sampled_from([0, 1, None]), st.booleans())
    | st.builds(Change, st.sampled_from(NAMES), st.sampled_from(["spec", "delete", "create"]))
    | st.builds(Wait, st.sampled_from([0.0, 0.01, 0.3, 2.0])),
    max_size=25,
)


@define
class Watched:
    """The runs of two replicas; each takes a while, and some fail or ask for another one."""

    replicas: list[Replica] = field(factory=list)
    under_way: dict[str, int] = field(factory=dict)
    done: dict[str, int] = field(factory=dict)
    """The last spec that a run saw to its end, by uid."""
    epochs: dict[str, int] = field(factory=dict)
    broken: list[str] = field(factory=list)

    def keeper(self, number: int) -> Controller[Toy]:
        async def keep(ctx: Context[Toy]) -> Result | None:
            toy, held = ctx.object, self.replicas[number].held
            bucket = FOUR.of(toy.uid)
            self.check(held.epoch(bucket) == ctx.epoch > 0, f"{toy.name} ran in epoch {ctx.epoch}")
            self.check(bucket in held._open, f"{toy.name} began in a closed bucket")
            self.check(self.epochs.get(toy.uid, 0) <= ctx.epoch, f"the epoch of {toy.name} fell")
            self.check(toy.uid not in self.under_way, f"{toy.name} ran twice at a time")
            self.epochs[toy.uid] = ctx.epoch
            self.under_way[toy.uid] = number
            try:
                await anyio.sleep(0.2 + 0.1 * len(toy.name))
                await ctx.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": toy.name}})
                ctx.status(size=toy.spec.size)
                if toy.spec.size % 3 == 1 and toy.status.size != toy.spec.size:
                    raise ValueError("try again")
            except BucketNotHeld:
                self.check(held.epoch(bucket) != ctx.epoch, "a write was refused in a held bucket")
                raise
            finally:
                del self.under_way[toy.uid]
            self.done[toy.uid] = toy.spec.size
            return Result(requeue_after=5) if toy.spec.size % 2 else None

        return Controller(Toy, keep, owns=[ConfigMap])

    def check(self, law: bool, otherwise: str) -> None:
        if not law:
            self.broken.append(otherwise)


@define
class Play:
    world: World
    watched: Watched
    holders: dict[int, int] = field(factory=dict)
    epoch: int = 0

    async def move(self, bucket: int, to: int | None, planned: bool) -> None:
        before = self.holders.pop(bucket, None)
        if before is not None:
            replica = self.watched.replicas[before]
            if planned:
                await replica.release([bucket])
                in_bucket = [uid for uid, number in self.watched.under_way.items() if FOUR.of(uid) == bucket]
                self.watched.check(not in_bucket, "a run goes on after the release of its bucket")
                self.watched.check(not self.left_in(replica, bucket), "a key is remembered")
            else:
                replica.held.drop([bucket])
                replica.runner.cancel_runs([bucket])
                await anyio.sleep(1)  # the successor waits until the Lease has run out
                await replica.release([bucket])
        if to is not None:
            self.epoch += 1
            self.holders[bucket] = to
            self.watched.replicas[to].hold([bucket], self.epoch)

    def left_in(self, replica: Replica, bucket: int) -> set[str]:
        """Keys that are remembered for that bucket alone: a namesake of its object may be in another one."""
        runs = replica.executor.runs
        assert runs is not None
        elsewhere = replica.runner._connected.known_in({*range(FOUR.count)} - {bucket})
        return {
            request.name for request in replica.remembered if request not in runs and request not in elsewhere
        }

    async def take(self, step: Step) -> None:
        client = self.world.client
        if isinstance(step, Wait):
            await anyio.sleep(step.seconds)
            return
        toy = await client.find(Toy, step.name, "default")
        if isinstance(step, Move):
            bucket = NAMES.index(step.name) if toy is None else FOUR.of(toy.uid)
            await self.move(bucket, step.to, step.planned)
        elif toy is None:
            await self.world.make(step.name)
        elif step.how == "spec":
            await client.modify(Toy, step.name, "default", bigger)
        else:
            await client.delete(toy)


def bigger(toy: Toy) -> Toy:
    return toy.replace(spec=ToySpec(size=toy.spec.size + 1))


@pytest.mark.parametrize("seed", range(3))
@given(STEPS)
@settings(max_examples=40, deadline=None)
def test_each_held_object_is_reconciled_by_its_holder_and_by_no_other(
    seed: int, steps: Sequence[Step]
) -> None:
    async def scenario(world: World) -> None:
        watched = Watched()
        watched.replicas += [Replica(world, watched.keeper(number)) for number in (0, 1)]
        play = Play(world, watched)
        for name in NAMES:
            await world.make(name)
        async with working(world, *watched.replicas):
            for step in steps:
                await play.take(step)
            await anyio.sleep(30)
            for toy in await world.client.list(Toy):
                if FOUR.of(toy.uid) in play.holders:
                    watched.check(watched.done.get(toy.uid) == toy.spec.size, f"{toy.name} was forgotten")
            async with anyio.create_task_group() as group:
                for bucket in [*play.holders]:
                    group.start_soon(play.move, bucket, None, True)
            for replica in watched.replicas:
                watched.check(replica.remembered == set(), f"{replica.remembered} is remembered")
        assert watched.broken == []

    played(scenario, seed)
