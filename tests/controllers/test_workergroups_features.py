"""One run at a time: suspension, upgrades, the autoscaler, tokens, state in Redis, Services and Ingress."""

import msgspec
import pytest
from attrs import evolve

from controllers.workergroups import RayCluster, definition, make_controller
from controllers.workergroups.controller import WorkerGroupSettings
from controllers.workergroups.models import HeadGroupSpec
from controllers.workergroups.suspension import Suspension, plan_suspension
from informers import HttpRequest
from reconcile import ObjectMeta
from reconcile.errors import ApiError
from reconcile.kinds import Ingress, Pod, Secret, Service, ServiceSpec
from reconcile.models import encode, unstructured_kind
from reconcile.testing import FakeClient, RunReport, run_once
from tests.controllers.ray_features import annotated, bodies, change, settled, variables, with_group
from tests.controllers.ray_runs import become_ready, cluster, live, once, pods, set_phase

Role = unstructured_kind("rbac.authorization.k8s.io/v1", "Role")
RoleBinding = unstructured_kind("rbac.authorization.k8s.io/v1", "RoleBinding")


def condition(made: RunReport, name: str) -> str:
    return str(made.conditions[name]["status"])


# Suspension.


@pytest.mark.parametrize(
    ("wanted", "suspending", "suspended", "pods", "found"),
    [
        (False, False, False, 3, Suspension("running")),
        (True, False, False, 3, Suspension("beginning", again=True)),
        (True, True, False, 3, Suspension("suspending")),
        (False, True, False, 1, Suspension("suspending")),
        (True, True, False, 0, Suspension("suspended")),
        (False, True, False, 0, Suspension("suspended", again=True)),
        (True, False, True, 0, Suspension("suspended")),
        (False, False, True, 0, Suspension("running")),
    ],
)
def test_a_suspension_that_has_begun_is_completed(
    wanted: bool, suspending: bool, suspended: bool, pods: int, found: Suspension
) -> None:
    assert plan_suspension(wanted=wanted, suspending=suspending, suspended=suspended, pods=pods) == found


@pytest.mark.rule("kuberay-1d-suspend")
async def test_a_suspended_cluster_loses_its_pods_and_gets_them_back() -> None:
    client = FakeClient(cluster(2))
    await once(client)
    await become_ready(client)
    await change(client, suspend=True)
    began = await once(client)
    assert began.writes == ["patch rayclusters/status default/ray"]
    assert condition(began, "RayClusterSuspending") == "True"
    assert len([write for write in (await once(client)).writes if write.startswith("delete pods")]) == 3
    ended = await once(client)
    assert (condition(ended, "RayClusterSuspending"), condition(ended, "RayClusterSuspended")) == (
        "False",
        "True",
    )
    assert (await live(client)).status.state == "suspended"
    assert (await once(client)).writes == []
    await change(client, suspend=False)
    again = await once(client)
    assert condition(again, "RayClusterSuspended") == "False"
    assert len(await pods(client)) == 3


@pytest.mark.rule("kuberay-1d-group-suspend")
async def test_a_suspended_group_loses_its_workers_and_the_head_stays() -> None:
    client = FakeClient(cluster(2))
    await once(client)
    await change(client, worker_group_specs=with_group(suspend=True).spec.worker_group_specs)
    await once(client)
    assert ["-head-" in pod.name for pod in await pods(client)] == [True]
    status = (await live(client)).status
    assert (status.desired_worker_replicas, status.max_worker_replicas) == (0, 0)


# Upgrades.


@pytest.mark.rule("kuberay-1d-12")
async def test_another_image_under_recreate_recreates_all_pods_with_another_hash() -> None:
    client = FakeClient(cluster(1, upgrade_strategy={"type": "Recreate"}))
    await once(client)
    before = {pod.uid for pod in await pods(client)}
    first = (await bodies(client))["head"]["metadata"]["annotations"]
    await settled(client)
    template = {"spec": {"containers": [{"name": "ray", "image": "ray:2"}]}}
    await change(client, head_group_spec=HeadGroupSpec(template=template))
    await once(client)
    await once(client)
    after = {pod.uid for pod in await pods(client)}
    assert len(after) == 2
    assert not after & before
    second = (await bodies(client))["head"]["metadata"]["annotations"]
    hash_of = "ray.io/upgrade-strategy-recreate-hash"
    assert first[hash_of] != second[hash_of]
    await settled(client)


async def test_a_head_that_kuberay_made_is_only_marked() -> None:
    client = FakeClient(cluster(1, upgrade_strategy={"type": "Recreate"}))
    await once(client)
    await settled(client)
    head = next(pod for pod in await pods(client) if "-head-" in pod.name)
    theirs = {"ray.io/kuberay-version": "v1.5.1", "ray.io/upgrade-strategy-recreate-hash": "theirs"}
    await client.raw.merge(head, {"metadata": {"annotations": theirs}})
    assert (await once(client)).writes == [f"patch pods default/{head.name}"]
    assert (await once(client)).writes == []


