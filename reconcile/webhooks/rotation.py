"""When certificates are renewed, replaced and dropped: pure decisions of one replica, on what it sees.

A new CA comes in three steps, each one write of the Secret that names the version it is meant for:

1. announce: the new CA is `upcoming`, and all bundles come to hold both;
2. switch: once each member says that the bundles of all its objects have held the new CA for long enough
   (`SETTLE_SECONDS`), the leaf is signed by the new CA;
3. drop: once each member says that it serves that leaf, and still finds its CA in all bundles, the old CA
   goes.

Any number of replicas take these steps, each may die at any of them, and no time of another process is
compared: durations are measured by each replica for itself, and wall time decides only when a validity ends.
A replica is a member from before it serves until it leaves, or until it is silent for too long.
"""

import datetime
from collections.abc import Collection, Iterable, Mapping
from enum import Enum

from attrs import frozen

BEAT_SECONDS = 30.0
"""How often a member says anew that it lives."""

SILENT_SECONDS = 240.0
"""A member whose entry is unchanged for so long, by the clock of the replica that looks, counts as dead."""

CERTAIN_SECONDS = 90.0
"""A replica that has not written its entry for so long no longer counts on being a member."""

SETTLE_SECONDS = 60.0
"""How long a bundle is in an object before it is taken to be in use: API servers read these by informers."""

GAP_SECONDS = 45.0
"""After this time without a look, nothing is known of the time between: sightings start anew."""

MOST_MEMBERS = 100
"""In a crash loop entries outlive their processes. At this number all are removed."""


@frozen
class Validity:
    """From when until when a certificate is valid."""

    since: datetime.datetime
    until: datetime.datetime

    def is_due(self, now: datetime.datetime) -> bool:
        """Whether two thirds of it have passed."""
        return now >= self.since + (self.until - self.since) * 2 / 3


@frozen
class Authority:
    """What a decision needs to know of a CA; `id` is the fingerprint of its certificate."""

    id: str
    validity: Validity


@frozen
class Leaf:
    """What a decision needs to know of the serving certificate; `issuer` is the id of its CA."""

    issuer: str
    names: tuple[str, ...]
    validity: Validity


@frozen
class Member:
    """What a replica says of itself.

    It serves a leaf of the CA `serves`, and the bundles of all objects that it knows have held the CAs
    `settled` for SETTLE_SECONDS. `beat` changes while it lives.
    """

    serves: str
    settled: tuple[str, ...] = ()
    beat: int = 0


@frozen
class Rotation:
    """The state that the Secret holds; `upcoming` is the CA that takes the place of `current`."""

    current: Authority
    leaf: Leaf
    upcoming: Authority | None = None
    members: Mapping[str, Member] = {}

    @property
    def trusted(self) -> tuple[str, ...]:
        """The CAs that belong into every bundle, in their order."""
        return (self.current.id,) if self.upcoming is None else (self.current.id, self.upcoming.id)

    @property
    def has_switched(self) -> bool:
        """Whether the leaf is of the upcoming CA already."""
        return self.signer is self.upcoming

    @property
    def signer(self) -> Authority:
        """The CA that signed the leaf."""
        upcoming = self.upcoming
        return self.current if upcoming is None or self.leaf.issuer != upcoming.id else upcoming


@frozen
class Replica:
    """The replica that decides: its identity, what it says of itself, and the names that it serves under."""

    identity: str
    says: Member
    names: tuple[str, ...]


class Move(Enum):
    """What happens to the certificates in the Secret."""

    KEEP = "keep"
    ANNOUNCE = "announce"
    """A new CA becomes the upcoming one, in place of one that nothing serves yet."""
    RENEW = "renew"
    """A new leaf of the CA that signed the present one."""
    SWITCH = "switch"
    """A new leaf, of the upcoming CA."""
    DROP = "drop"
    """The upcoming CA becomes the current one; the current one goes."""


