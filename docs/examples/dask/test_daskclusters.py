"""Clusters and groups of workers: the manifests of users, what the original left, and every single fault."""

from collections.abc import Sequence
from typing import Any

import pytest
import yaml
from attrs import evolve
from dask_world import (
    DEFINITIONS,
    HANDLED,
    KOPF,
    MANIFESTS,
    MORE,
    RUNS,
    SERVICE,
    SIMPLE,
    FakeSchedulers,
    a_cluster,
    pod,
    run_both,
    scale,
    workers,
)
from daskclusters import (
    GROUP,
    PART,
    PASSED_ON,
    DaskCluster,
    DaskClusterSpec,
    DaskWorkerGroup,
    DaskWorkerGroupSpec,
    Names,
    Scheduler,
    Workers,
    dashboard_of,
    dask_clusters,
    scheduler_for,
    service_for,
    worker_for,
    worker_groups,
)

from reconcile import Controller, Object, ObjectMeta
from reconcile.kinds import Deployment, Service
from reconcile.models import Unstructured, unstructured_kind
from reconcile.owners import controller_of, is_owned, with_owner
from reconcile.testing import (
    Apply,
    Delete,
    Edit,
    FakeClient,
    Scenario,
    World,
    explore,
    run_once,
    sweep,
    transitions,
)

# --- manifests of users -----------------------------------------------------------------------------


async def test_the_definitions_and_the_manifests_of_users_work_unchanged() -> None:
    client = a_cluster()
    for manifest in yaml.safe_load_all((MANIFESTS / "objects.yaml").read_text()):
        client.add({**manifest, "metadata": {**manifest["metadata"], "namespace": "default"}})
    await run_both(client)
    assert await run_both(client) == []
    names = sorted(one.name for one in await client.list(Deployment))
    kinds = [name.rpartition("-worker-")[0] or name for name in names]
    assert kinds == ["simple-default"] * 2 + ["simple-highmem"] * 2 + ["simple-scheduler"]
    service = await client.get(Service, "simple-scheduler", "default")
    assert (service.spec.type, [port.port for port in service.spec.ports]) == ("NodePort", [8786, 8787])
    assert (await client.get(DaskCluster, "simple", "default")).status.phase == "Running"
    worker = (await workers(client, "simple-highmem"))[0]
    environment = {one.name: one.value for one in worker.spec.template.spec.containers[0].env}
    assert environment == {
        "DASK_WORKER_NAME": worker.name,
        "DASK_SCHEDULER_ADDRESS": "tcp://simple-scheduler.default.svc:8786",
    }
    assert worker.spec.template.spec.containers[0].args[2] == "$(DASK_WORKER_NAME)"


async def test_each_deployment_selects_its_own_pods_and_the_service_those_of_the_scheduler() -> None:
    client = a_cluster(SIMPLE, MORE)
    await run_both(client)
    made = await client.list(Deployment)
    for one in made:
        chosen = one.spec.selector.match_labels.items()
        choosing = [other.name for other in made if chosen <= other.spec.template.metadata.labels.items()]
        assert choosing == [one.name]
    served = SERVICE["selector"].items()  # type: ignore[attr-defined]
    assert [one.name for one in made if served <= one.spec.template.metadata.labels.items()] == [
        "simple-scheduler"
    ]


async def test_names_are_passed_on_from_the_cluster_over_its_parts_and_reserved_ones_stay() -> None:
    part = Names(labels={"team": "workers", PART: "superworker"}, annotations={"note": "w"})
    spec = evolve(SIMPLE.spec, worker=evolve(SIMPLE.spec.worker, metadata=part))
    labels, annotations = {"team": "all", "top": "yes"}, {"hello": "world", HANDLED: "{}"}
    client = a_cluster(SIMPLE.replace(spec=spec).with_metadata(labels=labels, annotations=annotations))
    await run_both(client)
    scheduler = await client.get(Deployment, "simple-scheduler", "default")
    assert scheduler.spec.template.metadata.labels["team"] == "all"
    assert scheduler.spec.template.metadata.annotations == {"hello": "world"}
    for worker in await workers(client):
        template = worker.spec.template.metadata
        assert (template.labels["team"], template.labels["top"]) == ("workers", "yes")
        assert template.labels[PART] == "worker"
        assert template.annotations == {"hello": "world", "note": "w"}


