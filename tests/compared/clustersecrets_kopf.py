"""An operator on kopf that leaves on objects what ClusterSecret leaves, as far as that is documented."""

import re
from typing import Any

import kopf
from kubernetes import client, config

KIND = {"group": "clustersecret.io", "version": "v1", "plural": "clustersecrets"}
MARK = {"clustersecret.io/created-by": "ClusterSecrets"}


@kopf.on.startup()
def connect(**_: Any) -> None:
    config.load_kube_config()


@kopf.on.create(**KIND)
def create_fn(name: str, body: kopf.Body, **_: Any) -> dict[str, list[str]]:
    core = client.CoreV1Api()
    names = [space.metadata.name for space in core.list_namespace().items]
    chosen = [one for one in names if any(re.match(pattern, one) for pattern in body["matchNamespace"])]
    for space in chosen:
        metadata = {"name": name, "namespace": space, "annotations": MARK}
        core.create_namespaced_secret(space, {"metadata": metadata, "data": dict(body["data"])})
    return {"syncedns": chosen}


@kopf.on.delete(**KIND)
def delete_fn(name: str, status: kopf.Status, **_: Any) -> None:
    for space in status["create_fn"]["syncedns"]:
        client.CoreV1Api().delete_namespaced_secret(name, space)
