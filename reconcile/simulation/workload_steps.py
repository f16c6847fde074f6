"""What simulated Deployments, StatefulSets and Jobs do next, as pure functions."""

import datetime
from collections.abc import Iterable
from typing import Literal

from attrs import evolve, frozen

from reconcile.blocks.replica_group import FIRST_WAIT, wait_after
from reconcile.kinds import JobSpec, Pod
from reconcile.replicas import is_active, rank_victims, replica_of

REVISION = "controller-revision-hash"
"""The label of a StatefulSet's pods that names the revision of their template."""
_FAILURES = 6


@frozen
class RolloutSizes:
    """The pods of the current template that a Deployment shall have, and those of former ones."""

    new: int
    old: int


def next_sizes(wanted: int, *, new: int, new_ready: int, old: int) -> RolloutSizes:
    """One pod more than desired during a rollout; each ready new pod replaces one of a former template."""
    grown = min(wanted, max(new, wanted + 1 - old))
    return RolloutSizes(grown, min(old, max(0, wanted - new_ready)))


@frozen
class StatefulSetMove:
    """What a StatefulSet does next: create the pod of an ordinal, delete one, or wait `after` seconds."""

    create: int | None = None
    delete: Pod | None = None
    after: float | None = None


def next_move(
    name: str, replicas: int, revision: str, pods: Iterable[Pod], now: datetime.datetime
) -> StatefulSetMove:
    """One pod at a time, each after those before; an ended one is replaced ten seconds after its creation."""
    rest = {pod.name: pod for pod in pods}
    former = []
    for ordinal in range(replicas):
        pod = rest.pop(f"{name}-{ordinal}", None)
        if pod is None:
            return StatefulSetMove(create=ordinal)
        if not pod.ready or pod.terminating:
            return _replaced(pod, now)
        if pod.metadata.labels.get(REVISION) != revision:
            former.append(pod)
    leaving = sorted(rest.values(), key=_ordinal) or former
    if not leaving or leaving[-1].terminating:
        return StatefulSetMove()
    return StatefulSetMove(delete=leaving[-1])


def _replaced(pod: Pod, now: datetime.datetime) -> StatefulSetMove:
    replica = replica_of(pod)
    if replica.terminating or not replica.finished:
        return StatefulSetMove()
    wait = FIRST_WAIT - (now - replica.created).total_seconds()
    return StatefulSetMove(after=wait) if wait > 0 else StatefulSetMove(delete=pod)


def _ordinal(pod: Pod) -> tuple[int, str]:
    number = pod.name.rpartition("-")[2]
    return (int(number) if number.isdecimal() else -1, pod.name)


@frozen
class JobPlan:
    """What a Job does next. `why` explains that it has `ended`; after failures it waits `after` seconds."""

    active: int
    succeeded: int
    failed: int
    create: int = 0
    delete: tuple[Pod, ...] = ()
    ended: Literal["", "Complete", "Failed"] = ""
    why: str = ""
    after: float | None = None


def plan_job(spec: JobSpec, pods: Iterable[Pod], now: datetime.datetime) -> JobPlan:
    """The next step of a Job; with each failure the next pod waits longer, ten seconds to five minutes."""
    found = {pod.name: pod for pod in pods}
    replicas = [replica_of(pod) for pod in found.values()]
    active = tuple(found[victim.replica.name] for victim in rank_victims(replicas))
    succeeded = sum(pod.status.phase == "Succeeded" for pod in found.values())
    failures = [replica.created for replica in replicas if found[replica.name].status.phase == "Failed"]
    plan = JobPlan(len(active), succeeded, len(failures))
    if len(failures) > (_FAILURES if spec.backoff_limit is None else spec.backoff_limit):
        return evolve(plan, active=0, delete=active, ended="Failed", why="BackoffLimitExceeded")
    if _is_complete(spec, succeeded, len(active)):
        return evolve(plan, active=0, delete=active, ended="Complete", why="CompletionsReached")
    size = _parallel(spec, succeeded, len(active))
    if size <= len(active):
        return evolve(plan, delete=active[: len(active) - size])
    wait = wait_after(len(failures)) - (now - max(failures)).total_seconds() if failures else 0.0
    return evolve(plan, after=wait) if wait > 0 else evolve(plan, create=size - len(active))


def _is_complete(spec: JobSpec, succeeded: int, active: int) -> bool:
    """Without a number of completions one is enough, when all other pods have ended too."""
    if spec.completions is None:
        return succeeded > 0 and not active
    return succeeded >= spec.completions


def _parallel(spec: JobSpec, succeeded: int, active: int) -> int:
    if spec.suspend:
        return 0
    parallelism = 1 if spec.parallelism is None else spec.parallelism
    if spec.completions is None:
        return min(active, parallelism) if succeeded else parallelism
    return min(parallelism, spec.completions - succeeded)


def active_of(pods: Iterable[Pod]) -> list[Pod]:
    return [pod for pod in pods if is_active(replica_of(pod))]
