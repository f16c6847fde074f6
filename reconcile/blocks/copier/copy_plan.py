"""Which copies to write and which to delete: functions from the observed objects to a plan.

Without a usable source, existing copies stay as they are: credentials are never replaced by placeholders.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

from attrs import define, evolve, field, frozen

from informers import Key
from reconcile.blocks.copier.consent import target_refused
from reconcile.blocks.copier.copies import (
    SOURCE_VERSION,
    Content,
    Copy,
    CopyOwner,
    CopyRemoval,
    Unusable,
    type_of,
)
from reconcile.kinds import Namespace, Secret
from reconcile.models import Condition


@frozen
class CopyStatus:
    """A copy that is up to date, and the version of its source that it was written from.

    A version and not a hash of the content, which would let readers of the status guess passwords.
    """

    namespace: str
    secret: str
    source_resource_version: str | None = None


@frozen
class CopyWrite:
    """A copy to create, update in place, or replace: delete `stands`, then create."""

    to: Key
    content: Content
    verb: Literal["create", "update", "replace"]
    source_version: str | None = None
    stands: Secret | None = None
    adopted: bool = False


@frozen
class CopyState:
    """What exists, by key or name. `labelled` and `made` are this owner's; others ask for those `needed`."""

    secrets: Mapping[Key, Secret] = field(factory=dict)
    namespaces: Mapping[str, Namespace] = field(factory=dict)
    labelled: Sequence[Secret] = ()
    made: Sequence[Namespace] = ()
    needed: Callable[[str], bool] = lambda name: False


@frozen
class CopyPlan:
    """The changes to an owner's copies, in this order, and what prevents the others."""

    namespaces: tuple[str, ...] = ()
    delete: tuple[Secret, ...] = ()
    write: tuple[CopyWrite, ...] = ()
    delete_namespaces: tuple[Namespace, ...] = ()
    held: tuple[CopyStatus, ...] = ()
    problems: tuple[Unusable, ...] = ()
    conflicts: tuple[Key, ...] = ()
    waiting: tuple[str, ...] = ()
    refused: str = ""
    nothing_wanted: bool = False

    def held_up(self, waiting: Mapping[Key, str]) -> "CopyPlan":
        held = tuple(one for one in self.held if Key(one.namespace, one.secret) not in waiting)
        return evolve(self, held=held, waiting=tuple(dict.fromkeys((*self.waiting, *waiting.values()))))

    def verdicts(self) -> tuple[Condition, ...]:
        """The conditions, without SourceFound if no copy is asked for."""
        source, conflict = self._source(), self._conflict()
        ready = self._ready(source, conflict)
        return (ready, conflict) if self.nothing_wanted else (ready, source, conflict)

    def _source(self) -> Condition:
        if not self.problems:
            return Condition("SourceFound", "True", "CopyState")
        message = "; ".join(dict.fromkeys(problem.message for problem in self.problems))
        return Condition("SourceFound", "False", self.problems[0].reason, message)

    def _conflict(self) -> Condition:
        if not self.conflicts:
            return Condition("Conflict", "False", "NoConflict")
        names = ", ".join(map(str, self.conflicts))
        message = f"not written, as these Secrets belong to someone else: {names}; delete or rename them"
        return Condition("Conflict", "True", "ForeignSecret", message)

    def _ready(self, source: Condition, conflict: Condition) -> Condition:
        if source.status != "True":
            return Condition("Ready", "False", f"Source{source.reason}", source.message)
        if self.refused:
            return Condition("Ready", "False", "NamespaceNotAllowed", self.refused)
        if conflict.status == "True":
            return Condition("Ready", "False", conflict.reason, conflict.message)
        if self.waiting:
            return Condition("Ready", "False", "Waiting", "; ".join(self.waiting))
        return Condition("Ready", "True", "NothingToCopy" if self.nothing_wanted else "Copied")


def checked(copies: Iterable[Copy]) -> tuple[Copy, ...]:
    """Raises Unusable for two copies in one place, which would overwrite each other for ever."""
    copies = tuple(copies)
    twice = [key for key, count in Counter(copy.to for copy in copies).items() if count > 1]
    if twice:
        raise Unusable("SamePlaceTwice", f"more than one copy is asked for as Secret {twice[0]}")
    return copies


