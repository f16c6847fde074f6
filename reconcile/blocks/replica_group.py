"""A number of replicas of one template: which hosts to create, which to delete, which to leave alone.

A replica is one object, mostly a pod, or several that are only of use together: its hosts. It is created,
kept and deleted as a whole. The decision is pure (`ReplicaGroup.plan`), uses the definition of active in
`reconcile.replicas`, and is carried out by `carry_out_group`.
"""

import datetime
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Generic, Literal, Protocol, TypeVar

from attrs import frozen

from reconcile.controller.context import Context
from reconcile.models import Object
from reconcile.replicas import ReplicaLike, is_active, rank_victims, replica_of
from reconcile.runs.run_request import Result

HostRemovalReason = Literal["unhealthy", "incomplete", "resized", "listed", "not-ready", "cheapest", "newest"]
FIRST_WAIT = 10.0
LONGEST_WAIT = 300.0
"""Seconds between the creation of a replica that broke again and that of the next: those of the kubelet."""
FORGIVEN = 600.0
"""A replica that lived this long (s) broke for a reason of its own, not for that of the previous one."""


class HostLike(ReplicaLike, Protocol):
    """What must be known of a host.

    `finished`: it has ended for good. `replica` names its replica, empty if it is alone; `replica_index` and
    `host_index` are -1 if unknown. `failures` counts the broken replicas in a row before this one. `whole`:
    all hosts of its replica have existed.
    """

    @property
    def replica(self) -> str: ...
    @property
    def replica_index(self) -> int: ...
    @property
    def host_index(self) -> int: ...
    @property
    def failures(self) -> int: ...
    @property
    def whole(self) -> bool: ...


H = TypeVar("H", bound=HostLike)


@frozen
class Marks:
    """The names of three labels and two annotations that distinguish hosts."""

    replica: str
    replica_index: str
    host_index: str
    failures: str
    whole: str

    @classmethod
    def of(cls, domain: str) -> "Marks":
        """Marks under a domain: `example.com/replica` and so on."""
        names = ("replica", "replica-index", "host-index", "failures", "whole")
        return cls(*(f"{domain}/{name}" for name in names))


@frozen
class Host:
    """A host as `ReplicaGroup` sees it; `object` is its source."""

    name: str
    created: datetime.datetime
    object: Object
    ready: bool = False
    terminating: bool = False
    finished: bool = False
    deletion_cost: int = 0
    replica: str = ""
    replica_index: int = -1
    host_index: int = -1
    failures: int = 0
    whole: bool = False


def host_of(obj: Object, marks: Marks) -> Host:
    """A stored object as a host (see `replica_of`). Raises ValueError for one that no server has stored."""
    replica, labels, annotations = replica_of(obj), obj.metadata.labels, obj.metadata.annotations
    return Host(
        name=obj.name,
        created=replica.created,
        object=obj,
        ready=replica.ready,
        terminating=replica.terminating,
        finished=replica.finished,
        deletion_cost=replica.deletion_cost,
        replica=labels.get(marks.replica, ""),
        replica_index=_integer(labels.get(marks.replica_index), -1),
        host_index=_integer(labels.get(marks.host_index), -1),
        failures=_integer(annotations.get(marks.failures), 0),
        whole=marks.whole in annotations,
    )


@frozen
class Atom(Generic[H]):
    """A replica: hosts created and deleted together. As new as its newest, as costly as its costliest."""

    name: str
    hosts: tuple[H, ...]
    created: datetime.datetime
    ready: bool
    terminating: bool
    finished: bool
    deletion_cost: int

    @classmethod
    def of(cls, name: str, hosts: tuple[H, ...]) -> "Atom[H]":
        return cls(
            name,
            hosts,
            created=max(host.created for host in hosts),
            ready=all(host.ready for host in hosts),
            terminating=any(host.terminating for host in hosts),
            finished=any(host.finished for host in hosts),
            deletion_cost=max(host.deletion_cost for host in hosts),
        )

    @property
    def live(self) -> tuple[H, ...]:
        return tuple(host for host in self.hosts if not host.terminating)


@frozen
class NewReplica:
    """A replica to create, or the missing `hosts` of one, by index. `name` is empty for a whole one."""

    index: int
    hosts: tuple[int, ...]
    failures: int = 0
    name: str = ""


@frozen
class NewHost:
    """One host to create."""

    replica: str
    replica_index: int
    host_index: int
    failures: int = 0

    def marked(self, manifest: Mapping[str, Any], marks: Marks) -> dict[str, Any]:
        """The manifest with what `host_of` reads: labels, and an annotation if others broke before.

        Such marks in the manifest itself, as in a template that was copied from a pod, are left out: hosts
        that share them would count as one replica.
        """
        metadata = dict(manifest.get("metadata") or {})
        said = {marks.replica_index: str(self.replica_index), marks.host_index: str(self.host_index)}
        name = {marks.replica: self.replica} if self.replica else {}
        metadata["labels"] = {**_without(metadata.get("labels"), marks.replica), **said, **name}
        failed = {marks.failures: str(self.failures)} if self.failures else {}
        annotations = {**_without(metadata.get("annotations"), marks.failures, marks.whole), **failed}
        if annotations or "annotations" in metadata:
            metadata["annotations"] = annotations
        return {**manifest, "metadata": metadata}


