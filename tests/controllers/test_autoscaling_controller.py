"""Pod autoscalers on a simulated cluster: from what pods say to what a Deployment has, and what they say."""

import datetime
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
import yaml
from attrs import define

from controllers.autoscaling import PodAutoscaler, definition, make_controller
from controllers.autoscaling.hpa import HorizontalPodAutoscaler
from controllers.autoscaling.incident import Workload
from reconcile import Caution, Client, LabelSelector, Manager, NotFound, ObjectMeta, OriginalAtWork
from reconcile.blocks import ScrapeLimits
from reconcile.kinds import ConfigMap, Deployment, DeploymentSpec, Event
from reconcile.models import encode
from reconcile.nodes import Delays
from reconcile.testing import FaultyTransport, simulate
from tests.controllers.autoscaling import Metrics, Net
from tests.controllers.world import NAMESPACE, SAMPLES, World, world

EVERY = 2.0
QUICK = {
    "autoscaling.aibrix.ai/scale-down-cooldown-window": "4s",
    "autoscaling.aibrix.ai/max-scale-down-rate": "10",
    "autoscaling.aibrix.ai/max-scale-up-rate": "10",
}


@define
class Here:
    """A cluster with a workload that runs pods, and the controller of pod autoscalers."""

    world: World
    net: Net
    metrics: Metrics
    workload: Workload
    requests: FaultyTransport
    probed: list[bool]

    @property
    def user(self) -> Client:
        return self.world.user

    async def make(self, name: str = "model", annotations: Mapping[str, str] = QUICK, **spec: Any) -> None:
        await self.user.apply(autoscaler(name, annotations, **spec))

    async def deploy(self, replicas: int, name: str = "model") -> None:
        await self.user.create(deployment(name, replicas))

    async def replicas(self, name: str = "model") -> int:
        return (await self.user.get(Deployment, name, NAMESPACE)).spec.replicas or 0

    async def find(self, name: str = "model") -> PodAutoscaler:
        return await self.user.get(PodAutoscaler, name, NAMESPACE)

    async def conditions(self, name: str = "model") -> dict[str, tuple[str, str, str]]:
        found = (await self.find(name)).status.conditions
        return {one.type: (one.status, one.reason, one.message) for one in found}

    async def events(self) -> set[str]:
        return {event.reason for event in await self.user.list(Event, NAMESPACE)}


def autoscaler(name: str, annotations: Mapping[str, str] = QUICK, **spec: Any) -> dict[str, Any]:
    plain = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "model"},
        "minReplicas": 1,
        "maxReplicas": 8,
        "scalingStrategy": "KPA",
        "observeWindowSeconds": 4,
        "panicWindowSeconds": 2,
        "metricsSources": [
            {"metricSourceType": "pod", "port": "80", "targetMetric": "load", "targetValue": "1"}
        ],
    }
    return {
        "apiVersion": "autoscaling.aibrix.ai/v1alpha1",
        "kind": "PodAutoscaler",
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": dict(annotations)},
        "spec": {**plain, **spec},
    }


def deployment(name: str, replicas: int) -> Deployment:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "engine", "image": "e"}]}}
    spec = DeploymentSpec(selector=LabelSelector(match_labels=labels), template=template, replicas=replicas)
    return Deployment(metadata=ObjectMeta(name, NAMESPACE), spec=spec)


@asynccontextmanager
async def cluster(
    *, room: int = 20, answered: bool = True, crd: Mapping[str, Any] | None = None, seed: int = 0
) -> AsyncIterator[Here]:
    probed: list[bool] = []

    async def probe(ctx: object, target: object) -> bool:
        probed.append(answered)
        return answered

    async with world(seed, crd or definition(), delays=Delays(0.2, 0.2)) as there:
        net, metrics = Net(), Metrics()
        net.metrics = metrics
        workload = Workload(net, room)
        workload.begun = 3  # none of them is deaf
        async with anyio.create_task_group() as group:
            await group.start(Manager(workload.controller, transport=there.transport, clock=there.clock).run)
            sizes = make_controller(
                every=EVERY, fetch=net.fetch, probe=probe, limits=ScrapeLimits(pod_seconds=0.5)
            )
            async with there.running(sizes) as requests:
                yield Here(there, net, metrics, workload, requests, probed)
            group.cancel_scope.cancel()