def plan_copies(
    owner: CopyOwner,
    copies: Sequence[Copy],
    namespaces: Sequence[str],
    found: CopyState,
    *,
    removal: CopyRemoval = "copies",
    adopts: Callable[[Secret], bool] = lambda secret: False,
    refused: Sequence[str] = (),
) -> CopyPlan:
    """Creates missing `namespaces`, takes over what `adopts` allows, and leaves `refused` ones alone."""
    closed = frozenset(refused)
    making = [name for name in namespaces if name not in closed]
    work = _Planning(owner, found, adopts, frozenset(making))
    work.waiting |= {f"Namespace {name} is being deleted": None for name in making if _ending(found, name)}
    for copy in copies:
        if copy.to.namespace not in closed:
            work.add(copy)
    return CopyPlan(
        namespaces=tuple(name for name in making if name not in found.namespaces),
        delete=() if removal == "keep" else _retired(copies, found),
        write=tuple(work.write),
        delete_namespaces=_left(copies, namespaces, found) if removal == "namespaces" else (),
        held=tuple(work.held),
        problems=tuple(work.problems),
        conflicts=tuple(work.conflicts),
        waiting=tuple(work.waiting),
        refused=target_refused(owner.namespace, refused) if refused else "",
        nothing_wanted=not copies,
    )


@define
class _Planning:
    owner: CopyOwner
    found: CopyState
    adopts: Callable[[Secret], bool]
    making: Collection[str]
    write: list[CopyWrite] = field(factory=list, init=False)
    held: list[CopyStatus] = field(factory=list, init=False)
    problems: list[Unusable] = field(factory=list, init=False)
    conflicts: list[Key] = field(factory=list, init=False)
    waiting: dict[str, None] = field(factory=dict, init=False)

    def add(self, copy: Copy) -> None:
        owner, stands = self.owner, self.found.secrets.get(copy.to)
        source = None if copy.source is None else self.found.secrets.get(copy.source)
        content: Content | None = None
        try:
            content = copy.made_of(source)
        except Unusable as problem:
            self.problems.append(problem)
        foreign = stands is not None and not owner.owns(stands.metadata.labels)
        if stands is not None and foreign and not self.adopts(stands):
            self.conflicts.append(copy.to)
            return
        if content is None:
            return
        wait = _namespace_wait(copy.to.namespace, self.making, self.found)
        if stands is not None and stands.terminating:
            wait = f"Secret {copy.to} is being deleted"
        if wait:
            self.waiting[wait] = None
            return
        if stands is not None and not difference(owner, content, stands):
            version = stands.metadata.annotations.get(SOURCE_VERSION)
            self.held.append(CopyStatus(*copy.to, version))
            return
        version = None if source is None else source.metadata.resource_version
        self.write.append(CopyWrite(copy.to, content, _verb(content, stands), version, stands, foreign))
        self.held.append(CopyStatus(*copy.to, version))


def difference(owner: CopyOwner, content: Content, stands: Secret) -> dict[str, Any]:
    """The merge patch after which `stands` has exactly the content, and at least our labels."""
    data: dict[str, str | None] = {
        key: value for key, value in content.data.items() if stands.data.get(key) != value
    }
    data |= {key: None for key in stands.data if key not in content.data}
    now = stands.metadata.labels
    labels = {name: value for name, value in owner.labels().items() if now.get(name) != value}
    return {
        **({"data": data} if data else {}),
        **({"metadata": {"labels": labels}} if labels else {}),
        **({"type": content.type} if type_of(stands) != content.type else {}),
    }


def _verb(content: Content, stands: Secret | None) -> Literal["create", "update", "replace"]:
    """A Secret's type can never change, nor can the data of an immutable one."""
    if stands is None:
        return "create"
    fixed = stands.immutable and dict(stands.data) != dict(content.data)
    return "replace" if fixed or type_of(stands) != content.type else "update"


def _ending(found: CopyState, name: str) -> bool:
    space = found.namespaces.get(name)
    return space is not None and (space.terminating or space.status.phase == "Terminating")


def _namespace_wait(name: str, made: Collection[str], found: CopyState) -> str:
    if _ending(found, name):
        return f"Namespace {name} is being deleted"
    if name not in found.namespaces and name not in made:
        return f"there is no Namespace {name}"
    return ""


def _retired(copies: Sequence[Copy], found: CopyState) -> tuple[Secret, ...]:
    wanted = {copy.to for copy in copies}
    gone = [one for one in found.labelled if one.key not in wanted and not one.terminating]
    return tuple(sorted(gone, key=lambda secret: secret.key))


def _left(copies: Sequence[Copy], namespaces: Sequence[str], found: CopyState) -> tuple[Namespace, ...]:
    wanted = {*namespaces, *(copy.to.namespace for copy in copies)}
    left = [space for space in found.made if space.name not in wanted and not _ending(found, space.name)]
    gone = [space for space in left if not space.terminating and not found.needed(space.name)]
    return tuple(sorted(gone, key=lambda space: space.name))
