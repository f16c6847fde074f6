"""The health of a group: nodes that are ready, coming, or did not come in time.

The rules are those of cluster-autoscaler's clusterstate, in integers (systems.md, 2b and 2d).
"""

import datetime
from collections.abc import Iterable, Mapping

from attrs import evolve, field, frozen

from reconcile.blocks import BackoffTerms, PoolBackoff, after_failure

from .node_group import NodeGroup
from .node_view import NodeView

# Upstream's defaults: beyond both, a failing network looks like failing nodes, and sizing would do harm.
OK_UNREADY = 3
MAX_UNREADY_PERCENT = 45
NOT_IN_TIME = "nodes did not come in time"


@frozen
class GroupState:
    """What the status of an autoscaler keeps of a group for the next run.

    Nodes have been coming since `growing_since`; `failed` are machines whose failure was counted.
    """

    name: str = ""
    size: int = 0
    smallest: int = 0
    largest: int = 0
    ready: int = 0
    upcoming: int = 0
    growing_since: datetime.datetime | None = None
    backoff_until: datetime.datetime | None = None
    backoff_seconds: int | None = None
    backoff_failed: datetime.datetime | None = None
    backoff_reason: str | None = None
    failed: tuple[str, ...] = ()

    @property
    def backoff(self) -> PoolBackoff | None:
        if self.backoff_until is None or self.backoff_failed is None:
            return None
        seconds = float(self.backoff_seconds or 0)
        return PoolBackoff(self.backoff_until, seconds, self.backoff_failed, self.backoff_reason or "")

    def with_failure(self, now: datetime.datetime, reason: str, terms: BackoffTerms) -> "GroupState":
        """The state after a failure for lack of capacity."""
        found = after_failure(self.backoff, now, reason, terms)
        return evolve(
            self,
            backoff_until=found.until,
            backoff_seconds=int(found.seconds),
            backoff_failed=found.failed,
            backoff_reason=reason,
        )


@frozen
class Readiness:
    """The nodes of a group; machines that are being removed are not counted.

    `unregistered` are running machines without a node in time; `failed` machines will never get one.
    """

    ready: int = 0
    unready: int = 0
    not_started: int = 0
    unregistered: tuple[str, ...] = ()
    failed: int = 0
    nodes: tuple[NodeView, ...] = field(default=(), repr=False)

    def upcoming(self, size: int) -> int:
        return max(0, size - self.ready - self.unready - len(self.unregistered) - self.failed)


def readiness_of(group: NodeGroup, nodes: Mapping[str, NodeView], now: datetime.datetime) -> Readiness:
    """`nodes` are those of the cluster, by provider ID."""
    ready = unready = not_started = 0
    unregistered, found = [], []
    for provider, name, created in _staying(group):
        node = nodes.get(provider)
        if node is None:
            if created is not None and _age(created, now) > group.options.provision:
                unregistered.append(name)
        else:
            found.append(node)
            if node.ready:
                ready += 1
            elif _age(node.created, now) < group.options.startup:
                not_started += 1
            else:
                unready += 1
    failed = sum(one.state == "failed" and one.name not in group.removing for one in group.machines)
    return Readiness(ready, unready, not_started, tuple(unregistered), failed, tuple(found))


def _staying(group: NodeGroup) -> Iterable[tuple[str, str, datetime.datetime | None]]:
    """Instances that stay: provider ID, name, and creation time of the machine."""
    for one in group.provider_ids:
        if one not in group.removing:
            yield one, one, None
    for machine in group.machines:
        if machine.state == "running" and machine.name not in group.removing:
            yield machine.provider, machine.name, machine.created


def is_healthy(readiness: Readiness, size: int, upcoming: int) -> bool:
    """Whether a group may be sized: at most 3 nodes, or 45% of them, are missing or not ready.

    Nodes within their time to start are not missing.
    """
    missing = size - upcoming - readiness.ready
    situation = readiness.ready + readiness.unready + readiness.not_started + len(readiness.unregistered)
    return missing <= OK_UNREADY or missing * 100 <= MAX_UNREADY_PERCENT * max(situation, size)


def is_cluster_healthy(nodes: Iterable[NodeView], startup: float, now: datetime.datetime) -> bool:
    """Whether few enough nodes are unready; more mean an outage, in which nothing is sized."""
    known = list(nodes)
    unready = sum(not node.ready and _age(node.created, now) >= startup for node in known)
    return unready <= OK_UNREADY or unready * 100 <= MAX_UNREADY_PERCENT * len(known)


@frozen
class GroupAssessment:
    """A group with its new state; `expired` nodes did not come in time."""

    group: NodeGroup
    readiness: Readiness
    state: GroupState
    expired: int = 0
    news: tuple[str, ...] = ()

    @property
    def upcoming(self) -> int:
        return 0 if self.expired else self.readiness.upcoming(self.group.size)

    @property
    def healthy(self) -> bool:
        return is_healthy(self.readiness, self.group.size, self.readiness.upcoming(self.group.size))


def assess(
    group: NodeGroup,
    readiness: Readiness,
    before: GroupState | None,
    now: datetime.datetime,
    terms: BackoffTerms,
) -> GroupAssessment:
    """The new state of a group.

    Failed machines, and machines or nodes that did not come in time, put the group into back-off: it lacks
    capacity.
    """
    upcoming = readiness.upcoming(group.size)
    known = before if before is not None else GroupState(group.id)
    since = _since(known, group.size, upcoming, now)
    expired = upcoming if since is not None and _age(since, now) > group.options.provision else 0
    failed = tuple(machine.name for machine in group.machines if machine.state == "failed")
    news = [f"machine {name} failed" for name in failed if name not in known.failed]
    late = tuple(name for name in readiness.unregistered if name not in known.failed)
    news += [f"machine {name} has no node in time" for name in late]
    state = evolve(
        known,
        size=group.size,
        smallest=group.smallest,
        largest=group.largest,
        ready=readiness.ready,
        upcoming=upcoming,
        growing_since=now if expired else since,
        failed=(*failed, *readiness.unregistered),
    )
    if expired:
        news.append(NOT_IN_TIME)
    if news:
        state = state.with_failure(now, news[0] if not expired else NOT_IN_TIME, terms)
    return GroupAssessment(group, readiness, state, expired, tuple(news))


def _since(known: GroupState, size: int, upcoming: int, now: datetime.datetime) -> datetime.datetime | None:
    """When nodes began to come; a larger size restarts the time."""
    if not upcoming:
        return None
    if known.growing_since is None or size > known.size:
        return now
    return known.growing_since


def _age(then: datetime.datetime, now: datetime.datetime) -> float:
    return (now - then).total_seconds()
