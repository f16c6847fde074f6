"""Decides the next step of a switch from an operator on kopf, by what a cluster has. Pure functions.

All state is in the cluster, so a switch that was killed after any write goes on where it was:

1. Nothing stands against it, and no object is half-way through its creation: what its handler has done
   outside of the cluster is known to the operator alone that runs it.
2. The peers are frozen. They end the handlers that run and record them, and begin none. A creation that is
   to be retried stays half-way then: they are let go on, and frozen again when it is through.
3. The Deployments are scaled to 0, and their pods end.
4. The freeze is lifted.
"""

import datetime
from collections.abc import Callable, Sequence
from typing import Final, Literal, TypeAlias

from attrs import evolve, frozen

from reconcile.adoption.audit import Audit, SeenDeployment, counted, judged
from reconcile.adoption.tally import Sightings
from reconcile.client.kopf_peerings import OWN, Peering
from reconcile.predecessors import FREEZE_PRIORITY, Peer

IDENTITY: Final = f"{OWN}adopt-kopf-switch"
"""The name under which the command signs in peering objects."""
NAMED: Final = 5
"""Objects, peers and findings that a step names."""


@frozen
class Terms:
    """How a switch waits, in seconds. `unfinished` is as in `Predecessor.kopf`.

    `drain` is how long frozen operators get to end their handlers, `patience` how long changes and deletions
    that are under way are waited for before that.
    """

    unfinished: Literal["hold", "run"] = "hold"
    drain: float = 10.0
    patience: float = 30.0


@frozen
class Seen:
    """What a cluster has at the time `now`, and what this process knows besides.

    `absent` are Deployments that were named and are not there, `ambiguous` those that share a name which was
    given without a namespace. `waited` are the seconds since it began, `frozen_for` those for which it has
    found all live operators frozen; 0 if they are not.
    """

    audit: Audit
    now: datetime.datetime
    peerings: Sequence[Peering] = ()
    absent: Sequence[str] = ()
    ambiguous: Sequence[str] = ()
    waited: float = 0.0
    frozen_for: float = 0.0

    @property
    def live(self) -> Sequence[tuple[Peering, Peer]]:
        """The operators on kopf that sign, each with the peering object where it does."""
        return [(one, peer) for one in self.peerings for peer in one.operators(self.now)]

    @property
    def running(self) -> Sequence[SeenDeployment]:
        return [one for one in self.audit.deployments if one.replicas]

    @property
    def alive(self) -> bool:
        """Whether an operator on kopf is seen to run, frozen or not."""
        return bool(self.live) or any(not one.stopped for one in self.audit.deployments)

    @property
    def stopping(self) -> bool:
        """Whether it has been asked to stop, so that no handler begins any more."""
        return bool(self.audit.deployments) and not self.running

    @property
    def signed(self) -> Sequence[Peering]:
        """Where the entry of a switch is, be it alive or not."""
        return [one for one in self.peerings if any(peer.identity == IDENTITY for peer in one.peers)]

    @property
    def frozen(self) -> bool:
        """Whether every operator that signs is frozen by the entry of a switch, and there is one."""
        return bool(self.live) and all(is_frozen(*one, self.now, IDENTITY) for one in self.live)

    @property
    def frozen_by_manager(self) -> bool:
        """Whether the entry of a manager has an operator pause, which only expires."""
        return any(
            is_frozen(evolve(one, peers=_without(one, IDENTITY)), peer, self.now) for one, peer in self.live
        )

    @property
    def half_created(self) -> Sightings:
        """Objects with a handler of creation that has begun and is to be called again."""
        return _together(*(tally.half_created for tally in self.audit.tallies))

    @property
    def begun(self) -> Sightings:
        """Objects that kopf holds and has not handled: the first call of such a handler may be running."""
        return _together(*(tally.begun for tally in self.audit.tallies))

    @property
    def creating(self) -> Sightings:
        return _together(self.half_created, self.begun)

    @property
    def under_way(self) -> Sightings:
        """Objects with handlers of another change that are not through, and those that are being deleted."""
        tallies = self.audit.tallies
        return _together(*(one.under_way for one in tallies), *(one.deleting for one in tallies))


def is_frozen(peering: Peering, operator: Peer, now: datetime.datetime, by: str = OWN) -> bool:
    """Whether an entry of ours, whose identity begins with `by`, has the operator pause."""
    own = [peer for peer in peering.peers if peer.identity.startswith(by) and peer.is_alive(now)]
    return any(peer.priority > operator.priority for peer in own)


