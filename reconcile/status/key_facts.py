"""What a manager knows of one key, as `why_not_now` takes it."""

from collections.abc import Mapping, Sequence
from typing import Any

import anyio
from attrs import frozen

from reconcile.controller.runner import Runner
from reconcile.ops.debug_actions import Replica
from reconcile.ops.debug_state import waiting_place
from reconcile.ops.manager_status import ClusterStatus, ManagerStatus
from reconcile.runs.run_request import EVERY, Cause, Request
from reconcile.status.why_not_now import DueFor, KeyFacts, WhyNotNow, why_not_now
from workqueue import Item


@frozen
class Around:
    """What concerns all keys of a manager at one moment; made once for many keys."""

    leading: bool
    leader: str
    clusters: Mapping[str, ClusterStatus]
    missing: Mapping[str, Sequence[str]]
    """By cluster, the resources without a first list."""
    replica: Replica | None


def around_of(status: ManagerStatus, replica: Replica | None = None) -> Around:
    clusters = {cluster.name: cluster for cluster in status.clusters}
    missing: dict[str, list[str]] = {}
    for informer in status.informers:
        if not informer.synced:
            cluster, slash, resource = informer.resource.rpartition("/")
            missing.setdefault(cluster if slash else "", []).append(resource)
    return Around(status.leading, status.leader, clusters, missing, replica)


def why_of(
    runner: Runner[Any], request: Request, status: ManagerStatus, replica: Replica | None
) -> WhyNotNow:
    """Why a key does not run at this moment, or where its run waits. To be called in the event loop."""
    return why_not_now(
        facts_of(runner, request, anyio.current_time(), around_of(status, replica), place=True)
    )


def facts_of(
    runner: Runner[Any], request: Request, now: float, around: Around, *, place: bool = False
) -> KeyFacts:
    """The facts of a key at `now` (event loop's time); with `place`, the line where its run waits."""
    active = runner.history.active(request)
    if active is not None:
        waits_at = waiting_place(active.task) if place and active.task is not None else ""
        return KeyFacts(running=now - active.started, waits_at=waits_at)
    if runner.is_left(request):
        return KeyFacts(elsewhere=True, held_by=_holder(runner, request, around.replica))
    cluster = around.clusters.get(runner.cluster)
    queued = runner.queue.queued_key(request)
    storm = runner.guard.storm_of(request)
    due_in, failures = (None, 0) if queued is None else (queued[1], queued[0].retries)
    is_down = cluster is not None and not cluster.reachable
    return KeyFacts(
        due_in=due_in,
        due_for="change" if queued is None else _due_for(queued[0]),
        failures=failures,
        error=_last_error(runner, request) if failures else "",
        ahead=0 if due_in != 0 else len(runner.queue),
        workers=runner.workers,
        paused_key=request in runner.resting,
        paused_controller=not runner.working,
        storm="" if storm is None else storm.message(),
        throttled_for=0.0 if storm is None else max(0.0, storm.throttle.held_until - now),
        # Where replicas share the objects, each works on what it holds, whether it leads or not.
        leading=around.leading or around.replica is not None,
        leader=around.leader,
        synced=cluster is None or cluster.works,
        missing=around.missing.get(runner.cluster, ()),
        down_for=cluster.down_seconds if cluster is not None and is_down else None,
        cluster=runner.cluster,
    )


def _due_for(item: Item[Request]) -> DueFor:
    # The newest first: it is the one that set the present delay, unless an earlier one was shorter.
    for cause in reversed(item.causes):
        if not isinstance(cause, Cause):
            continue
        if cause.verb == "retried":
            return "retry"
        if cause.verb == "scheduled":
            return "timer" if cause.note == EVERY else "change" if cause.note else "asked"
    return "change"


def _last_error(runner: Runner[Any], request: Request) -> str:
    runs = runner.history.past(request)
    return runs[-1].error if runs else ""


def _holder(runner: Runner[Any], request: Request, replica: Replica | None) -> str:
    snapshot = runner.object_of(request)
    if replica is None or snapshot is None:
        return ""
    holder = replica.holder(snapshot, runner.controller.sharded)
    return "" if holder == replica.status().identity else holder
