"""cluster-autoscaler's clusterstate: which nodes are there, coming, late or broken, and what follows."""

import datetime
from collections.abc import Iterable, Mapping

import pytest
from attrs import evolve

from controllers.nodegroups.group_health import (
    NOT_IN_TIME,
    GroupAssessment,
    GroupState,
    Readiness,
    assess,
    is_cluster_healthy,
    is_healthy,
    readiness_of,
)
from controllers.nodegroups.machine import Machine
from controllers.nodegroups.node_group import NodeGroup
from controllers.nodegroups.node_view import NodeView
from reconcile import ObjectMeta
from reconcile.blocks import BackoffTerms, NodeTemplate, PoolBackoff
from reconcile.kinds import Node
from tests.controllers.nodegroups import STORED, machine

NOW = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
LONG_AGO = NOW - datetime.timedelta(hours=5)
TERMS = BackoffTerms()


def later(minutes: float) -> datetime.datetime:
    return NOW + datetime.timedelta(minutes=minutes)


def node(name: str, ready: bool = True, created: datetime.datetime = LONG_AGO) -> NodeView:
    return NodeView(name, f"x:/{name}", created, ready, NodeTemplate({}), Node(metadata=ObjectMeta(name)))


def names(count: int) -> list[str]:
    return [f"n{number}" for number in range(count)]


def a_group(machines: Iterable[Machine], size: int, smallest: int = 0) -> NodeGroup:
    given = tuple(machines)
    return NodeGroup("MachineDeployment", "stage", "g", "u", size, smallest, 10, STORED, machines=given)


def assessed(
    group: NodeGroup,
    nodes: Iterable[NodeView],
    before: GroupState | None = None,
    now: datetime.datetime = NOW,
) -> GroupAssessment:
    by_provider: Mapping[str, NodeView] = {one.provider: one for one in nodes}
    return assess(group, readiness_of(group, by_provider, now), before, now, TERMS)


@pytest.mark.rule("capi-2d-state-ok")
def test_during_a_scale_up_a_group_is_healthy_and_its_nodes_are_upcoming() -> None:
    found = assessed(a_group(map(machine, names(3)), 5), map(node, names(3)))
    assert (found.healthy, found.upcoming, found.state.growing_since) == (True, 2, NOW)
    assert found.state.backoff is None


@pytest.mark.rule("capi-2d-state-unready")
def test_a_node_that_has_not_started_is_upcoming_and_one_that_never_does_is_unready() -> None:
    fresh = node("n0", ready=False, created=NOW - datetime.timedelta(minutes=5))
    group = a_group([machine("n0")], 1)
    assert assessed(group, [fresh]).readiness.not_started == 1
    assert assessed(group, [fresh]).upcoming == 1
    late = assessed(group, [fresh], now=later(30))
    assert (late.readiness.unready, late.upcoming) == (1, 0)


@pytest.mark.rule("capi-2d-state-expired")
def test_nodes_that_do_not_come_in_time_are_given_up_and_the_group_backs_off() -> None:
    group = a_group(map(machine, names(3)), 5)
    before = assessed(group, map(node, names(3))).state
    in_time = assessed(group, map(node, names(3)), before, later(14))
    assert (in_time.expired, in_time.upcoming) == (0, 2)
    found = assessed(group, map(node, names(3)), before, later(16))
    assert (found.expired, found.upcoming, found.news) == (2, 0, (NOT_IN_TIME,))
    backoff = found.state.backoff
    assert (backoff.seconds, backoff.until) == (300, later(21))


@pytest.mark.rule("capi-2d-state-expired")
def test_only_the_missing_part_of_a_scale_up_expires() -> None:
    before = assessed(a_group(map(machine, names(3)), 6), map(node, names(3))).state
    group = a_group(map(machine, names(5)), 6)
    assert assessed(group, map(node, names(5)), before, later(16)).expired == 1


