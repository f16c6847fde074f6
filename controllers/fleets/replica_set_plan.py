"""RayClusters as a replica set sees them, and the choice of those to create and delete."""

import datetime
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import frozen

from reconcile import Object
from reconcile.models import encode
from reconcile.replicas import is_active, replica_of

PROVISIONED = "RayClusterProvisioned"
HEAD_READY = "HeadPodReady"
SUSPENDED = "RayClusterSuspended"


@frozen
class FleetCluster:
    """`ready_since` is None if the cluster is not ready."""

    name: str
    created: datetime.datetime
    labels: Mapping[str, str]
    object: Object
    ready_since: datetime.datetime | None = None
    terminating: bool = False
    finished: bool = False
    deletion_cost: int = 0

    @property
    def ready(self) -> bool:
        return self.ready_since is not None

    def available_in(self, now: datetime.datetime, min_ready_seconds: int) -> float:
        """Seconds until it is available if it stays ready; infinity if it is not ready."""
        if self.ready_since is None:
            return math.inf
        return max(0.0, min_ready_seconds - (now - self.ready_since).total_seconds())


def cluster_of(obj: Object) -> FleetCluster:
    """A stored RayCluster: ready if provisioned, not suspended, and with a Ready head pod.

    An older KubeRay has no condition for that: then its state has to be `ready`.
    """
    replica = replica_of(obj)
    status: Mapping[str, Any] = encode(obj).get("status") or {}
    return FleetCluster(
        name=obj.name,
        created=replica.created,
        labels=obj.metadata.labels,
        object=obj,
        ready_since=_ready_since(status, replica.created),
        terminating=obj.terminating,
        deletion_cost=replica.deletion_cost,
    )


def _ready_since(status: Mapping[str, Any], created: datetime.datetime) -> datetime.datetime | None:
    said = {one["type"]: one for one in status.get("conditions") or ()}
    if PROVISIONED not in said:
        return created if status.get("state") == "ready" else None
    suspended = said.get(SUSPENDED, {}).get("status") == "True"
    serving = said.get(HEAD_READY, {}).get("status", "True") == "True"
    if said[PROVISIONED]["status"] != "True" or suspended or not serving:
        return None
    times = [
        _time(said[name].get("lastTransitionTime")) for name in (PROVISIONED, HEAD_READY) if name in said
    ]
    return max((time for time in times if time is not None), default=created)


def _time(text: str | None) -> datetime.datetime | None:
    return datetime.datetime.fromisoformat(text) if text else None


@frozen
class SetPlan:
    """How many clusters to create, and which to delete; `active` are those that count."""

    create: int
    delete: tuple[FleetCluster, ...]
    active: tuple[FleetCluster, ...]


def plan_set(
    replicas: int, clusters: Iterable[FleetCluster], now: datetime.datetime, min_ready_seconds: int = 0
) -> SetPlan:
    """Brings the number of active clusters to `replicas`; Terminating ones do not count.

    A cluster that is not ready counts, since a replacement would double its cost. The order of deletion is:
    not ready, not yet available (for the bounds of a rollout), lower deletion cost, older, name (AIBrix
    #2426).
    """
    active = tuple(sorted(filter(is_active, clusters), key=lambda one: one.name))
    surplus = max(0, len(active) - replicas)
    ranked = sorted(active, key=lambda one: _rank(one, now, min_ready_seconds))
    return SetPlan(max(0, replicas - len(active)), tuple(ranked[:surplus]), active)


def _rank(one: FleetCluster, now: datetime.datetime, min_ready_seconds: int) -> tuple[Any, ...]:
    available = one.available_in(now, min_ready_seconds) <= 0
    return one.ready, available, one.deletion_cost, one.created, one.name


def counts(
    clusters: Sequence[FleetCluster],
    labels: Mapping[str, str],
    now: datetime.datetime,
    min_ready_seconds: int,
) -> dict[str, int]:
    return {
        "replicas": len(clusters),
        "fully_labeled_replicas": sum(labels.items() <= one.labels.items() for one in clusters),
        "ready_replicas": sum(one.ready for one in clusters),
        "available_replicas": sum(one.available_in(now, min_ready_seconds) <= 0 for one in clusters),
    }


def next_available(
    clusters: Iterable[FleetCluster], now: datetime.datetime, min_ready_seconds: int
) -> float | None:
    """Seconds until the next ready cluster becomes available; None if none will."""
    waits = [one.available_in(now, min_ready_seconds) for one in clusters if one.ready]
    return min((wait for wait in waits if wait > 0), default=None)
