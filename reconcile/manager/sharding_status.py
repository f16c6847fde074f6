"""A replica's part in its ring, for its status, and who holds the objects that it does not."""

from collections.abc import Sequence

from informers import Snapshot
from reconcile.manager.sharded_work import ShardedWork
from reconcile.ops.manager_status import ShardingStatus
from reconcile.sharding.member import Member
from reconcile.sharding.member_steps import CatchingUp, Closing, Following, Held, Phase, Warm


def status_of(member: Member, work: ShardedWork) -> ShardingStatus:
    """What the replica does now."""
    state, sharding = member.state, member.sharding

    def in_phase(*kinds: type[Phase]) -> Sequence[int]:
        found = [bucket for kind in kinds for bucket in state.in_phase(kind)]
        return sorted(bucket for bucket in found if bucket != sharding.leading)

    held = in_phase(Held)
    epochs = [state.view.assignment.holdings[bucket].epoch for bucket in held]
    shared = work.shared
    resources = {str(informer.resource): shared.get(informer.resource) for informer in work.cluster.cache}
    return ShardingStatus(
        ring=sharding.place,
        identity=sharding.identity,
        buckets=sharding.buckets,
        held=held,
        warming=in_phase(Following, Warm, CatchingUp),
        closing=in_phase(Closing),
        epochs=(min(epochs, default=0), max(epochs, default=0)),
        members=_members(member),
        leads=work.leads,
        served=work.served,
        followed={name: "whole" if how is None else how.value for name, how in sorted(resources.items())},
    )


def _members(member: Member) -> dict[str, int]:
    """How many buckets of objects each member owns, by the assignment that the replica sees."""
    owned = dict.fromkeys(sorted(member.ring.members), 0)
    for holding in member.ring.view.assignment.holdings[: member.sharding.leading]:
        if holding.owner in owned:
            owned[holding.owner] += 1
    return owned


def holder_of(member: Member, work: ShardedWork, snapshot: Snapshot, sharded: bool) -> str:
    """The member whose bucket an object is in, by the assignment that the replica sees; empty: unknown.

    `sharded`: as the controller is that keeps it.
    """
    holdings = member.ring.view.assignment.holdings
    bucket = work.held.bucket_of(snapshot) if sharded else member.sharding.leading
    return holdings[bucket].owner if bucket < len(holdings) else ""