# The autoscaler.


async def test_the_autoscaler_gets_an_account_a_role_and_a_container_beside_the_head() -> None:
    client = FakeClient(cluster(1, enable_in_tree_autoscaling=True, autoscaler_options={"version": "v2"}))
    made = await once(client)
    assert made.writes[:3] == [
        "apply serviceaccounts default/ray",
        "apply roles default/ray",
        "apply rolebindings default/ray",
    ]
    role = encode(await client.get(Role, "ray", "default"))
    allowed = {(rule["resources"][0], tuple(rule["verbs"])) for rule in role["rules"]}
    assert ("rayclusters", ("get", "patch")) in allowed
    assert ("pods", ("get", "list", "watch", "patch")) in allowed
    binding = encode(await client.get(RoleBinding, "ray", "default"))
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "ray", "namespace": "default"}]
    found = await bodies(client)
    head = found["head"]["spec"]
    assert head["serviceAccountName"] == "ray"
    ray, beside = head["containers"]
    assert beside["name"] == "autoscaler"
    assert beside["image"] == ray["image"]
    assert beside["args"][0].startswith("ray kuberay-autoscaler")
    assert {mount["mountPath"] for mount in beside["volumeMounts"]} == {"/tmp/ray"}
    assert "--no-monitor" in ray["args"][0]
    assert variables(ray)["RAY_enable_autoscaler_v2"] == "1"
    assert [pod["spec"]["restartPolicy"] for pod in found.values()] == ["Never", "Never"]
    await settled(client)


@pytest.mark.rule("kuberay-1d-02")
@pytest.mark.parametrize(("random_delete", "left"), [(False, 3), (True, 1)])
async def test_under_the_autoscaler_nothing_is_deleted_at_random_unless_configured(
    random_delete: bool, left: int
) -> None:
    client = FakeClient(cluster(2, enable_in_tree_autoscaling=True))
    await once(client)
    await change(client, worker_group_specs=with_group(replicas=0).spec.worker_group_specs)
    controller = make_controller(WorkerGroupSettings(random_delete=random_delete))
    await run_once(controller, "default/ray", client)
    assert len(await pods(client)) == left


@pytest.mark.rule("kuberay-1d-autoscaler")
async def test_the_autoscaler_removes_one_of_three_workers_and_then_requests_four() -> None:
    client = FakeClient(with_group(replicas=3, max_replicas=4))
    await change_to_autoscaler(client)
    await once(client)
    victim = next(pod.name for pod in await pods(client) if "worker" in pod.name)
    await edit(client, 2, [victim])
    made = await once(client)
    assert [write for write in made.writes if "pods" in write] == [f"delete pods default/{victim}"]
    await edit(client, 4, [victim])
    made = await once(client)
    assert [write for write in made.writes if "pods" in write] == [
        "create pods default/ray-small-worker-*"
    ] * 2
    await edit(client, 5, [])
    assert (await once(client)).writes == []


async def change_to_autoscaler(client: FakeClient) -> None:
    await change(client, enable_in_tree_autoscaling=True)


async def edit(client: FakeClient, replicas: int, names: list[str]) -> None:
    """As the autoscaler does it: a JSON patch of one group."""
    async with client.editing(await live(client)) as draft:
        draft.spec.worker_group_specs[0].replicas = replicas
        draft.spec.worker_group_specs[0].scale_strategy = {"workersToDelete": names}


# The token.


async def test_a_token_is_created_once_and_reaches_every_ray_container() -> None:
    client = FakeClient(cluster(1, auth_options={"mode": "token"}))
    made = await once(client)
    assert "create secrets default/ray" in made.writes
    secret = await client.get(Secret, "ray", "default")
    assert [owner.kind for owner in secret.metadata.owner_references] == ["RayCluster"]
    assert len(secret.data["auth_token"]) > 60
    for pod in (await bodies(client)).values():
        found = variables(pod["spec"]["containers"][0])
        assert found["RAY_AUTH_MODE"] == "token"
        assert found["RAY_AUTH_TOKEN"] == {"secretKeyRef": {"name": "ray", "key": "auth_token"}}
    await settled(client)
    assert not any(secret.data["auth_token"] in event for event in made.events)


async def test_the_token_has_the_name_that_pods_expect_even_if_it_starts_with_a_digit() -> None:
    spec = cluster(1, auth_options={"mode": "token"}).spec
    client = FakeClient(RayCluster(metadata=ObjectMeta("1ray", "default"), spec=spec))
    await once(client, "1ray")
    ray = (await bodies(client))["head"]["spec"]["containers"][0]
    asked_for = variables(ray)["RAY_AUTH_TOKEN"]["secretKeyRef"]["name"]
    assert "auth_token" in (await client.get(Secret, asked_for, "default")).data


