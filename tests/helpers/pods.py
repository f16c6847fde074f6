"""Pods for tests."""

from collections.abc import Sequence
from typing import Any

from reconcile import ObjectMeta
from reconcile.kinds import Pod, PodCondition, PodSpec, PodStatus

CONTAINERS = ({"name": "main", "image": "image:1"},)


def pod(
    name: str = "p",
    phase: str = "",
    *,
    ready: bool | None = None,
    address: str = "",
    namespace: str = "default",
    containers: Sequence[Any] = CONTAINERS,
    **metadata: Any,
) -> Pod:
    """A pod; with `ready` it has that condition. Further arguments are those of its metadata."""
    conditions = () if ready is None else (PodCondition("Ready", str(ready)),)
    return Pod(
        metadata=ObjectMeta(name, namespace, **metadata),
        spec=PodSpec(containers=tuple(containers)),
        status=PodStatus(phase=phase, pod_ip=address, conditions=conditions),
    )