def told(story: Callable[[Here], Any], **options: Any) -> None:
    async def run() -> None:
        async with cluster(**options) as here:
            await story(here)

    simulate(run)


# --- sizing ---------------------------------------------------------------------------------------------


@pytest.mark.rule("autoscale-scale-only")
@pytest.mark.parametrize("strategy", ["KPA", "APA"])
def test_a_deployment_follows_the_load_up_and_down_by_its_scale_alone(strategy: str) -> None:
    async def story(here: Here) -> None:
        here.metrics.load = 3.0
        await here.deploy(2)
        await here.make(scalingStrategy=strategy)
        await anyio.sleep(30)
        assert await here.replicas() == 8
        here.metrics.load = 0.2
        await anyio.sleep(60)
        assert await here.replicas() == 1
        found = await here.find()
        assert (found.status.desired_scale, found.status.actual_scale) == (1, 1)
        assert found.status.last_scale_time is not None
        assert 2 <= len(found.status.scaling_history) <= 5
        assert all(one.success for one in found.status.scaling_history)
        assert "Rescaled" in await here.events()
        writes = [request for request in here.requests.writes if "/deployments/" in request.path]
        assert writes
        assert all(request.path.endswith("/deployments/model/scale") for request in writes)

    told(story)


@pytest.mark.rule("autoscale-quiet")
def test_while_nothing_changes_nothing_is_written() -> None:
    async def story(here: Here) -> None:
        here.metrics.load = 1.0
        await here.deploy(3)
        await here.make()
        await anyio.sleep(60)
        sent = len(here.requests.writes)
        await anyio.sleep(600)
        assert len(here.requests.writes) == sent
        assert await here.replicas() == 3

    told(story)


@pytest.mark.rule("autoscale-guarded")
def test_a_number_that_another_changed_meanwhile_is_decided_anew() -> None:
    async def story(here: Here) -> None:
        here.metrics.load = 1.0
        await here.deploy(3)
        await here.make()
        await anyio.sleep(30)
        target = await here.user.get(Deployment, "model", NAMESPACE)
        await here.user.set_scale(target, 6, expect=3)
        await anyio.sleep(30)
        assert await here.replicas() == 6
        assert all(one.status != 409 for one in here.requests.requests)

    told(story)


@pytest.mark.rule("autoscale-unplaced")
def test_a_maximum_beyond_the_nodes_is_a_condition_and_no_error() -> None:
    async def story(here: Here) -> None:
        here.metrics.load = 5.0
        await here.deploy(2)
        await here.make()
        await anyio.sleep(60)
        assert (await here.conditions())["PodsUnplaced"][0] == "False"
        await anyio.sleep(300)
        assert await here.replicas() == 8
        conditions = await here.conditions()
        assert conditions["PodsUnplaced"][:2] == ("True", "Unschedulable")
        assert conditions["Ready"][0] == "True"
        here.metrics.load = 0.3
        await anyio.sleep(60)
        assert await here.replicas() == 1
        assert (await here.conditions())["PodsUnplaced"][0] == "False"

    told(story, room=4)


@pytest.mark.rule("autoscale-hold")
def test_pods_that_cannot_be_asked_change_nothing_and_a_condition_says_so() -> None:
    async def story(here: Here) -> None:
        here.metrics.load = 1.0
        await here.deploy(4)
        await here.make()
        await anyio.sleep(30)
        here.net.hanging = set(here.net.pods)
        await anyio.sleep(120)
        assert await here.replicas() == 4
        conditions = await here.conditions()
        assert conditions["MetricsAvailable"][:2] == ("False", "NoneAnswered")
        assert conditions["ScalingActive"][0] == "False"
        here.net.hanging = set()
        await anyio.sleep(90)
        assert (await here.conditions())["MetricsAvailable"][0] == "True"

    told(story)


