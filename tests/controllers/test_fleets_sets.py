"""Replica sets of RayClusters: which clusters are made, which go, whose they are."""

import datetime
from typing import Any

import pytest
from attrs import evolve

from controllers.fleets.replica_set_plan import FleetCluster, plan_set
from controllers.workergroups import RayCluster
from reconcile import ObjectMeta
from reconcile.models import unstructured_kind
from reconcile.replicas import DELETION_COST_ANNOTATION
from reconcile.testing import Fault, Refuse, When
from tests.controllers.fleets import Fleets, fleet, fleets

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
WholeCluster = unstructured_kind("ray.io/v1", "RayCluster")


def a(
    name: str, *, ready: bool = True, cost: int = 0, age: int = 100, since: int | None = None
) -> FleetCluster:
    created = START - datetime.timedelta(seconds=age)
    seconds = age if since is None else since
    ready_since = START - datetime.timedelta(seconds=seconds) if ready else None
    return FleetCluster(
        name, created, {}, WholeCluster(metadata=ObjectMeta(name)), ready_since, deletion_cost=cost
    )


def gone(replicas: int, *clusters: FleetCluster, min_ready: int = 0) -> list[str]:
    return [one.name for one in plan_set(replicas, clusters, START, min_ready).delete]


@pytest.mark.rule("aibrix-3d-victims")
def test_unready_clusters_are_deleted_first_and_then_cheaper_ones() -> None:
    clusters = a("keep", cost=100), a("cheap", cost=-10), a("broken", ready=False, cost=1000)
    assert gone(1, *clusters) == ["broken", "cheap"]


@pytest.mark.rule("aibrix-3d-name-tie")
def test_the_older_cluster_is_deleted_first_and_then_the_first_by_name() -> None:
    assert gone(1, a("raycluster-b"), a("raycluster-a")) == ["raycluster-a"]
    assert gone(1, a("raycluster-a"), a("raycluster-b", age=200)) == ["raycluster-b"]


@pytest.mark.rule("aibrix-fleet-bounds")
def test_clusters_that_are_not_yet_available_are_deleted_before_available_ones() -> None:
    assert gone(1, a("old", cost=-5), a("fresh", since=3), min_ready=10) == ["fresh"]
    assert gone(1, a("old", cost=-5), a("fresh", since=3)) == ["old"]


@pytest.mark.rule("aibrix-3e-doubled")
def test_a_cluster_that_was_provisioned_counts_even_if_it_is_not_ready() -> None:
    plan = plan_set(2, [a("one"), a("two", ready=False)], START)
    assert (plan.create, plan.delete) == (0, ())


def test_terminating_clusters_neither_count_nor_are_deleted_again() -> None:
    plan = plan_set(1, [evolve(a("one"), terminating=True)], START)
    assert (plan.create, plan.delete, plan.active) == (1, (), ())


async def played(replicas: int = 2, **spec: Any) -> Fleets:
    world = await fleets(fleet(replicas, **spec))
    await world.roll()
    await world.fill()
    return world


async def status_of(world: Fleets) -> tuple[int, ...]:
    status = (await world.sets())[-1].status
    return (
        status.replicas, status.fully_labeled_replicas, status.ready_replicas, status.available_replicas
    )  # fmt: skip


async def resize(world: Fleets, replicas: int) -> None:
    await world.client.raw.merge((await world.sets())[-1], {"spec": {"replicas": replicas}}, guard={})


@pytest.mark.rule("aibrix-3d-integration")
async def test_scaling_two_to_three_and_then_to_one_keeps_the_expensive_ready_cluster() -> None:
    world = await played(2)
    await world.serve()
    await world.fill()
    assert await status_of(world) == (2, 2, 2, 2)
    await resize(world, 3)
    await world.fill()
    assert await status_of(world) == (3, 3, 2, 2)
    clusters = await world.clusters()
    dear = next(one for one in clusters if one.status.conditions)
    said = {"metadata": {"annotations": {DELETION_COST_ANNOTATION: "100"}}}
    await world.client.raw.merge(dear, said, guard={})
    await resize(world, 1)
    await world.fill()
    assert [one.name for one in await world.clusters()] == [dear.name]
    assert await status_of(world) == (1, 1, 1, 1)


async def test_a_cluster_is_available_after_it_has_been_ready_for_the_minimum_time() -> None:
    world = await played(1, min_ready_seconds=30)
    await world.serve()
    [run] = await world.fill()
    assert run.result.requeue_after == pytest.approx(30, abs=0.2)
    assert await status_of(world) == (1, 1, 1, 0)
    world.clock.advance(31)
    await world.fill()
    assert await status_of(world) == (1, 1, 1, 1)


