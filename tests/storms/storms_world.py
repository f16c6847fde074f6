"""Storms and busy but healthy controllers, drawn from seeds and played in virtual time."""

import random
from collections.abc import Callable
from typing import Any

import anyio
from attrs import define, field, frozen

from reconcile import Client, Context, Controller, Key, ObjectMeta, Result, kind_of
from reconcile.embedded import InProcessTransport
from reconcile.kinds import ConfigMap, Secret
from reconcile.manager.manager import Manager
from reconcile.models import unstructured_kind
from reconcile.storms.guard import StormGuard
from tests.helpers.managers import Toy, World, played

FIELDS = ("config-data", "config-label", "secret-data", "status", "own-annotation", "own-spec")
OTHER = "the-other-writer"


@frozen
class Case:
    """A storm: what is written, by how many writers, and how many values go round (0: never the same one)."""

    seed: int
    target: str
    writers: int
    values: int
    answer: float
    """Seconds that the other writer takes to answer."""

    @classmethod
    def drawn(cls, seed: int) -> "Case":
        chance = random.Random(f"{seed}/storm")
        writers = chance.choice((1, 2))
        targets = (*FIELDS, "whole", "useless") if writers == 1 else FIELDS
        values = chance.choice((1, 2, 3) if writers == 2 else (0, 2, 3))
        return cls(seed, chance.choice(targets), writers, values, chance.uniform(0.05, 15.0))

    @property
    def kind(self) -> type[Any]:
        return {"secret-data": Secret, "status": Toy, "own-annotation": Toy, "own-spec": Toy}.get(
            self.target, ConfigMap
        )

    @property
    def key(self) -> Key:
        return Key("default", "a" if self.kind is Toy else "child")

    @property
    def path(self) -> str:
        return {
            "config-data": ".data.x",
            "config-label": ".metadata.labels.x",
            "secret-data": ".data.x",
            "status": ".status.size",
            "own-annotation": ".metadata.annotations.x",
            "own-spec": ".spec.secret",
        }.get(self.target, "")

    def patch(self, value: str | None) -> dict[str, Any]:
        names = self.path.split(".")[1:]
        body: Any = value
        if self.target == "status":
            body = None if value is None else int(value, 36) % 1_000_000
        if self.target == "secret-data" and value is not None:
            body = (value + "0000")[: 4 * ((len(value) + 3) // 4)]
        for name in reversed(names):
            body = {name: body}
        return dict(body)


@define
class Played:
    """What came of a storm."""

    case: Case
    caught_after: int | None = None
    named: bool = False
    message: str = ""
    a_minute: float = 99.0
    recovered: bool = False
    over: bool = False
    events: int = 0
    notes: list[str] = field(factory=list)

    @property
    def holds(self) -> bool:
        caught = self.caught_after is not None and self.caught_after <= 30
        return (
            caught and self.named and self.a_minute < 1 and self.recovered and self.over and self.events == 1
        )


@define
class Operator:
    """The controller in a storm, until it is mended."""

    case: Case
    runs: list[float] = field(factory=list)
    mended: bool = False
    wanted: str = "fine"
    seen: str = ""
    _turn: int = 0

    def next_value(self, chance: Callable[[], float]) -> str:
        self._turn += 1
        if self.mended:
            return "fine"
        if self.case.values == 0:
            return f"v{int(chance() * 1e9):x}"
        return f"v{self._turn % self.case.values}"

    async def __call__(self, ctx: Context[Toy]) -> Result | None:
        self.runs.append(anyio.current_time())
        self.seen = ctx.object.metadata.labels.get("ask", "")
        case = self.case
        if case.target == "whole":
            return await self._make_anew(ctx)
        if case.target == "useless":
            return await self._write_in_vain(ctx)
        await self._write(ctx)
        return None

    async def _write(self, ctx: Context[Toy]) -> None:
        case, client = self.case, ctx.client
        resource = kind_of(case.kind).resource
        found = await client.raw.snapshot(resource, case.key)
        if found is None:
            made = await ctx.create(case.kind(metadata=ObjectMeta(case.key.name)))
            found = await client.raw.snapshot(resource, made.key)
            assert found is not None
        if case.writers == 2 or self.mended:
            value = self.wanted if self.mended or case.values == 1 else self._fought(found.to_dict(), ctx)
        else:
            value = self.next_value(ctx.clock.random)
        if value_at(found.to_dict(), case.path) != value_at(case.patch(value), case.path):
            part = "status" if case.target == "status" else ""
            guard = {"uid": found.uid}
            await client.raw.patch(resource, case.key, case.patch(value), guard=guard, subresource=part)

    def _fought(self, found: dict[str, Any], ctx: Context[Toy]) -> str:
        """One of a few values, another one each time that the other writer has been there."""
        case = self.case
        for value in (f"v{number}" for number in range(case.values)):
            if value_at(found, case.path) == value_at(case.patch(value), case.path):
                return value
        return self.next_value(ctx.clock.random)

    async def _make_anew(self, ctx: Context[Toy]) -> None:
        child = await ctx.client.find(ConfigMap, "child", "default")
        if child is None:
            await ctx.create(ConfigMap(metadata=ObjectMeta("child")))
        elif not self.mended:
            await ctx.delete(child)

    async def _write_in_vain(self, ctx: Context[Toy]) -> Result | None:
        child = await ctx.client.find(ConfigMap, "child", "default")
        if child is None:
            await ctx.create(ConfigMap(metadata=ObjectMeta("child"), data={"x": "same"}))
            return Result(requeue_after=2)
        if self.mended:
            return None
        await ctx.client.raw.patch(kind_of(ConfigMap).resource, child.key, {"data": {"x": "same"}}, guard={})
        return Result(requeue_after=2)


@define
class Stranger:
    """Another writer, which wants the same field to be something else."""

    case: Case
    client: Client
    gone: bool = False

    async def run(self) -> None:
        case, turn = self.case, 0
        resource = kind_of(case.kind).resource
        theirs = [f"t{number}" for number in range(max(1, case.values))]
        mine = [value_at(case.patch(value), case.path) for value in theirs]
        while not self.gone:
            await anyio.sleep(case.answer)
            found = await self.client.raw.snapshot(resource, case.key, live=True)
            if self.gone or found is None or value_at(found.to_dict(), case.path) in mine:
                continue
            turn += 1
            value = theirs[turn % len(theirs)]
            part = "status" if case.target == "status" else ""
            await self.client.raw.patch(resource, case.key, case.patch(value), guard={}, subresource=part)


def value_at(body: Any, path: str) -> Any:
    for name in path.split(".")[1:]:
        body = body.get(name) if isinstance(body, dict) else None
    return body


def guard_of(manager: Manager) -> StormGuard:
    return manager._runners[0].guard


async def until(done: Callable[[], bool], seconds: float) -> bool:
    with anyio.move_on_after(seconds):
        while not done():
            await anyio.sleep(0.05)
    return done()


def play(case: Case) -> Played:
    """The storm, how it is slowed, and how it ends once it is mended."""
    played_so = Played(case)

    async def scenario(world: World) -> None:
        operator = Operator(case)
        stranger = Stranger(
            case, Client(InProcessTransport(world.server), field_manager=OTHER, clock=world.clock)
        )
        wakes = (lambda old, new: True) if case.target == "status" else None
        more: dict[str, Any] = {} if wakes is None else {"wakes": wakes}
        owned = [] if case.kind is Toy else [case.kind]
        controller = Controller(Toy, operator, owns=owned, writes=[Toy], **more)
        async with world.running(controller) as manager, anyio.create_task_group() as group:
            await world.make()
            if case.writers == 2:
                group.start_soon(stranger.run)
            guard = guard_of(manager)
            await _storm(world, guard, operator, played_so)
            if played_so.caught_after is not None:
                await _slowed(operator, played_so)
                await _mended(world, guard, operator, stranger, played_so)
            stranger.gone = True
            group.cancel_scope.cancel()
        news = await world.client.raw.snapshots(_EVENTS)
        told = [one.to_dict() for one in news]
        played_so.events = sum(one.get("reason") == "ReconcileStorm" for one in told)

    played(scenario, case.seed)
    return played_so


async def _storm(world: World, guard: StormGuard, operator: Operator, came: Played) -> None:
    case = operator.case
    if not await until(lambda: guard.storming, 1200):
        came.notes.append(f"not caught in {len(operator.runs)} runs")
        return
    storm = next(guard.storms())
    came.caught_after = len(operator.runs)
    came.message = storm.message()
    place = (storm.loop.resource, storm.loop.key) == (kind_of(case.kind).resource, case.key)
    path = case.path in storm.loop.paths if case.path else not storm.loop.paths
    writer = storm.other == (OTHER if case.writers == 2 else "")
    kind = kind_of(case.kind).resource.kind
    trigger = "its own timer" if case.target == "useless" else f"{kind} {case.key}"
    came.named = (
        place
        and path
        and writer
        and storm.trigger_name() == trigger
        and storm.manager == "toys.example.com/toy"
    )


async def _slowed(operator: Operator, came: Played) -> None:
    await anyio.sleep(300)
    before = len(operator.runs)
    await anyio.sleep(1200)
    came.a_minute = (len(operator.runs) - before) / 20


async def _mended(
    world: World, guard: StormGuard, operator: Operator, stranger: Stranger, came: Played
) -> None:
    case = operator.case
    await anyio.sleep(300 * world.clock.random())
    operator.mended = stranger.gone = True
    operator.wanted = "fine"
    storm = next(guard.storms(), None)
    interval = 300.0 if storm is None else storm.throttle.seconds

    deadline = anyio.current_time() + interval
    while anyio.current_time() < deadline and not (_released(guard) and await _is_right(world, case)):
        await anyio.sleep(0.5)
    patch = {"metadata": {"labels": {"ask": "now"}}}
    await world.client.raw.patch(kind_of(Toy).resource, Key("default", "a"), patch, guard={})
    came.recovered = await until(lambda: operator.seen == "now", 3)
    if not came.recovered:
        came.notes.append("not recovered within one interval")
    if not await _is_right(world, case):
        came.recovered = False
        came.notes.append("not as it should be")
    came.over = await until(lambda: not guard.storming, 90)


def _released(guard: StormGuard) -> bool:
    left = next(guard.storms(), None)
    return left is None or left.throttle.probation_until is not None


async def _is_right(world: World, case: Case) -> bool:
    found = await world.client.raw.snapshot(kind_of(case.kind).resource, case.key, live=True)
    if found is None or not case.path:
        return found is not None
    return bool(value_at(found.to_dict(), case.path) == value_at(case.patch("fine"), case.path))


_EVENTS = kind_of(unstructured_kind("events.k8s.io/v1", "Event", plural="events")).resource