@pytest.mark.rule("autoscale-schedule")
def test_a_schedule_raises_the_minimum_and_is_shown() -> None:
    async def story(here: Here) -> None:
        now = here.world.clock.now()
        start, end = (f"{now + datetime.timedelta(minutes=after):%H:%M}" for after in (5, 10))
        here.metrics.load = 0.1
        await here.deploy(1)
        await here.make(schedules=[{"name": "busy", "startTime": start, "endTime": end, "minReplicas": 5}])
        await anyio.sleep(30)
        assert await here.replicas() == 1
        await anyio.sleep(300)
        assert await here.replicas() == 5
        shown = (await here.find()).status.scheduled_bounds
        assert shown is not None
        assert (shown.active_schedule, shown.effective_min_replicas) == ("busy", 5)
        await anyio.sleep(300)
        assert await here.replicas() == 1
        shown = (await here.find()).status.scheduled_bounds
        assert shown is not None
        assert shown.active_schedule is None

    told(story)


# --- zero -----------------------------------------------------------------------------------------------

TO_ZERO = {**QUICK, "autoscaling.aibrix.ai/scale-to-zero": "true"}


@pytest.mark.rule("autoscale-zero")
@pytest.mark.parametrize("answered", [True, False])
def test_the_last_pod_goes_once_the_probe_has_answered(answered: bool) -> None:
    async def story(here: Here) -> None:
        await here.deploy(3)
        await here.make(annotations=TO_ZERO, minReplicas=0)
        await anyio.sleep(20)
        assert await here.replicas() == 1
        await anyio.sleep(60)
        assert await here.replicas() == (0 if answered else 1)
        assert set(here.probed) == {answered}

    told(story, answered=answered)


def test_without_the_annotation_one_pod_stays() -> None:
    async def story(here: Here) -> None:
        await here.deploy(3)
        await here.make(minReplicas=0)
        await anyio.sleep(300)
        assert await here.replicas() == 1
        assert here.probed == []

    told(story)


@pytest.mark.rule("autoscale-disabled")
def test_a_target_scaled_to_zero_by_hand_is_left_alone() -> None:
    async def story(here: Here) -> None:
        await here.deploy(0)
        await here.make(minReplicas=2)
        await anyio.sleep(60)
        assert await here.replicas() == 0
        assert (await here.conditions())["ScalingActive"][:2] == ("False", "ScalingDisabled")
        target = await here.user.get(Deployment, "model", NAMESPACE)
        await here.user.set_scale(target, 1, expect=0)
        await anyio.sleep(60)
        assert await here.replicas() == 2

    told(story)


# --- several autoscalers --------------------------------------------------------------------------------


@pytest.mark.rule("autoscale-conflict")
def test_of_two_with_one_target_one_sizes_it_until_it_goes() -> None:
    async def story(here: Here) -> None:
        here.metrics.load = 1.0
        await here.deploy(3)
        await here.make("first", maxReplicas=8)
        await anyio.sleep(2)
        await here.make("second", maxReplicas=8, minReplicas=6)
        await anyio.sleep(60)
        assert await here.replicas() == 3
        conditions = await here.conditions("second")
        assert conditions["MultiPodAutoscalerConflict"][0] == "True"
        assert "first" in conditions["MultiPodAutoscalerConflict"][2]
        assert conditions["Ready"][0] == "False"
        assert (await here.conditions("first"))["MultiPodAutoscalerConflict"][0] == "False"
        await here.user.delete(await here.find("first"))
        await anyio.sleep(30)
        assert await here.replicas() == 6
        assert (await here.conditions("second"))["Ready"][0] == "True"

    told(story)


@pytest.mark.rule("autoscale-uid")
def test_another_autoscaler_of_the_same_name_knows_nothing_of_the_first() -> None:
    async def story(here: Here) -> None:
        here.metrics.load = 1.0
        await here.deploy(6)
        slow = {**QUICK, "autoscaling.aibrix.ai/scale-down-cooldown-window": "100s"}
        await here.make(annotations=slow)
        await anyio.sleep(90)
        here.metrics.load = 0.1
        await here.user.delete(await here.find())
        await here.make(annotations=slow)
        await anyio.sleep(90)
        assert await here.replicas() == 6  # the first would have gone down by now
        await anyio.sleep(60)
        assert await here.replicas() == 1

    told(story)


# --- HPA ------------------------------------------------------------------------------------------------

CPU = [{"metricSourceType": "resource", "targetMetric": "cpu", "targetValue": "50"}]


