"""Groups of nodes over time: they grow, back off or do not, and shrink."""

from typing import Any

import anyio
import pytest

from controllers.nodegroups import ScaleDownSpec
from controllers.nodegroups.demo.simulated import BEHAVIOUR
from controllers.nodegroups.group_annotations import CAPACITY, MAX_SIZE
from controllers.nodegroups.node_view import TO_BE_DELETED
from reconcile.kinds import Event, Node, Pod
from reconcile.models import encode
from reconcile.testing import Fault, Refuse, RefuseAsStale, When
from tests.controllers.nodegroups import (
    OFFER,
    PRIORITIES,
    QUICK,
    SOON,
    ask,
    bind,
    condition,
    group,
    groups_of,
    nodes,
    say,
    size_of,
    status_of,
)
from tests.controllers.nodegroups_running import at_work
from tests.controllers.world import NAMESPACE, World
from tests.helpers.definitions import definition
from tests.helpers.scenarios import simulated

BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "kept", "namespace": NAMESPACE},
    "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}},
}


async def backed_off(here: World) -> list[str]:
    return [one["name"] for one in (await status_of(here))["groups"] if one.get("backoffUntil")]


async def told(here: World, reason: str) -> list[str]:
    return [event.message for event in await here.user.list(Event) if event.reason == reason]


# Growing.


@pytest.mark.rule("node-groups-grow")
@simulated
async def test_a_group_grows_by_what_pods_need_on_the_published_definition_and_then_settles() -> None:
    async with at_work(group("g", 0, ("0", "10"), **OFFER), published=True) as (here, recorded):
        await ask(here, "a", "b", "c")
        await anyio.sleep(40)
        assert await size_of(here.user, "g") == 3
        sent = len(recorded.writes)
        await anyio.sleep(120)
        assert recorded.writes[sent:] == []


def shapes() -> dict[str, Any]:
    """An infrastructure provider's templates, which say what their machines will be like."""
    group = "infrastructure.example.com"
    return definition("Shape", group=group, name="v1beta1", subresources={})


@pytest.mark.rule("capi-2d-from-zero")
@simulated
async def test_a_group_grows_from_zero_by_its_infrastructure_template() -> None:
    async with at_work(group("g", 0, ("0", "10"), **{CAPACITY + "labels": "pool=x"})) as (here, _):
        await here.user.apply(shapes())
        shape = {
            "apiVersion": "infrastructure.example.com/v1beta1",
            "kind": "Shape",
            "metadata": {"name": "g", "namespace": NAMESPACE},
        }
        await ask(here, "a", "b", "c")
        await anyio.sleep(20)
        assert await size_of(here.user, "g") == 0
        made = await here.user.create(await here.user.raw.unstructured(shape))
        capacity = {"cpu": "8", "memory": "16Gi"}
        await here.user.raw.merge(made, {"status": {"capacity": capacity}}, guard={})
        await anyio.sleep(20)
        assert await size_of(here.user, "g") == 1


@pytest.mark.rule("node-groups-grow")
@simulated
async def test_a_pod_that_fits_nowhere_is_left_alone_and_a_condition_says_why() -> None:
    async with at_work(group("g", 1, **OFFER)) as (here, _):
        await ask(here, "a", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])
        await ask(here, "b", nodeSelector={"pool": "other"})
        await anyio.sleep(30)
        assert await size_of(here.user, "g") == 1
        status, message = await condition(here, "PodsPlaced")
        assert status == "False"
        assert "2 pods get no nodes; stage/a: not modelled: volumes that are claims" in message


@pytest.mark.rule("node-groups-priority")
@simulated
async def test_priorities_are_reread_and_invalid_ones_are_reported_and_ignored() -> None:
    groups = [group(name, 0, ("0", "10"), **OFFER) for name in ("best", "second")]
    async with at_work(*groups, priorities=PRIORITIES) as (here, _):
        await ask(here, "a")
        await anyio.sleep(30)
        assert [await size_of(here.user, name) for name in ("best", "second")] == [1, 0]
        await say(here, "50:\n- .*second$\n")
        await ask(here, "b")
        await anyio.sleep(30)
        assert [await size_of(here.user, name) for name in ("best", "second")] == [1, 1]
        unused = "no priority matches MachineDeployment/stage/best: it is not used"
        assert unused in await told(here, "NodeGroups")
        await say(here, "best: first")
        await ask(here, "c")
        await anyio.sleep(30)
        assert sum([await size_of(here.user, name) for name in ("best", "second")]) == 3
        status, message = await condition(here, "Ready")
        assert (status, "the priorities are ignored" in message) == ("False", True)