async def test_a_secret_of_the_user_is_not_created() -> None:
    client = FakeClient(cluster(1, auth_options={"mode": "token", "secretName": "mine"}))
    assert not [write for write in (await once(client)).writes if "secrets" in write]
    ray = (await bodies(client))["head"]["spec"]["containers"][0]
    assert variables(ray)["RAY_AUTH_TOKEN"] == {"secretKeyRef": {"name": "mine", "key": "auth_token"}}


# Services and Ingress.


async def test_ingress_and_services_of_a_feature_that_is_switched_off_are_deleted() -> None:
    made = annotated(cluster(1), enable_serve_service="true")
    (group,) = made.spec.worker_group_specs
    head = evolve(made.spec.head_group_spec, enable_ingress=True)
    spec = evolve(made.spec, head_group_spec=head, worker_group_specs=(evolve(group, num_of_hosts=2),))
    client = FakeClient(RayCluster(metadata=made.metadata, spec=spec))
    user = Service(metadata=ObjectMeta("ray-users", "default"), spec=ServiceSpec(cluster_ip="None"))
    client.add(user)
    await once(client)
    assert [one.name for one in await client.list(Ingress, "default")] == ["ray-head-ingress"]
    assert {one.name for one in await client.list(Service, "default")} == {
        "ray-head-svc",
        "ray-headless",
        "ray-serve-svc",
        "ray-users",
    }
    await change(client, head_group_spec=evolve(head, enable_ingress=False), worker_group_specs=(group,))
    await client.raw.merge(
        await live(client), {"metadata": {"annotations": {"ray.io/enable-serve-service": None}}}, guard={}
    )
    await once(client)
    assert await client.list(Ingress, "default") == []
    assert {one.name for one in await client.list(Service, "default")} == {"ray-head-svc", "ray-users"}


async def test_a_head_service_with_the_name_of_an_unused_one_is_kept() -> None:
    made = cluster(1)
    head = evolve(made.spec.head_group_spec, head_service={"metadata": {"name": "ray-serve-svc"}})
    client = FakeClient(cluster(1, head_group_spec=head))
    await once(client)
    await once(client)
    assert [one.name for one in await client.list(Service, "default")] == ["ray-serve-svc"]


# /scale, by our own definition.


@pytest.mark.rule("kuberay-1d-scale")
async def test_an_autoscaler_reads_and_writes_the_size_of_the_only_group() -> None:
    client = FakeClient()
    client.add(definition())
    made = cluster(2)
    client.add(RayCluster(metadata=made.metadata, spec=evolve(made.spec, replicas=2)))
    await once(client)
    await settled(client)
    scale = await client.raw.read_subresource(await live(client), "scale")
    assert (scale["spec"]["replicas"], scale["status"]["replicas"]) == (2, 2)
    assert len(await client.list(Pod, "default", labels=scale["status"]["selector"])) == 2
    path = "/apis/ray.io/v1/namespaces/default/rayclusters/ray/scale"
    body = msgspec.json.encode({**scale, "spec": {"replicas": 4}})
    answer = await client.transport.request(
        HttpRequest("PUT", path, {}, {"content-type": "application/json"}, body)
    )
    assert answer.status == 200
    await once(client)
    assert len(await pods(client)) == 5
    assert await client.scale(await live(client), lambda now: now - 4) == 0
    await once(client)
    assert len(await pods(client)) == 1


@pytest.mark.rule("kuberay-1d-scale")
async def test_a_cluster_without_a_size_in_its_spec_for_scale_has_no_scale() -> None:
    client = FakeClient()
    client.add(definition())
    client.add(cluster(2))
    with pytest.raises(ApiError, match="replicas"):
        await client.scale(await live(client), lambda now: now + 1)


async def test_the_only_group_is_scaled_by_the_number_in_the_spec_for_scale() -> None:
    made = cluster(2)
    client = FakeClient(RayCluster(metadata=made.metadata, spec=evolve(made.spec, replicas=3)))
    await once(client)
    await settled(client)
    assert len(await pods(client)) == 4
    status = (await live(client)).status
    assert (status.replicas, status.selector) == (3, "ray.io/cluster=ray,ray.io/group=small")
    await change(client, replicas=None)
    await once(client)
    await settled(client)
    status = (await live(client)).status
    assert (status.replicas, status.selector, len(await pods(client))) == (None, None, 3)


# The head.


async def test_a_finished_head_whose_restart_is_disabled_stays() -> None:
    client = FakeClient(annotated(cluster(1), disable_provisioned_head_restart="true"))
    await once(client)
    await become_ready(client)
    await once(client)
    head = next(pod for pod in await pods(client) if "-head-" in pod.name)
    await set_phase(client, head, "Failed")
    made = await once(client)
    assert not [write for write in made.writes if "pods" in write]
    assert condition(made, "HeadPodReady") == "False"