def _without(peering: Peering, identity: str) -> tuple[Peer, ...]:
    return tuple(peer for peer in peering.peers if peer.identity != identity)


@frozen
class Wait:
    """Look again soon; `what` says for what, and `hint` what to do where that never comes."""

    what: str
    hint: str = ""


@frozen
class Freeze:
    """Sign in these peering objects, and keep the entries alive."""

    peerings: Sequence[Peering]


@frozen
class Thaw:
    """Remove the entries from these peering objects; `why` is the reason."""

    peerings: Sequence[Peering]
    why: str


@frozen
class Stop:
    """Scale these Deployments to 0."""

    deployments: Sequence[SeenDeployment]


@frozen
class Refuse:
    """The switch cannot go on; `hint` is the next step."""

    problem: str
    hint: str


@frozen
class Finished:
    """Nothing on kopf is seen to run. `notes` are risks to know of."""

    notes: Sequence[str] = ()


Step: TypeAlias = Wait | Freeze | Thaw | Stop | Refuse | Finished
_Stage: TypeAlias = Callable[[Seen, Terms], Step | None]


def next_step(seen: Seen, terms: Terms) -> Step:
    """The first step that is still to be taken."""
    for stage in (
        _audited,
        _named,
        _is_kopf,
        _can_pause,
        _created,
        _settled,
        _freeze,
        _drained,
        _stop,
        _ended,
        _thaw,
    ):
        if (step := stage(seen, terms)) is not None:
            return step
    return Finished(notes(seen))


# --- before anything is written -----------------------------------------------------------------------


def _audited(seen: Seen, terms: Terms) -> Step | None:
    """What stands against a switch, but for creations, which have a stage of their own."""
    found = [
        one
        for one in judged(seen.audit).findings
        if one.severity == "unknown" or (one.severity == "error" and one.check != "creations")
    ]
    if not found:
        return None
    more = f", and {counted(len(found) - 1, 'finding')} more of the audit" if len(found) > 1 else ""
    return Refuse(f"{found[0].subject} {found[0].what}{more}", found[0].next_step)


def _named(seen: Seen, terms: Terms) -> Step | None:
    if seen.absent:
        return Refuse(
            f"there is no Deployment {', '.join(seen.absent)}",
            "name the one of the operator on kopf, or none if it is deleted",
        )
    if seen.ambiguous:
        return Refuse(f"{', '.join(seen.ambiguous)} have the same name", "name one as NAMESPACE/NAME")
    return None


def _is_kopf(seen: Seen, terms: Terms) -> Step | None:
    """The new operator may have come into the place of the old one, with its Deployment."""
    if not seen.running or seen.live or any(one.with_traces for one in seen.audit.tallies):
        return None
    names = ", ".join(one.name for one in seen.running)
    return Refuse(
        f"no object that was read has traces of kopf, so Deployment {names} may be the new operator",
        "if it is not, scale it to 0 by hand: nothing can be half done",
    )


def _can_pause(seen: Seen, terms: Terms) -> Step | None:
    for peering, peer in seen.live:
        if peer.priority >= FREEZE_PRIORITY:
            return Refuse(
                f"{peer_text(peer)} in {peering} has the priority {peer.priority}, so it would not pause for "
                f"{FREEZE_PRIORITY}",
                "end it (an operator that was started with --dev), or lift that freeze with `kopf resume`",
            )
    return None


# --- until it can be frozen ---------------------------------------------------------------------------


def _created(seen: Seen, terms: Terms) -> Step | None:
    """No creation may be cut off in the middle."""
    if terms.unfinished == "run" or (seen.stopping and seen.alive):
        return None
    if not seen.creating.count:
        return None
    if not seen.alive:
        what = f"half-way through its creation: {names_of(seen.creating)}"
        return Refuse(what, f"start the operator on kopf again, which finishes it; or {_FINISHED}")
    if seen.frozen_by_manager:
        what = f"half-way through its creation: {names_of(seen.creating)}"
        return Refuse(what, f"a manager has frozen the operator on kopf, which would finish it: {_FINISHED}")
    if not seen.frozen:
        return Wait(f"kopf has finished the creation of {names_of(seen.creating)}", _NEVER)
    if not seen.half_created.count and seen.frozen_for < terms.drain:
        return Wait(f"handlers that run have ended: {names_of(seen.begun)}")
    return Thaw(seen.signed, f"kopf has to finish the creation of {names_of(seen.creating)}")


