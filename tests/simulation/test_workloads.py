"""Simulated workloads: Deployments, StatefulSets and Jobs that keep pods on simulated nodes."""

from itertools import pairwise
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconcile import Client, ObjectMeta
from reconcile.kinds import (
    Deployment,
    DeploymentSpec,
    Job,
    JobSpec,
    LabelSelector,
    Pod,
    StatefulSet,
    StatefulSetSpec,
)
from reconcile.simulation import BEHAVIOUR, Delays, SimulatedWorkloads
from reconcile.simulation.workload_steps import RolloutSizes, next_sizes
from reconcile.testing import Apply, Delete, Scenario, World, sweep
from tests.helpers.scenarios import in_world
from tests.helpers.sweeps import sweep_runs
from tests.simulation import nodes_world
from tests.simulation.nodes_world import Story

RUNS = sweep_runs(10)

pytestmark = pytest.mark.timeout(60 if RUNS else 3600)


def template(image: str = "web:1", behaviour: str = "", **spec: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"labels": {"app": "web"}}
    if behaviour:
        metadata["annotations"] = {BEHAVIOUR: behaviour}
    return {"metadata": metadata, "spec": {"containers": [{"name": "web", "image": image}], **spec}}


def deployment(replicas: int = 3, image: str = "web:1", behaviour: str = "") -> Deployment:
    spec = DeploymentSpec(LabelSelector({"app": "web"}), template(image, behaviour), replicas)
    return Deployment(metadata=ObjectMeta("web", "default"), spec=spec)


def stateful_set(replicas: int = 3, image: str = "web:1", behaviour: str = "") -> StatefulSet:
    spec = StatefulSetSpec(LabelSelector({"app": "web"}), template(image, behaviour), replicas, "web")
    return StatefulSet(metadata=ObjectMeta("web", "default"), spec=spec)


def job(behaviour: str = "", **spec: Any) -> Job:
    made = JobSpec(template=template("job:1", behaviour, restartPolicy="Never"), **spec)
    return Job(metadata=ObjectMeta("job", "default"), spec=made)


def played(story: Story, seed: int = 0) -> None:
    nodes_world.played(story, seed, *SimulatedWorkloads().controllers)


async def pods(client: Client) -> list[Pod]:
    return sorted(await client.list(Pod), key=lambda pod: pod.name)


async def images(client: Client) -> list[str]:
    return [str(pod.spec.containers[0].image) for pod in await pods(client)]


# --- Deployments ----------------------------------------------------------------------------------------


@pytest.mark.rule("workloads-deployment")
@pytest.mark.parametrize("seed", range(3))
@in_world(played)
async def test_a_deployment_gets_its_pods_and_reports_them(client: Client, seed: int) -> None:
    await client.create(deployment(3))
    await anyio.sleep(10)
    found = await client.get(Deployment, "web", "default")
    assert found.rolled_out
    assert (found.status.replicas, found.status.ready_replicas) == (3, 3)
    assert {c.type: c.status for c in found.status.conditions} == {"Available": "True", "Progressing": "True"}
    made = await pods(client)
    assert all(pod.name.startswith("web-") and pod.metadata.labels["app"] == "web" for pod in made)
    assert [[o.uid for o in pod.metadata.owner_references] for pod in made] == [[found.uid]] * 3


@pytest.mark.rule("workloads-deployment")
@pytest.mark.parametrize("seed", range(3))
@in_world(played)
async def test_a_rollout_has_at_most_one_extra_pod_and_never_one_ready_pod_too_few(
    client: Client, seed: int
) -> None:
    await client.create(deployment(3))
    await anyio.sleep(10)
    await client.modify(
        Deployment, "web", "default", lambda one: one.replace(spec=deployment(3, "web:2").spec)
    )
    states = []
    for _ in range(600):
        active = [pod for pod in await pods(client) if not pod.terminating]
        states.append((len(active), sum(pod.ready for pod in active)))
        await anyio.sleep(0.05)
    assert max(active for active, _ in states) == 4
    assert min(ready for _, ready in states) == 3
    assert await images(client) == ["web:2"] * 3
    assert (await client.get(Deployment, "web", "default")).rolled_out


