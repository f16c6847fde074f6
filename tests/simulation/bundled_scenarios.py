"""The library's own controllers in stories that every fault may meet; `REAL_CRD` is KubeRay's own."""

import base64
import copy
import json
from pathlib import Path
from typing import Any

import yaml

from controllers import registrysecrets, workergroups
from controllers.workergroups import RayCluster
from reconcile.blocks import Consent
from reconcile.kinds import Pod, Secret
from reconcile.simulation import Delays
from reconcile.testing import Apply, Delete, Edit, Scenario, World

SAMPLES = Path(__file__).parents[2].parent / "shared" / "samples"
REAL_CRD = SAMPLES / "kuberay" / "crd-rayclusters.yaml"


# --- worker groups --------------------------------------------------------------------------------


def cluster(replicas: int = 2) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "ray", "image": "ray:2"}]}}
    group = {
        "groupName": "small", "replicas": replicas, "minReplicas": 0, "maxReplicas": 5,
        "rayStartParams": {}, "template": template,
    }  # fmt: skip
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "demo", "namespace": "default"},
        "spec": {
            "headGroupSpec": {"rayStartParams": {}, "template": copy.deepcopy(template)},
            "workerGroupSpecs": [group],
        },
    }


DEMO = "/apis/ray.io/v1/namespaces/default/rayclusters/demo"


def as_many_workers_as_asked_for(world: World) -> None:
    for one in world.objects(RayCluster):
        groups = one.spec.worker_group_specs
        sizes = [group.replicas or 0 for group in groups]
        if len(groups) == 1 and one.spec.replicas is not None:
            sizes = [one.spec.replicas]  # which comes before that of the group: it is what /scale sets
        wanted = 1 + sum(sizes)
        pods = [pod for pod in world.objects(Pod) if not pod.terminating]
        assert len(pods) == wanted, f"{len(pods)} pods, {wanted} asked for"


def worker_groups(*, definition: dict[str, Any] | None = None) -> Scenario:
    return Scenario(
        controllers=workergroups.make_controller,
        definitions=[definition or workergroups.definition()],
        steps=[Apply(cluster()), Apply(cluster(3)), Apply(cluster(1)), Delete(DEMO)],
        invariants=[as_many_workers_as_asked_for],
        nodes=Delays(),
    )


def real_definition() -> dict[str, Any]:
    found: dict[str, Any] = yaml.load(
        REAL_CRD.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    )
    return found


# --- registry secrets -----------------------------------------------------------------------------

HOME = "kubero"
AGREED = Consent(sources=[f"{HOME}:{HOME}/registry-login"], namespaces=[f"{HOME}:shop-*"])
PIPELINE = f"/apis/application.kubero.dev/v1alpha1/namespaces/{HOME}/kuberopipelines/shop"
SOURCE = f"/api/v1/namespaces/{HOME}/secrets/registry-login"
DOCKER = ".dockerconfigjson"


def source(password: str) -> dict[str, Any]:
    login = {"auths": {"registry.example.com": {"username": "ci", "password": password}}}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "registry-login", "namespace": HOME},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {DOCKER: base64.b64encode(json.dumps(login).encode()).decode()},
    }


def pipeline(*phases: str) -> dict[str, Any]:
    return {
        "apiVersion": "application.kubero.dev/v1alpha1",
        "kind": "KuberoPipeline",
        "metadata": {"name": "shop", "namespace": HOME},
        "spec": {
            "name": "shop",
            "mainnamespace": HOME,
            "registry": {"createSecret": "copy", "host": "registry.example.com"},
            "phases": [{"name": phase, "enabled": True} for phase in phases],
        },
    }


def every_copy_holds_what_the_source_holds(world: World) -> None:
    source = world.find(Secret, "registry-login", HOME)
    for secret in world.objects(Secret):
        if secret.name == "kubero-pull-secret" and source is not None:
            assert dict(secret.data) == dict(source.data), f"{secret.namespace} has an old copy"


def registry_secrets() -> Scenario:
    return Scenario(
        controllers=lambda: registrysecrets.make_controller(AGREED),
        definitions=[registrysecrets.definition()],
        steps=[
            Apply(source("one")),
            Apply(pipeline("test", "production")),
            Apply(source("two")),
            Edit("/api/v1/namespaces/shop-test/secrets/kubero-pull-secret", {"data": {DOCKER: "e30="}}),
            Apply(pipeline("test")),
            Delete(PIPELINE),
        ],
        invariants=[every_copy_holds_what_the_source_holds],
    )


BUNDLED = {"registry-secrets": registry_secrets, "worker-groups": worker_groups}
