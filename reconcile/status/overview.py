"""The state of a whole manager, as the status page shows it: controllers, clusters, replicas, webhooks."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from attrs import evolve

from informers import InformerStatus
from reconcile.controller.controller_status import ControllerStatus
from reconcile.ops.manager_status import ClusterStatus, ManagerStatus, ShardingStatus
from reconcile.status.controller_rows import ControllerRows
from reconcile.status.object_health import HEALTHS, short
from reconcile.status.shown_values import without_pairs

STORMS_SHOWN: Final = 20
_STORM_CHARACTERS: Final = 400
_MOVING: Final = frozenset({"now", "silence", "oldest", "behind", "throttled_for", "down_seconds"})
"""What changes with time alone."""


def overview_of(
    status: ManagerStatus,
    controllers: Iterable[ControllerRows],
    *,
    now: float,
    unix_now: float,
    ready: bool,
    certificate_days: float | None,
) -> Mapping[str, Any]:
    """The `overview` of the stream; `now` is the event loop's time, `unix_now` the same as wall time."""
    return {
        "now": unix_now,
        "leading": status.leading,
        "leader": short(status.leader),
        "ready": ready,
        "controllers": [_controller(each, status.sharding is not None, now) for each in controllers],
        "clusters": [_cluster(cluster, status.informers) for cluster in status.clusters],
        "shards": None if status.sharding is None else _shards(status.sharding),
        "webhooks": None if certificate_days is None else {"certificate_days": round(certificate_days, 1)},
    }


def without_times(value: Any) -> Any:
    """An overview without what changes with time alone: two that are equal need not both be sent."""
    if isinstance(value, Mapping):
        return {name: without_times(inner) for name, inner in value.items() if name not in _MOVING}
    return [without_times(each) for each in value] if isinstance(value, list) else value


def _controller(rows: ControllerRows, shared: bool, now: float) -> Mapping[str, Any]:
    runner = rows.runner
    status: ControllerStatus = runner.status()
    queue, ends = status.queue, runner.history.ends
    backing_off = min(rows.failing, queue.delayed)
    return {
        "name": runner.name,
        "kind": runner.controller.resource.kind,
        "resource": runner.controller.resource.name,
        "cluster": runner.cluster,
        "paused": status.paused,
        "objects": dict(zip(HEALTHS, rows.counts, strict=True)),
        "elsewhere": rows.elsewhere if shared else 0,
        "queue": {
            "ready": queue.ready,
            "later": queue.delayed - backing_off,
            "backoff": backing_off,
            "oldest": round(queue.oldest_ready_seconds, 1),
        },
        "workers": runner.workers,
        "running": queue.working,
        "runs_last_minute": 0 if ends is None else ends.of_last_minute(now),
        "failures_last_minute": 0 if ends is None else ends.failures_of_last_minute(now),
        "storms": [
            {
                "key": str(storm.request.key),
                "message": short(without_pairs(storm.message()), _STORM_CHARACTERS),
                "throttled_for": round(max(0.0, storm.throttle.held_until - now), 1),
            }
            for storm in islice(runner.guard.storms(), STORMS_SHOWN)
        ],
        "behind": round(queue.oldest_ready_seconds, 1),
    }


def _cluster(cluster: ClusterStatus, informers: Sequence[InformerStatus]) -> Mapping[str, Any]:
    own = [_own(informer, cluster.name) for informer in informers]
    here = [informer for informer in own if informer is not None]
    return {
        "name": cluster.name,
        "reachable": cluster.reachable,
        "synced": cluster.works,
        "down_seconds": None if cluster.reachable else round(cluster.down_seconds, 1),
        "informers": [
            {
                "resource": informer.resource,
                "objects": informer.objects,
                "bytes": informer.bytes,
                "synced": informer.synced,
                "silence": None if informer.lag is None else round(informer.lag, 1),
                "restarts": informer.restarts,
                "failures": informer.failures,
            }
            for informer in here
        ],
    }


def _own(informer: InformerStatus, cluster: str) -> InformerStatus | None:
    """An informer of a cluster, without the name of that before its resource."""
    name, slash, resource = informer.resource.rpartition("/")
    if (name if slash else "") != cluster:
        return None
    return evolve(informer, resource=resource)


def _shards(status: ShardingStatus) -> Mapping[str, Any]:
    return {
        "ring": status.ring,
        "identity": status.identity,
        "buckets": status.buckets,
        "held": len(status.held),
        "members": [
            {"identity": short(member), "held": held, "state": _state(status, member, held)}
            for member, held in status.members.items()
        ],
    }


def _state(status: ShardingStatus, member: str, held: int) -> str:
    """What a replica does with buckets, in words; of the others only how many they hold is known."""
    if member == status.identity:
        if status.warming:
            return f"taking over {len(status.warming)}"
        if status.closing:
            return f"handing over {len(status.closing)}"
    return "works" if held else "waits"
