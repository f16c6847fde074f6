"""Pod autoscalers on a simulated cluster: from what pods say to what a Deployment has, and what they say."""

import datetime
from functools import partial

import anyio
import pytest

from controllers.autoscaling.hpa import HorizontalPodAutoscaler
from reconcile import ObjectMeta
from reconcile.kinds import Deployment, Pod
from reconcile.models import encode
from reconcile.testing import Fault, Refuse, RefuseAsStale, When
from tests.controllers.autoscaling import QUICK, Here, told
from tests.controllers.world import NAMESPACE
from tests.helpers.scenarios import in_world

# --- sizing ---------------------------------------------------------------------------------------------


@pytest.mark.rule("autoscale-scale-only")
@pytest.mark.parametrize("strategy", ["KPA", "APA"])
@in_world(told)
async def test_a_deployment_follows_the_load_up_and_down_through_its_scale_alone(
    here: Here, strategy: str
) -> None:
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


@pytest.mark.rule("autoscale-quiet")
@in_world(told)
async def test_nothing_is_written_while_nothing_changes(here: Here) -> None:
    await here.settle(3)
    sent = len(here.requests.writes)
    await anyio.sleep(300)
    assert len(here.requests.writes) == sent
    assert await here.replicas() == 3


@pytest.mark.rule("autoscale-quiet")
@in_world(told)
async def test_nothing_is_written_while_nothing_can_be_measured(here: Here) -> None:
    page = {"metricSourceType": "domain", "endpoint": "nowhere.example.com"}
    await here.deploy(3)
    await here.make(metricsSources=[{**page, "targetMetric": "load", "targetValue": "1"}])
    await anyio.sleep(30)
    sent = len(here.requests.writes)
    await anyio.sleep(300)
    assert len(here.requests.writes) == sent


@pytest.mark.rule("autoscale-guarded")
@in_world(told)
async def test_a_number_changed_by_another_writer_meanwhile_is_decided_again(here: Here) -> None:
    await here.settle(3)
    target = await here.user.get(Deployment, "model", NAMESPACE)
    await here.user.raw.set_scale(target, 6, expect=3)
    await anyio.sleep(30)
    assert await here.replicas() == 6
    assert all(one.status != 409 for one in here.requests.requests)


@pytest.mark.rule("autoscale-guarded")
@in_world(told)
async def test_a_stale_write_is_decided_again_until_it_succeeds(here: Here) -> None:
    here.metrics.load = 3.0
    here.requests.add(Fault(When("patch", "*/model/scale", times=4), RefuseAsStale()))
    await here.deploy(2)
    await here.make()
    await anyio.sleep(60)
    assert await here.replicas() == 8
    assert all(one.success for one in (await here.find()).status.scaling_history)


@pytest.mark.rule("autoscale-refused")
@in_world(told)
async def test_a_forbidden_scale_is_reported_once_and_retried(here: Here) -> None:
    here.metrics.load = 3.0
    here.requests.add(Fault(When("patch", "*/model/scale", times=10), Refuse(403, "Forbidden")))
    await here.deploy(2)
    await here.make()
    await anyio.sleep(15)
    assert (await here.conditions())["AbleToScale"][:2] == ("False", "FailedUpdateScale")
    assert (await here.conditions())["Ready"][0] == "False"
    (refused,) = (await here.find()).status.scaling_history
    assert (refused.success, refused.error) == (False, "403 Forbidden")
    await anyio.sleep(60)
    assert await here.replicas() == 8
    assert (await here.conditions())["AbleToScale"][0] == "True"


@pytest.mark.rule("autoscale-unplaced")
@in_world(partial(told, room=4))
async def test_a_maximum_beyond_the_nodes_is_a_condition_and_not_an_error(here: Here) -> None:
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


@pytest.mark.rule("autoscale-hold")
@in_world(told)
async def test_unreachable_pods_change_nothing_and_are_reported_in_a_condition(here: Here) -> None:
    await here.settle(4)
    here.net.hanging = set(here.net.pods)
    await anyio.sleep(120)
    assert await here.replicas() == 4
    conditions = await here.conditions()
    assert conditions["MetricsAvailable"][:2] == ("False", "NoneAnswered")
    assert conditions["ScalingActive"][0] == "False"
    here.net.hanging = set()
    await anyio.sleep(90)
    assert (await here.conditions())["MetricsAvailable"][0] == "True"


@pytest.mark.rule("autoscale-hold")
@in_world(told)
async def test_some_unreachable_pods_are_reported_and_do_not_stop_scaling(here: Here) -> None:
    here.metrics.load = 1.0
    await here.deploy(4)
    await anyio.sleep(10)
    here.net.hanging = {min(here.net.pods)}
    await here.make()
    await anyio.sleep(30)
    assert (await here.conditions())["MetricsAvailable"][:2] == ("True", "PartlyMeasured")
    here.metrics.load = 3.0
    await anyio.sleep(30)
    assert await here.replicas() == 8