@pytest.mark.rule("capi-2d-state-expired")
def test_a_larger_size_restarts_the_time_of_the_nodes() -> None:
    before = assessed(a_group(map(machine, names(3)), 5), map(node, names(3))).state
    grown = assessed(a_group(map(machine, names(3)), 6), map(node, names(3)), before, later(14))
    assert assessed(grown.group, map(node, names(3)), grown.state, later(20)).expired == 0


@pytest.mark.rule("capi-2d-state-scale-down")
def test_a_node_that_is_being_deleted_is_neither_missing_nor_upcoming() -> None:
    group = evolve(a_group(map(machine, names(5)), 4), removing=("n4",))
    found = assessed(group, map(node, names(5)))
    assert (found.readiness.ready, found.upcoming, found.healthy) == (4, 0, True)


@pytest.mark.rule("capi-2d-state-upcoming")
def test_upcoming_nodes_are_counted_per_group() -> None:
    one = assessed(a_group(map(machine, names(1)), 3), [node("n0")])
    other = assessed(a_group([machine("n0"), machine("n1", "pending")], 2), [node("n0", ready=False)])
    assert (one.upcoming, other.upcoming) == (2, 1)


@pytest.mark.rule("capi-2d-state-size")
def test_a_group_with_more_nodes_than_its_size_expects_none() -> None:
    found = assessed(a_group(map(machine, names(5)), 3), map(node, names(5)))
    assert (found.upcoming, found.state.growing_since) == (0, None)


@pytest.mark.rule("capi-2d-state-unregistered")
def test_a_machine_without_a_node_is_upcoming_until_its_time_is_over() -> None:
    fresh = machine("n1", created=NOW - datetime.timedelta(minutes=5))
    group = a_group([machine("n0"), fresh], 2)
    assert assessed(group, [node("n0")]).upcoming == 1
    late = assessed(group, [node("n0")], now=later(30))
    assert (late.readiness.unregistered, late.upcoming) == (("n1",), 0)
    assert late.state.backoff is not None


@pytest.mark.rule("capi-2d-state-deleted")
def test_a_node_whose_machine_is_gone_does_not_belong_to_the_group() -> None:
    found = assessed(a_group([machine("n0")], 1), [node("n0"), node("n1")])
    assert [one.name for one in found.readiness.nodes] == ["n0"]


@pytest.mark.rule("capi-2d-state-backoff")
def test_after_five_minutes_a_group_may_grow_again_and_a_second_back_off_is_longer() -> None:
    group = a_group(map(machine, names(3)), 5)
    first = assessed(group, map(node, names(3)))
    failed = assessed(group, map(node, names(3)), first.state, later(16))
    assert not failed.state.backoff.holds(later(16) + datetime.timedelta(minutes=5, seconds=1))
    assert assessed(group, map(node, names(3)), failed.state, later(40)).state.backoff.seconds == 600


@pytest.mark.rule("capi-2d-state-backoff")
def test_a_success_does_not_reset_the_back_off() -> None:
    group = a_group(map(machine, names(3)), 5)
    failed = assessed(group, map(node, names(3)), assessed(group, map(node, names(3))).state, later(16))
    well = assessed(a_group(map(machine, names(5)), 5), map(node, names(5)), failed.state, later(30))
    assert well.state.growing_since is None
    again = assessed(a_group(map(machine, names(5)), 7), map(node, names(5)), well.state, later(40))
    failing = assessed(a_group(map(machine, names(5)), 7), map(node, names(5)), again.state, later(60))
    assert failing.state.backoff_seconds == 600


@pytest.mark.rule("capi-2d-state-suspended")
def test_long_unready_nodes_are_not_mistaken_for_upcoming_ones() -> None:
    nodes = [node("n0"), node("n1", ready=False)]
    found = assessed(a_group(map(machine, names(2)), 2), nodes)
    assert (found.readiness.unready, found.upcoming, found.healthy) == (1, 0, True)


