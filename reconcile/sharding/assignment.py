"""The assignment: which member owns which bucket, as a coordinator has written it down.

It is one object, changed by compare-and-swap alone, so what it says has happened. Members act on it; they
never compute for themselves who should own what.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import msgspec
from attrs import field, frozen

NO_VERSIONS: Mapping[str, int] = {}

MOST_CHARACTERS: Final = 256 << 10
"""All annotations of an object together have no more than that."""

_NO_MEMBER: Final = -1

_T = TypeVar("_T")


class AssignmentError(ValueError):
    """The text of an assignment, of orders or of a member's record cannot be read."""


@frozen
class Holding:
    """One bucket: its owner, under which epoch, and who is to own it next.

    The epoch grows with each change of owner. `clean`: all that former owners wrote is within the versions
    that the assignment has `reached`; otherwise one of them was taken for dead, and what it wrote is unknown.
    """

    owner: str = ""
    epoch: int = 0
    next_owner: str = ""
    clean: bool = False


@frozen
class Assignment:
    """All buckets by their numbers; `reached` are versions by resource that cover what former owners wrote.

    `beginning` is the epoch at which all buckets began. It tells this assignment from one that was deleted:
    its members may still work by that one, so a bucket gets its first owner only when each of them has said
    that it goes by this one. `labelled` are the resources whose children all carry the label of their bucket.
    `spared` is how many buckets fewer than its share a slow member gets.
    """

    holdings: tuple[Holding, ...]
    reached: Mapping[str, int] = NO_VERSIONS
    labelled: tuple[str, ...] = ()
    spared: Mapping[str, int] = NO_VERSIONS
    beginning: int = 0

    @classmethod
    def empty(cls, buckets: int, epoch: int) -> "Assignment":
        """One that nothing is known of: `epoch` is above those of any assignment before."""
        return cls((Holding(epoch=epoch),) * buckets, beginning=epoch)

    def owned_by(self, member: str) -> Sequence[int]:
        """The buckets that a member owns."""
        return [bucket for bucket, holding in enumerate(self.holdings) if holding.owner == member]

    def to_text(self) -> str:
        """JSON in which each member is named once: 1,024 buckets take 10 KB."""
        members = list(
            dict.fromkeys(name for one in self.holdings for name in (one.owner, one.next_owner) if name)
        )
        number = {name: index for index, name in enumerate(members)} | {"": _NO_MEMBER}
        numbered = list(enumerate(self.holdings))
        text = _AssignmentText(
            members=members,
            beginning=self.beginning,
            owners=[number[one.owner] for one in self.holdings],
            epochs=[one.epoch - self.beginning for one in self.holdings],
            next_owners={bucket: number[one.next_owner] for bucket, one in numbered if one.next_owner},
            unclean=[bucket for bucket, one in numbered if not one.clean],
            reached=dict(self.reached),
            labelled=self.labelled,
            spared=dict(self.spared),
        )
        return msgspec.json.encode(text).decode()

    @classmethod
    def from_text(cls, text: str) -> "Assignment":
        """Raises AssignmentError."""
        read = _read(text, _AssignmentText, "assignment of buckets")
        if why := read.contradiction():
            raise AssignmentError(f"the assignment of buckets cannot be read: {why}")
        name = [*read.members, ""]  # -1, the last: no member
        unclean = frozenset(read.unclean)
        holdings = tuple(
            Holding(
                name[owner],
                read.beginning + epoch,
                name[read.next_owners.get(bucket, _NO_MEMBER)],
                bucket not in unclean,
            )
            for bucket, (owner, epoch) in enumerate(zip(read.owners, read.epochs, strict=True))
        )
        return cls(holdings, read.reached, read.labelled, read.spared, read.beginning)


