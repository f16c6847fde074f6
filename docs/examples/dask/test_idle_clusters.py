"""Idle clusters: they go after their time, by the word of their scheduler and of nothing else."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from attrs import evolve
from dask_world import DEFINITIONS, RUNS, SIMPLE, FakeSchedulers, a_cluster, ran, run_both
from daskclusters import IDLE_POLL, DaskCluster, IdleTimes, dask_clusters, worker_groups

from reconcile import Controller
from reconcile.kinds import Deployment, Service
from reconcile.simulation import Delays
from reconcile.testing import (
    Apply,
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

TIMEOUT = 120
LATE = TIMEOUT + 2 * IDLE_POLL
BRIEF = SIMPLE.replace(spec=evolve(SIMPLE.spec, idle_timeout=TIMEOUT))
READY = {"status": {"replicas": 1, "readyReplicas": 1}}

pytestmark = pytest.mark.simulated(limit_seconds=7200)


@asynccontextmanager
async def running(
    cluster: VirtualCluster, manager: ManagerRunner, schedulers: FakeSchedulers, of: DaskCluster = BRIEF
) -> AsyncGenerator[FakeClient, None]:
    client = cluster.client
    if await client.find(Deployment, "simple-scheduler", "default") is None:
        for definition in DEFINITIONS:
            client.add(definition)
        client.add(of)
        await run_both(client, schedulers)
        scheduler = await client.get(Deployment, "simple-scheduler", "default")
        await client.raw.merge(scheduler, READY, subresource="status")
    async with manager(dask_clusters(schedulers)):
        yield client


async def is_there(client: FakeClient) -> bool:
    return await client.find(DaskCluster, "simple", "default") is not None


async def test_a_cluster_goes_when_its_scheduler_was_idle_for_its_time(
    cluster: VirtualCluster, manager: ManagerRunner
) -> None:
    async with running(cluster, manager, FakeSchedulers(idle=17.0)) as client:
        await anyio.sleep(TIMEOUT - 1)
        assert await is_there(client)
        await anyio.sleep(2 * IDLE_POLL)
        assert not await is_there(client)
        assert await client.list(Deployment) == []
        assert await client.list(Service) == []


async def test_its_declared_rights_let_it_delete_an_idle_cluster() -> None:
    client, controller = a_cluster(BRIEF), dask_clusters(FakeSchedulers(idle=17.0))
    await run_both(client)
    scheduler = await client.get(Deployment, "simple-scheduler", "default")
    await client.raw.merge(scheduler, READY, subresource="status")
    assert await ran(controller, BRIEF, client) == []
    await anyio.sleep(TIMEOUT)
    assert await ran(controller, BRIEF, client) == ["delete daskclusters default/simple"]


async def test_work_in_between_begins_the_time_anew(cluster: VirtualCluster, manager: ManagerRunner) -> None:
    schedulers = FakeSchedulers(idle=17.0)
    async with running(cluster, manager, schedulers) as client:
        for since in (400.0, None, 500.0):
            await anyio.sleep(TIMEOUT - IDLE_POLL)
            schedulers.idle = since
        await anyio.sleep(TIMEOUT - IDLE_POLL)
        assert await is_there(client)
        await anyio.sleep(3 * IDLE_POLL)
        assert not await is_there(client)


@pytest.mark.parametrize("schedulers", [FakeSchedulers(fails=True), FakeSchedulers(idle=float("nan"))])
async def test_a_cluster_stays_whose_scheduler_does_not_say_since_when_it_is_idle(
    cluster: VirtualCluster, manager: ManagerRunner, schedulers: FakeSchedulers
) -> None:
    async with running(cluster, manager, schedulers) as client:
        await anyio.sleep(3600)
        assert schedulers.urls
        assert await is_there(client)


async def test_a_scheduler_is_not_asked_without_a_time_or_before_it_is_ready(
    cluster: VirtualCluster, manager: ManagerRunner
) -> None:
    schedulers = FakeSchedulers(idle=17.0)
    async with running(cluster, manager, schedulers, SIMPLE) as client:
        await anyio.sleep(5 * TIMEOUT)
        scheduler = await client.get(Deployment, "simple-scheduler", "default")
        await client.raw.merge(scheduler, {"status": {"readyReplicas": None}}, subresource="status")
        await anyio.sleep(5)
        await client.modify(DaskCluster, "simple", "default", lambda found: found.replace(spec=BRIEF.spec))
        await anyio.sleep(5 * TIMEOUT)
        assert await is_there(client)
        assert schedulers.urls == set()


async def test_a_start_of_the_operator_makes_it_wait_longer_and_never_shorter(
    cluster: VirtualCluster, manager: ManagerRunner
) -> None:
    schedulers = FakeSchedulers(idle=17.0)
    for _ in range(3):
        async with running(cluster, manager, schedulers) as client:
            await anyio.sleep(TIMEOUT - IDLE_POLL)
            assert await is_there(client)


async def test_a_scheduler_that_does_not_serve_the_api_is_an_event_of_its_cluster() -> None:
    client = a_cluster(BRIEF)
    await run_both(client)
    scheduler = await client.get(Deployment, "simple-scheduler", "default")
    await client.raw.merge(scheduler, READY, subresource="status")
    done = await run_once(dask_clusters(FakeSchedulers(fails=True)), BRIEF, client)
    where = "http://simple-scheduler.default.svc:9787"
    assert done.events == [f"Warning IdleUnknown: the cluster stays: 404 from {where}"]


def test_what_was_seen_of_a_cluster_counts_only_as_long_as_the_scheduler_says_the_same() -> None:
    idle = IdleTimes()
    seen = [idle.seconds("a", since, time) for since, time in [(1.0, 10), (1.0, 15), (2.0, 20), (2.0, 22)]]
    assert seen == [0, 5, 0, 2]
    assert (idle.seconds("a", None, 30), idle.seconds("a", 2.0, 40)) == (0, 0)


def both(schedulers: FakeSchedulers) -> list[Controller[Any]]:
    return [dask_clusters(schedulers), worker_groups(schedulers)]


async def idle(world: World) -> None:
    world.outside.idle = world.clock.now().timestamp()


def test_an_idle_cluster_survives_every_fault() -> None:
    steps: list[Any] = [
        Apply(BRIEF),
        Wait(LATE),
        Edit(BRIEF, {"spec": {"worker": {"replicas": 1}}}),
        idle,
        Wait(LATE),
    ]

    def it_goes_when_it_is_idle(world: World) -> None:
        assert bool(world.objects(DaskCluster)) == (world.outside.idle is None)

    scenario = Scenario(
        controllers=both,
        outside=FakeSchedulers,
        definitions=DEFINITIONS,
        steps=steps,
        nodes=Delays(),
        workloads=True,
        invariants=[it_goes_when_it_is_idle],
        without=["creates", "deletes"],  # by name, and those of workers are random
        quiet_seconds=2 * LATE,
        limit_seconds=4 * LATE,
    )
    print(sweep(scenario, most=RUNS))
