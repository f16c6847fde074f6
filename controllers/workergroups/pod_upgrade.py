"""Whether pods were created from another spec than the current one and must be replaced."""

import hashlib
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from reconcile.replicas import is_active

from .ray_pod_view import Object, RayPodView, pods_of_cluster
from .raycluster_view import ClusterView

HASH_VERSION = "reconcile-runtime-1"
"""How the hash was computed. Hashes of other versions, or KubeRay's, cannot be compared."""

PodUpgrade = Literal["none", "recreate", "mark"]
_SCALING = ("replicas", "minReplicas", "maxReplicas", "scaleStrategy")
_KEEPING = ("workerGroupSpecs", "replicas", "suspend", "upgradeStrategy", "managedBy")
_PLACING = ("tolerations", "schedulingGates")


def spec_hash(spec: Object) -> str:
    """A hash of everything in the spec that pods are created from.

    Left out are the sizes of groups, `tolerations` and `schedulingGates`, which may change under a running
    pod (systems.md 1b, 4), and fields about the handling of the cluster, such as `suspend`.
    """
    kept = {name: value for name, value in spec.items() if name not in _KEEPING}
    kept["headGroupSpec"] = _without_placing(spec.get("headGroupSpec") or {})
    kept["workerGroupSpecs"] = [
        {k: v for k, v in _without_placing(group).items() if k not in (*_SCALING, "suspend")}
        for group in spec.get("workerGroupSpecs") or ()
    ]
    text = msgspec.json.encode(kept, order="deterministic")
    return hashlib.sha1(text, usedforsecurity=False).hexdigest()


def plan_upgrade(cluster: ClusterView, pods: Sequence[RayPodView]) -> PodUpgrade:
    """`recreate` if the pods come from another spec, and the strategy is to replace all at once.

    The hash on the active head decides. A head marked by another version, or by KubeRay, is only marked
    again: a new operator alone must not restart a cluster.
    """
    own = [pod for pod in pods_of_cluster(cluster.uid, pods) if is_active(pod)]
    heads = [pod for pod in own if pod.node_type == "head"]
    if not cluster.recreates or len(heads) != 1:
        return "none"
    if heads[0].operator_version != HASH_VERSION or not heads[0].upgrade_hash:
        return "mark"
    return "none" if heads[0].upgrade_hash == cluster.upgrade_hash else "recreate"


def _without_placing(group: Object) -> dict[str, Any]:
    template = dict(group.get("template") or {})
    if template.get("spec"):
        template["spec"] = {k: v for k, v in template["spec"].items() if k not in _PLACING}
    return {**group, "template": template}
