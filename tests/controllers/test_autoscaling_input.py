"""What users write: mistakes that are named and harm no other, AIBrix's samples, and other operators."""

from typing import Any

import anyio
import pytest
import yaml
from attrs import frozen

from controllers.autoscaling import PodAutoscaler, definition, make_controller
from controllers.autoscaling.demo.incident import DemoWorkload
from reconcile import Manager, Object, ObjectMeta, resource
from reconcile.blocks import ScrapeLimits
from reconcile.errors import NotFound, PredecessorActive
from reconcile.kinds import ConfigMap, Deployment, Pod, PodSpec
from reconcile.models import Scale, definition_of
from reconcile.simulation import Delays
from reconcile.testing import FaultyTransport
from tests.controllers.autoscaling import EVERY, Here, Metrics, Net, autoscaler, deployment, told
from tests.controllers.world import NAMESPACE, SAMPLES, world
from tests.helpers.scenarios import in_world, simulated

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
@in_world(told)
async def test_a_failure_is_reported_in_a_condition_and_an_event_and_affects_no_other(
    here: Here, changed: dict[str, Any], condition: str, reason: str, named: str
) -> None:
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


@pytest.mark.rule("autoscale-bad-page")
@in_world(told)
async def test_a_page_that_is_not_prometheus_text_is_reported_and_changes_nothing(here: Here) -> None:
    here.metrics.page = "<html>load</html>"
    await here.deploy(3)
    await here.make()
    await anyio.sleep(120)
    assert await here.replicas() == 3
    status, _, message = (await here.conditions())["MetricsAvailable"]
    assert status == "False"
    assert "NotPrometheusText" in message
    assert "NoneAnswered" in await here.events()


@pytest.mark.rule("autoscale-bad-page")
@in_world(told)
async def test_an_oversized_page_is_reported_changes_nothing_and_counts_once_it_is_smaller(
    here: Here,
) -> None:
    here.metrics.page = "load 1\n" * (ScrapeLimits().page_bytes // 7 + 1)
    await here.deploy(3)
    await here.make()
    await anyio.sleep(60)
    assert await here.replicas() == 3
    status, _, message = (await here.conditions())["MetricsAvailable"]
    assert status == "False"
    assert "PageTooLarge" in message
    assert "NoneAnswered" in await here.events()
    here.metrics.page, here.metrics.load = "", 3.0
    await anyio.sleep(60)
    assert await here.replicas() == 8


@in_world(told)
async def test_user_errors_are_cleared_when_they_are_corrected(here: Here) -> None:
    here.metrics.load = 3.0
    await here.deploy(2)
    await here.make(minReplicas=9)
    await anyio.sleep(20)
    await here.make(minReplicas=1)
    await anyio.sleep(40)
    assert await here.replicas() == 8
    assert (await here.conditions())["ValidSpec"][0] == "True"


# --- users' manifests -----------------------------------------------------------------------------------


def manifest(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((SAMPLES / "aibrix" / f"{name}.yaml").read_text())
    return found


@pytest.mark.rule("autoscale-samples")
@pytest.mark.parametrize("crd", ["ours", "original"])
@pytest.mark.parametrize("name", ["kpa", "apa"])
def test_the_aibrix_samples_run_unchanged(crd: str, name: str) -> None:
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


@in_world(told)
async def test_a_deleted_autoscaler_leaves_its_target_alone(here: Here) -> None:
    await here.settle(3)
    await here.user.delete(await here.find())
    here.metrics.load = 5.0
    await anyio.sleep(60)
    assert await here.replicas() == 3
    with pytest.raises(NotFound):
        await here.find()


# --- targets of other kinds -----------------------------------------------------------------------------


@frozen
class RingSpec:
    replicas: int = 1


@frozen
class RingStatus:
    replicas: int = 0
    selector: str = ""


@resource("example.com/v1", scale=Scale())
class Ring(Object):
    spec: RingSpec = RingSpec()
    status: RingStatus = RingStatus()


@pytest.mark.rule("autoscale-scale-only")
@in_world(told)
async def test_any_kind_with_a_scale_can_be_sized(here: Here) -> None:
    await here.user.apply(definition_of(Ring))
    ring = await here.user.create(Ring(metadata=ObjectMeta("ring", NAMESPACE)))
    status = {"status": {"replicas": 2, "selector": "ring=one,!retired"}}
    await here.user.raw.merge(ring, status, guard={}, subresource="status")
    for name, labels in (("a", {}), ("b", {}), ("c", {"retired": "yes"})):
        metadata = ObjectMeta(name, NAMESPACE, labels={"ring": "one", **labels})
        await here.user.create(
            Pod(metadata=metadata, spec=PodSpec(containers=({"name": "c", "image": "i"},)))
        )
    await anyio.sleep(5)
    for pod in await here.user.list(Pod, NAMESPACE):
        here.net.pods[pod.status.pod_ip] = pod
    here.metrics.load = 2.0
    await here.make(scaleTargetRef={"apiVersion": "example.com/v1", "kind": "Ring", "name": "ring"})
    await anyio.sleep(30)
    found = await here.user.get(Ring, "ring", NAMESPACE)
    assert found.spec.replicas == 4  # two pods with a load of 2 each
    assert found.status.replicas == 2


# --- in nobody's way ------------------------------------------------------------------------------------


@pytest.mark.rule("autoscale-takeover")
@simulated
async def test_it_does_not_start_beside_aibrix() -> None:
    async with world(0, definition(), delays=Delays(0.2, 0.2)) as there:
        kept = deployment("aibrix-controller-manager", 1)
        await there.user.create(kept.with_metadata(namespace="default"))
        manager = Manager(make_controller(), transport=there.transport, clock=there.clock, environ={})
        with pytest.raises(PredecessorActive, match="AIBrix is active"):
            await manager.run()


@pytest.mark.rule("autoscale-takeover")
@simulated
async def test_in_shadow_it_decides_and_changes_nothing() -> None:
    async with world(0, definition(), delays=Delays(0.2, 0.2)) as there:
        net, metrics = Net(), Metrics(load=3.0)
        net.metrics = metrics
        workload = DemoWorkload(net, 20)
        workload.begun = 3
        sizes = make_controller(every=EVERY, fetch=net.fetch)
        recorded = FaultyTransport(there.transport)
        shadow = Manager(sizes, transport=recorded, clock=there.clock, environ={}, dry_run=True)
        async with anyio.create_task_group() as group:
            await group.start(Manager(workload.controller, transport=there.transport, clock=there.clock).run)
            await group.start(shadow.run)
            await there.user.create(deployment("model", 2))
            await there.user.apply(autoscaler("model"))
            await anyio.sleep(30)
            group.cancel_scope.cancel()
        assert net.asked > 0
        assert recorded.writes == []
        assert (await there.user.get(Deployment, "model", NAMESPACE)).spec.replicas == 2
