"""Everything that the checks look at, read at one time."""

import datetime
from collections.abc import Mapping, Sequence

from attrs import field, frozen

from reconcile.doctor.clocks import ServerTime
from reconcile.doctor.fairness import Flows
from reconcile.doctor.finalizers import FinalizerFacts
from reconcile.doctor.findings import Unread
from reconcile.doctor.managers import ManagerState
from reconcile.doctor.objects import Definition, Deployment, Lease, Pod
from reconcile.doctor.rights import Access
from reconcile.doctor.webhooks import Backend, Call


@frozen
class Leading:
    """The Lease of a leader at two times; the same object where no second look was needed. None: no Lease."""

    first: Lease | None = None
    again: Lease | None = None


@frozen
class WebhookFacts:
    """The webhooks that concern the operator, and what is behind the Services that they call."""

    calls: Sequence[Call] = field(factory=tuple)
    backends: Mapping[tuple[str, str], Backend] = field(factory=dict)


@frozen
class Facts:
    """What was read of a cluster about one operator; each fact, or why it could not be read."""

    now: datetime.datetime
    """By the clock of this machine."""
    account: str
    """The ServiceAccount of its pods."""
    deployment: Deployment | Unread | None
    pods: Sequence[Pod] | Unread
    access: Access | Unread
    definitions: Mapping[str, Definition | None] | Unread
    webhooks: WebhookFacts | Unread
    finalizers: FinalizerFacts | Unread
    leading: Leading | Unread
    members: Sequence[Lease] | Unread
    managers: Sequence[ManagerState] | Unread
    time: ServerTime | Unread
    flows: Flows | Unread
