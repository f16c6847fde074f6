"""The assignment: which member owns which bucket, as the coordinator has written it down.

It is one object, changed by compare-and-swap alone, so what it says has happened. Members act on it; they
never compute for themselves who should own what.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from attrs import field, frozen

NO_VERSIONS: Mapping[str, int] = {}


class AssignmentError(ValueError):
    """The text of an assignment, of orders or of a member's record cannot be read."""


@frozen
class Holding:
    """One bucket: its owner, under which epoch, and who is to own it next.

    The epoch grows with each change of owner. `clean`: the owner before said that its last run had ended, so
    that all it wrote is within the versions that the assignment has `reached`; otherwise it was taken for
    dead.
    """

    owner: str = ""
    epoch: int = 0
    next_owner: str = ""
    clean: bool = False


@frozen
class Assignment:
    """All buckets by their numbers; `reached` are versions by resource that cover what former owners wrote.

    `labelled` are the resources whose children all carry the label of their bucket. `spared` is how many
    buckets fewer than its share a slow member gets.
    """

    holdings: tuple[Holding, ...]
    reached: Mapping[str, int] = NO_VERSIONS
    labelled: tuple[str, ...] = ()
    spared: Mapping[str, int] = NO_VERSIONS

    @classmethod
    def empty(cls, buckets: int, epoch: int) -> "Assignment":
        """One that nothing is known of: `epoch` is above those of any assignment before."""
        return cls((Holding(epoch=epoch),) * buckets)

    def owned_by(self, member: str) -> Sequence[int]:
        """The buckets that a member owns."""
        return [bucket for bucket, holding in enumerate(self.holdings) if holding.owner == member]

    def to_text(self) -> str:
        """JSON in which each member is named once: 1,024 buckets take 20 KB."""
        members = list(
            dict.fromkeys(name for one in self.holdings for name in (one.owner, one.next_owner) if name)
        )
        number = {name: index for index, name in enumerate(members)} | {"": -1}
        holdings = enumerate(self.holdings)
        text = _AssignmentText(
            members=members,
            owners=[number[one.owner] for one in self.holdings],
            epochs=[one.epoch for one in self.holdings],
            next_owners={bucket: number[one.next_owner] for bucket, one in holdings if one.next_owner},
            unclean=[bucket for bucket, one in enumerate(self.holdings) if not one.clean],
            reached=dict(self.reached),
            labelled=self.labelled,
            spared=dict(self.spared),
        )
        return msgspec.json.encode(text).decode()

    @classmethod
    def from_text(cls, text: str) -> "Assignment":
        """Raises AssignmentError."""
        try:
            read = msgspec.json.decode(text, type=_AssignmentText)
            name = [*read.members, ""]  # -1: nobody
            unclean = frozenset(read.unclean)
            holdings = tuple(
                Holding(name[owner], epoch, name[read.next_owners.get(bucket, -1)], bucket not in unclean)
                for bucket, (owner, epoch) in enumerate(zip(read.owners, read.epochs, strict=True))
            )
        except (msgspec.MsgspecError, ValueError, IndexError) as error:
            raise AssignmentError(f"the assignment of buckets cannot be read: {error}") from None
        return cls(holdings, read.reached, read.labelled, read.spared)


class _AssignmentText(msgspec.Struct, rename="camel", omit_defaults=True):
    members: list[str] = []
    owners: list[int] = []
    epochs: list[int] = []
    next_owners: dict[int, int] = {}
    unclean: list[int] = []
    reached: dict[str, int] = {}
    labelled: tuple[str, ...] = ()
    spared: dict[str, int] = {}


@frozen
class Orders:
    """What people ask for with `reconcile shards`: buckets pinned to members, and members to be drained."""

    pins: Mapping[int, str] = field(factory=dict)
    drained: tuple[str, ...] = ()

    def to_text(self) -> str:
        """JSON."""
        pins = {str(bucket): member for bucket, member in sorted(self.pins.items())}
        return msgspec.json.encode({"pins": pins, "drained": self.drained}).decode()

    @classmethod
    def from_text(cls, text: str) -> "Orders":
        """Raises AssignmentError. An empty text has no orders."""
        return cls(**_read(text, _OrdersText, "orders")) if text else cls()


class _OrdersText(msgspec.Struct):
    pins: dict[int, str] = {}
    drained: tuple[str, ...] = ()


@frozen
class MemberRecord:
    """What a member says of itself, in its Lease.

    `warm` are buckets that it is to own next and follows by now; `released` are buckets that it owned and in
    which its last run has ended, both with the epoch that this is about. `seen` are the versions that its
    stores had reached by then, by resource. `canary`: it is to get that share of all buckets, until its
    version has proven itself. `late`: its keys wait for too long, though the server keeps up. `working`: it
    has held a bucket. `labelled` are resources whose children it has seen to carry labels. `version` is for
    people.
    """

    warm: Mapping[int, int] = field(factory=dict)
    released: Mapping[int, int] = field(factory=dict)
    seen: Mapping[str, int] = NO_VERSIONS
    draining: bool = False
    canary: float = 0.0
    late: bool = False
    working: bool = False
    labelled: tuple[str, ...] = ()
    version: str = ""

    def to_text(self) -> str:
        """JSON."""
        numbered = {"warm": self.warm, "released": self.released}
        named = {
            name: {str(bucket): epoch for bucket, epoch in given.items()} for name, given in numbered.items()
        }
        fields = "seen", "draining", "canary", "late", "working", "labelled", "version"
        rest = {name: getattr(self, name) for name in fields}
        return msgspec.json.encode(
            {name: value for name, value in {**named, **rest}.items() if value}
        ).decode()

    @classmethod
    def from_text(cls, text: str) -> "MemberRecord":
        """Raises AssignmentError. An empty text says nothing."""
        return cls(**_read(text, _RecordText, "record of a member")) if text else cls()


class _RecordText(msgspec.Struct):
    warm: dict[int, int] = {}
    released: dict[int, int] = {}
    seen: dict[str, int] = {}
    draining: bool = False
    canary: float = 0.0
    late: bool = False
    working: bool = False
    labelled: tuple[str, ...] = ()
    version: str = ""


def _read(text: str, form: type[msgspec.Struct], what: str) -> dict[str, Any]:
    try:
        return msgspec.structs.asdict(msgspec.json.decode(text, type=form))
    except msgspec.MsgspecError as error:
        raise AssignmentError(f"the {what} cannot be read: {error}") from None
