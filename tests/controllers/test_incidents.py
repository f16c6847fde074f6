"""The two incidents, in virtual time and over many seeds: ours holds in each, the control fails."""

import re

import anyio
import pytest
from attrs import evolve

from controllers.registrysecrets import definition as pipelines
from controllers.registrysecrets.demo import incident as copying
from controllers.workergroups import RayCluster, make_controller
from controllers.workergroups import definition as clusters
from controllers.workergroups.demo import incident as scaling
from reconcile.kinds import Namespace, Pod
from reconcile.simulation import (
    BEHAVIOUR,
    STOP_SECONDS,
    Delays,
    IncidentVerdict,
    Logic,
    bundled_incidents,
    observe,
)
from reconcile.testing import simulate
from tests.controllers.ray_world import all_ready, cluster, counts, scaled, workers
from tests.controllers.world import NAMESPACE, world
from tests.helpers.scenarios import simulated

SCENARIO = scaling.ScaleDownScenario(stop_seconds=2.0, flood=8.0, flood_heard=4.0, seconds=4.0)
QUICK = Delays(start=0.2, stop=0.2)


def scale_down(
    seed: int,
    logic: Logic,
    scenario: scaling.ScaleDownScenario = SCENARIO,
    restart: scaling.ScaleDownScenario | None = None,
) -> IncidentVerdict:
    async def run() -> IncidentVerdict:
        async with world(seed, clusters(), delays=QUICK) as here:
            return await scaling.play(here.stage, logic, scenario, restart)

    return simulate(run, seed=seed)


@pytest.mark.parametrize("seed", range(20))
def test_scaling_down_by_one_deletes_one_worker_and_creates_none(seed: int) -> None:
    verdict = scale_down(seed, "ours")
    assert (verdict.ok, verdict.deleted, verdict.created) == (True, 1, 0), verdict


@pytest.mark.parametrize("seed", range(3))
def test_the_original_deletes_more_than_one(seed: int) -> None:
    verdict = scale_down(seed, "original")
    assert not verdict.ok
    assert verdict.deleted > 1


def test_the_original_recreates_workers_once_its_victims_are_gone() -> None:
    assert scale_down(0, "original", evolve(SCENARIO, seconds=10.0)).created > 0


def test_without_a_flood_the_incident_is_not_reproduced() -> None:
    verdict = scale_down(0, "ours", evolve(SCENARIO, flood=1.0))
    assert (verdict.deleted, verdict.created) == (1, 0)
    assert not verdict.ok
    assert "fewer than" in verdict.explanation


@pytest.mark.rule("kuberay-1d-flood")
def test_ten_workers_under_a_flood_become_nine_with_one_deletion() -> None:
    verdict = scale_down(1, "ours", evolve(SCENARIO, workers=10, goal=9))
    assert (verdict.ok, verdict.deleted, verdict.created) == (True, 1, 0), verdict


@pytest.mark.rule("kuberay-1d-restart")
@pytest.mark.parametrize("seed", range(6))
def test_ten_workers_become_nine_with_one_deletion_even_if_the_manager_is_killed(seed: int) -> None:
    verdict = scale_down(seed, "ours", restart=scaling.RESTART)
    assert verdict.ok, verdict
    assert "10 to 9 with the manager killed meanwhile: 1 deleted, 0 created" in verdict.explanation


def test_the_original_deletes_more_than_one_across_a_restart() -> None:
    verdict = scale_down(0, "original", restart=scaling.RESTART)
    assert not verdict.ok
    assert int(re.search(r"killed meanwhile: (\d+) deleted", verdict.explanation)[1]) > 1


@simulated
async def test_an_incident_leaves_no_cluster_behind() -> None:
    async with world(0, clusters(), delays=QUICK) as here:
        await scaling.play(here.stage, "ours", SCENARIO)
        await anyio.sleep(10)
        assert await here.user.list(RayCluster) == []
        names = [pod.name for pod in await here.user.list(Pod)]
        assert all(name.startswith("bystander") for name in names)


# What an operator has to survive beyond the incident.


