"""Replicas that share objects and are recorded, each by itself, under schedules of deaths and joins."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
from attrs import evolve

from reconcile import Context, Controller, Intent, ObjectMeta, Result
from reconcile.controller.tombstones import Deleted
from reconcile.kinds import ConfigMap, Secret, ServiceAccount
from reconcile.recording import read_recording
from reconcile.sharding import Sharding
from reconcile.testing import FaultPlan, Kill, Scenario, ScenarioAct, Stop, Touch, Wait
from reconcile.testing.recorded_runs import ReplayReport, replay_recording
from reconcile.testing.scenario_runner import ScenarioRunner
from tests.manager import shard_schedules
from tests.recording.recorded_worlds import recording_to
from tests.simulation.bundled_scenarios import registry_secrets
from tests.simulation.shared_plots import TERMS, shared
from tests.simulation.toys import Plot, keep


async def tend(ctx: Context[Plot]) -> Result | None:
    """Beds, the epoch, the time and chance in an object of its own, and a wait in between."""
    plot = ctx.object
    await keep(ctx)
    await anyio.sleep(0.3 * ctx.clock.random())
    note = {"epoch": str(ctx.epoch), "beds": str(len(await ctx.owned(ConfigMap)))}
    await ctx.apply(Intent(ServiceAccount, metadata=ObjectMeta(f"of-{plot.name}", annotations=note)))
    if ctx.clock.random() < 0.3:
        raise RuntimeError("bad luck")
    return Result(requeue_after=2) if plot.spec.crop == "rye" else None


def look_blocking(ctx: Any) -> None:
    """A plain function, in the replica that leads."""
    beds = [bed for bed in ctx.client.list(ConfigMap, ctx.object.namespace) if bed.data.get("crop")]
    note = {"beds": str(len(beds)), "epoch": str(ctx.epoch)}
    ctx.apply(Intent(Secret, metadata=ObjectMeta(f"of-{ctx.object.name}", annotations=note)))


async def bury(deleted: Deleted[Plot]) -> None:
    """Notes which plots are gone."""
    note = ObjectMeta(
        f"gone-{deleted.object.name}", "default", annotations={"crop": deleted.object.spec.crop}
    )
    await deleted.client.apply(Intent(ConfigMap, metadata=note))


def everything() -> Scenario:
    """Of everything something: `on_deleted`, a cleanup, and a plain function that needs all objects."""

    async def clear(ctx: Context[Plot]) -> None:
        for bed in await ctx.owned(ConfigMap):
            await ctx.delete(bed)

    def make() -> list[Controller[Any]]:
        tending: Controller[Any] = Controller(
            Plot, tend, owns=[ConfigMap, ServiceAccount], name="plots", cleanup=clear, on_deleted=bury,
            writes=[ConfigMap],
        )  # fmt: skip
        looking: Controller[Any] = Controller(
            Plot, look_blocking, owns=[Secret], reads=[ConfigMap], name="looks", sharded=False
        )
        return [tending, looking]

    without = ("converges", "extra-run", "requests", "lost", "backs-off")
    return evolve(
        shared(quiet_seconds=10, sharding=Sharding("plots", buckets=4), lease_terms=shard_schedules.TERMS),
        controllers=make, most_failures=500, most_requests=2_000, without=without,
    )  # fmt: skip


def shared_registry_secrets() -> Scenario:
    ring = Sharding("pipelines", "default", buckets=4)
    return evolve(registry_secrets(), sharding=ring, replicas=2, lease_terms=TERMS, invariants=())


SYSTEMS: Mapping[str, Callable[[], Scenario]] = {
    "plain": lambda: shard_schedules.scenarios()["plain"].scenario,
    "slow": lambda: shard_schedules.scenarios()["slow"].scenario,
    "beside": lambda: shard_schedules.scenarios()["beside"].scenario,
    "everything": everything,
    "registrysecrets": shared_registry_secrets,
}


def plan_of(name: str, number: int) -> FaultPlan:
    """What happens: drawn for plots, and deaths and departures between the steps of the pipelines."""
    if name != "registrysecrets":
        return shard_schedules.schedule(number)
    login, made, *others = registry_secrets().steps
    ends: Sequence[ScenarioAct] = (Wait(number % 3), Kill(1 + number % 2), Wait(8), Stop(2 - number % 2, 3))
    return FaultPlan((), [login, made, *ends, *others[:-1], Touch("*/kuberopipelines/*"), others[-1]], number)


def record_ring(name: str, number: int, folder: Path) -> Sequence[Path]:
    """Play a ring under a schedule; the recordings of all lives of its replicas."""
    with recording_to(folder):
        ScenarioRunner(SYSTEMS[name](), references=0).run(plan_of(name, number))
    return sorted(folder.glob("*.rec"))


def replay_replica(name: str, path: Path) -> ReplayReport:
    scenario = SYSTEMS[name]()
    return replay_recording(read_recording(path), scenario.make_controllers(scenario.make_outside()))
