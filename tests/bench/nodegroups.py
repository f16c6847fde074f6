"""What it costs to fit pods to groups of nodes.

1,000 pods of as many shapes, so that none can be handled together with another, are fitted to 20 groups
that could all take them, and the least wasteful group is chosen. Reading the manifests is part of it.
"""

import datetime
import statistics
import time
from typing import Any

from reconcile.blocks import CapacityPools, NodeTemplate, Pool, amounts_of, pod_needs

PODS = 1_000
GROUPS = 20
ROUNDS = 5
NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def figures() -> dict[str, float]:
    """Milliseconds: the median of a decision."""
    return {f"nodegroups.fit_{PODS}_pods_{GROUPS}_groups_ms": _fit_ms()}


def _fit_ms() -> float:
    pods, pools, took = [_pod(number) for number in range(PODS)], list(map(_pool, range(GROUPS))), []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        decision = CapacityPools().decide([pod_needs(pod) for pod in pods], [], pools, NOW)
        took.append((time.perf_counter() - began) * 1000)
        assert sum(len(growth.pods) for growth in decision.growths) == PODS
    return statistics.median(took)


def _pod(number: int) -> dict[str, Any]:
    requests = {"cpu": f"{100 + number * 7919 % 2900}m", "memory": f"{100 + number * 104_729 % 3900}Mi"}
    containers = [{"name": "a", "resources": {"requests": requests}}]
    return {"metadata": {"name": f"p{number}", "namespace": "bench"}, "spec": {"containers": containers}}


def _pool(number: int) -> Pool:
    offer = amounts_of({"cpu": str(4 + number), "memory": f"{16 + 2 * number}Gi", "pods": "110"})
    return Pool(f"group-{number:02}", 3, 1_000, NodeTemplate(offer))
