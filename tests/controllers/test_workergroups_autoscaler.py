"""The container of the autoscaler beside Ray: what it shares with Ray, and what the user's options add."""

from typing import Any

from attrs import evolve

from controllers.workergroups.ray_pods import head_pod
from controllers.workergroups.raycluster_view import HeadView
from tests.controllers.ray_manifests import cluster, environment, template

LOGS = "/tmp/ray"


def containers(ray: dict[str, Any] | None = None, **options: Any) -> list[dict[str, Any]]:
    made = head_pod(evolve(cluster(ray), autoscaler=options))
    found: list[dict[str, Any]] = made["spec"]["containers"]
    return found


def mounts(container: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["name"], one["mountPath"]) for one in container["volumeMounts"]]


def test_the_autoscaler_container_knows_its_pod_and_cluster() -> None:
    _, beside = containers()
    assert environment(beside)["RAY_CLUSTER_NAME"] == "metadata.labels['ray.io/cluster']"
    assert environment(beside)["RAY_CLUSTER_NAMESPACE"] == "metadata.namespace"
    assert environment(beside)["RAY_HEAD_POD_NAME"] == "metadata.name"


def test_ray_logs_are_shared_through_the_users_mount_or_else_a_separate_volume() -> None:
    ray, beside = containers()
    assert (mounts(ray), mounts(beside)) == ([("ray-logs", LOGS)], [("ray-logs", LOGS)])
    ray, beside = containers({"volumeMounts": [{"name": "other", "mountPath": "/other"}]})
    assert (mounts(ray), mounts(beside)) == ([("other", "/other"), ("ray-logs", LOGS)], [("ray-logs", LOGS)])
    ray, beside = containers({"volumeMounts": [{"name": "mine", "mountPath": LOGS}]})
    assert (mounts(ray), mounts(beside)) == ([("mine", LOGS)], [("mine", LOGS)])


def test_no_volume_is_added_that_exists_or_that_nothing_mounts() -> None:
    def volumes(ray: dict[str, Any], *given: str) -> list[str]:
        pod = template(ray, volumes=[{"name": name, "emptyDir": {}} for name in given])
        view = evolve(cluster(), head=HeadView(template=pod), autoscaler={})
        return [one["name"] for one in head_pod(view)["spec"]["volumes"]]

    assert volumes({}, "other") == ["other", "ray-logs"]
    assert volumes({}, "other", "ray-logs") == ["other", "ray-logs"]
    assert volumes({"volumeMounts": [{"name": "mine", "mountPath": LOGS}]}, "mine") == ["mine"]
    mounted = {
        "volumeMounts": [{"name": "other", "mountPath": "/other"}, {"name": "mine", "mountPath": LOGS}]
    }
    assert volumes(mounted, "other", "mine") == ["other", "mine"]


def test_autoscaler_options_override_shared_settings() -> None:
    options = {
        "env": [{"name": "RAY_AUTH_TOKEN", "value": "mine"}],
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    }
    _, beside = head_pod(evolve(cluster(), autoscaler=options, token_secret="s"))["spec"]["containers"]
    assert [one for one in beside["env"] if one["name"] == "RAY_AUTH_TOKEN"] == options["env"]
    assert {"name": "RAY_AUTH_MODE", "value": "token"} in beside["env"]
    assert mounts(beside) == [("ray-logs", LOGS), ("v", "/v")]
