"""Which nodes go, one decision at a time: what is not needed, for how long, in which order, and why not."""

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from controllers.nodegroups.downscale import Candidate, ScaleDown, ScaleDownSituation, plan_scale_down
from controllers.nodegroups.group_annotations import GroupOptions
from controllers.nodegroups.group_health import GroupAssessment, GroupState, Readiness
from controllers.nodegroups.machine import Machine
from controllers.nodegroups.node_group import NodeGroup
from controllers.nodegroups.node_view import NodeView, PodPlacement, read_node
from reconcile import ObjectMeta
from reconcile.blocks import PodNeeds
from reconcile.blocks.capacity.pod_needs import PodShape
from reconcile.kinds import Node, Pod
from reconcile.models import decode
from tests.controllers.nodegroups import STORED

pytestmark = pytest.mark.rule("node-groups-shrink")

NOW = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
LONG_AGO = NOW - datetime.timedelta(hours=5)


def ago(seconds: float) -> datetime.datetime:
    return NOW - datetime.timedelta(seconds=seconds)


def node(name: str, cpu: int = 4, gpus: int = 0, **given: Any) -> NodeView:
    offered = {
        "cpu": str(cpu),
        "memory": "8Gi",
        "pods": "110",
        **({"nvidia.com/gpu": str(gpus)} if gpus else {}),
    }
    manifest = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"providerID": f"x:/{name}"},
        "status": {"allocatable": offered, "conditions": [{"type": "Ready", "status": "True"}]},
    }
    return evolve(read_node(decode(Node, manifest)), **given)


def pod(name: str, node: str, cpu: int = 1000, **given: Any) -> PodPlacement:
    """A pod of so many thousandths of a CPU."""
    amounts = {"cpu": cpu, "pods": 1000, "nvidia.com/gpu": 1000 * given.pop("gpus", 0)}
    shape = PodShape(
        tuple((name, amount) for name, amount in amounts.items() if amount),
        unmodelled=given.pop("unmodelled", ()),
    )
    gone = NOW if given.pop("terminating", False) else None
    return PodPlacement(
        PodNeeds(name, shape), node, Pod(metadata=ObjectMeta(name, deletion_timestamp=gone)), **given
    )


def group(nodes: Sequence[NodeView], smallest: int = 0, name: str = "g", **given: Any) -> GroupAssessment:
    """A healthy group with a machine `m-NODE` for each of these nodes."""
    machines = tuple(Machine(f"m-{one.name}", one.name, STORED, LONG_AGO, one.provider) for one in nodes)
    found = NodeGroup(
        "MachineDeployment", "stage", name, name, len(nodes), smallest, 50, STORED, machines=machines
    )
    return GroupAssessment(evolve(found, **given), Readiness(len(nodes), nodes=tuple(nodes)), GroupState())


def situation(
    groups: GroupAssessment | Sequence[GroupAssessment],
    pods: Iterable[PodPlacement] = (),
    others: Iterable[NodeView] = (),
    **given: Any,
) -> ScaleDownSituation:
    """The nodes of these groups and others, all of the groups' nodes not needed for long unless said."""
    several = [groups] if isinstance(groups, GroupAssessment) else groups
    own = [node for one in several for node in one.readiness.nodes]
    by_node: dict[str, list[PodPlacement]] = {}
    for one in pods:
        by_node.setdefault(one.node, []).append(one)
    unneeded: Mapping[str, datetime.datetime] = {one.name: LONG_AGO for one in own}
    return ScaleDownSituation(
        several,
        {one.name: one for one in (*own, *others)},
        by_node,
        **{"unneeded": unneeded, "now": NOW, **given},
    )


def names(candidates: Iterable[Candidate]) -> list[str]:
    return [one.node.name for one in candidates]


def numbered(count: int) -> list[NodeView]:
    return [node(f"n{number:02}") for number in range(count)]


# What is not needed, and since when.


def test_an_empty_node_is_removed_by_the_name_of_its_machine_and_remembered() -> None:
    one = group([node("a")])
    assert plan_scale_down(situation(one)) == ScaleDown(
        delete=(Candidate(node("a"), one.group, "m-a"),), unneeded={"a": LONG_AGO}
    )


def test_a_node_of_a_machine_pool_is_removed_by_its_instance() -> None:
    pool = group([node("a")], kind="MachinePool", machines=())
    assert plan_scale_down(situation(pool)).delete == (Candidate(node("a"), pool.group, "x:/a"),)


