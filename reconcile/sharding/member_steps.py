"""What a member does with each bucket: a state machine without I/O.

A bucket that is to become its own passes through these phases:

- Following: its informers come to follow the bucket.
- Warm: they do, and the present owner may release it.
- CatchingUp: it owns the bucket, and waits until its caches have all that former owners wrote.
- Held: it works on the keys of the bucket.
- Closing: it begins no more runs, as the next owner is warm; runs under way end.
- Released: they have ended, and its caches show what they wrote: the bucket may be given away.

`step` returns the next state and what to do. What the member says of itself follows from its state
(`record`), and is said only after what the step asked for was done. (Hand-over in the way of Chubby's and
Slicer's leases: an owner ends before the next begins.)
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from attrs import evolve, field, frozen

from reconcile.sharding.assignment import Assignment, Holding, MemberRecord


@frozen
class Following:
    pass


@frozen
class Warm:
    """`epoch` is that of the present owner."""

    epoch: int


@frozen
class CatchingUp:
    epoch: int


@frozen
class Held:
    epoch: int


@frozen
class Closing:
    epoch: int


@frozen
class Released:
    epoch: int


Phase: TypeAlias = Following | Warm | CatchingUp | Held | Closing | Released


@frozen
class View:
    """The assignment that the member sees, and the buckets whose next owners say that they are warm.

    Each view is of a later time than the one before, and has the same buckets.
    """

    assignment: Assignment
    warm: Mapping[int, int] = field(factory=dict)
    """With the epoch that this is about."""

    @classmethod
    def of(cls, assignment: Assignment, members: Mapping[str, MemberRecord]) -> "View":
        """What follows from an assignment and what the members say of themselves."""
        warm: dict[int, int] = {}
        for bucket, holding in enumerate(assignment.holdings):
            coming = members.get(holding.next_owner)
            if coming is not None and bucket in coming.warm:
                warm[bucket] = coming.warm[bucket]
        return cls(assignment, warm)


@frozen
class Followed:
    """The informers have come to follow exactly these buckets, and have listed their objects."""

    buckets: frozenset[int]


@frozen
class CaughtUp:
    """The caches have all that former owners wrote in a bucket."""

    bucket: int
    epoch: int


@frozen
class Ended:
    """No run of a closed bucket is under way, and the caches show what they wrote."""

    bucket: int
    epoch: int


@frozen
class Leaving:
    """The process is about to end: nothing new is begun, and all buckets close."""


Input: TypeAlias = View | Followed | CaughtUp | Ended | Leaving


@frozen
class CatchUp:
    """Wait until the caches have reached what former owners wrote, as far as that is known (`clean`)."""

    bucket: int
    epoch: int
    clean: bool


@frozen
class Hold:
    """Work on the keys of a bucket."""

    bucket: int
    epoch: int


@frozen
class Close:
    """Begin no more runs of a bucket, and report when those under way have ended."""

    bucket: int
    epoch: int


@frozen
class Drop:
    """Write nothing more for a bucket, at once; a run under way is cut."""

    bucket: int


Output: TypeAlias = CatchUp | Hold | Close | Drop


@frozen
class MemberState:
    """The phases of the buckets that concern a member, and which of them its informers follow."""

    identity: str
    phases: Mapping[int, Phase] = field(factory=dict)
    followed: frozenset[int] = frozenset()
    view: View = field(factory=lambda: View(Assignment(())))
    leaving: bool = False

    @property
    def wanted(self) -> frozenset[int]:
        """The buckets that its informers are to follow. Each change is answered by Followed."""
        return frozenset(self.phases)

    @property
    def idle(self) -> bool:
        """Whether no bucket is worked on any more.

        A member that is leaving may end then. Once nothing is `wanted` either, others have all that it had.
        """
        return not any(isinstance(phase, Held | Closing) for phase in self.phases.values())

    def in_phase(self, kind: type[Phase]) -> Sequence[int]:
        """The buckets in a phase."""
        return [bucket for bucket, phase in self.phases.items() if isinstance(phase, kind)]


def record(state: MemberState, base: MemberRecord) -> MemberRecord:
    """What the member says of its buckets; the rest is as in `base`."""
    warm = {bucket: phase.epoch for bucket, phase in state.phases.items() if isinstance(phase, Warm)}
    released = {bucket: phase.epoch for bucket, phase in state.phases.items() if isinstance(phase, Released)}
    return base.of_buckets(
        warm=warm,
        released=released,
        beginning=state.view.assignment.beginning,
        draining=base.draining or state.leaving,
    )


def step(state: MemberState, given: Input) -> tuple[MemberState, Sequence[Output]]:
    """The next state, and what to do."""
    match given:
        case View():
            return _settled(evolve(state, view=given))
        case Followed(buckets):
            return _settled(evolve(state, followed=buckets))
        case CaughtUp(bucket, epoch):
            if state.phases.get(bucket) != CatchingUp(epoch):
                return state, ()
            after, outputs = _advanced(state, bucket, Held(epoch))
            return after, (Hold(bucket, epoch), *outputs)
        case Ended(bucket, epoch):
            if state.phases.get(bucket) != Closing(epoch):
                return state, ()
            after, outputs = _advanced(state, bucket, Released(epoch))
            return after, (Drop(bucket), *outputs)
        case Leaving():
            return _settled(evolve(state, leaving=True))


def _advanced(state: MemberState, bucket: int, phase: Phase) -> tuple[MemberState, Sequence[Output]]:
    """Bring one bucket as far as the view allows from a new phase on; the others are as far already."""
    holding = state.view.assignment.holdings[bucket]
    after = _next(state, bucket, holding, phase)
    outputs = [] if after == phase else _outputs(bucket, holding, phase, after)
    changed = {**state.phases, bucket: after}
    phases = {one: kept for one, kept in changed.items() if kept is not None}
    return evolve(state, phases=phases, followed=state.followed.intersection(phases)), outputs


def _settled(state: MemberState) -> tuple[MemberState, Sequence[Output]]:
    """Bring each bucket as far as the view allows."""
    phases: dict[int, Phase] = {}
    outputs: list[Output] = []
    for bucket, holding in enumerate(state.view.assignment.holdings):
        before = state.phases.get(bucket)
        after = _next(state, bucket, holding, before)
        if after is not None:
            phases[bucket] = after
        if after != before:
            outputs += _outputs(bucket, holding, before, after)
    # A bucket that is wanted again later has to be followed anew.
    return evolve(state, phases=phases, followed=state.followed.intersection(phases)), outputs


def _next(state: MemberState, bucket: int, holding: Holding, phase: Phase | None) -> Phase | None:
    """The phase of a bucket that follows from what is seen; None: the bucket does not concern this member."""
    if holding.owner == state.identity:
        return _of_owner(state, bucket, holding, phase)
    if holding.next_owner == state.identity and not state.leaving:
        return Warm(holding.epoch) if bucket in state.followed else Following()
    # Also where it works on the bucket: who has a later epoch was given it, so this member counts as dead.
    return None


def _of_owner(state: MemberState, bucket: int, holding: Holding, phase: Phase | None) -> Phase | None:
    epoch = holding.epoch
    if phase == Released(epoch):
        return phase
    if phase in (Held(epoch), Closing(epoch)):
        warm = holding.next_owner != "" and state.view.warm.get(bucket) == epoch
        return Closing(epoch) if warm or state.leaving else phase
    if state.leaving:
        # Nothing was begun under this epoch. But what a dead owner wrote before is unknown, so the bucket is
        # not released: it is given away as that of a dead member once this one has gone.
        return Released(epoch) if holding.clean else None
    if phase == CatchingUp(epoch):
        return phase
    return CatchingUp(epoch) if bucket in state.followed else Following()


def _outputs(bucket: int, holding: Holding, before: Phase | None, after: Phase | None) -> Sequence[Output]:
    outputs: list[Output] = []
    if isinstance(before, Held | Closing) and not isinstance(after, Held | Closing):
        outputs.append(Drop(bucket))
    match after:
        case CatchingUp(epoch):
            outputs.append(CatchUp(bucket, epoch, holding.clean))
        case Closing(epoch):
            outputs.append(Close(bucket, epoch))
    return outputs