def _without(texts: Mapping[str, str] | None, *names: str) -> dict[str, str]:
    return {name: text for name, text in (texts or {}).items() if name not in names}


@frozen
class HostRemoval(Generic[H]):
    """A host to delete (with its uid), and the reason for its choice."""

    host: H
    reason: HostRemovalReason


@frozen
class GroupPlan(Generic[H]):
    """What leads to the desired replicas. `delete` comes before `create`.

    `present` are the hosts of replicas that count and stay, `waiting` are Terminating and left alone. In
    `after` seconds a replica that broke too often may be replaced. `mark` are hosts to mark as those of whole
    replicas.
    """

    create: tuple[NewReplica, ...] = ()
    delete: tuple[HostRemoval[H], ...] = ()
    waiting: tuple[H, ...] = ()
    present: tuple[H, ...] = ()
    after: float | None = None
    mark: tuple[H, ...] = ()

    @property
    def creates(self) -> int:
        """How many hosts to create."""
        return sum(len(replica.hosts) for replica in self.create)

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to create, delete or mark."""
        return not (self.create or self.delete or self.mark)


@frozen
class ReplicaGroup:
    """A group of `replicas` replicas with `hosts` hosts each.

    Replicas with a host that is `listed` by name go in any case, and are then replaced. The order of
    `rank_victims` decides about others if there are too many. Without `chooses`, only listed and broken ones
    go (for a caller that knows which are in use). Raises ValueError for replicas below 0 or hosts below 1.
    """

    replicas: int
    hosts: int = 1
    listed: Collection[str] = ()
    chooses: bool = True

    def __attrs_post_init__(self) -> None:
        if self.replicas < 0 or self.hosts < 1:
            raise ValueError(f"a group has 0 replicas or more of 1 host or more, not {self}")

    def plan(self, observed: Iterable[H], now: datetime.datetime) -> GroupPlan[H]:
        """What to create and what to delete, given all existing hosts of the group.

        A Terminating host neither counts nor is deleted again, so nothing goes twice, and one that hangs does
        not hold up its replacement. A replica is broken when a host of it has ended, is terminating or is
        lost; the rest of it is deleted then. One that broke right after another is replaced later each time;
        one of another number of hosts, since that was changed, is replaced at once.
        A replica that was never whole gets its missing hosts: they are created in order, so it is one whose
        last hosts are missing, and of which none is marked as whole.
        """
        atoms = atoms_of(observed)
        whole = [atom for atom in atoms if self._is_whole(atom)]
        forming = [atom for atom in atoms if self._is_forming(atom)]
        sound = [*whole, *forming]
        broken = _others([atom for atom in atoms if atom.live], sound)
        leaving = self._leaving(sound)
        stay = _others(sound, [atom for atom, _ in leaving])
        missing = max(0, self.replicas - len(stay))
        resized = [atom for atom in broken if self._is_resized(atom)]
        held, due = _held(_others(broken, resized), missing, now)
        taken = {host.replica_index for atom in (*stay, *held) for host in atom.live}
        made = _new_replicas(missing - len(held), self.hosts, taken, _counts(due, now))
        return GroupPlan(
            create=(*self._completed(_others(forming, [atom for atom, _ in leaving])), *made),
            delete=(
                *(HostRemoval(host, _why_broken(host)) for atom in due for host in atom.live),
                *(HostRemoval(host, "resized") for atom in resized for host in atom.live),
                *(HostRemoval(host, reason) for atom, reason in leaving for host in atom.live),
            ),
            waiting=tuple(host for atom in atoms for host in atom.hosts if host.terminating),
            present=tuple(host for atom in stay for host in atom.live),
            after=min((_wait(atom, now) for atom in held), default=None),
            mark=tuple(atom.hosts[0] for atom in stay if self._is_to_mark(atom)),
        )

    def _is_whole(self, atom: Atom[H]) -> bool:
        return is_active(atom) and len(atom.hosts) == self.hosts

    def _is_forming(self, atom: Atom[H]) -> bool:
        first = [host.host_index for host in atom.hosts] == list(range(len(atom.hosts)))
        short = len(atom.hosts) < self.hosts and first and bool(atom.hosts[0].replica)
        return is_active(atom) and short and not any(host.whole for host in atom.hosts)

    def _is_resized(self, atom: Atom[H]) -> bool:
        """Whether it cannot have been made for this number of hosts; one with fewer may have lost some."""
        alone = not atom.hosts[0].replica
        return is_active(atom) and (len(atom.hosts) > self.hosts or (alone and self.hosts > 1))

    def _is_to_mark(self, atom: Atom[H]) -> bool:
        one_of_several = self.hosts > 1 and self._is_whole(atom)
        return one_of_several and not any(host.whole for host in atom.hosts)

    def _leaving(self, atoms: Sequence[Atom[H]]) -> list[tuple[Atom[H], HostRemovalReason]]:
        named = {atom.name for atom in atoms if any(host.name in self.listed for host in atom.hosts)}
        surplus = max(0, len(atoms) - self.replicas) if self.chooses else 0
        ranked = rank_victims(atoms, named)[: max(surplus, len(named))]
        return [(victim.replica, victim.reason) for victim in ranked]

    def _completed(self, forming: Sequence[Atom[H]]) -> Iterable[NewReplica]:
        for atom in forming:
            some, lacks = atom.hosts[0], tuple(range(len(atom.hosts), self.hosts))
            yield NewReplica(some.replica_index, lacks, some.failures, atom.name)


def atoms_of(observed: Iterable[H]) -> list[Atom[H]]:
    """The hosts by replica, in the order of names; a host without a replica's name is one by itself."""
    found: dict[str, list[H]] = {}
    for host in sorted(observed, key=lambda host: (host.host_index, host.name)):
        found.setdefault(host.replica or host.name, []).append(host)
    return [Atom.of(name, tuple(hosts)) for name, hosts in sorted(found.items())]


