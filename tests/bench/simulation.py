"""What a simulated run costs: a manager from its start, an act, all checks of the kit, and the end of it all.

The toy is a kind whose schema has some twenty lines, with one child. The other is KubeRay's own definition
under our worker groups: a head and a worker pod, a Service, the status; and once more with simulated nodes,
on which those pods are scheduled, run and become ready. Processor time counts, in batches of ten runs; the
best batch of several processes, as where a process happens to lie in memory makes a tenth.
"""

import time
from collections.abc import Callable, Mapping
from typing import Annotated

from attrs import frozen

from controllers import workergroups
from reconcile import Context, Controller, Object, ObjectMeta, resource
from reconcile.kinds import ConfigMap
from reconcile.models import Schema
from reconcile.simulation import Delays
from reconcile.testing import Apply, FaultPlan, Scenario
from reconcile.testing.scenario_runner import ScenarioRunner
from tests.bench._harness import measured
from tests.simulation.bundled_scenarios import cluster, real_definition

PROCESSES = 6
SECONDS = 1.5
BATCH = 10


@frozen
class SiteSpec:
    image: str = "web"
    replicas: Annotated[int, Schema(minimum=0, maximum=10)] = 1


@frozen
class SiteStatus:
    ready: int = 0
    observed_generation: int | None = None


@resource("example.com/v1")
class Site(Object):
    spec: SiteSpec = SiteSpec()
    status: SiteStatus = SiteStatus()


async def keep(ctx: Context[Site]) -> None:
    site = ctx.object
    child = ConfigMap(metadata=ObjectMeta(site.name, site.namespace), data={"image": site.spec.image})
    await ctx.apply(child)
    ctx.status(ready=site.spec.replicas, observed_generation=site.metadata.generation)


def toy() -> Scenario:
    return Scenario(
        controllers=lambda: Controller(Site, keep, owns=[ConfigMap], name="sites"),
        steps=[Apply(Site(metadata=ObjectMeta("web")))],
    )


def ray_cluster(nodes: Delays | None = None) -> Scenario:
    return Scenario(
        controllers=workergroups.make_controller,
        definitions=[real_definition()],
        steps=[Apply(cluster(1))],
        nodes=nodes,
    )


SCENARIOS: Mapping[str, Callable[[], Scenario]] = {
    "": toy,
    "_raycluster": ray_cluster,
    "_raycluster_with_nodes": lambda: ray_cluster(Delays()),
}


def best_ms(name: str) -> float:
    """Milliseconds of processor time a run takes, in the best batch: what else goes on is no part of it."""
    runner = ScenarioRunner(SCENARIOS[name]())
    runner.run(FaultPlan())
    best, until, seed = float("inf"), time.perf_counter() + SECONDS, 0
    while time.perf_counter() < until:
        started = time.process_time()
        for _ in range(BATCH):
            seed += 1
            run = runner.run(FaultPlan(seed=seed))
            assert not run.failed, run.violations
        best = min(best, (time.process_time() - started) / BATCH * 1000)
    return best


def figures() -> Mapping[str, float]:
    found = {
        f"simulation.ms_per_run{name}": min(measured(__name__, "best_ms", name) for _ in range(PROCESSES))
        for name in SCENARIOS
    }
    return {"simulation.runs_per_s": 1000 / found["simulation.ms_per_run"], **found}