# Failures, and what they are taken for.


def scaling(what: Any, times: int | None) -> Fault:
    return Fault(When("patch", "*/machinedeployments/best/scale", times=times), what)


@pytest.mark.rule("capi-2d-storm", "capi-2d-transient")
@pytest.mark.parametrize(
    "fault",
    [
        scaling(RefuseAsStale(), 12),
        scaling(Refuse(500, "InternalError", "no"), 3),
        scaling(Refuse(504, "Timeout", "no"), 2),
        scaling(Refuse(429, "TooManyRequests", "busy"), 4),
    ],
)
@simulated
async def test_a_conflict_or_a_failing_or_busy_server_never_displaces_the_best_group(fault: Fault) -> None:
    groups = [group(name, 0, ("0", "10"), **OFFER) for name in ("best", "second")]
    async with at_work(*groups, faults=(fault,), priorities=PRIORITIES) as (here, recorded):
        await ask(here, "a", "b")
        await anyio.sleep(60)
        assert [await size_of(here.user, name) for name in ("best", "second")] == [2, 0]
        assert await backed_off(here) == []
        assert recorded.applied


@pytest.mark.rule("capi-2d-quota")
@simulated
async def test_an_exhausted_quota_makes_the_next_group_grow_and_the_first_back_off() -> None:
    groups = [group(name, 0, ("0", "10"), **OFFER) for name in ("best", "second")]
    quota = scaling(Refuse(403, "Forbidden", "exceeded quota: few machines"), None)
    async with at_work(*groups, faults=(quota,), priorities=PRIORITIES) as (here, _):
        await ask(here, "a")
        await anyio.sleep(40)
        assert [await size_of(here.user, name) for name in ("best", "second")] == [0, 1]
        assert await backed_off(here) == ["MachineDeployment/stage/best"]
        assert "quota" in (await told(here, "NoCapacity"))[0]


@pytest.mark.rule("capi-2d-state-failures")
@pytest.mark.parametrize(("behaviour", "seconds"), [("fail", 60.0), ("never", 1000.0)])
@simulated
async def test_machines_that_fail_or_never_come_are_given_up_and_another_group_grows(
    behaviour: str, seconds: float
) -> None:
    best = group("best", 0, ("0", "10"), **{**OFFER, BEHAVIOUR: behaviour})
    second = group("second", 0, ("0", "10"), **OFFER)
    async with at_work(best, second, priorities=PRIORITIES) as (here, _):
        await ask(here, "a")
        await anyio.sleep(seconds)
        assert [await size_of(here.user, name) for name in ("best", "second")] == [0, 1]
        assert await backed_off(here) == ["MachineDeployment/stage/best"]


# Bad input.


@pytest.mark.rule("node-groups-bad-input")
@simulated
async def test_a_group_with_an_invalid_annotation_is_reported_and_the_others_are_sized() -> None:
    bad = group("bad", 1, ("1", "many"), **OFFER)
    crossed = group("crossed", 1, ("5", "2"), **OFFER)
    async with at_work(bad, crossed, group("good", 0, ("0", "3"), **OFFER)) as (here, _):
        await ask(here, "a", "b", "c")  # the groups that are not sized have a node each
        await anyio.sleep(30)
        assert await size_of(here.user, "good") == 1
        status, message = await condition(here, "Ready")
        assert status == "False"
        assert f"MachineDeployment/stage/bad: annotation {MAX_SIZE}" in message
        assert len(await told(here, "NodeGroups")) == 2
        await anyio.sleep(60)
        assert len(await told(here, "NodeGroups")) == 2


@pytest.mark.rule("node-groups-bad-input")
@simulated
async def test_an_invalid_discovery_is_a_condition_and_nothing_is_sized() -> None:
    async with at_work(group("g", 0, ("0", "3"), **OFFER), discovery=("gce:all",)) as (here, _):
        await ask(here, "a")
        await anyio.sleep(30)
        assert await size_of(here.user, "g") == 0
        assert (await condition(here, "Ready"))[0] == "False"


# Shrinking.


