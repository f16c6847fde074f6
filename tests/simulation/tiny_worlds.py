"""Worlds that are small enough to play each of their schedules, without any reduction."""

from collections.abc import Mapping
from typing import Any

from attrs import define, field

from reconcile import Context, Controller, ObjectMeta
from reconcile.kinds import ConfigMap, Secret
from reconcile.testing import Apply, Edit, Scenario, Wait, World
from reconcile.testing.end_state import end_state_of
from reconcile.testing.exploration.schedule_gates import ScheduleGates, Transition
from reconcile.testing.faults import FaultPlan
from reconcile.testing.scenario_runner import ScenarioRunner
from tests.simulation.toys import Plot, PlotSpec, bed

EAST = Plot(metadata=ObjectMeta("east"), spec=PlotSpec(1))
RYE = Edit(EAST, {"spec": {"crop": "rye"}})


async def keep_bed(ctx: Context[Plot]) -> None:
    await ctx.apply(bed(ctx.object, 0))


async def keep_secret(ctx: Context[Plot]) -> None:
    secret = Secret(metadata=ObjectMeta(ctx.object.name, ctx.object.namespace), data={"crop": "cnll"})
    await ctx.apply(secret)


async def tell_crop(ctx: Context[Plot]) -> None:
    ctx.status(seen=ctx.object.spec.crop)


async def tell_live_crop(ctx: Context[Plot]) -> None:
    """Tells nothing if the server has a newer crop than the cache: the next run will."""
    if ctx.object.status.seen == ctx.object.spec.crop:
        return
    plot = await ctx.client.get(Plot, ctx.object.name, ctx.object.namespace, live=True)
    if plot.spec.crop == ctx.object.spec.crop:
        ctx.status(seen=plot.spec.crop)


def beds() -> Controller[Plot]:
    return Controller(Plot, keep_bed, owns=[ConfigMap], name="beds")


def crops() -> Controller[Plot]:
    return Controller(Plot, tell_crop, name="crops")


def live_crops() -> Controller[Plot]:
    return Controller(Plot, tell_live_crop, name="crops")


def beds_and_crops() -> list[Controller[Plot]]:
    return [beds(), crops()]


def beds_and_secrets() -> list[Controller[Plot]]:
    return [beds(), Controller(Plot, keep_secret, owns=[Secret], name="secrets")]


def remembering() -> Controller[Plot]:
    """Keeps beds only for plots that it has seen since it began, which are all."""
    seen: dict[str, int] = {}

    async def keep(ctx: Context[Plot]) -> None:
        seen.setdefault(ctx.object.name, len(seen))
        await keep_bed(ctx)

    return Controller(Plot, keep, owns=[ConfigMap], name="beds")


THREE_OBJECTS = Scenario(controllers=beds_and_secrets, steps=[Apply(EAST), RYE])
"""Two controllers, of a plot, its bed and its secret, and a second spec."""

TINY: Mapping[str, tuple[Scenario, int, int]] = {
    # with so many crashes and lost answers
    "a race": (Scenario(controllers=crops, steps=[Apply(EAST), Wait(1), RYE]), 0, 0),
    "a child": (Scenario(controllers=beds, steps=[Apply(EAST)]), 1, 1),
    "a crash": (Scenario(controllers=crops, steps=[Apply(EAST)]), 2, 1),
    "two controllers": (Scenario(controllers=beds_and_crops, steps=[Apply(EAST)]), 0, 0),
    "memory": (Scenario(controllers=remembering, steps=[Apply(EAST), RYE]), 0, 1),
    "two managers": (Scenario(controllers=crops, steps=[Apply(EAST)], replicas=2), 0, 0),
}


@define(eq=False)
class Enumeration:
    """Plays every schedule of a scenario: no state is remembered, and nothing is left out.

    Independent of the explorer: it knows only the gates, and tries at each of them everything that is
    possible, by playing the scenario from its start with all but the last choice as before.
    """

    scenario: Scenario
    crashes: int = 0
    lost_answers: int = 0
    schedules: int = field(default=0, init=False)
    ends: set[str] = field(factory=set, init=False)
    _numbers: list[int] = field(factory=list, init=False)
    _widths: list[int] = field(factory=list, init=False)
    _asked: int = field(default=0, init=False)

    def play(self, most: int) -> None:
        """Play all schedules. Raises AssertionError if there are more than `most`."""
        runner = ScenarioRunner(self.scenario, references=0)
        while True:
            self._asked, self._widths = 0, []
            run = runner.run(FaultPlan(), explorer=self)
            assert not run.failed
            self.schedules += 1
            self.ends.add(end_of(run.world))
            assert self.schedules <= most
            self._numbers += [0] * (len(self._widths) - len(self._numbers))
            while self._numbers and self._numbers[-1] + 1 == self._widths[len(self._numbers) - 1]:
                self._numbers.pop()
            if not self._numbers:
                return
            self._numbers[-1] += 1

    def gates(self) -> ScheduleGates:
        return ScheduleGates(self, crashes=self.crashes, lost_answers=self.lost_answers)

    def watch(self, world: World) -> None:
        pass

    def choose(self, enabled: Any) -> int:
        transitions: list[Transition] = list(enabled)
        self._widths.append(len(transitions))
        self._asked += 1
        return self._numbers[self._asked - 1] if self._asked <= len(self._numbers) else 0

    def time_passes(self) -> None:
        pass


def end_of(world: World) -> str:
    """What a run left, to compare."""
    return repr(end_state_of(world).objects)
