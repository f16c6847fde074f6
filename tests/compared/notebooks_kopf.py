"""The operator of docs/examples/notebook as it was on kopf, before it was ported."""

from datetime import UTC, datetime, timedelta
from typing import Any

import kopf
import proxy
from kubernetes import client, config

NOTEBOOKS = {"group": "example.com", "version": "v1", "plural": "notebooks"}
HOUR = timedelta(hours=1)


@kopf.on.startup()
def connect(**_: Any) -> None:
    config.load_kube_config()


def claim_for(name: str, spec: kopf.Spec) -> dict[str, Any]:
    resources = {"requests": {"storage": spec.get("storage", "1Gi")}}
    return {"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": resources}}


def service_for(name: str) -> dict[str, Any]:
    ports = [{"port": 80, "targetPort": 8888}]
    return {"metadata": {"name": name}, "spec": {"selector": {"notebook": name}, "ports": ports}}


def deployment_for(name: str, spec: kopf.Spec) -> dict[str, Any]:
    labels = {"notebook": name}
    mounts = [{"name": "home", "mountPath": "/home/jovyan"}]
    pod = {
        "containers": [{"name": "notebook", "image": spec["image"], "volumeMounts": mounts}],
        "volumes": [{"name": "home", "persistentVolumeClaim": {"claimName": name}}],
    }
    template = {"metadata": {"labels": labels}, "spec": pod}
    deployment = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name}, "spec": deployment}


@kopf.on.create(**NOTEBOOKS)
def make_notebook(
    spec: kopf.Spec, name: str, namespace: str, memo: kopf.Memo, patch: kopf.Patch, **_: Any
) -> None:
    core, apps = client.CoreV1Api(), client.AppsV1Api()
    for create, body in (
        (core.create_namespaced_persistent_volume_claim, claim_for(name, spec)),
        (core.create_namespaced_service, service_for(name)),
        (apps.create_namespaced_deployment, deployment_for(name, spec)),
    ):
        kopf.adopt(body)
        try:
            create(namespace, body)
        except client.ApiException as error:
            if error.status != 409:  # an earlier try made it
                raise
    memo.since = datetime.now(UTC)
    route(name, namespace)
    patch.status["url"] = f"https://notebooks.example.com/{name}"


@kopf.on.resume(**NOTEBOOKS)
def resume_notebook(name: str, namespace: str, memo: kopf.Memo, **_: Any) -> None:
    memo.since = datetime.now(UTC)
    route(name, namespace)


def route(name: str, namespace: str) -> None:
    proxy.add_route(name, f"{name}.{namespace}.svc")


@kopf.on.field(**NOTEBOOKS, field="spec.image")
def change_image(old: Any, new: str, name: str, namespace: str, **_: Any) -> None:
    if old is not None:  # it is None when the notebook is made
        containers = [{"name": "notebook", "image": new}]
        patch = {"spec": {"template": {"spec": {"containers": containers}}}}
        client.AppsV1Api().patch_namespaced_deployment(name, namespace, patch)


@kopf.timer(**NOTEBOOKS, interval=60, initial_delay=60)
def put_to_sleep(name: str, namespace: str, memo: kopf.Memo, **_: Any) -> None:
    used = proxy.last_used(name) or memo.since
    awake = datetime.now(UTC) - used < HOUR
    client.AppsV1Api().patch_namespaced_deployment_scale(name, namespace, {"spec": {"replicas": int(awake)}})


@kopf.on.event("apps", "v1", "deployments", labels={"notebook": kopf.PRESENT})
def follow_deployment(name: str, namespace: str, status: kopf.Status, **_: Any) -> None:
    ready = "True" if status.get("readyReplicas") else "False"
    patch = {"status": {"conditions": [{"type": "Ready", "status": ready}]}}
    where = (NOTEBOOKS["group"], NOTEBOOKS["version"], namespace, NOTEBOOKS["plural"], name)
    client.CustomObjectsApi().patch_namespaced_custom_object_status(*where, patch)


@kopf.on.delete(**NOTEBOOKS)
def drop_notebook(name: str, **_: Any) -> None:
    proxy.drop_route(name)