# The assessment as a whole.


def ago(seconds: float) -> datetime.datetime:
    return NOW - datetime.timedelta(seconds=seconds)


@pytest.mark.rule("capi-2d-state-unready", "capi-2d-state-unregistered", "capi-2d-state-scale-down")
def test_each_instance_is_ready_unready_starting_late_failed_or_ignored() -> None:
    machines = [
        machine("ready"),
        machine("unready"),
        machine("unready-too"),
        machine("starting"),
        machine("starting-too"),
        machine("late", created=ago(901)),
        machine("in-time", created=ago(900)),
        machine("failed", "failed"),
        machine("deleting", "deleting"),
        machine("counted"),
        machine("counted-failed", "failed"),
        machine("pending", "pending"),
    ]
    nodes = [
        node("starting", ready=False, created=ago(899)),
        node("unready", ready=False, created=ago(900)),
        node("unready-too", ready=False),
        node("starting-too", ready=False, created=NOW),
        *map(node, ("ready", "deleting", "counted", "failed", "of-another")),
    ]
    group = evolve(a_group(machines, 12), removing=("counted", "counted-failed"))
    found = readiness_of(group, {one.provider: one for one in nodes}, NOW)
    there = (nodes[4], nodes[1], nodes[2], nodes[0], nodes[3])
    assert found == Readiness(1, 2, 2, ("late",), 1, there)
    assert (found.upcoming(10), found.upcoming(5), found.upcoming(4)) == (5, 0, 0)


@pytest.mark.rule("capi-2d-state-upcoming")
def test_an_instance_of_a_machine_pool_is_never_late_before_it_has_a_node() -> None:
    ids = ("x:/n0", "x:/n1", "x:/n2")
    pool = evolve(a_group([], 3), kind="MachinePool", provider_ids=ids, removing=("x:/n2",))
    there = {one.provider: one for one in (node("n0"), node("n2"))}
    assert readiness_of(pool, there, NOW) == Readiness(1, nodes=(there["x:/n0"],))


@pytest.mark.rule("capi-2d-state-missing")
@pytest.mark.parametrize(
    ("readiness", "size", "upcoming", "healthy"),
    [
        (Readiness(), 3, 0, True),
        (Readiness(), 4, 0, False),
        (Readiness(), 4, 1, True),
        (Readiness(11), 20, 0, True),
        (Readiness(10), 20, 0, False),
        (Readiness(5, unready=3), 9, 0, True),
        (Readiness(5, unready=3, not_started=1, unregistered=("a",)), 9, 0, True),
        (Readiness(5), 10, 0, False),
        (Readiness(5, unready=7), 10, 0, True),
        (Readiness(5, unready=6), 10, 0, False),
        (Readiness(5, unready=5, not_started=2), 10, 0, True),
        (Readiness(5, unready=5, not_started=1), 10, 0, False),
        (Readiness(5, unready=5, unregistered=("a", "b")), 10, 0, True),
        (Readiness(5, unready=5, unregistered=("a",)), 10, 0, False),
    ],
)
def test_missing_nodes_are_tolerated_up_to_three_or_45_percent_of_the_size_or_the_present_number(
    readiness: Readiness, size: int, upcoming: int, healthy: bool
) -> None:
    assert is_healthy(readiness, size, upcoming) is healthy


@pytest.mark.rule("capi-2d-state-unready")
@pytest.mark.parametrize(
    ("unready", "count", "healthy"), [(3, 3, True), (4, 4, False), (9, 20, True), (10, 20, False)]
)
def test_a_cluster_is_sized_with_up_to_45_percent_of_unready_nodes(
    unready: int, count: int, healthy: bool
) -> None:
    nodes = [node(name, number >= unready, ago(900)) for number, name in enumerate(names(count))]
    assert is_cluster_healthy(nodes, 900.0, NOW) is healthy
    assert is_cluster_healthy(nodes, 900.5, NOW)


