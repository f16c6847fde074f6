"""The operator of docs/examples/site, without its Secrets and its condition, on kopf."""

from typing import Any

import dns
import kopf
from kubernetes import client, config

SITES = {"group": "example.com", "version": "v1", "plural": "sites"}


@kopf.on.startup()
def connect(**_: Any) -> None:
    config.load_kube_config()


def deployment_for(name: str, spec: kopf.Spec) -> dict[str, Any]:
    labels = {"site": name}
    pod = {"containers": [{"name": "web", "image": spec["image"]}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": spec.get("replicas", 1),
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


@kopf.on.resume(**SITES)
@kopf.on.create(**SITES)
@kopf.on.update(**SITES, field="spec")
def keep_site(
    body: kopf.Body, spec: kopf.Spec, name: str, namespace: str, patch: kopf.Patch, **_: Any
) -> None:
    wanted = deployment_for(name, spec)
    kopf.adopt(wanted, owner=body)
    live = client.AppsV1Api().patch_namespaced_deployment(
        name,
        namespace,
        wanted,
        field_manager="sites",
        force=True,
        _content_type="application/apply-patch+yaml",
    )
    dns.upsert(name)
    patch.status["ready"] = live.status.ready_replicas or 0


@kopf.on.delete(**SITES)
def drop_site(name: str, **_: Any) -> None:
    dns.delete(name)


@kopf.on.event("apps", "v1", "deployments", labels={"site": kopf.PRESENT})
def follow_deployment(event: kopf.RawEvent, name: str, namespace: str, status: kopf.Status, **_: Any) -> None:
    sites = client.CustomObjectsApi()
    where = (SITES["group"], SITES["version"], namespace, SITES["plural"], name)
    try:
        site = sites.get_namespaced_custom_object(*where)
        if event["type"] != "DELETED":
            ready = {"status": {"ready": status.get("readyReplicas", 0)}}
            sites.patch_namespaced_custom_object_status(*where, ready)
        elif "deletionTimestamp" not in site["metadata"]:
            wanted = deployment_for(name, site["spec"])
            kopf.adopt(wanted, owner=site)
            client.AppsV1Api().create_namespaced_deployment(namespace, wanted)
    except client.ApiException as error:
        if error.status != 404:
            raise