def wait_after(failures: int) -> float:
    """The least age in seconds at which a replica is replaced, after that many failures in a row."""
    return min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(failures - 1, 10)) if failures > 0 else 0.0


def _held(
    broken: Sequence[Atom[H]], missing: int, now: datetime.datetime
) -> tuple[list[Atom[H]], list[Atom[H]]]:
    """The broken replicas whose replacement must wait, and those that go now, surplus ones included."""
    waiting = [atom for atom in broken if _wait(atom, now) > 0][:missing]
    return waiting, _others(broken, waiting)


def _others(atoms: Sequence[Atom[H]], some: Sequence[Atom[H]]) -> list[Atom[H]]:
    names = {atom.name for atom in some}
    return [atom for atom in atoms if atom.name not in names]


def _wait(atom: Atom[H], now: datetime.datetime) -> float:
    failures = max(host.failures for host in atom.hosts)
    return max(0.0, wait_after(failures) - (now - atom.created).total_seconds())


def _counts(broken: Sequence[Atom[H]], now: datetime.datetime) -> list[int]:
    """The `failures` of replacements for broken replicas, the highest first."""
    return sorted((_count(atom, now) for atom in broken), reverse=True)


def _count(atom: Atom[H], now: datetime.datetime) -> int:
    if (now - atom.created).total_seconds() >= FORGIVEN:
        return 1
    return 1 + max(host.failures for host in atom.hosts)


def _new_replicas(
    count: int, hosts: int, taken: Collection[int], failures: Sequence[int]
) -> Iterable[NewReplica]:
    """With the lowest free indexes."""
    index = 0
    for number in range(count):
        while index in taken:
            index += 1
        yield NewReplica(index, tuple(range(hosts)), failures[number] if number < len(failures) else 0)
        index += 1


def _why_broken(host: HostLike) -> HostRemovalReason:
    return "unhealthy" if host.finished else "incomplete"


# --- effects --------------------------------------------------------------------------------------------


def new_hosts(replica: NewReplica, hosts: int, unique: Callable[[], str]) -> Iterable[NewHost]:
    """The hosts of a replica to create; without a name, one of several hosts gets it from `unique`."""
    name = replica.name or (unique() if hosts > 1 else "")
    for host in replica.hosts:
        yield NewHost(name, replica.index, host, replica.failures)


async def carry_out_group(
    ctx: Context[Any],
    group: ReplicaGroup,
    plan: GroupPlan[Host],
    marks: Marks,
    make: Callable[[NewHost], Mapping[str, Any]],
) -> Result | None:
    """Delete, then create, according to the plan.

    Results of `make` are marked, and become children of the run's object. Returns when to look again, if time
    alone brings something to do. Raises the errors of requests.
    """

    def unique() -> str:
        return f"{ctx.object.name[:50]}-{ctx.clock.uuid().hex[:8]}"

    for removal in plan.delete:
        await ctx.delete(removal.host.object)
    for replica in plan.create:
        for host in new_hosts(replica, group.hosts, unique):
            await ctx.create(host.marked(make(host), marks))
    for first in plan.mark:
        await ctx.client.raw.merge(first.object, {"metadata": {"annotations": {marks.whole: "true"}}})
    return None if plan.after is None else Result(requeue_after=plan.after)


def _integer(text: str | None, otherwise: int) -> int:
    try:
        return int(text or "")
    except ValueError:
        return otherwise