def test_a_node_needed_until_now_is_unneeded_from_now_on() -> None:
    found = plan_scale_down(
        situation(group([node("a"), node("b")]), unneeded={"b": ago(60), "gone": LONG_AGO})
    )
    assert found == ScaleDown(unneeded={"a": NOW, "b": ago(60)})


@pytest.mark.parametrize(
    ("ready", "seconds", "goes"),
    [(True, 599, False), (True, 600, True), (False, 1199, False), (False, 1200, True)],
)
def test_a_node_is_removed_after_its_time_which_is_longer_for_an_unready_one(
    ready: bool, seconds: float, goes: bool
) -> None:
    found = plan_scale_down(situation(group([node("a", ready=ready)]), unneeded={"a": ago(seconds)}))
    assert bool(found.delete) is goes
    assert found.unneeded == {"a": ago(seconds)}
    group_says = group([node("a", ready=ready)], options=GroupOptions(unneeded=1.0, unready=2.0))
    assert plan_scale_down(situation(group_says, unneeded={"a": ago(2)})).delete
    assert bool(plan_scale_down(situation(group_says, unneeded={"a": ago(1)})).delete) is ready


@pytest.mark.parametrize(
    ("view", "pods", "options", "why"),
    [
        ({"disabled": True}, [], {}, "it is marked to be kept"),
        ({}, [{"held": "it keeps data on the node"}], {}, "pod p0: it keeps data on the node"),
        ({}, [{"held": "it keeps data on the node", "terminating": True}], {}, ""),
        ({}, [{"unmodelled": ("this", "that")}], {}, "pod p0: not modelled: this, that"),
        ({"draining": ago(9)}, [{"held": "it is in kube-system"}], {}, "pod p0: it is in kube-system"),
        ({"ready": False}, [{}, {"held": "it is in kube-system"}], {}, "pod p1: it is in kube-system"),
        ({}, [{"cpu": 1999}], {}, "50% of it is used"),
        ({}, [{"cpu": 1996}], {}, ""),
        ({}, [{"cpu": 1996}], {"threshold": 499}, "49% of it is used"),
        ({}, [{"cpu": 1000}, {"cpu": 1500, "is_local": True}], {}, "62% of it is used"),
        ({}, [{"cpu": 4000, "is_local": True}], {}, ""),
        ({}, [{"cpu": 1000, "held": "", "is_local": True, "unmodelled": ("this",)}], {}, ""),
        ({"ready": False}, [{"cpu": 3000}], {}, ""),
        ({"draining": ago(9)}, [{"cpu": 3000}], {}, ""),
        ({"cpu": 5}, [{"cpu": 100}], {}, ""),
        ({"gpus": 4}, [{"cpu": 3000, "gpus": 1}], {}, ""),
        ({"gpus": 4}, [{"cpu": 1, "gpus": 2}], {}, "50% of it is used"),
        ({"gpus": 4}, [{"cpu": 1, "gpus": 2}], {"gpu_threshold": 501}, ""),
        ({"gpus": 4}, [{"cpu": 1, "gpus": 1}], {"gpu_threshold": 250, "threshold": 900}, "25% of it is used"),
    ],
)
def test_a_node_is_kept_for_its_mark_its_pods_or_its_utilisation(
    view: dict[str, Any], pods: list[dict[str, Any]], options: dict[str, int], why: str
) -> None:
    here = node("a", **view)
    one = group([here], options=GroupOptions(**options))
    on_it = [pod(f"p{number}", "a", **given) for number, given in enumerate(pods)]
    found = plan_scale_down(situation(one, on_it, [node("z", 8, 8)]))
    assert found.kept == ({"a": why} if why else {})
    moving = tuple(pod for pod in on_it if not pod.is_local)
    going = (Candidate(here, one.group, "m-a", moving),)
    assert (*found.delete, *found.drain) == (() if why else going)


@pytest.mark.rule("node-groups-rollout", "node-groups-shrink")
def test_nodes_of_a_group_that_is_rolling_out_or_unhealthy_are_kept() -> None:
    rolling = group([node("a")], name="rolling", is_rolling=True)
    ill = evolve(
        group([node("b")], name="ill", size=9), readiness=Readiness(1, unready=5, nodes=(node("b"),))
    )
    assert not ill.healthy
    well = group([node("c")], name="well")
    found = plan_scale_down(situation([rolling, ill, well]))
    assert found.kept == {"a": "its group is rolled out", "b": "its group is not healthy"}
    assert names(found.delete) == ["c"]