@frozen
class Step:
    """What one write of the Secret does; nothing is to be written where both are as they were."""

    move: Move
    members: Mapping[str, Member]


def step(state: Rotation, replica: Replica, silent: Collection[str], now: datetime.datetime) -> Step:
    """The next step of a replica that serves the leaf of `state`, or is about to and says so first.

    `silent` are the members that it takes for dead; `now` is its wall time, which may be wrong by minutes.
    """
    members = {name: member for name, member in state.members.items() if name not in silent}
    if replica.identity not in members and len(members) >= MOST_MEMBERS:
        # Members that live enter again at their next look, long before this one has settled.
        return Step(Move.KEEP, {replica.identity: replica.says})
    members[replica.identity] = replica.says
    return Step(_move(state, members.values(), replica.names, now), members)


def _move(
    state: Rotation, members: Collection[Member], names: tuple[str, ...], now: datetime.datetime
) -> Move:
    upcoming = state.upcoming
    if upcoming is None:
        if state.current.validity.is_due(now):
            return Move.ANNOUNCE
    elif state.has_switched:
        if all(member.serves == upcoming.id and upcoming.id in member.settled for member in members):
            return Move.DROP
    elif upcoming.validity.is_due(now):
        return Move.ANNOUNCE  # it waited for so long that a leaf of it would be short-lived
    elif all(upcoming.id in member.settled for member in members):
        return Move.SWITCH
    if now >= state.signer.validity.until:
        return Move.KEEP  # it ended while no replica ran, and cannot sign: the steps to the next CA go on
    if state.leaf.validity.is_due(now) or not set(names) <= set(state.leaf.names):
        return Move.RENEW
    return Move.KEEP


def names_of_next_leaf(state: Rotation, names: tuple[str, ...], now: datetime.datetime) -> tuple[str, ...]:
    """The names of a new leaf: those that the replica serves under, and until its renewal those it had.

    Replicas of two versions that differ in their names would otherwise renew it in turns.
    """
    former = () if state.leaf.validity.is_due(now) else state.leaf.names
    return tuple(dict.fromkeys((*names, *former)))


@frozen
class Sighting:
    """An entry of a member, unchanged for this process since that time (monotonic seconds)."""

    member: Member
    since: float


def sighted(
    before: Mapping[str, Sighting], members: Mapping[str, Member], now: float
) -> Mapping[str, Sighting]:
    """The sightings after a look: an unchanged entry keeps its age."""
    return {name: _sighting(before.get(name), member, now) for name, member in members.items()}


def _sighting(before: Sighting | None, member: Member, now: float) -> Sighting:
    return before if before is not None and before.member == member else Sighting(member, now)


def silent_members(sightings: Mapping[str, Sighting], now: float) -> Collection[str]:
    """The members that are taken for dead."""
    return {name for name, seen in sightings.items() if now - seen.since >= SILENT_SECONDS}


def held_since(
    before: Mapping[str, float], trusted: Iterable[str], bundles: Iterable[Collection[str]], now: float
) -> Mapping[str, float]:
    """Since when (monotonic seconds) each trusted CA is in every bundle, without those that one lacks."""
    bundles = list(bundles)
    everywhere = (one for one in trusted if all(one in bundle for bundle in bundles))
    return {one: before.get(one, now) for one in everywhere}


def settled(since: Mapping[str, float], now: float) -> tuple[str, ...]:
    """The CAs that have been in every bundle for long enough to be in use everywhere."""
    return tuple(one for one, start in since.items() if now - start >= SETTLE_SECONDS)


def may_be_left_behind(state: Rotation, now: datetime.datetime, margin: datetime.timedelta) -> bool:
    """Whether others may meanwhile have dropped the CA whose leaf this replica serves.

    Otherwise a replica that cannot reach the API server may serve on: no rotation is due.
    """
    return state.upcoming is not None or state.current.validity.is_due(now + margin)