@pytest.mark.rule("kuberay-1d-restart")
@pytest.mark.parametrize("seed", range(6))
@simulated
async def test_a_restart_during_a_deletion_deletes_no_second_worker(seed: int) -> None:
    async with world(seed, clusters(), delays=QUICK) as here:
        async with here.running(make_controller()):
            await here.user.create(cluster(5, **{STOP_SECONDS: "5"}))
            before = await all_ready(here, 5)
        async with observe(here.transport, Pod, namespace=NAMESPACE, clock=here.clock) as observer:
            await here.user.modify(RayCluster, "ray", NAMESPACE, scaled(4))
            async with here.running(make_controller()):
                assert await observer.until(lambda: counts(observer, before)[0] > 0, 20)
            for _ in range(3):
                async with here.running(make_controller()):
                    await anyio.sleep(1)
            async with here.running(make_controller()):
                await anyio.sleep(10)
            assert counts(observer, before) == (1, 0)
        assert len(await workers(here.user)) == 4


@pytest.mark.rule("kuberay-1d-stuck")
@pytest.mark.parametrize("seed", range(3))
@simulated
async def test_a_worker_that_hangs_in_terminating_is_replaced(seed: int) -> None:
    async with world(seed, clusters(), delays=QUICK) as here, here.running(make_controller()):
        await here.user.create(cluster(3, **{BEHAVIOUR: "hang-terminating"}))
        before = await all_ready(here, 3)
        async with observe(here.transport, Pod, namespace=NAMESPACE, clock=here.clock) as observer:
            await here.user.delete(next(iter(before.values())))
            await anyio.sleep(20)
            assert counts(observer, before) == (1, 1)
        live = [pod for pod in (await workers(here.user)).values() if not pod.terminating]
        assert len(live) == 3
        assert all(pod.ready for pod in live)


@pytest.mark.rule("kuberay-1d-order")
@pytest.mark.parametrize("seed", range(3))
@simulated
async def test_the_newest_worker_is_deleted_whatever_the_order_of_events(seed: int) -> None:
    async with world(seed, clusters(), delays=QUICK) as here, here.running(make_controller()):
        await here.user.create(cluster(2))
        before = await all_ready(here, 2)
        await anyio.sleep(1)  # creation times have whole seconds
        await here.user.modify(RayCluster, "ray", NAMESPACE, scaled(3))
        await all_ready(here, 3)
        await here.user.modify(RayCluster, "ray", NAMESPACE, scaled(2))
        await anyio.sleep(10)
        assert set(await workers(here.user)) == set(before)


@simulated
async def test_a_settled_cluster_gets_no_further_writes() -> None:
    async with world(0, clusters(), delays=QUICK) as here, here.running(make_controller()) as recorded:
        await here.user.create(cluster(3))
        await all_ready(here, 3)
        await anyio.sleep(5)
        sent = len(recorded.writes)
        await anyio.sleep(1800)
        assert len(recorded.writes) == sent
        status = (await here.user.get(RayCluster, "ray", NAMESPACE)).status
        assert (status.state, status.ready_worker_replicas) == ("ready", 3)


# The registry secrets.


def copy_secret(seed: int, logic: Logic) -> IncidentVerdict:
    async def run() -> IncidentVerdict:
        async with world(seed, pipelines(), delays=QUICK) as here:
            verdict = await copying.play(here.stage, logic)
            await anyio.sleep(5)
            left = {namespace.name for namespace in await here.user.list(Namespace)}
            assert not left & {f"{NAMESPACE}-test", f"{NAMESPACE}-production"}
            return verdict

    return simulate(run, seed=seed)


@pytest.mark.rule("kubero-5d-10")
@pytest.mark.parametrize("seed", range(20))
def test_once_the_copies_exist_nothing_is_written(seed: int) -> None:
    verdict = copy_secret(seed, "ours")
    assert (verdict.ok, verdict.writes) == (True, 0), verdict
    assert verdict.seconds >= 20


@pytest.mark.parametrize("seed", range(3))
def test_the_original_never_stops_writing(seed: int) -> None:
    verdict = copy_secret(seed, "original")
    assert not verdict.ok
    assert verdict.writes > 20


def test_both_incidents_are_found_by_name() -> None:
    found = bundled_incidents()
    assert found["worker-group-scale-down"] is scaling.incident
    assert found["registry-secret-copy"] is copying.incident
