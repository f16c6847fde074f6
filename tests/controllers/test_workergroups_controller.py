"""One run at a time: what the controller of worker groups sends, says, and leaves alone."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from controllers.workergroups import RayCluster, definition
from controllers.workergroups.models import HeadGroupSpec
from reconcile.kinds import Service
from reconcile.testing import FakeClient, Fault, FaultPlan, Refuse, When
from tests.controllers.ray_runs import become_ready, cluster, live, once, pods, set_phase
from tests.controllers.world import SAMPLES

OURS = Path(__file__).parents[2] / "docs" / "samples" / "ray-cluster.yaml"
OWN = Path(__file__).parent / "rayclusters"
THEIRS = SAMPLES / "kuberay"

needs_samples = pytest.mark.skipif(
    not THEIRS.is_dir(), reason="KubeRay's own samples are not on this machine: see USERS_SAMPLES"
)


async def scale(client: FakeClient, replicas: int) -> None:
    def change(old: RayCluster) -> RayCluster:
        return RayCluster(metadata=old.metadata, spec=cluster(replicas).spec, status=old.status)

    await client.modify(RayCluster, "ray", "default", change)


async def test_a_new_cluster_gets_its_service_its_head_and_its_workers() -> None:
    client = FakeClient(cluster(2))
    made = await once(client)
    assert made.writes == [
        "apply services default/ray-head-svc",
        "create pods default/ray-head-*",
        "create pods default/ray-small-worker-*",
        "create pods default/ray-small-worker-*",
        "patch rayclusters/status default/ray",
    ]
    assert sorted(event.split(":")[0] for event in made.events) == [
        "Normal CreatedHeadPod",
        "Normal CreatedWorkerPod",
        "Normal CreatedWorkerPod",
    ]
    owner = await live(client)
    for pod in await pods(client):
        assert [reference.uid for reference in pod.metadata.owner_references] == [owner.uid]


async def test_a_ready_cluster_has_a_ready_status_and_gets_no_further_writes() -> None:
    client = FakeClient(cluster(2))
    await once(client)
    await become_ready(client)
    settled = await once(client)
    assert settled.conditions["HeadPodReady"]["status"] == "True"
    assert settled.conditions["RayClusterProvisioned"]["status"] == "True"
    status = (await live(client)).status
    assert (status.state, status.desired_worker_replicas, status.ready_worker_replicas) == ("ready", 2, 2)
    assert status.head.service_name == "ray-head-svc"
    # A headless Service has no address of its own.
    assert status.head.service_ip == status.head.pod_ip == "10.0.0.1"
    assert status.observed_generation == 1
    again = await once(client)
    assert (again.writes, again.events) == ([], [])


async def test_a_surplus_worker_is_deleted_by_its_uid_with_an_event() -> None:
    client = FakeClient(cluster(2))
    await once(client)
    before = {pod.uid for pod in await pods(client)}
    await scale(client, 1)
    made = await once(client)
    deletions = [request for request in client.transport.requests if request.verb == "delete"]
    assert len(deletions) == 1
    assert deletions[0].body["preconditions"]["uid"] in before
    assert len(await pods(client)) == 2
    assert [event.split(":")[0] for event in made.events] == ["Normal DeletedWorkerPod"]


async def test_a_pod_that_was_recreated_under_its_name_is_not_deleted() -> None:
    """The server refuses the uid, and the next run sees the new pod for what it is."""
    conflict = Refuse(409, "Conflict", "Precondition failed: UID in precondition: a, UID in object meta: b")
    client = FakeClient(cluster(2), plan=FaultPlan((Fault(When("delete"), conflict),)))
    await once(client)
    await scale(client, 1)
    assert (await once(client)).retry
    assert len(await pods(client)) == 3
    assert (await once(client)).error is None
    assert len(await pods(client)) == 2


@pytest.mark.rule("kuberay-1d-05")
async def test_a_failed_head_is_replaced() -> None:
    client = FakeClient(cluster(1))
    await once(client)
    head = next(pod for pod in await pods(client) if "-head-" in pod.name)
    await set_phase(client, head, "Failed")
    made = await once(client)
    assert f"delete pods default/{head.name}" in made.writes
    assert "create pods default/ray-head-*" in made.writes
    heads = [pod for pod in await pods(client) if "-head-" in pod.name]
    assert [pod.uid != head.uid for pod in heads] == [True]


@pytest.mark.rule("kuberay-1d-provisioned")
async def test_provisioned_stays_true_after_a_worker_turns_not_ready() -> None:
    client = FakeClient(cluster(1))
    await once(client)
    await become_ready(client)
    await once(client)
    for pod in await pods(client):
        await set_phase(client, pod, "Running")
    made = await once(client)
    assert made.conditions["RayClusterProvisioned"]["status"] == "True"
    assert made.conditions["HeadPodReady"]["status"] == "False"
    assert (await live(client)).status.state == ""


@pytest.mark.rule("kuberay-1d-14")
async def test_a_cluster_managed_by_another_controller_is_not_written_to() -> None:
    client = FakeClient(cluster(2, managed_by="kueue.x-k8s.io/multikueue"))
    made = await once(client)
    assert (made.writes, made.events, made.error) == ([], [], None)


async def test_an_unsupported_feature_refuses_the_whole_cluster_and_is_reported_once() -> None:
    client = FakeClient(cluster(2, network_policy={"mode": "DenyAll"}))
    made = await once(client)
    assert made.writes == ["patch rayclusters/status default/ray"]
    assert len(made.events) == 1
    assert "spec.networkPolicy is not supported" in made.events[0]
    assert made.conditions["ReplicaFailure"]["reason"] == "Refused"
    assert (await live(client)).status.state == "failed"
    again = await once(client)
    assert (again.writes, again.events, again.retry) == ([], [], False)


@pytest.mark.rule("kuberay-1d-bad-input")
async def test_a_malformed_template_is_a_warning_and_a_condition_and_not_a_crash() -> None:
    client = FakeClient(cluster(2, head_group_spec=HeadGroupSpec({"spec": {"containers": "ray"}})))
    made = await once(client)
    path = "spec.headGroupSpec.template.spec.containers"
    assert [path in event and event.startswith("Warning Refused") for event in made.events] == [True]
    assert path in made.conditions["ReplicaFailure"]["message"]
    assert (made.error, made.retry) == (None, False)
    again = await once(client)
    assert (again.writes, again.events) == ([], [])


@pytest.mark.rule("kuberay-1d-14")
async def test_a_pod_that_cannot_be_created_is_a_condition_and_is_retried() -> None:
    quota = Refuse(403, "Forbidden", "exceeded quota: pods=1")
    full = FaultPlan((Fault(When("create", "*/pods", nth=2), quota),))
    client = FakeClient(cluster(2), plan=full)
    made = await once(client)
    assert made.retry
    failure = made.conditions["ReplicaFailure"]
    assert (failure["status"], failure["reason"]) == ("True", "FailedCreateWorkerPod")
    assert failure["message"] == "exceeded quota: pods=1"
    assert "Warning FailedCreateWorkerPod: exceeded quota: pods=1" in made.events
    later = await once(client)
    assert later.error is None
    assert later.conditions["ReplicaFailure"]["status"] == "False"
    assert len(await pods(client)) == 3


async def test_a_manually_changed_service_is_repaired() -> None:
    client = FakeClient(cluster(1))
    await once(client)
    service = await client.get(Service, "ray-head-svc", "default")
    await client.raw.merge(service, {"spec": {"selector": {"ray.io/cluster": "elsewhere"}}}, guard={})
    await once(client)
    mended = await client.get(Service, "ray-head-svc", "default")
    assert mended.spec.selector["ray.io/cluster"] == "ray"


# The definition, and the manifests that users have.


def test_our_definition_serves_kuberays_columns_and_a_status() -> None:
    version = definition()["spec"]["versions"][0]
    columns = {column["name"]: column["type"] for column in version["additionalPrinterColumns"]}
    assert columns["desired workers"] == "integer"
    assert list(columns)[-1] == "Age"
    assert set(version["subresources"]) == {"status", "scale"}
    assert definition()["metadata"]["name"] == "rayclusters.ray.io"


@needs_samples
def test_our_columns_equal_those_of_kuberay() -> None:
    def columns(version: dict[str, Any]) -> set[tuple[str, str, int]]:
        found = version["additionalPrinterColumns"]
        return {(one["name"].lower(), one["jsonPath"], one.get("priority", 0)) for one in found}

    versions = manifest(THEIRS / "crd-rayclusters.yaml")["spec"]["versions"]
    theirs = next(version for version in versions if version["name"] == "v1")
    assert columns(definition()["spec"]["versions"][0]) == columns(theirs)


@needs_samples
def test_the_model_has_every_field_of_kuberays_spec() -> None:
    """What the model does not have could be asked for without being refused."""
    ours = definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    versions = manifest(THEIRS / "crd-rayclusters.yaml")["spec"]["versions"]
    theirs = next(v for v in versions if v["name"] == "v1")["schema"]["openAPIV3Schema"]["properties"]
    for path in (("spec",), ("spec", "headGroupSpec"), ("spec", "workerGroupSpecs"), ("status",)):
        assert fields(theirs, path) - fields(ours, path) == set()


def fields(properties: dict[str, Any], path: tuple[str, ...]) -> set[str]:
    node: dict[str, Any] = {"properties": properties}
    for name in path:
        node = node["properties"][name]
        node = node.get("items", node)
    return set(node["properties"])


async def test_the_sample_of_this_project_runs() -> None:
    await run_sample(FakeClient(), manifest(OURS))


SAMPLE_NAMES = ("sample", "complete", "autoscaler")


@pytest.mark.parametrize("installed", ["ours", "theirs"])
@pytest.mark.parametrize("name", SAMPLE_NAMES)
async def test_kuberay_samples_run_unchanged_with_either_definition(name: str, installed: str) -> None:
    if not THEIRS.is_dir():
        pytest.skip(f"1 of {2 * len(SAMPLE_NAMES)} runs of KubeRay's samples skipped: see USERS_SAMPLES")
    client = FakeClient()
    client.add(manifest(THEIRS / "crd-rayclusters.yaml") if installed == "theirs" else definition())
    first, *others = manifests(THEIRS / f"ray-cluster.{name}.yaml")
    for other in others:
        client.add(other)
    await run_sample(client, first)


@pytest.mark.parametrize("name", ["everything", "fault-tolerant", "several-hosts"])
async def test_realistic_clusters_run(name: str) -> None:
    """Where there are no samples of KubeRay's, these still show what theirs do and more."""
    for made in manifests(OWN / f"{name}.yaml"):
        await run_sample(FakeClient(), made)


def manifest(file: Path) -> dict[str, Any]:
    return manifests(file)[0]


def manifests(file: Path) -> list[dict[str, Any]]:
    return [one for one in yaml.load_all(file.read_text(), Loader=yaml.CSafeLoader) if one]


async def run_sample(client: FakeClient, sample: dict[str, Any]) -> None:
    client.serve(RayCluster)
    name = client.add(sample)["metadata"]["name"]
    assert (await once(client, name)).error is None
    await become_ready(client)
    assert (await once(client, name)).error is None
    assert (await live(client, name)).status.state == "ready"
    assert (await once(client, name)).writes == []
