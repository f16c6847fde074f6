"""RayClusters with features, and runs of them."""

from typing import Any

from attrs import evolve

from controllers.workergroups import RayCluster
from reconcile.models import encode, unstructured_kind
from reconcile.testing import FakeClient
from tests.controllers.ray_runs import cluster, once

WholePod = unstructured_kind("v1", "Pod")


async def change(client: FakeClient, **spec: Any) -> None:
    def changed(old: RayCluster) -> RayCluster:
        return RayCluster(metadata=old.metadata, spec=evolve(old.spec, **spec), status=old.status)

    await client.modify(RayCluster, "ray", "default", changed)


def with_group(**group: Any) -> RayCluster:
    made = cluster(2)
    changed = evolve(made.spec.worker_group_specs[0], **group)
    return RayCluster(metadata=made.metadata, spec=evolve(made.spec, worker_group_specs=(changed,)))


def annotated(made: RayCluster, **annotations: str) -> RayCluster:
    named = {f"ray.io/{name.replace('_', '-')}": value for name, value in annotations.items()}
    return RayCluster(metadata=evolve(made.metadata, annotations=named), spec=made.spec)


async def bodies(client: FakeClient) -> dict[str, dict[str, Any]]:
    """The pods by their kind: one head, one worker."""
    found = [encode(pod) for pod in await client.list(WholePod, "default")]
    return {pod["metadata"]["labels"]["ray.io/node-type"]: pod for pod in found}


def variables(container: dict[str, Any]) -> dict[str, Any]:
    return {one["name"]: one.get("value") or one.get("valueFrom") for one in container["env"]}


async def settled(client: FakeClient) -> None:
    """See that after one more look at what was made nothing is written."""
    await once(client)
    assert (await once(client)).writes == []