@pytest.mark.rule("capi-2d-state-ok")
def test_a_group_seen_for_the_first_time_is_recorded_in_full() -> None:
    group = a_group([machine("n0"), machine("n1", "pending")], 2, smallest=1)
    assert assessed(group, [node("n0")]) == GroupAssessment(
        group,
        Readiness(1, nodes=(node("n0"),)),
        GroupState("MachineDeployment/stage/g", 2, 1, 10, ready=1, upcoming=1, growing_since=NOW),
    )


@pytest.mark.rule("capi-2d-state-failures", "capi-2d-state-unregistered")
def test_each_failure_of_a_machine_is_reported_once_and_the_first_is_the_reason() -> None:
    group = a_group([machine("n0"), machine("n1", "failed"), machine("n2")], 3)
    found = assessed(group, [node("n0")])
    assert found == GroupAssessment(
        group,
        Readiness(1, unregistered=("n2",), failed=1, nodes=(node("n0"),)),
        GroupState(
            "MachineDeployment/stage/g",
            3,
            0,
            10,
            ready=1,
            backoff_until=NOW + datetime.timedelta(seconds=300),
            backoff_seconds=300,
            backoff_failed=NOW,
            backoff_reason="machine n1 failed",
            failed=("n1", "n2"),
        ),
        news=("machine n1 failed", "machine n2 has no node in time"),
    )
    again = assessed(group, [node("n0")], found.state, later(1))
    assert (again.state, again.news) == (found.state, ())


@pytest.mark.rule("capi-2d-state-expired")
def test_nodes_have_their_time_to_the_second_and_their_absence_is_the_main_reason() -> None:
    group = a_group([machine("n0"), machine("n1", "failed")], 4)
    before = GroupState("MachineDeployment/stage/g", 4, growing_since=ago(900), failed=("gone",))
    in_time = assessed(group, [node("n0")], before)
    assert (in_time.expired, in_time.state.growing_since) == (0, ago(900))
    late = assessed(group, [node("n0")], evolve(before, growing_since=ago(901)))
    assert late.news == ("machine n1 failed", NOT_IN_TIME)
    assert (late.expired, late.upcoming) == (2, 0)
    assert late.state.growing_since == NOW
    assert late.state.backoff_reason == NOT_IN_TIME
    assert late.state.upcoming == 2


@pytest.mark.rule("capi-2d-state-expired")
def test_a_smaller_size_does_not_restart_the_time_of_nodes_unless_nothing_is_missing() -> None:
    group = a_group([machine("n0")], 3)
    before = GroupState("MachineDeployment/stage/g", 4, growing_since=ago(60))
    assert assessed(group, [node("n0")], before).state.growing_since == ago(60)
    assert assessed(group, [node("n0")], evolve(before, size=3)).state.growing_since == ago(60)
    assert assessed(group, [node("n0")], evolve(before, size=2)).state.growing_since == NOW
    assert assessed(group, map(node, ("n0",)), evolve(before, growing_since=None)).state.growing_since == NOW
    assert assessed(evolve(group, size=1), [node("n0")], before).state.growing_since is None


@pytest.mark.rule("capi-2d-state-backoff")
def test_a_back_off_is_remembered_and_doubled_by_its_terms() -> None:
    once = GroupState("g").with_failure(NOW, "quota", TERMS)
    until = NOW + datetime.timedelta(seconds=300)
    assert once == GroupState(
        "g", backoff_until=until, backoff_seconds=300, backoff_failed=NOW, backoff_reason="quota"
    )
    assert once.backoff == PoolBackoff(until, 300.0, NOW, "quota")
    twice = once.with_failure(later(6), "again", TERMS)
    assert twice.backoff == PoolBackoff(later(16), 600.0, later(6), "again")
    assert once.with_failure(later(6), "again", BackoffTerms(longest=400.0)).backoff_seconds == 400
    assert GroupState("g").backoff is None
