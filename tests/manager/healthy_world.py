"""Busy controllers in which nothing is wrong, drawn from seeds and played in virtual time."""

import random
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from attrs import define, frozen

from reconcile import Client, Context, Controller, Intent, ObjectMeta, Result, Watch, kind_of
from reconcile.embedded import InProcessTransport
from reconcile.kinds import ConfigMap, Secret
from reconcile.storms.storm_report import Storm
from reconcile.testing import Coalesce, Cut, Expire, Fault, FaultPlan, FaultyTransport, LateTransport, When
from tests.helpers.managers import Toy, World, played

CONFIG = kind_of(ConfigMap).resource
TOYS = kind_of(Toy).resource
SHAPES = ("at-once", "one-a-run", "in-batches", "by-name", "replaced")


@frozen
class Healthy:
    """A rollout of `size` children, and what goes on meanwhile."""

    seed: int
    shape: str
    size: int
    scalings: int
    flapping: bool
    resync: float | None
    relists: int
    rotations: int
    every: float | None

    @classmethod
    def drawn(cls, seed: int, size: int = 500) -> "Healthy":
        chance = random.Random(f"{seed}/healthy")
        return cls(
            seed,
            chance.choice(SHAPES),
            chance.randint(size // 5, size),
            chance.randint(0, 12),
            chance.random() < 0.5,
            chance.choice((None, 20.0, 60.0)),
            chance.randint(0, 3),
            chance.randint(0, 8),
            chance.choice((None, 15.0)),
        )

    def plan(self) -> FaultPlan:
        whats = (Expire(after=40), Cut(after=70), Coalesce(after=30, events=5, seconds=2.0))
        faults = [Fault(When("watch", "*/configmaps", n + 1), whats[n]) for n in range(self.relists)]
        return FaultPlan(tuple(faults))


@define
class Rollout:
    """A controller that makes so many children, counts those that are ready, and copies a Secret."""

    case: Healthy
    runs: int = 0
    writes: int = 0

    async def __call__(self, ctx: Context[Toy]) -> Result | None:
        self.runs += 1
        owned = await ctx.client.raw.snapshots(CONFIG, "default", owner=ctx.object)
        children = sorted(owned, key=lambda child: child.key.name)
        wanted = ctx.object.spec.size
        missing = wanted - len(children)
        if missing > 0:
            await self._make(ctx, missing, {child.key.name for child in children})
        for child in children[wanted:] if missing < 0 else ():
            await ctx.client.raw.delete_snapshot(CONFIG, child)
        await self._copy(ctx)
        ready = sum(child.labels.get("ready") == "yes" for child in children[:wanted])
        ctx.status(size=ready)
        ctx.condition("Ready", ready >= wanted, reason="Counted", message=f"{ready} of {wanted} ready")
        return None

    async def _make(self, ctx: Context[Toy], missing: int, names: set[str]) -> None:
        shape = self.case.shape
        batch = {"one-a-run": 1, "in-batches": 25}.get(shape, missing)
        if shape in ("by-name", "replaced"):
            free = (f"c{n:04}" for n in range(10_000) if f"c{n:04}" not in names)
            for _ in range(min(batch, 50, missing)):
                await ctx.apply(Intent(ConfigMap, metadata=ObjectMeta(next(free), labels={"app": "x"})))
            return
        for _ in range(min(batch, missing)):
            await ctx.create(ConfigMap(metadata=ObjectMeta(generate_name="c-", labels={"app": "x"})))

    async def _copy(self, ctx: Context[Toy]) -> None:
        source = await ctx.client.find(Secret, "source", "default")
        if source is not None:
            version = source.metadata.resource_version
            await ctx.apply(
                Intent(Secret, metadata=ObjectMeta("copy", annotations={"from": version}), data=source.data)
            )


def alarms(case: Healthy) -> tuple[Rollout, list[Storm]]:
    """What the guard takes for storms in five minutes of it."""
    rollout, found = Rollout(case), []

    async def scenario(world: World) -> None:
        late = LateTransport(InProcessTransport(world.server), case.seed)
        world.transport = FaultyTransport(late, case.plan())
        stranger = Client(InProcessTransport(world.server), field_manager="kubelet", clock=world.clock)
        watch = Watch(Secret, by=lambda toy: "source")
        controller = Controller(
            Toy, rollout, owns=[ConfigMap, Secret], watches=[watch], resync=case.resync, every=case.every
        )
        async with world.running(controller, client_qps=0) as manager, anyio.create_task_group() as group:
            guard = manager._runners[0].guard
            await world.make(size=case.size)
            for act in (_nodes, _scale, _rotate):
                group.start_soon(act, case, stranger, world)
            if case.shape == "replaced":
                group.start_soon(_lose, stranger, world)
            for _ in range(60):
                await anyio.sleep(5)
                found.extend(storm for storm in guard.storms() if storm not in found)
            group.cancel_scope.cancel()

    played(scenario, case.seed)
    return rollout, found


async def _nodes(case: Healthy, kubelet: Client, world: World) -> None:
    """Children become ready one after the other; some of them lose it and get it back."""
    while True:
        await anyio.sleep(1)
        for child in await kubelet.raw.snapshots(CONFIG):
            chance = world.clock.random()
            ready = child.labels.get("ready")
            if ready is None and chance < 0.1:
                await _label(kubelet, child, "yes")
            elif case.flapping and ready == "yes" and chance < 0.01 / max(1, case.size / 100):
                await _label(kubelet, child, "no")
            elif ready == "no" and chance < 0.3:
                await _label(kubelet, child, "yes")


async def _label(kubelet: Client, child: Any, ready: str) -> None:
    patch = {"metadata": {"labels": {"ready": ready}}}
    await _quietly(lambda: kubelet.raw.patch(CONFIG, child.key, patch, guard={}))


async def _scale(case: Healthy, user: Client, world: World) -> None:
    for _ in range(case.scalings):
        await anyio.sleep(40 * world.clock.random())
        size = max(1, int(case.size * (0.5 + world.clock.random())))
        toy = await user.get(Toy, "a", "default")
        await user.raw.patch(TOYS, toy.key, {"spec": {"size": min(size, 500)}}, guard={})


async def _rotate(case: Healthy, user: Client, world: World) -> None:
    await _quietly(lambda: user.create(Secret(metadata=ObjectMeta("source", "default"))))
    for number in range(case.rotations):
        await anyio.sleep(30 * world.clock.random())
        source = await user.get(Secret, "source", "default")
        patch = {"stringData": {"password": str(number)}}
        await user.raw.patch(kind_of(Secret).resource, source.key, patch, guard={})


async def _lose(user: Client, world: World) -> None:
    """A node goes now and then, and takes a few children with it."""
    for _ in range(10):
        await anyio.sleep(20)
        for child in await user.list(ConfigMap, "default"):
            if world.clock.random() < 0.02:
                await _quietly(lambda child=child: user.delete(child))  # type: ignore[misc]


async def _quietly(act: Callable[[], Awaitable[Any]]) -> None:
    try:
        await act()
    except Exception:
        return
