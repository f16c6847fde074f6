"""What one pass has seen and what came of it, for the rooms that act."""

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
    """What is the same for all autoscalers of a manager: names of Cluster API, and how long back-offs are.

    `namespaces` (NODE_GROUPS_NAMESPACES, with commas) are those besides its own that an autoscaler may size
    groups of: `ops:prod-*` for autoscalers of the namespace ops. Raises ValueError for what has no meaning.
    """

    api: ClusterApi = field(factory=ClusterApi)
    terms: BackoffTerms = field(factory=BackoffTerms)
    namespaces: tuple[Grant, ...] = field(factory=_grants)

    def allows(self, own: str, namespace: str) -> bool:
        """Whether an autoscaler of one namespace may size groups of another; `*` are all."""
        return own == namespace or any(grant.covers(own, namespace) for grant in self.namespaces)


@define
class SizingRun:
    """One pass. `states` are what is remembered of groups, by id; `soon`: try again before long;
    `doubtful` are groups of which it is not known whether a machine is marked."""

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
        """Where the groups are."""
        return self.ctx.client

    @property
    def stamp(self) -> str:
        """Now, as Kubernetes writes it."""
        return self.now.strftime("%Y-%m-%dT%H:%M:%SZ")

    def trouble(self, text: str) -> None:
        """Something that people should know of: in a condition, and as an event while it is new."""
        if text in self.warned:
            return
        self.warned.append(text)
        if text not in self.ctx.object.status.warned:
            self.ctx.event("NodeGroups", text, warning=True, action="Size")

    def failed(self, what: str, error: ApiError) -> None:
        """A request failed: what passes is tried again soon, the rest is said. Raises NotLeading."""
        if isinstance(error, NotLeading):
            raise error
        kind = class_of(error)
        if kind in RETRIED:
            self.soon = True
            self.ctx.log.info("will be tried again", what=what, kind=kind)
        else:
            self.trouble(f"{what}: {kind}")

    def lacks_capacity(self, group: str, reason: str) -> None:
        """A failure for which the group is left alone for a while."""
        self.states[group] = self.states[group].with_failure(self.now, reason, self.settings.terms)
        self.ctx.event("NoCapacity", f"{group}: {reason}", warning=True, action="Grow")