@pytest.mark.rule("autoscale-hpa")
def test_the_strategy_hpa_owns_an_object_that_follows_and_goes_with_it() -> None:
    async def story(here: Here) -> None:
        await here.deploy(3)
        await here.make(scalingStrategy="HPA", metricsSources=CPU, maxReplicas=5)
        await anyio.sleep(10)
        hpa = await here.user.get(HorizontalPodAutoscaler, "model-hpa", NAMESPACE)
        owner = hpa.metadata.owner_references[0]
        assert (owner.kind, owner.name, owner.controller) == ("PodAutoscaler", "model", True)
        await here.make(scalingStrategy="HPA", metricsSources=CPU, maxReplicas=7)
        await anyio.sleep(10)
        hpa = await here.user.get(HorizontalPodAutoscaler, "model-hpa", NAMESPACE)
        assert encode(hpa)["spec"]["maxReplicas"] == 7
        sent = len(here.requests.writes)
        await anyio.sleep(300)
        assert len(here.requests.writes) == sent
        await here.make(scalingStrategy="KPA", maxReplicas=7)
        await anyio.sleep(10)
        assert await here.user.find(HorizontalPodAutoscaler, "model-hpa", NAMESPACE) is None

    told(story)


def test_the_object_of_the_strategy_hpa_goes_with_the_autoscaler() -> None:
    async def story(here: Here) -> None:
        await here.deploy(3)
        await here.make(scalingStrategy="HPA", metricsSources=CPU)
        await anyio.sleep(10)
        await here.user.delete(await here.find())
        await anyio.sleep(10)
        assert await here.user.find(HorizontalPodAutoscaler, "model-hpa", NAMESPACE) is None

    told(story)


# --- bad input ------------------------------------------------------------------------------------------


@pytest.mark.rule("autoscale-bad-spec")
@pytest.mark.parametrize(
    ("changed", "condition", "reason", "named"),
    [
        ({"minReplicas": 9}, "ValidSpec", "InvalidSpec", "spec.minReplicas"),
        (
            {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "none"}},
            "AbleToScale",
            "TargetNotFound",
            "Deployment none",
        ),
        (
            {"scaleTargetRef": {"apiVersion": "v1", "kind": "ConfigMap", "name": "settings"}},
            "AbleToScale",
            "TargetHasNoScale",
            "ConfigMap settings",
        ),
        (
            {"scaleTargetRef": {"apiVersion": "example.com/v1", "kind": "Unheard", "name": "of"}},
            "AbleToScale",
            "TargetKindUnknown",
            "Unheard",
        ),
    ],
)
def test_what_cannot_be_done_is_said_in_a_condition_and_an_event_and_harms_no_other(
    changed: dict[str, Any], condition: str, reason: str, named: str
) -> None:
    async def story(here: Here) -> None:
        here.metrics.load = 1.0
        await here.user.create(ConfigMap(metadata=ObjectMeta("settings", NAMESPACE)))
        await here.deploy(2)
        await here.make("bad", **changed)
        await anyio.sleep(5)
        await here.make("good")
        await anyio.sleep(30)
        status, why, message = (await here.conditions("bad"))[condition]
        assert (status, why) == ("False", reason)
        assert named in message
        assert (await here.conditions("bad"))["Ready"][0] == "False"
        assert reason in await here.events()
        if condition == "AbleToScale":
            assert (await here.conditions("good"))["Ready"][0] == "True"
        sent = len(here.requests.writes)
        await anyio.sleep(120)
        assert len(here.requests.writes) == sent

    told(story)


@pytest.mark.rule("autoscale-bad-annotation")
def test_an_annotation_that_is_no_number_is_named_in_a_condition_and_an_event() -> None:
    async def story(here: Here) -> None:
        await here.deploy(2)
        await here.make(annotations={"autoscaling.aibrix.ai/max-scale-up-rate": "fast"})
        await anyio.sleep(20)
        status, reason, message = (await here.conditions())["ValidSpec"]
        assert (status, reason) == ("False", "InvalidSpec")
        assert "autoscaling.aibrix.ai/max-scale-up-rate" in message
        assert "InvalidSpec" in await here.events()

    told(story)


@pytest.mark.rule("autoscale-bad-page")
def test_a_page_that_is_no_prometheus_text_is_named_and_changes_nothing() -> None:
    async def story(here: Here) -> None:
        here.metrics.page = "<html>load</html>"
        await here.deploy(3)
        await here.make()
        await anyio.sleep(120)
        assert await here.replicas() == 3
        status, _, message = (await here.conditions())["MetricsAvailable"]
        assert status == "False"
        assert "NotPrometheusText" in message
        assert "NoneAnswered" in await here.events()

    told(story)


