"""The manifests of a RayCluster's head, workers and head Service."""

from types import MappingProxyType
from typing import Any

import pytest
from attrs import evolve

from controllers.workergroups.ray_pods import head_pod, worker_pod
from controllers.workergroups.ray_services import head_service
from controllers.workergroups.raycluster_view import ClusterView, GroupView, HeadView
from tests.controllers.ray_manifests import cluster, environment, template

HEAD_HOST = "ray-head-svc.default.svc.cluster.local"
RESOURCES = {"limits": {"cpu": "1500m", "memory": "1Gi"}, "requests": {"cpu": "1"}}


def cluster_of(head: dict[str, Any]) -> ClusterView:
    return ClusterView("ray", "default", "cluster-uid", head=HeadView(template=head))


def worker_of(view: ClusterView) -> dict[str, Any]:
    return worker_pod(view, view.groups[0])


def ray_container(pod: dict[str, Any]) -> dict[str, Any]:
    container: dict[str, Any] = pod["spec"]["containers"][0]
    return container


def test_the_head_starts_ray_as_head_with_what_its_container_may_use() -> None:
    pod = head_pod(cluster({"resources": RESOURCES}))
    assert ray_container(pod)["command"] == ["/bin/bash", "-c", "--"]
    assert ray_container(pod)["args"] == [
        (
            "ulimit -n 65536; ray start --head --block --dashboard-agent-listen-port=52365 "
            "--dashboard-host=0.0.0.0 --memory=1073741824 --metrics-export-port=8080 --num-cpus=2"
        )
    ]


def test_a_worker_starts_ray_at_the_heads_address() -> None:
    (line,) = ray_container(worker_of(cluster()))["args"]
    assert line == (
        f"ulimit -n 65536; ray start --address={HEAD_HOST}:6379 --block "
        "--dashboard-agent-listen-port=52365 --metrics-export-port=8080"
    )


@pytest.mark.parametrize(
    ("params", "flag"),
    [
        ({"num-cpus": "0"}, "--num-cpus=0"),
        ({"memory": "5"}, "--memory=5"),
        ({"dashboard-host": "127.0.0.1"}, "--dashboard-host=127.0.0.1"),
        ({"no-monitor": "true"}, "--no-monitor"),
        ({"include-dashboard": "False"}, "--include-dashboard=False"),
        ({"block": "false"}, "--block"),
    ],
)
def test_given_start_params_win_save_block(params: dict[str, str], flag: str) -> None:
    (line,) = ray_container(head_pod(cluster({"resources": RESOURCES}, params)))["args"]
    assert flag in line.split()


def test_a_switch_that_is_off_is_left_out() -> None:
    (line,) = ray_container(head_pod(cluster(params={"no-monitor": "false"})))["args"]
    assert "no-monitor" not in line


@pytest.mark.parametrize(
    ("limits", "params", "flag"),
    [
        ({"nvidia.com/gpu": "2"}, {}, "--num-gpus=2"),
        ({"nvidia.com/mig-1g.5gb": "1"}, {}, "--num-gpus=1"),
        ({"google.com/tpu": "4"}, {}, "--resources='{\"TPU\":4}'"),
        ({"google.com/tpu": "4"}, {"resources": "'{\"extra\":1}'"}, '--resources=\'{"extra":1.0,"TPU":4}\''),
        ({"google.com/tpu": "4"}, {"resources": "'{\"TPU\":8}'"}, "--resources='{\"TPU\":8}'"),
        ({"google.com/tpu": "4"}, {"resources": "$(cat r)"}, "--resources=$(cat r)"),
        ({}, {"resources": "'{\"extra\":1}'"}, "--resources='{\"extra\":1}'"),
    ],
)
def test_accelerators_become_ray_resources(limits: dict[str, str], params: dict[str, str], flag: str) -> None:
    (line,) = ray_container(head_pod(cluster({"resources": {"limits": limits}}, params)))["args"]
    assert flag in line


def test_cpus_are_those_requested_when_there_is_no_limit() -> None:
    (line,) = ray_container(head_pod(cluster({"resources": {"requests": {"cpu": "3"}}})))["args"]
    assert "--num-cpus=3" in line.split()


def test_a_command_of_the_users_runs_before_ray() -> None:
    (line,) = ray_container(head_pod(cluster({"command": ["echo"], "args": ["hello"]})))["args"]
    assert line.startswith("echo hello && ulimit -n 65536; ray start --head")


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