@pytest.mark.rule("workloads-deployment")
@in_world(played)
async def test_a_template_that_never_becomes_ready_stalls_the_rollout_and_the_next_one_completes_it(
    client: Client,
) -> None:
    async def change(wanted: Deployment) -> Deployment:
        await client.modify(Deployment, "web", "default", lambda one: one.replace(spec=wanted.spec))
        await anyio.sleep(60)
        return await client.get(Deployment, "web", "default")

    await client.create(deployment(3))
    await anyio.sleep(10)
    stuck = await change(deployment(3, "web:bad", "not-ready"))
    assert (await images(client)).count("web:1") == 3
    assert (await images(client)).count("web:bad") == 1
    assert not stuck.rolled_out
    assert stuck.status.available_replicas == 3
    assert (await change(deployment(3, "web:2"))).rolled_out
    assert await images(client) == ["web:2"] * 3


@pytest.mark.rule("workloads-deployment")
@in_world(played)
async def test_a_deployment_is_scaled_up_down_and_to_zero(client: Client) -> None:
    await client.create(deployment(2))
    await anyio.sleep(10)
    first = {pod.uid for pod in await pods(client)}
    for size in (5, 2, 0):
        await client.raw.set_scale(deployment(), size, expect=len(await pods(client)))
        await anyio.sleep(10)
        found = await client.get(Deployment, "web", "default")
        assert len(await pods(client)) == found.status.replicas == size
        assert found.rolled_out
        if size == 2:
            assert {pod.uid for pod in await pods(client)} == first  # the newest go first


@pytest.mark.rule("workloads-deployment")
@in_world(played)
async def test_a_pod_that_is_deleted_or_has_failed_is_replaced(client: Client) -> None:
    await client.create(deployment(2, behaviour="fail"))
    await anyio.sleep(8)
    made = await client.list(Pod)
    assert len(made) <= 4  # what fails again waits
    fine = deployment(2)
    await client.modify(Deployment, "web", "default", lambda one: one.replace(spec=fine.spec))
    await anyio.sleep(30)
    for pod in await pods(client):
        await client.delete(pod)
    await anyio.sleep(10)
    assert (await client.get(Deployment, "web", "default")).rolled_out


@given(wanted=st.integers(0, 6), new=st.integers(0, 8), old=st.integers(0, 8), ready=st.integers(0, 8))
def test_a_rollout_step_adds_at_most_one_extra_pod_and_removes_no_ready_pod_too_many(
    wanted: int, new: int, old: int, ready: int
) -> None:
    new_ready = min(new, ready)
    sizes = next_sizes(wanted, new=new, new_ready=new_ready, old=old)
    made = max(0, sizes.new - new)
    assert 0 <= sizes.new <= wanted
    assert 0 <= sizes.old <= old
    assert made == 0 or not old or new + old + made <= wanted + 1
    assert new_ready + sizes.old >= min(wanted, new_ready + old)
    assert next_sizes(wanted, new=wanted, new_ready=wanted, old=old) == RolloutSizes(wanted, 0)


# --- StatefulSets ---------------------------------------------------------------------------------------


@pytest.mark.rule("workloads-statefulset")
@pytest.mark.parametrize("seed", range(3))
@in_world(played)
async def test_a_stateful_set_creates_and_removes_its_pods_in_order(client: Client, seed: int) -> None:
    await client.create(stateful_set(3))
    seen: list[list[str]] = []

    async def watch(seconds: float) -> None:
        for _ in range(int(seconds / 0.05)):
            names = [pod.name for pod in await pods(client)]
            if names not in seen:
                seen.append(names)
            await anyio.sleep(0.05)

    await watch(15)
    found = await client.get(StatefulSet, "web", "default")
    assert found.rolled_out
    assert found.status.available_replicas == 3
    await client.raw.set_scale(stateful_set(), 1, expect=3)
    await watch(15)
    ordered = [[], ["web-0"], ["web-0", "web-1"], ["web-0", "web-1", "web-2"]]
    assert [names for names in seen if names] == ordered[1:]
    assert [pod.name for pod in await pods(client)] == ["web-0"]
    assert (await client.get(StatefulSet, "web", "default")).status.replicas == 1


