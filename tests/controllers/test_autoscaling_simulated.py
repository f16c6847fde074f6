"""Pod autoscalers under every single fault, and under many seeds: `make sweep` tells all of them."""

import os
from types import TracebackType
from typing import Any, Self

import attrs
import pytest
from attrs import frozen

from controllers.autoscaling import PodAutoscaler, definition, make_controller
from controllers.autoscaling.hpa import HorizontalPodAutoscaler
from reconcile import Context, Controller, replicas
from reconcile.blocks import AllowedHosts, FetchFailed
from reconcile.blocks.autoscaler.readings import ceil_div, milli_of
from reconcile.kinds import Deployment, Pod
from reconcile.simulation import Delays
from reconcile.testing import Apply, Delete, Scenario, ScenarioReport, Wait, World, seeds, sweep
from tests.helpers.sweeps import sweep_runs

SEEDS = int(os.environ.get("SWEEP_SEEDS", "3"))
RUNS = sweep_runs(8)

pytestmark = pytest.mark.timeout(60 if RUNS else 3600)

LOAD = 4
LEAST, MOST = 1, 6
AUTOSCALER = "/apis/autoscaling.aibrix.ai/v1alpha1/namespaces/default/podautoscalers/model"


@frozen
class Pages:
    """A total of 4 on one page; pods say next to nothing, and each sixth of them refuses.

    No more, or those that are left after a scale down may be so many that nothing is decided.
    """

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    async def page(self, url: str, most_bytes: int) -> bytes:
        if "gauge.example.com" in url:
            return f"load {LOAD}\n".encode()
        if int(url.removeprefix("http://").partition(":")[0].rpartition(".")[2]) % 6 == 3:
            raise FetchFailed("ConnectionRefused", "it does not take connections")
        return b"idle 0.001\n"


async def run_pods(ctx: Context[Deployment]) -> None:
    """Plays the controller of Deployments."""
    pods = await ctx.owned(Pod)
    diff = replicas.diff_replicas(ctx.object.spec.replicas or 0, [replicas.replica_of(pod) for pod in pods])
    for removal in diff.delete:
        if removal.replica.object is not None:
            await ctx.delete(removal.replica.object)
    for _ in range(diff.create):
        template = ctx.object.spec.template
        name = f"{ctx.object.name}-{ctx.clock.uuid().hex[:8]}"
        metadata = attrs.evolve(template.metadata, name=name, namespace=ctx.object.namespace)
        await ctx.create(Pod(metadata=metadata, spec=template.spec))


def deployment() -> dict[str, Any]:
    labels = {"app": "model"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "engine", "image": "e"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "model", "namespace": "default"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
    }


def autoscaler(target: str, strategy: str = "KPA") -> dict[str, Any]:
    page = {"metricSourceType": "domain", "endpoint": "gauge.example.com", "targetMetric": "load"}
    cpu = {"metricSourceType": "resource", "targetMetric": "cpu", "targetValue": "50"}
    pod = {"metricSourceType": "pod", "port": "80", "targetMetric": "idle", "targetValue": "1"}
    return {
        "apiVersion": "autoscaling.aibrix.ai/v1alpha1",
        "kind": "PodAutoscaler",
        "metadata": {
            "name": "model",
            "namespace": "default",
            "annotations": {
                "autoscaling.aibrix.ai/scale-down-cooldown-window": "4s",
                "autoscaling.aibrix.ai/max-scale-down-rate": "10",
                "autoscaling.aibrix.ai/max-scale-up-rate": "10",
            },
        },
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "model"},
            "minReplicas": LEAST,
            "maxReplicas": MOST,
            "scalingStrategy": strategy,
            "observeWindowSeconds": 4,
            "panicWindowSeconds": 2,
            "metricsSources": [cpu] if strategy == "HPA" else [{**page, "targetValue": target}, pod],
        },
    }


def as_many_as_the_load_asks_for(world: World) -> None:
    found = world.find(PodAutoscaler, "model", "default")
    target = world.find(Deployment, "model", "default")
    if found is None or target is None or found.spec.scaling_strategy == "HPA":
        return
    wanted = ceil_div(LOAD * 1000, milli_of((found.spec.metrics_sources or ())[0].target_value))
    assert target.spec.replicas == max(LEAST, min(MOST, wanted))
    assert found.status.desired_scale == target.spec.replicas
    ready = {one.type: one.status for one in found.status.conditions}
    assert ready["Ready"] == ready["AbleToScale"] == "True"
    assert not world.objects(HorizontalPodAutoscaler)


def within_bounds(world: World) -> None:
    target = world.find(Deployment, "model", "default")
    assert target is None or LEAST <= (target.spec.replicas or 0) <= MOST


def scenario() -> Scenario:
    return Scenario(
        controllers=lambda: (
            make_controller(every=2.0, fetch=Pages, hosts=AllowedHosts(["*"])),
            Controller(Deployment, run_pods, owns=(Pod,), name="deployments", operator="example.com"),
        ),
        definitions=[definition()],
        objects=[deployment()],
        steps=[
            Apply(autoscaler("1")),
            Apply(autoscaler("2")),
            Wait(1.0),
            Apply(autoscaler("0.5")),
            Apply(autoscaler("2", "HPA")),
            Apply(autoscaler("1.5", "APA")),
            Delete(AUTOSCALER),
        ],
        invariants=[as_many_as_the_load_asks_for],
        always=[within_bounds],
        nodes=Delays(),
    )


def told(what: str, report: ScenarioReport, in_full: str = "") -> None:
    print(f"\npod autoscalers: {what}: {report}{in_full}")


@pytest.mark.rule("autoscale-simulated")
def test_replicas_follow_under_every_single_fault() -> None:
    report = sweep(scenario(), most=RUNS)
    told("sweep", report)
    assert report.runs == min(report.in_full or 0, RUNS or 10**9)


@pytest.mark.rule("autoscale-simulated")
def test_replicas_follow_on_many_seeds() -> None:
    told("seeds", seeds(scenario(), SEEDS), " of 2000")
