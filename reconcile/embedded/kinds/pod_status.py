"""What `kubectl get pods` shows: READY, STATUS and RESTARTS."""

import datetime
from collections.abc import Iterable, Mapping
from typing import Any

from reconcile.embedded.kubectl.ages import age, parse_time

Pod = Mapping[str, Any]


def _part(pod: Pod, name: str) -> Mapping[str, Any]:
    return pod.get(name) or {}


def _statuses(pod: Pod, kind: str) -> list[Mapping[str, Any]]:
    return list(_part(pod, "status").get(kind) or ())


def _sidecars(pod: Pod) -> set[str]:
    """The init containers that keep running."""
    init = _part(pod, "spec").get("initContainers") or ()
    return {container.get("name") for container in init if container.get("restartPolicy") == "Always"}


def pod_ready(pod: Pod) -> str:
    """How many containers are ready, sidecars included: `1/2`."""
    sidecars = _sidecars(pod)
    total = len(_part(pod, "spec").get("containers") or ()) + len(sidecars)
    states = _statuses(pod, "containerStatuses")
    own = [item for item in states if item.get("ready") and "running" in _part(item, "state")]
    beside = [
        item
        for item in _statuses(pod, "initContainerStatuses")
        if item.get("name") in sidecars and item.get("started") and item.get("ready")
    ]
    return f"{len(own) + len(beside)}/{total}"


def pod_status(pod: Pod) -> str:
    """The pod's state in one word: its phase, unless a container or a deletion is more specific."""
    status = _part(pod, "status")
    shown = status.get("reason") or status.get("phase") or ""
    if _gated(pod):
        shown = "SchedulingGated"
    shown = _init_reason(pod) or _container_reason(pod, shown)
    if not _part(pod, "metadata").get("deletionTimestamp"):
        return str(shown)
    if status.get("reason") == "NodeLost":
        return "Unknown"
    return shown if status.get("phase") in ("Succeeded", "Failed") else "Terminating"


def _gated(pod: Pod) -> bool:
    return any(
        condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated"
        for condition in _statuses(pod, "conditions")
    )


def _init_reason(pod: Pod) -> str:
    """The state of the first unfinished init container; empty when all are done."""
    statuses = _statuses(pod, "initContainerStatuses")
    sidecars = _sidecars(pod)
    for index, item in enumerate(statuses):
        state = _part(item, "state")
        terminated, waiting = state.get("terminated"), state.get("waiting")
        if terminated is not None and terminated.get("exitCode", 0) == 0:
            continue
        if item.get("name") in sidecars and item.get("started"):
            continue
        if terminated is not None:
            return f"Init:{_terminated(terminated)}"
        if waiting is not None and waiting.get("reason") not in (None, "", "PodInitializing"):
            return f"Init:{waiting['reason']}"
        return f"Init:{index}/{len(_part(pod, 'spec').get('initContainers') or ())}"
    return ""


def _container_reason(pod: Pod, otherwise: str) -> str:
    """The reason of the first container that is not running normally."""
    running = False
    for item in reversed(_statuses(pod, "containerStatuses")):
        state = _part(item, "state")
        waiting, terminated = state.get("waiting"), state.get("terminated")
        if waiting is not None and waiting.get("reason"):
            otherwise = waiting["reason"]
        elif terminated is not None:
            otherwise = _terminated(terminated)
        elif item.get("ready") and "running" in state:
            running = True
    if otherwise == "Completed" and running:
        return "Running" if _is_ready(pod) else "NotReady"
    return otherwise


def _is_ready(pod: Pod) -> bool:
    conditions = _statuses(pod, "conditions")
    return any(item.get("type") == "Ready" and item.get("status") == "True" for item in conditions)


def _terminated(terminated: Mapping[str, Any]) -> str:
    if reason := terminated.get("reason"):
        return str(reason)
    if signal := terminated.get("signal"):
        return f"Signal:{signal}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def pod_restarts(pod: Pod, now: datetime.datetime) -> str:
    """The restarts of all containers, and the time since the last one: `2 (3m ago)`."""
    sidecars = _sidecars(pod)
    init = _statuses(pod, "initContainerStatuses")
    counted = _statuses(pod, "containerStatuses") + [item for item in init if item.get("name") in sidecars]
    if _init_reason(pod):
        counted = init
    count = sum(item.get("restartCount", 0) for item in counted)
    last = _last_end(counted)
    return f"{count} ({age(last, now)} ago)" if count and last else str(count)


def _last_end(statuses: Iterable[Mapping[str, Any]]) -> str | None:
    ends = [_part(_part(item, "lastState"), "terminated").get("finishedAt") for item in statuses]
    known = [(moment, end) for end in ends if (moment := parse_time(end)) is not None]
    return max(known)[1] if known else None
