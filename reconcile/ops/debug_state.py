"""What a manager does now, for `/debug/state` and SIGUSR1: redacted errors, and no bodies of objects."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import asdict

from informers import InformerStatus
from reconcile.client.buckets import in_ranges
from reconcile.controller.run_history import ActiveRun, PastRun
from reconcile.controller.runner import Runner
from reconcile.ops.manager_status import ManagerStatus, ShardingStatus
from reconcile.runs.frames import Frame, authors
from reconcile.runs.run_failures import DistinctError
from reconcile.runs.run_record import describe_read
from reconcile.runs.run_request import Cause, Request
from workqueue import Item

KEYS_SHOWN = 1000


def state_of(status: ManagerStatus, runners: Sequence[Runner[Any]], now: float) -> Mapping[str, Any]:
    """Everything, at `now` (seconds of the event loop), as values that JSON has."""
    return {
        "server": status.server,
        "leading": status.leading,
        "leader": status.leader,
        "sharding": None if status.sharding is None else _sharding(status.sharding),
        "clusters": [asdict(cluster) for cluster in status.clusters],
        "controllers": {runner.name: _controller(runner, now) for runner in runners},
        "informers": [_informer(informer) for informer in status.informers],
    }


def _sharding(status: ShardingStatus) -> Mapping[str, Any]:
    """With the numbers of buckets as text: there may be thousands."""
    lists = {name: in_ranges(getattr(status, name)) for name in ("held", "warming", "closing")}
    return {**asdict(status), **lists, "holds": len(status.held)}


def _controller(runner: Runner[Any], now: float) -> Mapping[str, Any]:
    status = runner.status()
    queue = asdict(status.queue)
    queue["depths"] = {str(priority): count for priority, count in status.queue.depths.items()}
    queue["keys"] = [queued_key(item, due_in) for item, due_in in runner.queue.queued(KEYS_SHOWN)]
    return {
        "runs": status.runs,
        "failures": status.failures,
        "workers": runner.workers,
        "queue": queue,
        "running": [running_run(run, now) for run in runner.history.running()],
        "resting": [str(request) for request in runner.resting],
        "storms": {str(storm.request): storm.shown(now) for storm in runner.guard.storms()},
        "errors": [distinct_error(error, now) for error in runner.failures.distinct()],
        "runs_last_minute": {
            str(request): count for request, count in runner.history.last_minute(now).items()
        },
        "recent": {
            str(request): [past_run(run, now) for run in runs] for request, runs in runner.history.recent()
        },
    }


def queued_key(item: Item[Request], due_in: float) -> Mapping[str, Any]:
    return {
        "key": str(item.key),
        "priority": item.priority,
        "due_in": round(due_in, 3),
        "retries": item.retries,
        "causes": _causes(item.causes),
        "dropped_causes": item.dropped_causes,
    }


def running_run(run: ActiveRun, now: float) -> Mapping[str, Any]:
    return {
        "key": str(run.request),
        "age": round(now - run.started, 3),
        "attempt": run.attempt,
        "causes": _causes(run.causes),
        "waits_at": "" if run.task is None else waiting_place(run.task),
    }


def past_run(run: PastRun, now: float) -> Mapping[str, Any]:
    return {
        "reconcile_id": run.reconcile_id,
        "left_out": run.left_out,
        "ended_ago": round(now - run.ended, 3),
        "seconds": round(run.seconds, 6),
        "attempt": run.attempt,
        "causes": _causes(run.causes),
        "read": [describe_read(resource, key) for resource, key in run.reads],
        "wrote": list(run.writes),
        "result": run.result,
        "error": run.error,
        "at": run.at,
        "members": [member._asdict() for member in run.members],
    }


def distinct_error(error: DistinctError, now: float) -> Mapping[str, Any]:
    return {
        "error": error.message,
        "at": error.at,
        "count": error.count,
        "last_ago": round(now - error.last, 3),
        "traceback": error.traceback,
    }


def _causes(causes: Sequence[Cause]) -> Sequence[str]:
    return [str(cause) for cause in causes]


def _informer(status: InformerStatus) -> Mapping[str, Any]:
    last = status.last_event
    return {**asdict(status), "last_event": None if last is None else last.isoformat()}


def waiting_place(task: "asyncio.Task[Any]") -> str:
    """Where a task waits: file, line and function of the innermost frame of the author, else of any."""
    frames = list(_frames(task.get_coro()))
    if not frames:
        return ""
    number = authors(frames)
    frame = frames[-1 if number is None else number]
    return f"{frame} in {frame.function}"


def _frames(awaited: Any) -> Iterator[Frame]:
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "ag_frame", None)
        if frame is not None:
            yield Frame.of(frame, frame.f_lineno)
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "ag_await", None)