def test_the_overwrite_annotation_reaches_pods_beside_their_own_and_may_be_theirs_alone() -> None:
    overwrite = "ray.io/overwrite-container-cmd"
    own = {"metadata": {"annotations": {"a": "b"}}, **template({"command": ["mine"]})}
    asked = evolve(cluster(), annotations={overwrite: "TRUE"})
    worker = worker_pod(asked, evolve(asked.groups[0], template=own))
    assert worker["metadata"]["annotations"] == {"a": "b", overwrite: "true"}
    for said, command in (("True", ["mine"]), ("false", ["/bin/bash", "-c", "--"])):
        theirs = {**own, "metadata": {"annotations": {overwrite: said}}}
        assert ray_container(head_pod(cluster_of(theirs)))["command"] == command


def test_a_head_in_whose_place_none_broke_is_not_marked_with_a_count() -> None:
    counted = "worker-groups.reconcile-runtime/failures"
    assert counted not in head_pod(cluster())["metadata"]["annotations"]
    assert head_pod(cluster(), failures=1)["metadata"]["annotations"][counted] == "1"


def test_the_environment_says_where_the_cluster_is() -> None:
    head, worker = head_pod(cluster()), worker_of(cluster())
    common = {
        "RAY_CLUSTER_NAME": "metadata.labels['ray.io/cluster']",
        "RAY_CLOUD_INSTANCE_ID": "metadata.name",
        "RAY_NODE_TYPE_NAME": "metadata.labels['ray.io/group']",
        "RAY_PORT": "6379",
    }
    of_head, of_worker = environment(ray_container(head)), environment(ray_container(worker))
    assert of_head.pop("KUBERAY_GEN_RAY_START_CMD").startswith("ray start --head --block")
    assert of_worker.pop("KUBERAY_GEN_RAY_START_CMD").startswith("ray start --address")
    assert of_head == {**common, "RAY_ADDRESS": "127.0.0.1:6379"}
    located = {"FQ_RAY_IP": HEAD_HOST, "RAY_IP": "ray-head-svc", "RAY_ADDRESS": f"{HEAD_HOST}:6379"}
    assert of_worker == {**common, **located}


def test_variables_the_user_sets_stay() -> None:
    container = ray_container(worker_of(cluster({"env": [{"name": "RAY_ADDRESS", "value": "mine"}]})))
    assert [one for one in container["env"] if one["name"] == "RAY_ADDRESS"] == [
        {"name": "RAY_ADDRESS", "value": "mine"}
    ]


def test_a_worker_waits_for_the_head_before_ray_starts() -> None:
    ray = {"env": [{"name": "TLS", "value": "1"}], "volumeMounts": [{"name": "certs", "mountPath": "/c"}]}
    view = cluster(ray)
    first = {"name": "mine", "image": "busybox"}
    group = evolve(view.groups[0], template=template(ray, initContainers=[first]))
    mine, waiting = worker_pod(view, group)["spec"]["initContainers"]
    assert mine["name"] == "mine"
    assert environment(mine)["FQ_RAY_IP"] == HEAD_HOST
    assert (waiting["name"], waiting["image"]) == ("wait-gcs-ready", "ray:1")
    assert f"ray health-check --address {HEAD_HOST}:6379" in waiting["args"][0]
    assert environment(waiting) == {"TLS": "1", "FQ_RAY_IP": HEAD_HOST, "RAY_IP": "ray-head-svc"}
    assert waiting["volumeMounts"] == ray["volumeMounts"]
    assert "initContainers" not in head_pod(view)["spec"]


def test_the_port_of_the_head_reaches_everyone() -> None:
    view = cluster(params={"port": "7000"})
    assert environment(ray_container(head_pod(view)))["RAY_ADDRESS"] == "127.0.0.1:7000"
    assert f"--address={HEAD_HOST}:7000" in ray_container(worker_of(view))["args"][0]
    assert 7000 in [port["port"] for port in head_service(view)["spec"]["ports"]]


def test_labels_tell_pods_apart_and_the_users_win_elsewhere() -> None:
    given = {
        "team": "a",
        "app.kubernetes.io/name": "mine",
        "ray.io/group": "forged",
        "ray.io/cluster": "forged",
    }
    view = cluster()
    labelled = evolve(view.groups[0], template={**template(), "metadata": {"labels": given}})
    assert worker_pod(view, labelled)["metadata"]["labels"] == {
        "team": "a",
        "app.kubernetes.io/name": "mine",
        "app.kubernetes.io/created-by": "kuberay-operator",
        "ray.io/cluster": "ray",
        "ray.io/node-type": "worker",
        "ray.io/group": "small",
        "ray.io/identifier": "ray-worker",
        "ray.io/is-ray-node": "yes",
    }