def test_a_port_that_is_no_number_leads_to_no_other_host() -> None:
    service = {"ports": [{"name": "http-dashboard", "port": "80@metadata.internal"}]}
    spec = evolve(SIMPLE.spec, scheduler=evolve(SIMPLE.spec.scheduler, service=service))
    assert dashboard_of(SIMPLE.replace(spec=spec)) == "http://simple-scheduler.default.svc:8787"


async def test_a_variable_that_a_container_sets_itself_is_left_alone() -> None:
    own = [{"name": "DASK_WORKER_NAME", "value": "mine"}]
    spec = {"containers": [{"name": "worker", "image": "worker:1", "env": own}]}
    made = worker_for(SIMPLE, MORE.replace(spec=DaskWorkerGroupSpec("simple", Workers(spec))), "1")
    (container,) = made["spec"]["template"]["spec"]["containers"]
    assert [one["name"] for one in container["env"]] == ["DASK_SCHEDULER_ADDRESS", "DASK_WORKER_NAME"]
    assert container["env"][-1] == own[0]


# --- the number of workers --------------------------------------------------------------------------


async def test_a_group_is_scaled_by_itself_and_its_cluster_does_not_undo_it() -> None:
    client, schedulers = a_cluster(SIMPLE), FakeSchedulers()
    await run_both(client, schedulers)
    await scale(client, DaskWorkerGroup, "simple-default", 5)
    await run_both(client, schedulers)
    assert len(await workers(client)) == 5
    assert await run_both(client, schedulers) == []


async def test_a_cluster_that_is_scaled_passes_the_number_on_to_its_default_group() -> None:
    client, schedulers = a_cluster(SIMPLE), FakeSchedulers()
    await run_both(client, schedulers)
    await scale(client, DaskWorkerGroup, "simple-default", 5)
    await run_both(client, schedulers)
    await scale(client, DaskCluster, "simple", 1)
    await run_both(client, schedulers)
    assert len(await workers(client)) == 1


async def test_workers_are_retired_before_they_go_and_those_without_a_pod_go_first() -> None:
    client, schedulers = a_cluster(SIMPLE), FakeSchedulers()
    await run_both(client, schedulers)
    first, second = sorted(one.name for one in await workers(client))
    running = {"status": {"replicas": 1, "readyReplicas": 1}}
    await client.raw.merge(await client.get(Deployment, second, "default"), running, subresource="status")
    await scale(client, DaskWorkerGroup, "simple-default", 1)
    await run_both(client, schedulers)
    assert [one.name for one in await workers(client)] == [second]
    assert schedulers.retired == {first}
    assert schedulers.urls == {"http://simple-scheduler.default.svc:9787"}


async def test_workers_go_also_if_the_scheduler_does_not_serve_the_api_and_the_group_says_so() -> None:
    client, schedulers = a_cluster(SIMPLE), FakeSchedulers(fails=True)
    await run_both(client)
    await scale(client, DaskWorkerGroup, "simple-default", 0)
    done = await run_once(worker_groups(schedulers), "default/simple-default", client)
    assert done.events == [
        "Warning NotRetired: workers go with what they hold: 404 from http://simple-scheduler.default.svc:9787"
    ]
    assert await workers(client) == []


# --- what is made once ------------------------------------------------------------------------------


