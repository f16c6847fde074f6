"""Whether the pods of a cluster were made of another spec than it has now, and have to be made anew."""

import hashlib
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from reconcile.replicas import is_active

from .ray_pod_view import Object, RayPodView, of_cluster
from .raycluster_view import ClusterView

HASH_VERSION = "reconcile-runtime-1"
"""By whom and how the hash was taken. Hashes of another version, KubeRay's own too, say nothing here."""

PodUpgrade = Literal["none", "recreate", "mark"]
_SCALING = ("replicas", "minReplicas", "maxReplicas", "scaleStrategy")
_KEEPING = ("workerGroupSpecs", "replicas", "suspend", "upgradeStrategy", "managedBy")
_PLACING = ("tolerations", "schedulingGates")


def spec_hash(spec: Object) -> str:
    """A short hash of what pods are made of: the spec without the sizes of groups, without `tolerations`
    and `schedulingGates`, which may change under a running pod (systems.md 1b, 4), and without what says
    how the cluster is kept and not what it is.
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
    """`recreate`: the pods are of another spec, and the strategy is to replace them, all at once.

    The active head tells. One that was marked by another version of this controller, or by KubeRay, is
    only marked anew: a new operator alone is no reason to restart anybody's cluster.
    """
    own = [pod for pod in of_cluster(cluster.uid, pods) if is_active(pod)]
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