def test_labels_for_a_batch_scheduler_reach_the_pods() -> None:
    queue, kueue = "volcano.sh/queue-name", "kueue.x-k8s.io/queue-name"
    view = evolve(
        cluster(),
        labels={queue: "tpus", kueue: "tpus", "team": "blue"},
        annotations={"yunikorn.apache.org/task-group-name": "g", "team": "blue"},
    )
    for pod in (head_pod(view), worker_of(view)):
        assert pod["metadata"]["labels"][queue] == "tpus"
        assert not {kueue, "team"} & set(pod["metadata"]["labels"])
        assert pod["metadata"]["annotations"]["yunikorn.apache.org/task-group-name"] == "g"
        assert "team" not in pod["metadata"]["annotations"]
    own = evolve(view.head, template={"metadata": {"labels": {queue: "own"}}, **template()})
    assert head_pod(evolve(view, head=own))["metadata"]["labels"][queue] == "own"


def test_pods_get_generated_names_in_the_clusters_namespace() -> None:
    view = cluster()
    named = evolve(view.head, template={**template(), "metadata": {"name": "fixed", "namespace": "other"}})
    head, worker = head_pod(evolve(view, head=named))["metadata"], worker_of(view)["metadata"]
    assert (head["generateName"], head["namespace"]) == ("ray-head-", "default")
    assert (worker["generateName"], worker["namespace"]) == ("ray-small-worker-", "default")
    assert "name" not in head


def test_fields_unknown_here_stay_in_the_pod() -> None:
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
    frozen = MappingProxyType(
        {"spec": MappingProxyType({"containers": (MappingProxyType({"name": "ray", "image": "i"}),)})}
    )
    view = cluster()
    immutable = evolve(view, head=HeadView(template=frozen), groups=(GroupView("small", template=frozen),))
    assert head_pod(immutable) == head_pod(immutable)
    assert worker_of(immutable)["spec"]["containers"][0]["image"] == "i"
    assert dict(frozen["spec"]["containers"][0]) == {"name": "ray", "image": "i"}


# The head Service.


def test_the_head_service_is_headless_and_selects_the_head_pod() -> None:
    service = head_service(
        cluster({"ports": [{"containerPort": 6379, "name": "gcs"}, {"containerPort": 9000}]})
    )
    assert (service["metadata"]["name"], service["metadata"]["namespace"]) == ("ray-head-svc", "default")
    assert service["spec"]["type"] == "ClusterIP"
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    labels = head_pod(cluster())["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    assert service["spec"]["selector"]["ray.io/node-type"] == "head"
    assert [(port["name"], port["port"]) for port in service["spec"]["ports"]] == [
        ("9000-port", 9000),
        ("client", 10001),
        ("dashboard", 8265),
        ("gcs", 6379),
        ("metrics", 8080),
        ("serve", 8000),
    ]


def test_a_relabelled_head_is_still_selected() -> None:
    view = cluster()
    relabelled = {**template(), "metadata": {"labels": {"app.kubernetes.io/name": "mine"}}}
    changed = evolve(view, head=HeadView(template=relabelled))
    assert (
        head_service(changed)["spec"]["selector"].items() <= head_pod(changed)["metadata"]["labels"].items()
    )


def test_another_service_type_is_not_headless() -> None:
    spec = head_service(cluster(service_type="NodePort"))["spec"]
    assert spec["type"] == "NodePort"
    assert "clusterIP" not in spec


def test_a_head_service_of_the_users_keeps_all_but_selector_and_our_ports() -> None:
    given = {
        "metadata": {"name": "mine", "labels": {"team": "a"}, "annotations": {"a": "b"}},
        "spec": {
            "type": "LoadBalancer",
            "selector": {"forged": "yes"},
            "sessionAffinity": "ClientIP",
            "ports": [{"name": "dashboard", "port": 1}, {"name": "extra", "port": 2}],
        },
    }
    view = cluster(service=given, service_type="NodePort", service_annotations={"c": "d"})
    service = head_service(view)
    assert service["metadata"]["name"] == "mine"
    assert service["metadata"]["labels"]["team"] == "a"
    assert service["metadata"]["annotations"] == {"a": "b", "c": "d"}
    assert (service["spec"]["type"], service["spec"]["sessionAffinity"]) == ("LoadBalancer", "ClientIP")
    assert "forged" not in service["spec"]["selector"]
    ports = {port["name"]: port["port"] for port in service["spec"]["ports"]}
    assert (ports["dashboard"], ports["extra"]) == (8265, 2)
    assert "--address=mine.default.svc.cluster.local:6379" in ray_container(worker_of(view))["args"][0]