async def test_a_changed_pod_restarts_nothing_and_new_workers_have_it() -> None:
    client = a_cluster(SIMPLE)
    await run_both(client)
    before = {one.name: one.metadata.resource_version for one in await client.list(Deployment)}
    spec = DaskClusterSpec(Scheduler(pod("new"), SERVICE), Workers(pod("new"), 3))
    await client.modify(DaskCluster, "simple", "default", lambda found: found.replace(spec=spec))
    await run_both(client)
    after = {one.name: one.metadata.resource_version for one in await client.list(Deployment)}
    assert before.items() < after.items()
    (fresh,) = (one for one in await workers(client) if one.name not in before)
    assert fresh.spec.template.spec.containers[0].image == "new:1"


async def test_a_group_of_users_goes_with_the_cluster_that_it_has_joined() -> None:
    client = a_cluster(MORE)
    await run_both(client)
    assert await client.list(Deployment) == []  # its workers would find no scheduler
    client.add(SIMPLE)
    await run_both(client)
    assert len(await workers(client, "more")) == 1
    cluster, group = (
        await client.get(DaskCluster, "simple", "default"),
        await client.get(DaskWorkerGroup, "more", "default"),
    )
    assert is_owned(group, cluster)
    await client.delete(cluster)
    assert await client.list(DaskWorkerGroup) == []
    assert await client.list(Deployment) == []


async def test_a_deployment_of_others_with_the_name_of_a_scheduler_is_left_alone() -> None:
    foreign = {**scheduler_for(SIMPLE), "metadata": {"name": "simple-scheduler", "namespace": "default"}}
    client = a_cluster(SIMPLE, foreign)
    done = await run_once(dask_clusters(FakeSchedulers()), SIMPLE, client)
    assert type(done.error).__name__ == "AlreadyExists"
    assert controller_of(await client.get(Deployment, "simple-scheduler", "default")) is None


# --- the switch from kopf ---------------------------------------------------------------------------


AS_JSON: type[Unstructured] = unstructured_kind("kubernetes.dask.org/v1", "DaskCluster")


async def as_kopf_left(created: int = 6) -> FakeClient:
    """A cluster that people scaled from 2 to 3 workers, as the original left it after so many creations."""
    client = a_cluster()
    status = evolve(SIMPLE.status, phase="Running" if created > 2 else "Created")
    finalizer, annotations = f"{KOPF}KopfFinalizerMarker", {HANDLED: "{}"}
    client.add(SIMPLE.replace(status=status).with_metadata(finalizers=(finalizer,), annotations=annotations))
    cluster = await client.get(DaskCluster, "simple", "default")

    async def add(manifest: dict[str, Any], owner: Object) -> None:
        child = await client.raw.unstructured(manifest)
        client.add(with_owner(child.with_metadata(namespace="default"), owner, controller=True))

    for manifest in [scheduler_for(SIMPLE), service_for(SIMPLE)][:created]:
        await add(manifest, cluster)
    if created > 2:
        spec = DaskWorkerGroupSpec("simple", Workers(pod("worker"), 3))
        named = DaskWorkerGroup(metadata=ObjectMeta("simple-default", "default"), spec=spec)
        client.add(with_owner(named.with_metadata(annotations=annotations), cluster, controller=True))
        group = await client.get(DaskWorkerGroup, "simple-default", "default")
        for number in range(created - 3):
            await add(worker_for(SIMPLE, group, f"{number}f6c670fba"), group)
    return client


@pytest.mark.parametrize("created", range(6))
async def test_what_the_original_has_made_by_half_is_completed_and_what_is_there_is_kept(
    created: int,
) -> None:
    client = await as_kopf_left(created)
    before = {one.uid: one.metadata.generation for one in await client.list(Deployment)}
    await run_both(client)
    after = {one.uid: one.metadata.generation for one in await client.list(Deployment)}
    assert before.items() <= after.items()
    assert len(after) == 1 + (3 if created > 2 else 2)
    assert [one.name for one in await client.list(Service)] == ["simple-scheduler"]
    assert await run_both(client) == []