def test_the_mistakes_of_a_user_end_when_they_are_mended() -> None:
    async def story(here: Here) -> None:
        here.metrics.load = 3.0
        await here.deploy(2)
        await here.make(minReplicas=9)
        await anyio.sleep(20)
        await here.make(minReplicas=1)
        await anyio.sleep(40)
        assert await here.replicas() == 8
        assert (await here.conditions())["ValidSpec"][0] == "True"

    told(story)


# --- users' manifests -----------------------------------------------------------------------------------


def manifest(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((SAMPLES / "aibrix" / f"{name}.yaml").read_text())
    return found


@pytest.mark.rule("autoscale-samples")
@pytest.mark.parametrize("crd", ["ours", "original"])
@pytest.mark.parametrize("name", ["kpa", "apa"])
def test_the_samples_of_aibrix_run_as_they_are(crd: str, name: str) -> None:
    original = manifest("crd-podautoscalers") if crd == "original" else None

    async def story(here: Here) -> None:
        given = manifest(name)
        target = given["spec"]["scaleTargetRef"]["name"]
        kept = deployment(target, 2)
        await here.user.create(kept.with_metadata(namespace="default"))
        here.metrics.page = "vllm:gpu_cache_usage_perc 1.0\n"
        await here.user.apply(given)
        await anyio.sleep(120)
        found = await here.user.get(PodAutoscaler, given["metadata"]["name"], "default")
        conditions = {one.type: one.status for one in found.status.conditions}
        assert conditions["ValidSpec"] == conditions["AbleToScale"] == conditions["Ready"] == "True"
        now = await here.user.get(Deployment, target, "default")
        if name == "apa":
            assert now.spec.replicas == 8
        else:
            # The cluster has no metrics API: nothing is known, so nothing is done.
            assert now.spec.replicas == 2
            assert conditions["MetricsAvailable"] == "False"

    told(story, crd=original)


def test_an_autoscaler_that_is_gone_leaves_its_target_alone() -> None:
    async def story(here: Here) -> None:
        here.metrics.load = 1.0
        await here.deploy(3)
        await here.make()
        await anyio.sleep(30)
        await here.user.delete(await here.find())
        here.metrics.load = 5.0
        await anyio.sleep(60)
        assert await here.replicas() == 3
        with pytest.raises(NotFound):
            await here.find()

    told(story)


# --- in nobody's way ------------------------------------------------------------------------------------


@pytest.mark.rule("autoscale-caution")
def test_it_does_not_start_beside_aibrix() -> None:
    async def run() -> None:
        async with world(0, definition(), delays=Delays(0.2, 0.2)) as there:
            kept = deployment("aibrix-controller-manager", 1)
            await there.user.create(kept.with_metadata(namespace="default"))
            manager = Manager(make_controller(), transport=there.transport, clock=there.clock, environ={})
            with pytest.raises(OriginalAtWork, match="AIBrix is at work"):
                await manager.run()

    simulate(run)


@pytest.mark.rule("autoscale-caution")
def test_in_shadow_it_decides_and_changes_nothing() -> None:
    async def run() -> None:
        async with world(0, definition(), delays=Delays(0.2, 0.2)) as there:
            net, metrics = Net(), Metrics(load=3.0)
            net.metrics = metrics
            workload = Workload(net, 20)
            workload.begun = 3
            sizes = make_controller(every=EVERY, fetch=net.fetch)
            recorded = FaultyTransport(there.transport)
            shadow = Manager(
                sizes, transport=recorded, clock=there.clock, environ={}, caution=Caution(dry_run=True)
            )
            async with anyio.create_task_group() as group:
                await group.start(
                    Manager(workload.controller, transport=there.transport, clock=there.clock).run
                )
                await group.start(shadow.run)
                await there.user.create(deployment("model", 2))
                await there.user.apply(autoscaler("model"))
                await anyio.sleep(30)
                group.cancel_scope.cancel()
            assert net.asked > 0
            assert recorded.writes == []
            assert (await there.user.get(Deployment, "model", NAMESPACE)).spec.replicas == 2

    simulate(run)
