"""Pods, nodes and pools."""

from typing import Any

from reconcile.blocks import ExpanderOption, NodeTemplate, PodNeeds, Pool, amounts_of, pack, pod_needs


def pod(name: str = "p", cpu: str = "1", memory: str = "1Gi", **spec: Any) -> PodNeeds:
    requests = {"cpu": cpu, "memory": memory}
    given = {"containers": [{"name": "a", "resources": {"requests": requests}}], **spec}
    return pod_needs({"metadata": {"name": name, "namespace": "d"}, "spec": given})


def node(cpu: str = "4", memory: str = "8Gi", pods: str = "110", **rest: Any) -> NodeTemplate:
    return NodeTemplate(amounts_of({"cpu": cpu, "memory": memory, "pods": pods}), **rest)


def pool(name: str, size: int = 0, largest: int = 10, **rest: Any) -> Pool:
    return Pool(name, size, largest, **{"template": node(), **rest})


def options(*names: str) -> list[ExpanderOption]:
    return [ExpanderOption(name, node(), pack([pod()], node(), 1)) for name in names]