# Where the pods go.


@pytest.mark.parametrize("how", [{"ready": False}, {"cordoned": True}, {"draining": ago(60)}, {"cpu": 1}])
def test_pods_cannot_move_to_a_node_that_accepts_none(how: dict[str, Any]) -> None:
    pods = [pod("p", "a", 1500)]
    found = plan_scale_down(situation(group([node("a")]), pods, [node("z", **how)]))
    assert found == ScaleDown(kept={"a": "its pods fit nowhere else"})
    assert names(plan_scale_down(situation(group([node("a")]), pods, [node("Z")])).drain) == ["a"]


def test_all_pods_of_a_node_must_fit_beside_those_already_elsewhere() -> None:
    pods = [pod("p1", "a", 900), pod("p2", "a", 900), pod("there", "Z", 2300)]
    found = plan_scale_down(situation(group([node("a")]), pods, [node("Z")]))
    assert found.kept == {"a": "its pods fit nowhere else"}
    going = [evolve(pods[0], pod=pod("p1", "a", terminating=True).pod), *pods[1:]]
    assert names(plan_scale_down(situation(group([node("a")]), going, [node("Z")])).drain) == ["a"]


def test_room_is_given_only_once_and_not_on_a_node_that_is_also_removed() -> None:
    nodes = [node("a"), node("b"), node("c")]
    pods = [pod("pa", "a", 1500), pod("pb", "b", 1500), pod("pc", "c", 1500)]
    alone = plan_scale_down(situation(group(nodes), pods))
    assert alone.unneeded == {"a": LONG_AGO}
    assert alone.kept == {"b": "pods of other nodes are to be moved there", "c": "its pods fit nowhere else"}
    beside = plan_scale_down(situation(group(nodes), pods, [node("A", 3)]))
    assert beside.unneeded == {"a": LONG_AGO, "b": LONG_AGO}
    assert beside.kept == {"c": "its pods fit nowhere else"}


def test_the_pods_of_a_kept_node_take_no_room_from_others() -> None:
    nodes = [node("a"), node("b")]
    pods = [
        pod("pa", "a", 1900),
        pod("pb", "b", 1000),
        pod("held", "b", 100, held="it keeps data on the node"),
    ]
    found = plan_scale_down(situation(group(nodes), pods, [node("z", 2)]))
    assert names(found.drain) == ["a"]
    assert found.kept == {"b": "pod held: it keeps data on the node"}


def test_a_node_whose_pods_fit_nowhere_does_not_keep_later_nodes() -> None:
    nodes = [node("a"), node("b", cordoned=True)]
    pods = [pod("large", "a", 1900), pod("small", "b", 100), pod("other", "b", 100)]
    found = plan_scale_down(situation(group(nodes), pods, [node("Z", 1)]))
    assert found.kept == {"a": "its pods fit nowhere else"}
    assert names(found.drain) == ["b"]


# In which order, and how many.


def test_empty_nodes_are_considered_first_then_those_being_drained_then_those_with_few_pods() -> None:
    nodes = [
        node("a"),
        node("b"),
        node("c", draining=ago(60)),
        node("d"),
        node("e", draining=ago(60)),
        node("f"),
    ]
    pods = [
        *(pod(f"a{number}", "a", 10) for number in range(3)),
        *(pod(f"b{number}", "b", 10) for number in range(2)),
        *(pod(f"c{number}", "c", 10) for number in range(4)),
        pod("f", "f", 10),
    ]
    for smallest, going in enumerate(["edcfba", "edcfb", "edcf", "edc", "ed", "e", ""]):
        found = plan_scale_down(situation(group(nodes, smallest), pods, [node("Z")]))
        assert names(found.delete) == [name for name in going if name in "de"]
        assert names(found.drain) == (["c"] if "c" in going else [])
        assert found.release == tuple(one for one in (nodes[2], nodes[4]) if one.name not in going)
        assert sorted(found.unneeded) == list("abcdef")


def test_each_group_keeps_its_own_minimum_size() -> None:
    first = group([node("a"), node("b")], 1, "first")
    second = group([node("c"), node("d")], 0, "second")
    assert names(plan_scale_down(situation([first, second])).delete) == ["a", "c", "d"]
    larger = evolve(first, group=evolve(first.group, size=3))
    assert names(plan_scale_down(situation([larger, second])).delete) == ["a", "b", "c", "d"]