class _AssignmentText(msgspec.Struct, rename="camel", omit_defaults=True):
    """Epochs count from the beginning."""

    owners: list[int]
    epochs: list[int]
    members: list[str] = []
    beginning: int = 0
    next_owners: dict[int, int] = {}
    unclean: list[int] = []
    reached: dict[str, int] = {}
    labelled: tuple[str, ...] = ()
    spared: dict[str, int] = {}

    def contradiction(self) -> str:
        """What in it cannot be; empty if there is nothing."""
        buckets, members = range(len(self.owners)), range(_NO_MEMBER, len(self.members))
        if len(self.epochs) != len(buckets) or min(self.epochs, default=0) < 0:
            return "each owner needs an epoch from 0 on"
        if not all(bucket in buckets for bucket in (*self.next_owners, *self.unclean)):
            return "it speaks of buckets that it does not have"
        if not all(number in members for number in (*self.owners, *self.next_owners.values())):
            return "it has owners without a name"
        if not all(0 <= number <= len(buckets) for number in self.spared.values()):
            return "it spares a member more buckets than there are"
        return ""


@frozen
class Orders:
    """What people ask for with `reconcile shards`: buckets pinned to members, and members to be drained."""

    pins: Mapping[int, str] = field(factory=dict)
    drained: tuple[str, ...] = ()

    def to_text(self) -> str:
        """JSON."""
        return _written(self)

    @classmethod
    def from_text(cls, text: str) -> "Orders":
        """Raises AssignmentError. An empty text has no orders."""
        return _read(text, cls, "orders") if text else cls()


@frozen
class MemberRecord:
    """What a member says of itself, in its Lease.

    `warm` are buckets that it is to own next and follows by now; `released` are buckets that it owned and in
    which its last run has ended, both with the epoch that this is about. `seen` are the highest versions that
    its stores showed by then, by resource. `beginning` is that of the assignment that it goes by: it holds
    nothing by another. `canary`: it is to get that share of all buckets, until its version has proven itself.
    `late`: its keys wait for too long, though the server keeps up. `labelled` are resources whose children it
    has seen to carry labels. `left`: it writes nothing any more. `version` is for people.
    """

    warm: Mapping[int, int] = field(factory=dict)
    released: Mapping[int, int] = field(factory=dict)
    seen: Mapping[str, int] = NO_VERSIONS
    beginning: int = 0
    draining: bool = False
    canary: float = 0.0
    late: bool = False
    labelled: tuple[str, ...] = ()
    version: str = ""
    left: bool = False

    def of_buckets(
        self, warm: Mapping[int, int], released: Mapping[int, int], beginning: int, draining: bool
    ) -> "MemberRecord":
        """The same of everything else. Not by `evolve`: each change in the ring asks for it twice."""
        return MemberRecord(
            warm,
            released,
            self.seen,
            beginning,
            draining,
            self.canary,
            self.late,
            self.labelled,
            self.version,
        )

    def says_more_than(self, before: "MemberRecord") -> bool:
        """Whether others need to know soon. That a bucket is not warm or released any more is of the past.

        Each write of a Lease costs all members a look, while buckets that move wait for other writes.
        """
        same = self.of_buckets({}, {}, self.beginning, self.draining) == before.of_buckets(
            {}, {}, before.beginning, before.draining
        )
        fewer = self.warm.items() <= before.warm.items() and self.released.items() <= before.released.items()
        return not (same and fewer)

    def to_text(self) -> str:
        """JSON."""
        return _written(self)

    @classmethod
    def from_text(cls, text: str) -> "MemberRecord":
        """Raises AssignmentError. An empty text says nothing."""
        return _read(text, cls, "record of a member") if text else cls()


def _written(said: Orders | MemberRecord) -> str:
    """JSON of what is not empty."""
    fields: dict[str, object] = msgspec.to_builtins(said)
    return msgspec.json.encode({name: value for name, value in fields.items() if value}).decode()


def _read(text: str, form: type[_T], what: str) -> _T:
    try:
        if len(text) > MOST_CHARACTERS:
            raise ValueError(f"it has {len(text):,} characters")
        return msgspec.json.decode(text, type=form)
    except (ValueError, RecursionError) as error:
        raise AssignmentError(f"the {what} cannot be read: {error}") from None