@pytest.mark.rule("autoscale-schedule")
@in_world(told)
async def test_a_schedule_raises_the_minimum_and_is_shown(here: Here) -> None:
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
    assert (shown.active_schedule, shown.effective_min_replicas) == ("busy", 5)
    await anyio.sleep(300)
    assert await here.replicas() == 1
    shown = (await here.find()).status.scheduled_bounds
    assert shown.active_schedule is None


@in_world(told)
async def test_the_last_of_many_quick_changes_counts(here: Here) -> None:
    here.metrics.load = 3.0
    await here.deploy(2)
    for number in range(20):
        await here.make(maxReplicas=3 + number % 5, scalingStrategy=("KPA", "APA")[number % 2])
        await anyio.sleep(0.1)
    await here.make(maxReplicas=5)
    await anyio.sleep(60)
    assert await here.replicas() == 5


# --- zero -----------------------------------------------------------------------------------------------

TO_ZERO = {**QUICK, "autoscaling.aibrix.ai/scale-to-zero": "true"}


@pytest.mark.rule("autoscale-zero")
@pytest.mark.parametrize("answered", [True, False])
def test_the_last_pod_is_removed_once_the_probe_has_answered(answered: bool) -> None:
    async def story(here: Here) -> None:
        await here.deploy(3)
        await here.make(annotations=TO_ZERO, minReplicas=0)
        await anyio.sleep(20)
        assert await here.replicas() == 1
        await anyio.sleep(60)
        assert await here.replicas() == (0 if answered else 1)
        assert set(here.probed) == {answered}

    told(story, answered=answered)


@in_world(told)
async def test_a_target_at_zero_is_scaled_up_when_an_external_metric_demands_it(here: Here) -> None:
    here.net.pods["gauge.example.com"] = Pod(metadata=ObjectMeta("gauge"))
    page = {"metricSourceType": "domain", "endpoint": "gauge.example.com"}
    await here.deploy(1)
    await here.make(
        annotations=TO_ZERO,
        minReplicas=0,
        metricsSources=[{**page, "targetMetric": "load", "targetValue": "1"}],
    )
    await anyio.sleep(90)
    assert await here.replicas() == 0
    here.metrics.load = 3.0
    await anyio.sleep(30)
    assert await here.replicas() == 3


@pytest.mark.rule("autoscale-disabled")
@in_world(told)
async def test_a_target_scaled_to_zero_by_hand_is_left_alone(here: Here) -> None:
    await here.deploy(0)
    await here.make(minReplicas=2)
    await anyio.sleep(60)
    assert await here.replicas() == 0
    assert (await here.conditions())["ScalingActive"][:2] == ("False", "ScalingDisabled")
    target = await here.user.get(Deployment, "model", NAMESPACE)
    await here.user.raw.set_scale(target, 1, expect=0)
    await anyio.sleep(60)
    assert await here.replicas() == 2


# --- several autoscalers --------------------------------------------------------------------------------


@pytest.mark.rule("autoscale-conflict")
@in_world(told)
async def test_of_two_autoscalers_with_one_target_one_sizes_it_until_it_is_deleted(here: Here) -> None:
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


@pytest.mark.rule("autoscale-uid")
@in_world(told)
async def test_an_autoscaler_with_a_reused_name_inherits_nothing(here: Here) -> None:
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


# --- HPA ------------------------------------------------------------------------------------------------

CPU = [{"metricSourceType": "resource", "targetMetric": "cpu", "targetValue": "50"}]


@pytest.mark.rule("autoscale-hpa")
@in_world(told)
async def test_the_strategy_hpa_owns_an_object_that_is_updated_and_deleted_with_it(here: Here) -> None:
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


@pytest.mark.rule("autoscale-hpa")
@in_world(told)
async def test_the_status_of_the_object_of_the_strategy_hpa_is_shown(here: Here) -> None:
    await here.deploy(3)
    await here.make(scalingStrategy="HPA", metricsSources=CPU, minReplicas=5)
    await anyio.sleep(60)
    hpa = encode(await here.user.get(HorizontalPodAutoscaler, "model-hpa", NAMESPACE))["status"]
    found = encode(await here.find())["status"]
    assert (found["desiredScale"], found["actualScale"]) == (5, 5)
    assert found["lastScaleTime"] == hpa["lastScaleTime"]
    shown = await here.conditions()
    theirs = {one["type"]: (one["status"], one["reason"], one["message"]) for one in hpa["conditions"]}
    assert shown["AbleToScale"] == theirs["AbleToScale"]
    assert shown["ScalingActive"] == theirs["ScalingActive"]
