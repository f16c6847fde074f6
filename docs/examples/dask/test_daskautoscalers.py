"""Autoscalers: the manifest of users, when workers may go, schedulers that do not answer, and every fault."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
import yaml
from attrs import define, field
from dask_world import (
    DEFINITIONS,
    HANDLED,
    KOPF,
    MANIFESTS,
    RUNS,
    SIMPLE,
    FakeSchedulers,
    a_cluster,
    ran,
    run_both,
)
from daskautoscalers import DOWN_AFTER, POLL, DaskAutoscaler, DaskAutoscalerSpec, Demands, dask_autoscalers
from daskclusters import DaskCluster, DaskWorkerGroup, dask_clusters, worker_groups
from hypothesis import given, settings
from hypothesis import strategies as st
from schedulers import SchedulerFailed

from reconcile import Controller, ObjectMeta
from reconcile.errors import TerminalError
from reconcile.kinds import Deployment
from reconcile.owners import is_owned
from reconcile.simulation import Delays
from reconcile.testing import (
    Apply,
    Delete,
    Edit,
    FakeClient,
    ManagerRunner,
    Scenario,
    VirtualCluster,
    Wait,
    World,
    run_once,
    sweep,
)

SPEC = DaskAutoscalerSpec("simple", 1, 10)
AUTO = DaskAutoscaler(metadata=ObjectMeta("auto", "default"), spec=SPEC)
READY = {"status": {"replicas": 1, "readyReplicas": 1}}


async def with_ready_schedulers(client: FakeClient) -> FakeClient:
    await run_both(client)
    for one in await client.list(Deployment):
        if one.name.endswith("-scheduler"):
            await client.raw.merge(one, READY, subresource="status")
    return client


async def number_of(client: Any, group: str = "simple-default") -> int:
    found: DaskWorkerGroup = await client.get(DaskWorkerGroup, group, "default")
    return found.spec.worker.replicas


# --- the number -------------------------------------------------------------------------------------


async def test_the_manifest_of_users_scales_the_default_group_within_its_bounds() -> None:
    client = await with_ready_schedulers(a_cluster(SIMPLE))
    manifests = yaml.safe_load_all((MANIFESTS / "objects.yaml").read_text())
    manifest = next(one for one in manifests if one["kind"] == "DaskAutoscaler")
    client.add({**manifest, "metadata": {**manifest["metadata"], "namespace": "default"}})
    for desired, after in ((3, 3), (50, 10)):
        (auto,) = await client.list(DaskAutoscaler)
        schedulers = FakeSchedulers(desired=desired)
        writes = await ran(dask_autoscalers(schedulers), auto, client)
        assert writes[-1] == "patch daskworkergroups/scale default/simple-default"
        assert await number_of(client) == after
        assert schedulers.urls == {"http://simple-scheduler.default.svc:9787"}
    await run_both(client)
    assert await number_of(client) == 10  # the cluster does not undo it
    assert is_owned(*[*await client.list(DaskAutoscaler), *await client.list(DaskCluster)])


async def test_bounds_that_exclude_each_other_are_an_error_and_touch_nothing() -> None:
    client = await with_ready_schedulers(a_cluster(SIMPLE))
    client.add(AUTO.replace(spec=DaskAutoscalerSpec("simple", 5, 3)))
    done = await run_once(dask_autoscalers(FakeSchedulers(desired=4)), AUTO, client)
    assert isinstance(done.error, TerminalError)
    assert done.writes == []


async def test_a_scheduler_that_fails_changes_no_number() -> None:
    client = await with_ready_schedulers(a_cluster(SIMPLE, AUTO))
    done = await run_once(dask_autoscalers(FakeSchedulers(fails=True)), AUTO, client)
    assert isinstance(done.error, SchedulerFailed)
    assert done.retry
    assert await number_of(client) == 2


async def test_a_scheduler_that_is_not_ready_is_not_asked() -> None:
    client, schedulers = a_cluster(SIMPLE, AUTO), FakeSchedulers(desired=9)
    await run_both(client)
    await ran(dask_autoscalers(schedulers), AUTO, client)
    assert schedulers.urls == set()
    assert await number_of(client) == 2


@settings(max_examples=60)
@given(st.lists(st.tuples(st.floats(0, 2 * DOWN_AFTER), st.integers(0, 9)), min_size=1), st.integers(0, 9))
def test_no_demand_of_the_window_is_missed_and_a_lower_one_counts_only_after_it(
    steps: list[tuple[float, int]], current: int
) -> None:
    demands, time, asked = Demands(), 0.0, list[tuple[float, int]]()
    for seconds, demand in steps:
        time += seconds
        if not any(time - when < DOWN_AFTER for when, _ in asked):
            asked.append((time, current))  # nothing is known, so the present number counts
        asked.append((time, demand))
        current = demands.highest("uid", time, current, demand)
        assert current == max(number for when, number in asked if time - when < DOWN_AFTER)


# --- in virtual time --------------------------------------------------------------------------------


@define
class UnequalSchedulers(FakeSchedulers):
    """Some refuse the connection, some do not answer at all."""

    refusing: Sequence[str] = ()
    hanging: Sequence[str] = ()
    asked: list[str] = field(factory=list)

    async def desired_workers(self, url: str) -> int:
        self.asked.append(url)
        if any(name in url for name in self.hanging):
            await anyio.sleep(5)
        elif not any(name in url for name in self.refusing):
            return self.desired
        raise SchedulerFailed(f"no answer from {url}")


@asynccontextmanager
async def running(
    cluster: VirtualCluster, manager: ManagerRunner, schedulers: FakeSchedulers, *names: str
) -> AsyncGenerator[None, None]:
    for definition in DEFINITIONS:
        cluster.client.add(definition)
    for name in names:
        named = SIMPLE.with_metadata(name=name)
        cluster.client.add(named)
        auto = AUTO.with_metadata(name=name).replace(spec=DaskAutoscalerSpec(name, 0, 10))
        cluster.client.add(auto)
    await with_ready_schedulers(cluster.client)
    async with manager(dask_clusters(schedulers), worker_groups(schedulers), dask_autoscalers(schedulers)):
        yield


@pytest.mark.simulated(limit_seconds=3600)
async def test_workers_go_only_when_no_more_were_asked_for_for_some_time(
    cluster: VirtualCluster, manager: ManagerRunner
) -> None:
    schedulers = FakeSchedulers(desired=6)
    async with running(cluster, manager, schedulers, "simple"):
        await anyio.sleep(2 * POLL)
        assert await number_of(cluster.client) == 6
        schedulers.desired = 0
        await anyio.sleep(DOWN_AFTER - 2 * POLL)
        assert await number_of(cluster.client) == 6
        schedulers.desired = 4  # a short lull
        await anyio.sleep(2 * POLL)
        schedulers.desired = 0
        await anyio.sleep(DOWN_AFTER - 2 * POLL)
        assert await number_of(cluster.client) == 4
        await anyio.sleep(4 * POLL)
        assert await number_of(cluster.client) == 0
    client = cluster.client
    await client.scale(await client.get(DaskWorkerGroup, "simple-default", "default"), lambda _: 5)
    async with manager(dask_autoscalers(schedulers)):
        await anyio.sleep(DOWN_AFTER - POLL)
        assert await number_of(client) == 5  # a new process does not know what was asked for before
        await anyio.sleep(4 * POLL)
        assert await number_of(client) == 0


@pytest.mark.simulated(limit_seconds=3600)
async def test_schedulers_that_do_not_answer_keep_their_workers_and_delay_no_other(
    cluster: VirtualCluster, manager: ManagerRunner
) -> None:
    refusing = [f"refusing-{number}" for number in range(20)]
    hanging = [f"hanging-{number}" for number in range(20)]
    schedulers = UnequalSchedulers(desired=6, refusing=refusing, hanging=hanging)
    async with running(cluster, manager, schedulers, *refusing, *hanging, "simple"):
        for desired in (6, 8):
            schedulers.desired = desired
            await anyio.sleep(3 * POLL)
            assert await number_of(cluster.client) == desired
        await anyio.sleep(600)
        for name in (*refusing, *hanging):
            assert await number_of(cluster.client, f"{name}-default") == 2
        schedulers.asked.clear()
        await anyio.sleep(600)
        others = [url for url in schedulers.asked if "simple" not in url]
        assert len(others) <= 5 * len([*refusing, *hanging])  # by back-off


# --- the switch from kopf, and every fault ----------------------------------------------------------


async def test_an_autoscaler_of_the_original_is_taken_over() -> None:
    marks = {"finalizers": (f"{KOPF}KopfFinalizerMarker",), "annotations": {HANDLED: "{}"}}
    client = await with_ready_schedulers(a_cluster(SIMPLE, AUTO.with_metadata(**marks)))
    await ran(dask_autoscalers(FakeSchedulers(desired=3)), AUTO, client)
    metadata = (await client.get(DaskAutoscaler, "auto", "default")).metadata
    assert (metadata.finalizers, dict(metadata.annotations)) == ((), {})
    assert await number_of(client) == 3


async def test_an_autoscaler_goes_with_its_cluster_and_workers_stay_when_it_is_deleted() -> None:
    client = await with_ready_schedulers(a_cluster(SIMPLE, AUTO))
    await ran(dask_autoscalers(FakeSchedulers(desired=7)), AUTO, client)
    await client.delete(await client.get(DaskAutoscaler, "auto", "default"))
    await run_both(client)
    assert await number_of(client) == 7
    client.add(AUTO)
    await ran(dask_autoscalers(FakeSchedulers(desired=7)), AUTO, client)
    await client.delete(await client.get(DaskCluster, "simple", "default"))
    assert await client.list(DaskAutoscaler) == []


def all_three(schedulers: FakeSchedulers) -> list[Controller[Any]]:
    return [dask_clusters(schedulers), worker_groups(schedulers), dask_autoscalers(schedulers)]


def desired(number: int) -> Any:
    async def ask(world: World) -> None:
        world.outside.desired = number

    return ask


def each_group_has_the_desired_number(world: World) -> None:
    if world.objects(DaskAutoscaler):
        assert [one.spec.worker.replicas for one in world.objects(DaskWorkerGroup)] == [world.outside.desired]


def test_autoscaling_survives_every_fault() -> None:
    steps = (
        [Apply(SIMPLE), Apply(AUTO), desired(3), Wait(DOWN_AFTER)],
        [desired(2), Wait(2 * DOWN_AFTER), Edit(SIMPLE, {"spec": {"worker": {"replicas": 1}}})],
        [Delete(AUTO), Delete(SIMPLE)],
    )
    scenario = Scenario(
        controllers=all_three,
        outside=lambda: FakeSchedulers(desired=1),
        definitions=DEFINITIONS,
        steps=[step for part in steps for step in part],
        nodes=Delays(),
        workloads=True,
        invariants=[each_group_has_the_desired_number],
        without=["creates", "deletes"],  # by name, and those of workers are random
        quiet_seconds=4 * DOWN_AFTER,  # a process that ends before it lowers the number begins to wait anew
    )
    print(sweep(scenario, most=RUNS))
