"""One run of an autoscaler: its inputs and its report."""

import datetime
import os

from attrs import define, field, frozen

from reconcile import Client, Context
from reconcile.blocks import RETRIED, BackoffTerms, Grant, class_of
from reconcile.errors import ApiError, NotLeading

from .cluster_reads import ClusterApi
from .group_health import GroupState
from .models import NodeAutoscaler

NAMESPACES = "NODE_GROUPS_NAMESPACES"


def _grants() -> tuple[Grant, ...]:
    try:
        parts = os.environ.get(NAMESPACES, "").split(",")
        return tuple(Grant.parse(part) for part in parts if part.strip())
    except ValueError as error:
        raise ValueError(f"{NAMESPACES}: {error}; for example ops:prod-*") from None


@frozen
class NodeGroupSettings:
    """The settings for all autoscalers of a manager. Raises ValueError for an invalid grant.

    Attributes:
        api: The group and version of Cluster API.
        terms: How long back-offs are.
        namespaces: The other namespaces in which an autoscaler may size groups (NODE_GROUPS_NAMESPACES, with
            commas): `ops:prod-*` for autoscalers of the namespace ops.
    """

    api: ClusterApi = field(factory=ClusterApi)
    terms: BackoffTerms = field(factory=BackoffTerms)
    namespaces: tuple[Grant, ...] = field(factory=_grants)

    def allows(self, own: str, namespace: str) -> bool:
        """Whether an autoscaler of one namespace may size groups of another; `*` means all."""
        return own == namespace or any(grant.covers(own, namespace) for grant in self.namespaces)


@define
class SizingRun:
    """One run of an autoscaler.

    Attributes:
        states: What is remembered of each group, by id.
        soon: Whether to run again soon, after a transient failure.
        doubtful: Groups in which a machine may have been marked.
        warned: What the condition Ready reports.
    """

    ctx: Context[NodeAutoscaler]
    settings: NodeGroupSettings
    workload: Client
    now: datetime.datetime
    states: dict[str, GroupState] = field(factory=dict)
    soon: bool = False
    grew: bool = False
    doubtful: set[str] = field(factory=set)
    warned: list[str] = field(factory=list)

    @property
    def client(self) -> Client:
        """Of the cluster with the groups."""
        return self.ctx.client

    @property
    def stamp(self) -> str:
        return self.now.strftime("%Y-%m-%dT%H:%M:%SZ")

    def trouble(self, text: str) -> None:
        """Report a problem in the condition Ready, and in an Event when it is new."""
        if text in self.warned:
            return
        self.warned.append(text)
        if text not in self.ctx.object.status.warned:
            self.ctx.event("NodeGroups", text, warning=True, action="Size")

    def failed(self, what: str, error: ApiError) -> None:
        """Retry soon after a transient error, report any other. Raises NotLeading."""
        if isinstance(error, NotLeading):
            raise error
        kind = class_of(error)
        if kind in RETRIED:
            self.soon = True
            self.ctx.log.info("will be tried again", what=what, kind=kind)
        else:
            self.trouble(f"{what}: {kind}")

    def lacks_capacity(self, group: str, reason: str) -> None:
        self.states[group] = self.states[group].with_failure(self.now, reason, self.settings.terms)
        self.ctx.event("NoCapacity", f"{group}: {reason}", warning=True, action="Grow")