@pytest.mark.rule("node-groups-shrink")
@simulated
async def test_empty_nodes_are_removed_after_their_time_and_never_below_the_minimum_size() -> None:
    async with at_work(group("g", 4, ("2", "10"), **OFFER, **SOON), scale_down=QUICK) as (here, _):
        await anyio.sleep(80)
        assert await size_of(here.user, "g") == 4
        await anyio.sleep(120)
        assert await size_of(here.user, "g") == 2
        await anyio.sleep(900)
        assert (await size_of(here.user, "g"), len(await nodes(here))) == (2, 2)


@pytest.mark.rule("node-groups-shrink")
@simulated
async def test_a_barely_used_node_is_drained_and_its_own_machine_deleted() -> None:
    async with at_work(group("g", 2, ("0", "10"), **OFFER, **SOON), scale_down=QUICK) as (here, _):
        busy, idle = await nodes(here)
        await bind(here, "b1", busy, cpu="3")
        await bind(here, "i1", idle)
        await anyio.sleep(300)
        assert await nodes(here) == [busy]
        assert [one.name for one in await here.user.list(Pod, NAMESPACE)] == ["b1"]


@pytest.mark.rule("node-groups-pdb")
@simulated
async def test_a_disruption_budget_keeps_a_node_until_it_allows_the_eviction() -> None:
    async with at_work(group("g", 2, ("0", "10"), **OFFER, **SOON), scale_down=QUICK) as (here, _):
        busy, idle = await nodes(here)
        await bind(here, "b1", busy, cpu="3")
        await bind(here, "i1", idle, app="kept")
        made = await here.user.create(BUDGET)
        await anyio.sleep(400)
        assert await nodes(here) == [busy, idle]
        assert (await size_of(here.user, "g")) == 2
        await here.user.delete(made)
        await anyio.sleep(120)
        assert await nodes(here) == [busy]


@pytest.mark.rule("node-groups-shrink")
@pytest.mark.parametrize("why", ["not replicated", "too busy", "no room", "marked"])
@simulated
async def test_a_node_whose_pods_could_not_move_elsewhere_stays(why: str) -> None:
    async with at_work(group("g", 2, ("0", "10"), **OFFER, **SOON), scale_down=QUICK) as (here, _):
        busy, idle = await nodes(here)
        await bind(here, "b1", busy, cpu="3500m" if why == "no room" else "3")
        await bind(here, "i1", idle, owned=why != "not replicated", cpu="2" if why == "too busy" else "1")
        if why == "marked":
            said = {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}
            found = await here.user.get(Node, idle)
            await here.user.raw.merge(found, {"metadata": {"annotations": said}}, guard={})
        await anyio.sleep(600)
        assert len(await nodes(here)) == 2


@pytest.mark.rule("node-groups-rollout")
@simulated
async def test_nodes_of_a_group_that_is_rolling_out_are_left_alone() -> None:
    async with at_work(group("g", 3, ("0", "10"), **OFFER, **SOON), scale_down=QUICK) as (here, _):
        status = {"status": {"upToDateReplicas": 1}}
        for _ in range(400):
            live = (await groups_of(here.user))["g"].object
            await here.user.raw.merge(live, status, guard={}, subresource="status")
            await anyio.sleep(1)
        assert await size_of(here.user, "g") == 3


@pytest.mark.rule("node-groups-shrink")
@simulated
async def test_a_node_selected_for_removal_stays_when_a_pod_needs_it() -> None:
    async with at_work(group("g", 2, ("0", "10"), **OFFER, **SOON), scale_down=QUICK) as (here, _):
        busy, idle = await nodes(here)
        await bind(here, "b1", busy, cpu="3")
        await bind(here, "i1", idle, app="kept")
        await here.user.create(BUDGET)
        await anyio.sleep(300)
        taints = encode(await here.user.get(Node, idle))["spec"].get("taints") or []
        assert [one["key"] for one in taints] == [TO_BE_DELETED]
        await ask(here, "a", cpu="2")
        await anyio.sleep(20)
        assert "taints" not in encode(await here.user.get(Node, idle))["spec"]
        assert await size_of(here.user, "g") == 2


@pytest.mark.rule("node-groups-shrink")
@simulated
async def test_with_scale_down_disabled_no_node_is_removed() -> None:
    off = ScaleDownSpec(enabled=False)
    async with at_work(group("g", 3, ("0", "10"), **OFFER, **SOON), scale_down=off) as (here, _):
        await anyio.sleep(600)
        assert await size_of(here.user, "g") == 3