@pytest.mark.rule("aibrix-fleet-adoption")
async def test_a_matching_orphan_is_adopted_and_one_that_no_longer_matches_is_released() -> None:
    world = await played(2)
    first, second = await world.clusters()
    owner = (await world.sets())[-1]
    await world.client.raw.merge(first, {"metadata": {"ownerReferences": None}}, guard={})
    await world.client.raw.merge(second, {"metadata": {"labels": {"pod-template-hash": "other"}}}, guard={})
    await world.fill()
    by_name = {one.name: one for one in await world.clusters()}
    owners = {name: [r.uid for r in one.metadata.owner_references] for name, one in by_name.items()}
    assert owners.pop(second.name) == []
    assert owners.pop(first.name) == [owner.uid]
    assert list(owners.values()) == [[owner.uid]]


@pytest.mark.rule("aibrix-3e-owner")
async def test_a_foreign_cluster_that_matches_the_selector_does_not_count() -> None:
    world = await played(1)
    [mine] = await world.clusters()
    foreign = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "0", "controller": True}
    metadata = ObjectMeta("foreign", "default", labels=dict(mine.metadata.labels))
    made = await world.client.create(RayCluster(metadata=metadata, spec=mine.spec))
    await world.client.raw.merge(made, {"metadata": {"ownerReferences": [foreign]}}, guard={})
    assert [one.writes for one in await world.fill()] == [[]]


async def test_a_set_that_is_being_deleted_adopts_nothing() -> None:
    world = await played(1)
    [cluster], [owner] = await world.clusters(), await world.sets()
    await world.client.raw.merge(cluster, {"metadata": {"ownerReferences": None}}, guard={})
    held = {"metadata": {"finalizers": ["example.com/held"]}}
    await world.client.raw.merge(owner, held, guard={})
    await world.client.delete(owner)
    await world.fill()
    assert (await world.clusters())[0].metadata.owner_references == ()


@pytest.mark.rule("aibrix-3e-failed")
async def test_a_failed_create_is_reported_and_retried() -> None:
    world = await played(1)
    quota = Refuse(403, "Forbidden", "exceeded quota: gpus")
    world.client.transport.add(Fault(When("create", "*/rayclusters"), quota))
    await resize(world, 2)
    [failed] = await world.fill()
    assert failed.retry
    assert failed.conditions["ReplicaFailure"]["reason"] == "FailedCreate"
    assert "exceeded quota" in failed.conditions["ReplicaFailure"]["message"]
    assert [event.split(":")[0] for event in failed.events] == ["Warning FailedCreate"]
    [again] = await world.fill()
    assert "ReplicaFailure" not in again.conditions
    assert (await status_of(world))[0] == 2


@pytest.mark.rule("aibrix-bad-input")
@pytest.mark.parametrize(
    ("patch", "field"),
    [
        ({"replicas": -1}, "spec.replicas"),
        ({"minReadySeconds": -1}, "spec.minReadySeconds"),
        ({"selector": {"matchLabels": None}}, "spec.selector"),
        ({"template": {"metadata": {"labels": {"pod-template-hash": "x"}}}}, "spec.template.metadata.labels"),
    ],
)
async def test_an_invalid_set_is_reported_by_field_and_changes_nothing(
    patch: dict[str, Any], field: str
) -> None:
    world = await played(1)
    await world.client.raw.merge((await world.sets())[-1], {"spec": patch}, guard={})
    [run] = await world.fill()
    assert run.conditions["ReplicaFailure"]["message"].startswith(field)
    assert [event.split(":")[0] for event in run.events] == ["Warning InvalidSpec"]
    assert len(await world.clusters()) == 1
    [again] = await world.fill()
    assert (again.writes, again.events) == ([], [])


async def test_cluster_names_leave_room_for_the_names_of_their_pods() -> None:
    world = await fleets(fleet(1, name="f" * 60))
    await world.roll("f" * 60)
    await world.fill()
    [cluster] = await world.clusters()
    assert len(cluster.name) <= 50


@pytest.mark.rule("aibrix-bad-input")
async def test_a_template_that_the_server_refuses_is_reported_with_the_field() -> None:
    world = await played(1)
    made = (await world.sets())[-1]
    group = {"groupName": "small", "replicas": "many", "rayStartParams": {}, "template": {"spec": {}}}
    patch = {"replicas": 2, "template": {"spec": {"workerGroupSpecs": [group]}}}
    await world.client.raw.merge(made, {"spec": patch}, guard={})
    [run] = await world.fill()
    assert kinds(run.events) == ["Warning FailedCreate"]
    assert "spec.workerGroupSpecs[0].replicas" in run.conditions["ReplicaFailure"]["message"]
    assert (await world.fill())[0].events == []


def kinds(events: Any) -> list[str]:
    return [event.split(":")[0] for event in events]
