"""Every object that a RayCluster is made of, as a whole."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from controllers.workergroups import RayCluster
from controllers.workergroups.fault_tolerance import cleanup_job
from controllers.workergroups.ray_autoscaler import permissions
from controllers.workergroups.ray_pods import head_pod, worker_pod
from controllers.workergroups.ray_services import head_ingress, head_service, services
from controllers.workergroups.raycluster_spec import cluster_view
from controllers.workergroups.raycluster_view import ClusterView
from reconcile.blocks import NewHost
from reconcile.models import decode, encode

OWN = Path(__file__).parent / "rayclusters"


def documents(name: str) -> Sequence[Any]:
    return list(yaml.safe_load_all((OWN / name).read_text()))


def view(name: str) -> ClusterView:
    (manifest,) = documents(f"{name}.yaml")
    manifest["metadata"] |= {"uid": "cluster-uid", "namespace": "rays"}
    return cluster_view(encode(decode(RayCluster, msgspec.json.encode(manifest))))


def objects(cluster: ClusterView) -> list[dict[str, Any]]:
    """In the order in which a run makes them, the job that comes last of all at the end."""
    assert not cluster.refused
    head = head_pod(cluster, failures=2)
    workers = [worker_pod(cluster, group, NewHost("r", 3, 1, 1)) for group in cluster.groups]
    job = [] if cluster.fault_tolerance is None else [cleanup_job(cluster, head)]
    around = [*permissions(cluster), *head_ingress(cluster), head_service(cluster), *services(cluster)]
    return [*around, head, *workers, *job]


@pytest.mark.parametrize("name", ["bare", "everything", "fault-tolerant", "several-hosts"])
def test_a_cluster_consists_of_exactly_these_objects(name: str) -> None:
    made = objects(view(name))
    for one, other in zip(made, documents(f"{name}.objects.yaml"), strict=True):
        one["metadata"].get("annotations", {}).pop("ray.io/upgrade-strategy-recreate-hash", None)
        assert one == other
