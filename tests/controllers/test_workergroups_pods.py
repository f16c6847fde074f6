"""The manifests of a RayCluster's pods, where a test of whole objects does not say it."""

from typing import Any

from attrs import evolve

from controllers.workergroups.ray_pods import head_pod, worker_pod
from controllers.workergroups.raycluster_view import ClusterView, GroupView, HeadView
from reconcile.models import freeze
from tests.controllers.ray_manifests import cluster, environment, template

HEAD_HOST = "ray-head-svc.default.svc.cluster.local"


def cluster_of(head: dict[str, Any]) -> ClusterView:
    return ClusterView("ray", "default", "cluster-uid", head=HeadView(template=head))


def worker_of(view: ClusterView) -> dict[str, Any]:
    return worker_pod(view, view.groups[0])


def ray_container(pod: dict[str, Any]) -> dict[str, Any]:
    container: dict[str, Any] = pod["spec"]["containers"][0]
    return container


def test_a_command_that_starts_ray_itself_is_left_alone() -> None:
    own = {"command": ["sh", "-c"], "args": ["ray start --head --block"]}
    container = ray_container(head_pod(cluster(own)))
    assert (container["command"], container["args"]) == (own["command"], own["args"])


def test_the_overwrite_annotation_leaves_every_command_alone() -> None:
    view = evolve(cluster({"command": ["mine"]}), annotations={"ray.io/overwrite-container-cmd": "true"})
    container = ray_container(head_pod(view))
    assert container["command"] == ["mine"]
    assert "args" not in container
    assert environment(container)["KUBERAY_GEN_RAY_START_CMD"].startswith("ray start --head")


def test_the_overwrite_annotation_reaches_all_pods_and_can_be_set_per_pod() -> None:
    overwrite = "ray.io/overwrite-container-cmd"
    own = {"metadata": {"annotations": {"a": "b"}}, **template({"command": ["mine"]})}
    asked = evolve(cluster(), annotations={overwrite: "TRUE"})
    worker = worker_pod(asked, evolve(asked.groups[0], template=own))
    assert worker["metadata"]["annotations"] == {"a": "b", overwrite: "true"}
    for said, command in (("True", ["mine"]), ("false", ["/bin/bash", "-c", "--"])):
        theirs = {**own, "metadata": {"annotations": {overwrite: said}}}
        assert ray_container(head_pod(cluster_of(theirs)))["command"] == command


def test_only_a_head_that_replaces_a_failed_one_has_a_failure_count() -> None:
    counted = "worker-groups.reconcile-runtime/failures"
    assert counted not in head_pod(cluster())["metadata"]["annotations"]
    assert head_pod(cluster(), failures=1)["metadata"]["annotations"][counted] == "1"


def test_unknown_fields_stay_in_the_pod() -> None:
    own = {
        "metadata": {"annotations": {"a": "b"}, "finalizers": ["x/y"]},
        "spec": {
            "newField": {"deep": [1]},
            "containers": [
                {"name": "ray", "image": "ray:1", "newField": 1},
                {"name": "sidecar", "image": "s"},
            ],
        },
    }
    view = cluster()
    pod = worker_pod(view, evolve(view.groups[0], template=own))
    assert pod["metadata"]["annotations"] == {"a": "b"}
    assert pod["metadata"]["finalizers"] == ["x/y"]
    assert pod["spec"]["newField"] == {"deep": [1]}
    assert ray_container(pod)["newField"] == 1
    assert pod["spec"]["containers"][1] == {"name": "sidecar", "image": "s"}


def test_the_template_is_not_changed_and_may_be_immutable() -> None:
    frozen = freeze({"spec": {"containers": [{"name": "ray", "image": "i"}]}})
    view = cluster()
    immutable = evolve(view, head=HeadView(template=frozen), groups=(GroupView("small", template=frozen),))
    assert head_pod(immutable) == head_pod(immutable)
    assert worker_of(immutable)["spec"]["containers"][0]["image"] == "i"
    assert dict(frozen["spec"]["containers"][0]) == {"name": "ray", "image": "i"}
