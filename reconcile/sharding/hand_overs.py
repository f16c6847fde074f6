"""What became of the buckets of a member, as its log and its metrics tell it.

A bucket is told of when a member comes to hold it, or has given it away. The log has one line for all buckets
that moved until nothing moved any more.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

from attrs import define, field

from informers import get_logger
from reconcile.sharding.assignment import Assignment
from reconcile.sharding.member_steps import (
    CatchingUp,
    Close,
    Drop,
    Following,
    Held,
    Hold,
    Input,
    MemberState,
    Output,
    Released,
    View,
)

HandOver: TypeAlias = Literal["first", "taken", "orphaned", "given", "lost"]
"""How a bucket came, or went.

`first`: it had no owner before; `taken`: its owner gave it; `orphaned`: its owner went without giving it;
`given`: to another owner, or to a later one; `lost`: this member was taken for dead.
"""

_log = get_logger("reconcile.sharding")


class HandOverMetrics(Protocol):
    """Counts hand-overs; the seconds are from ownership to work, or from the last new run to the release."""

    def handed_over(self, hand_over: HandOver, seconds: float) -> None: ...


@define(eq=False)
class HandOvers:
    """Follows the hand-overs of one member, whose buckets of objects are those below `leading`."""

    leading: int
    metrics: HandOverMetrics | None = None
    _owned_since: dict[int, float] = field(factory=dict, init=False)
    _closed_since: dict[int, float] = field(factory=dict, init=False)
    _untold: Counter[HandOver] = field(factory=Counter, init=False)

    def note(self, given: Input, state: MemberState, outputs: Sequence[Output], now: float) -> None:
        """To be told of each input, the state after it and its outputs, at `now` (s)."""
        for output in outputs:
            match output:
                case Hold(bucket):
                    since = self._owned_since.pop(bucket, now)
                    self._count(taking(state.view.assignment, bucket), now - since)
                case Close(bucket):
                    self._closed_since[bucket] = now
                case Drop(bucket):
                    since = self._closed_since.pop(bucket, now)
                    released = isinstance(state.phases.get(bucket), Released)
                    self._count("given" if released else "lost", now - since)
        if isinstance(given, View):  # the others change no owner
            coming = [bucket for bucket in state.phases if _is_coming(state, bucket)]
            self._owned_since = {bucket: self._owned_since.get(bucket, now) for bucket in coming}
        if self._untold and _is_settled(state):
            self._tell(state)

    def _count(self, hand_over: HandOver, seconds: float) -> None:
        self._untold[hand_over] += 1
        if self.metrics is not None:
            self.metrics.handed_over(hand_over, seconds)

    def _tell(self, state: MemberState) -> None:
        held = state.in_phase(Held)
        of_objects = sum(1 for bucket in held if bucket < self.leading)
        moved = {str(hand_over): count for hand_over, count in self._untold.items()}
        _log.info("holds buckets", held=of_objects, of=self.leading, leads=self.leading in held, **moved)
        self._untold.clear()


def taking(assignment: Assignment, bucket: int) -> HandOver:
    """How a bucket came to the owner that it has."""
    holding = assignment.holdings[bucket]
    if holding.clean:
        return "taken"
    return "first" if holding.epoch == assignment.beginning + 1 else "orphaned"


def _is_coming(state: MemberState, bucket: int) -> bool:
    """Whether the member owns a bucket that it does not work on yet."""
    owned = state.view.assignment.holdings[bucket].owner == state.identity
    return owned and isinstance(state.phases[bucket], Following | CatchingUp)


def _is_settled(state: MemberState) -> bool:
    """Whether no bucket of the member is on its way."""
    holdings = state.view.assignment.holdings
    for bucket, phase in state.phases.items():
        if not isinstance(phase, Held | Released):
            return False
        if holdings[bucket].owner == state.identity and holdings[bucket].next_owner:
            return False
    return True