_FINISHED: Final = (
    "see to what its handler did outside of the cluster, and run this with --finished NAMESPACE/NAME"
)


_NEVER: Final = (
    "see to what keeps it from that; where it has no handlers of creation, add --unfinished run, and "
    "unfinished='run' to Predecessor.kopf"
)


def _settled(seen: Seen, terms: Terms) -> Step | None:
    """What is under way is better done by the operator that began it, but may fail for ever."""
    paused = seen.frozen or seen.frozen_by_manager
    idle = not seen.alive or paused or seen.stopping or not seen.under_way.count
    if idle or seen.waited >= terms.patience:
        return None
    return Wait(f"kopf is through with {names_of(seen.under_way)}")


# --- the switch ---------------------------------------------------------------------------------------


def _freeze(seen: Seen, terms: Terms) -> Step | None:
    if seen.stopping:
        return None
    loose = [one for one, peer in seen.live if not is_frozen(one, peer, seen.now, IDENTITY)]
    return Freeze(list(dict.fromkeys(loose))) if loose else None


def _drained(seen: Seen, terms: Terms) -> Step | None:
    if seen.frozen and not seen.stopping and seen.frozen_for < terms.drain:
        return Wait("handlers that run have ended")
    return None


def _stop(seen: Seen, terms: Terms) -> Step | None:
    return Stop(seen.running) if seen.running else None


def _ended(seen: Seen, terms: Terms) -> Step | None:
    ending = [one for one in seen.audit.deployments if one.pods]
    if ending:
        pods = sum(one.pods for one in ending)
        return Wait(f"the pods of {', '.join(one.name for one in ending)} have ended: {pods} left")
    if seen.live:
        peers = [peer_text(peer) for _, peer in seen.live]
        if not seen.audit.deployments:
            return Wait(f"you have stopped the operator on kopf, which is frozen: {listed(peers)}")
        return Wait(f"the entries of {listed(peers)} have gone or expired")
    return None


def _thaw(seen: Seen, terms: Terms) -> Step | None:
    return Thaw(seen.signed, "no operator on kopf is left") if seen.signed else None


# --- words --------------------------------------------------------------------------------------------


def notes(seen: Seen) -> Sequence[str]:
    """What is to be known at the end."""
    findings = judged(seen.audit).findings
    found = [f"{one.subject} {one.what}; {one.next_step}" for one in findings]
    if not seen.audit.deployments:
        found.append(
            "no Deployment was named, and an operator that signs in no peering object is not seen: "
            "be sure that it has stopped"
        )
    return found


def outline(seen: Seen, terms: Terms) -> Sequence[str]:
    """What a switch would do, a line for each part, in its order; none: there is nothing to do."""
    if not seen.alive:
        return ["remove the entry of an earlier switch"] if seen.signed else []
    lines = []
    if terms.unfinished == "hold" and seen.creating.count:
        lines.append(f"wait until kopf has finished the creation of {names_of(seen.creating)}")
    if seen.live:
        peers = listed([f"{peer_text(peer)} in {one}" for one, peer in seen.live])
        lines.append(f"freeze {peers}, and let handlers that run end ({terms.drain:g} s)")
    else:
        lines.append("freeze nothing: no operator signs in a peering object; its handlers are cut off")
    for one in seen.running:
        lines.append(f"scale Deployment {one.name} from {one.replicas} to 0, and wait until its pods end")
    if not seen.audit.deployments:
        lines.append("wait until you have stopped the operator on kopf: no --deployment was named")
    return lines


def peer_text(peer: Peer) -> str:
    """Whoever may write a peering object chooses the identities in it."""
    return repr(peer.identity[:100])


def names_of(sightings: Sightings) -> str:
    return listed([one.object for one in sightings.first], sightings.count)


def listed(texts: Sequence[str], count: int | None = None) -> str:
    """The first of these; `count` is how many there are in all."""
    more = (len(texts) if count is None else count) - NAMED
    return f"{', '.join(texts[:NAMED])}{f' and {more:,} more' if more > 0 else ''}"


def _together(*sightings: Sightings) -> Sightings:
    return Sightings(sum(one.count for one in sightings), [each for one in sightings for each in one.first])