async def test_what_the_original_made_is_taken_over_and_no_pod_is_restarted() -> None:
    client = await as_kopf_left()
    before = {one.uid: one.metadata.generation for one in await client.list(Deployment)}
    schedulers = FakeSchedulers()
    await run_both(client, schedulers)
    assert {one.uid: one.metadata.generation for one in await client.list(Deployment)} == before
    assert schedulers.urls == set()
    group = await client.get(DaskWorkerGroup, "simple-default", "default")
    assert group.spec.worker.replicas == 3  # as people had scaled it
    assert dict(group.metadata.annotations) == {PASSED_ON: "2"}
    cluster = await client.get(AS_JSON, "simple", "default")
    assert cluster["status"] == {"phase": "Running"}
    assert (cluster["metadata"].get("finalizers"), cluster["metadata"].get("annotations")) == (None, None)
    assert await run_both(client, schedulers) == []


# --- every fault ------------------------------------------------------------------------------------


def every_worker_that_is_wanted_is_there_and_none_else(world: World) -> None:
    clusters = {one.name for one in world.objects(DaskCluster)}
    expected = {
        group.name: group.spec.worker.replicas
        for group in world.objects(DaskWorkerGroup)
        if group.spec.cluster in clusters
    }
    found = dict.fromkeys(expected, 0)
    for one in world.objects(Deployment):
        if group := one.metadata.labels.get(GROUP):
            found[group] = found.get(group, 0) + 1
    assert found == expected


def each_cluster_has_one_scheduler(world: World) -> None:
    schedulers = [one.name for one in world.objects(Deployment) if GROUP not in one.metadata.labels]
    assert schedulers == [f"{one.name}-scheduler" for one in world.objects(DaskCluster)]
    assert [one.name for one in world.objects(Service)] == schedulers


def both(schedulers: FakeSchedulers) -> list[Controller[Any]]:
    return [dask_clusters(schedulers), worker_groups(schedulers)]


def scenario(*steps: Any, controllers: Any = both, objects: Sequence[Any] = ()) -> Scenario:
    return Scenario(
        controllers=controllers,
        outside=FakeSchedulers,
        definitions=DEFINITIONS,
        objects=objects,
        steps=steps,
        invariants=[every_worker_that_is_wanted_is_there_and_none_else],
        without=["creates", "deletes"],  # by name, and those of workers are random: the invariant counts them
    )


def replicas(number: int) -> dict[str, Any]:
    return {"spec": {"worker": {"replicas": number}}}


def test_a_cluster_survives_every_fault() -> None:
    whole = scenario(
        Apply(MORE),
        Apply(SIMPLE),
        Edit((DaskWorkerGroup, "default/simple-default"), replicas(3)),
        Edit(SIMPLE, replicas(1)),
        Delete((Deployment, "default/simple-scheduler")),
        Edit(MORE, replicas(0)),
        Delete(SIMPLE),
    )
    print(sweep(evolve(whole, invariants=[*whole.invariants, each_cluster_has_one_scheduler]), most=RUNS))


def test_a_group_survives_every_order_of_what_happens_with_a_crash() -> None:
    steps = Apply(MORE), Edit(MORE, replicas(2)), Edit(MORE, replicas(0))
    print(explore(scenario(*steps, controllers=worker_groups, objects=[SIMPLE]), objects=2))


def test_every_change_of_the_number_of_workers_is_carried_out() -> None:
    print(
        transitions(
            scenario(Apply(SIMPLE)),
            only="spec.worker.replicas",
            one_way=["deployments"],  # their numbers depend on which of them have gone
        )
    )


@pytest.mark.parametrize("fails", [False, True])
async def test_a_worker_that_goes_has_been_retired_if_that_is_possible(fails: bool) -> None:
    client, schedulers = a_cluster(SIMPLE), FakeSchedulers(fails=fails)
    await run_both(client, schedulers)
    before = {one.name for one in await workers(client)}
    await scale(client, DaskCluster, "simple", 1)
    await run_both(client, schedulers)
    gone = before - {one.name for one in await workers(client)}
    assert len(gone) == 1
    assert schedulers.retired == (set() if fails else gone)