def test_of_many_nodes_thirty_are_considered_and_ten_empty_ones_and_one_other_removed() -> None:
    nodes = numbered(32)
    pods = [pod(f"p{number}", f"n{number:02}", 10) for number in range(12, 32)]
    found = plan_scale_down(situation(group(nodes), pods, [node("Z")]))
    assert names(found.delete) == [f"n{number:02}" for number in range(10)]
    assert names(found.drain) == ["n12"]
    assert found.kept == dict.fromkeys(("n30", "n31"), "other nodes are considered first")
    assert len(found.unneeded) == 30


def test_of_two_nodes_being_drained_the_first_by_name_continues_and_the_other_is_released() -> None:
    nodes = [node("a"), node("b", draining=ago(60)), node("c", draining=ago(30))]
    pods = [pod("pa", "a", 10), pod("pb1", "b", 10), pod("pb2", "b", 10), pod("pc", "c", 10)]
    found = plan_scale_down(situation(group(nodes), pods, [node("Z")]))
    assert (names(found.drain), found.release) == (["b"], (nodes[2],))


def test_a_node_not_empty_after_fifteen_minutes_is_released_and_its_time_restarts() -> None:
    def plan(seconds: float, *pods: PodPlacement) -> ScaleDown:
        nodes = [node("a", draining=ago(seconds)), node("b")]
        return plan_scale_down(situation(group(nodes), [pod("pb", "b", 10), *pods], [node("Z")]))

    staying = pod("pa", "a", 10)
    assert (names(plan(900, staying).drain), plan(900, staying).release) == (["a"], ())
    tired = plan(901, staying)
    assert (names(tired.drain), names_of(tired.release)) == (["b"], ["a"])
    assert tired.unneeded == {"b": LONG_AGO}
    assert (names(plan(901).delete), plan(901).release) == (["a"], ())


def names_of(views: Iterable[NodeView]) -> list[str]:
    return [one.name for one in views]


def test_while_pods_wait_no_node_is_removed_and_drained_ones_are_released() -> None:
    nodes = [node("a"), node("b", draining=ago(60)), node("c", disabled=True), node("d", draining=ago(60))]
    pods = [pod("pb", "b", 10)]
    found = plan_scale_down(situation(group(nodes), pods, [node("Z")], quiet=False))
    since = dict.fromkeys(("a", "b", "d"), LONG_AGO)
    assert found == ScaleDown(
        release=(nodes[1], nodes[3]), unneeded=since, kept={"c": "it is marked to be kept"}
    )


def test_a_node_being_drained_continues_regardless_of_its_time_and_is_released_when_needed() -> None:
    here = node("a", draining=ago(60))
    found = plan_scale_down(situation(group([here]), [pod("p", "a")], [node("Z")], unneeded={}))
    assert (names(found.drain), found.release, found.unneeded) == (["a"], (), {"a": NOW})
    needed = plan_scale_down(situation(group([here]), [pod("p", "a")], [node("z", 0)]))
    assert needed == ScaleDown(release=(here,), kept={"a": "its pods fit nowhere else"})


@given(st.lists(st.tuples(st.integers(0, 6), st.booleans()), max_size=8), st.integers(0, 8))
def test_every_removal_keeps_the_bounds_decides_on_each_node_and_leaves_room_for_all_pods(
    loads: list[tuple[int, bool]], smallest: int
) -> None:
    nodes = [
        node(f"n{number}", draining=ago(60) if draining else None)
        for number, (_, draining) in enumerate(loads)
    ]
    pods = [pod(f"p{n}-{i}", f"n{n}", 300) for n, (count, _) in enumerate(loads) for i in range(count)]
    there = situation(group(nodes, smallest), pods)
    found = plan_scale_down(there)
    going = {*names(found.delete), *names(found.drain)}
    assert len(going) <= max(0, len(nodes) - smallest)
    assert {*found.unneeded, *found.kept} == {one.name for one in nodes}
    assert not set(found.unneeded) & set(found.kept)
    assert {one.name for one in found.release} == {one.name for one in nodes if one.draining} - going
    staying = [one for one in nodes if one.name not in found.unneeded and not one.draining]
    moved = sum(loads[int(name[1:])][0] for name in found.unneeded)
    room = sum((4000 - 300 * loads[int(one.name[1:])][0]) // 300 for one in staying)
    assert moved <= room
