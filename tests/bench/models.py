"""What it costs to have an object as a typed value: a RayCluster of 4 KB, and a pod of that size."""

import json
from random import Random
from typing import Any, cast

import msgspec
from kubernetes_asyncio.client import ApiClient, V1Pod

from controllers.workergroups import RayCluster
from reconcile.kinds import Pod
from reconcile.models import decode, definition_of, encode
from tests.bench._harness import best_us
from tests.bench.embedded import ray_cluster
from tests.bench.informers import pod

SIZE = 4_400
ROUNDS = 9


def figures() -> dict[str, float]:
    """Microseconds of CPU time a call, and how our reading of a pod compares to kubernetes-asyncio's."""
    cluster, a_pod = _cluster(), _pod()
    value = decode(RayCluster, cluster)
    ours = best_us(lambda: decode(Pod, a_pod), 1000, rounds=ROUNDS)
    theirs = best_us(lambda: _theirs(a_pod), 20, rounds=ROUNDS)
    return {
        "models.decode_us": best_us(lambda: decode(RayCluster, cluster), 1000, rounds=ROUNDS),
        "models.encode_us": best_us(lambda: encode(value), 1000, rounds=ROUNDS),
        "models.decode_pod_us": ours,
        "models.kubernetes_asyncio_pod_us": theirs,
        "models.ratio_to_kubernetes_asyncio": ours / theirs,
        "models.definition_us": best_us(lambda: definition_of(RayCluster), 20, rounds=ROUNDS),
    }


_client = cast(Any, ApiClient.__new__(ApiClient))


def _theirs(body: bytes) -> Any:
    """From JSON to their model, as their client does it."""
    return _client._ApiClient__deserialize(json.loads(body), V1Pod)


def _pod() -> bytes:
    body = pod(0, Random(0), 1)
    for status in body["status"]["containerStatuses"]:
        status |= {"image": "app", "imageID": "sha256:0", "restartCount": 0}  # their model needs these
    return _filled(body)


def _cluster() -> bytes:
    condition = {
        "status": "True",
        "reason": "AsItShouldBe",
        "message": "",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
        "observedGeneration": 3,
    }
    metadata = {
        "name": "cluster",
        "namespace": "default",
        "uid": "0d9f4b0e-0000-4000-8000-000000000001",
        "resourceVersion": "123456",
        "generation": 3,
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "labels": {"app": "ray", "team": "a"},
    }
    status = {
        "state": "ready",
        "desiredWorkerReplicas": 2,
        "readyWorkerReplicas": 2,
        "desiredCPU": "3",
        "head": {"podIP": "10.0.0.1", "podName": "cluster-head"},
        "conditions": [{"type": name, **condition} for name in ("HeadPodReady", "RayClusterProvisioned")],
        "observedGeneration": 3,
    }
    spec = {"rayVersion": "2.9.0", **ray_cluster(2)}
    body = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": metadata}
    return _filled({**body, "spec": spec, "status": status})


def _filled(body: dict[str, Any]) -> bytes:
    """Its JSON, filled up to 4 KB by an annotation."""
    body["metadata"]["annotations"] = {"note": ""}
    short = SIZE - len(msgspec.json.encode(body))
    assert short > 0, "the object is too large by itself"
    body["metadata"]["annotations"]["note"] = "x" * short
    return msgspec.json.encode(body)