@pytest.mark.rule("workloads-statefulset")
@in_world(played)
async def test_a_stateful_set_replaces_its_pods_starting_from_the_last(client: Client) -> None:
    await client.create(stateful_set(3))
    await anyio.sleep(20)
    revision = (await client.get(StatefulSet, "web", "default")).status.current_revision
    wanted = stateful_set(3, "web:2")
    await client.modify(StatefulSet, "web", "default", lambda one: one.replace(spec=wanted.spec))
    seen: list[list[str]] = []
    for _ in range(600):
        now = await images(client)
        if len(now) == 3 and now not in seen:
            seen.append(now)
        await anyio.sleep(0.05)
    assert seen[1:] == [["web:1", "web:1", "web:2"], ["web:1", "web:2", "web:2"], ["web:2"] * 3]
    found = await client.get(StatefulSet, "web", "default")
    assert found.rolled_out
    assert found.status.current_revision != revision


# --- Jobs -----------------------------------------------------------------------------------------------


@pytest.mark.rule("workloads-job")
@pytest.mark.parametrize("seed", range(3))
@in_world(played)
async def test_a_job_runs_its_pods_up_to_its_parallelism_and_completes(client: Client, seed: int) -> None:
    await client.create(job(completions=5, parallelism=2))
    most = 0
    for _ in range(200):
        most = max(most, sum(pod.status.phase != "Succeeded" for pod in await pods(client)))
        await anyio.sleep(0.1)
    done = await client.get(Job, "job", "default")
    assert done.finished
    assert most == 2
    assert (done.status.succeeded, done.status.failed, done.status.active) == (5, 0, 0)
    assert done.status.start_time is not None
    assert done.status.completion_time is not None
    assert done.status.completion_time > done.status.start_time
    assert len(await pods(client)) == 5


@pytest.mark.rule("workloads-job")
@in_world(played)
async def test_a_job_whose_pods_fail_waits_longer_each_time_and_fails(client: Client) -> None:
    await client.create(job("fail", backoff_limit=2))
    await anyio.sleep(5)
    assert len(await pods(client)) == 1
    await anyio.sleep(60)
    failed = await client.get(Job, "job", "default")
    assert [(c.type, c.status, c.reason) for c in failed.status.conditions] == [
        ("FailureTarget", "True", "BackoffLimitExceeded"),
        ("Failed", "True", "BackoffLimitExceeded"),
    ]
    times = [pod.metadata.creation_timestamp for pod in await pods(client)]
    made = sorted(time for time in times if time is not None)
    assert [(later - one).total_seconds() for one, later in pairwise(made)] == [10, 20]


# --- all of them ----------------------------------------------------------------------------------------


def at_rest_all_is_rolled_out(world: World) -> None:
    keepers: list[Deployment | StatefulSet] = [*world.objects(Deployment), *world.objects(StatefulSet)]
    for one in keepers:
        assert one.rolled_out, f"{one.name} is not rolled out: {one.status}"
        owned = [pod for pod in world.objects(Pod) if pod.metadata.owner_references[0].uid == one.uid]
        assert len(owned) == one.spec.replicas, f"{len(owned)} pods of {one.name}, not {one.spec.replicas}"
    assert all(one.finished and one.status.succeeded == 2 for one in world.objects(Job))


@pytest.mark.rule("workloads-simulated")
def test_workloads_pass_their_sweep() -> None:
    keeps = stateful_set(2).with_metadata(name="db")
    scenario = Scenario(
        controllers=lambda: SimulatedWorkloads().controllers,
        steps=[
            Apply(deployment(2)),
            Apply(keeps),
            Apply(job(completions=2)),
            Apply(deployment(2, "web:2")),
            Apply(deployment(1, "web:2")),
            Apply(stateful_set(1, "web:2").with_metadata(name="db")),
            Delete(deployment()),
        ],
        invariants=[at_rest_all_is_rolled_out],
        nodes=Delays(),
    )
    report = sweep(scenario, most=RUNS)
    print(f"\nsimulated workloads: {report}")
