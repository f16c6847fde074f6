"""Keeps copies of Secrets where an object asks for them: reads, plans, writes, and reports."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from attrs import define, field, frozen

from informers import AlreadyExists, ApiError, Forbidden, Key, StaleVersion, StatusError
from reconcile.blocks.copier.consent import Consent, source_refused
from reconcile.blocks.copier.copies import (
    COPIER,
    OWNER_KIND,
    OWNER_NAMESPACE,
    SOURCE_VERSION,
    Copy,
    CopyOwner,
    CopyRemoval,
    Unusable,
    owners_in,
)
from reconcile.blocks.copier.copy_plan import (
    CopyPlan,
    CopyState,
    CopyStatus,
    CopyWrite,
    checked,
    difference,
    plan_copies,
)
from reconcile.client.object_indexes import Index
from reconcile.controller.context import Context
from reconcile.controller.declaration import Watch, Write
from reconcile.kinds import Namespace, Secret
from reconcile.models import Condition, Object, ObjectMeta, encode, kind_of

T = TypeVar("T", bound=Object)
O = TypeVar("O", Secret, Namespace)  # noqa: E741

_INDEXES: Mapping[type[Object], str] = {Secret: "secrets-by-copier", Namespace: "namespaces-by-copier"}
CONDITIONS = ("Ready", "SourceFound", "Conflict")


class CopyFailed(Exception):
    """Objects could not be written. The message names them and the reason, never the server's message."""


@frozen
class Copied:
    """The result of a run: the copies that are up to date, and whether those are all."""

    copies: tuple[CopyStatus, ...] = ()
    ready: bool = False


def _always_copies(obj: Any) -> CopyRemoval:
    return "copies"


def _no_namespaces(obj: Any) -> Iterable[str]:
    return ()


def _adopts_nothing(obj: Any, secret: Secret) -> bool:
    return False


@frozen
class Copier(Generic[T]):
    """Keeps copies of Secrets for the objects of one kind, in any namespaces.

    `copies` maps an object to its desired copies; it is pure, looks at nothing else, and may raise `Unusable`
    for a spec without a meaning: nothing is touched then. Sources, copies and namespaces are watched, so
    nothing is polled and a copy is written only when it differs. Conditions report what is missing, and
    copies stay as they are. A Secret that is not marked as this object's copy stays untouched, unless
    `adopts` allows its takeover. Labels of a copy name the copier, the kind, the object and its uid.

    `namespaces` are those that an object wants created where they are missing. `removal` is what is deleted
    with the object, or when it is no longer asked for: `"copies"` (the default); `"keep"`: nothing;
    `"namespaces"`: the copies, and namespaces that were created for this object, with everything in them,
    unless another object of the kind asks for them. `name` (default: the kind in lower case) distinguishes
    copiers of one kind in labels, so copies under another name are foreign.

    `copies` runs with the operator's rights: where an object's author chooses sources or namespaces, give a
    `consent`, the agreement of their owners. What they did not agree to stays as it is, and Ready and
    SourceFound name it and the label that agrees. With a `consent`, a copy for an object that is gone, or
    that may not have it there, is taken over. An object that asks for copies in more than `most_namespaces`
    gets none, and Ready says so.

    Use it as `Controller(Kind, keep, cleanup=copier.remove, watches=copier.watches, indexes=copier.indexes,
    writes=copier.writes)`, where `keep` awaits `copier.keep(ctx)`. The status of the kind has `conditions`.
    """

    kind: type[T]
    copies: Callable[[T], Iterable[Copy]]
    namespaces: Callable[[T], Iterable[str]] = field(default=_no_namespaces, kw_only=True)
    removal: Callable[[T], CopyRemoval] = field(default=_always_copies, kw_only=True)
    adopts: Callable[[T, Secret], bool] = field(default=_adopts_nothing, kw_only=True)
    name: str = field(default="", kw_only=True)
    consent: Consent | None = field(default=None, kw_only=True)
    most_namespaces: int = field(default=1000, kw_only=True)

    @property
    def watches(self) -> tuple[Watch[T, Any], ...]:
        """The watches that its controller needs: Secrets and Namespaces, each by name."""
        return (Watch(Secret, by=self._secrets_of, everywhere=True), Watch(Namespace, by=self._namespaces_of))

    @property
    def writes(self) -> tuple[Write, ...]:
        """The writes that its controller declares: Secrets, and Namespaces if it creates or deletes any."""
        verbs = ["create"] if self.namespaces is not _no_namespaces else []
        verbs += ["delete"] if self.removal is not _always_copies else []
        secrets = Write(Secret, ("get", "create", "patch", "delete"))
        return (secrets, Write(Namespace, verbs)) if verbs else (secrets,)

    @property
    def indexes(self) -> Mapping[str, Index[Any]]:
        """Indexes that find an object's copies without reading every Secret, for `Controller(indexes=)`."""
        return {name: Index(kind, owners_in) for kind, name in _INDEXES.items()}

    async def keep(self, ctx: Context[T]) -> Copied:
        """Bring the copies of `ctx.object` to their desired state; each is written at most once.

        Sets the conditions Ready, SourceFound and Conflict, and reports changes in Events. Raises CopyFailed
        for failed writes, after it has tried all of them, and StaleVersion.
        """
        obj = ctx.object
        try:
            copies, spaces = self._asked_for(obj)
        except Unusable as problem:
            _say(ctx, (Condition("Ready", "False", problem.reason, problem.message),), keep=CONDITIONS)
            return Copied()
        found = await self._find(ctx, copies, spaces)
        orphans = await self._orphans(ctx, copies, found)
        plan = plan_copies(
            self._owner(obj),
            self._agreed(obj, copies, found),
            spaces,
            found,
            removal=self.removal(obj),
            adopts=lambda secret: secret.key in orphans or self.adopts(obj, secret),
            refused=self._refused(obj, copies, spaces, found),
        )
        try:
            plan = plan.held_up(await _PlanExecution(ctx, self._owner(obj)).carry_out(plan))
        except CopyFailed as failed:
            _say(ctx, (Condition("Ready", "False", "WriteFailed", str(failed)),), keep=CONDITIONS)
            raise
        verdicts = plan.verdicts()
        _say(ctx, verdicts)
        return Copied(plan.held, verdicts[0].status == "True")

    async def remove(self, ctx: Context[T]) -> None:
        """Delete according to `removal`, whatever the spec; the `cleanup=` of a controller."""
        removal = self.removal(ctx.object)
        if removal == "keep":
            return
        owner = self._owner(ctx.object)
        made = await _labelled(ctx, Namespace, owner) if removal == "namespaces" else ()
        found = CopyState(
            labelled=await _labelled(ctx, Secret, owner),
            made=made,
            needed=await self._needed_by_others(ctx, made) if made else _nobody,
        )
        await _PlanExecution(ctx, owner).carry_out(plan_copies(owner, (), (), found, removal=removal))

    # --- what was agreed to --------------------------------------------------------------------------

    def _asked_for(self, obj: T) -> tuple[tuple[Copy, ...], tuple[str, ...]]:
        """Raises Unusable, also for too many namespaces."""
        copies, spaces = checked(self.copies(obj)), tuple(dict.fromkeys(self.namespaces(obj)))
        count = len(_places(copies, spaces))
        if count > self.most_namespaces:
            raise Unusable(
                "TooManyNamespaces",
                f"Secrets are asked for in {count} namespaces, and the maximum for one object "
                f"is {self.most_namespaces}: divide it into several; nothing is changed",
            )
        return copies, spaces

    def _agreed(self, obj: T, copies: Sequence[Copy], found: CopyState) -> Sequence[Copy]:
        """A copy whose source may not be copied has a refusal as its content."""
        if self.consent is None:
            return copies
        space, allows, secrets = obj.namespace, self.consent.allows_source, found.secrets
        return [
            copy
            if copy.source is None or allows(space, copy.source, secrets.get(copy.source))
            else Copy(copy.to, content=source_refused(space, copy.source))
            for copy in copies
        ]

    def _refused(
        self, obj: T, copies: Sequence[Copy], spaces: Sequence[str], found: CopyState
    ) -> Sequence[str]:
        if self.consent is None:
            return ()
        allows, there = self.consent.allows_target, found.namespaces
        return [n for n in _places(copies, spaces) if not allows(obj.namespace, n, there.get(n))]

    async def _orphans(self, ctx: Context[T], copies: Sequence[Copy], found: CopyState) -> Collection[Key]:
        """Copies of other owners without a right to be there, which would block ours for ever."""
        if self.consent is None:
            return ()
        mine = self._owner(ctx.object)
        standing = [found.secrets[copy.to] for copy in copies if copy.to in found.secrets]
        foreign = [one for one in standing if not mine.owns(one.metadata.labels)]
        return {secret.key for secret in foreign if await self._is_orphan(ctx, mine, secret, found)}

    async def _is_orphan(self, ctx: Context[T], mine: CopyOwner, secret: Secret, found: CopyState) -> bool:
        labels, ours = secret.metadata.labels, mine.selector()
        if self.consent is None or any(labels.get(name) != ours[name] for name in (COPIER, OWNER_KIND)):
            return False
        theirs = labels.get(OWNER_NAMESPACE, "")
        space = found.namespaces.get(secret.namespace)
        if not self.consent.allows_target(theirs, secret.namespace, space):
            return True
        try:
            # Live: the cache of a manager with namespace= has no objects of other namespaces.
            others = await ctx.client.list(self.kind, theirs, live=True)
        except ApiError:
            return False
        return not any(self._owner(other).owns(labels) for other in others)

    # --- reading ------------------------------------------------------------------------------------

    def _owner(self, obj: T) -> CopyOwner:
        return CopyOwner.of(self.name or kind_of(self.kind).resource.kind.lower(), obj)

    def _secrets_of(self, obj: T) -> Sequence[Key]:
        """The Secrets that an object depends on: its sources, and those in the places of its copies."""
        return _named_by(self._wanted(obj))

    def _namespaces_of(self, obj: T) -> Sequence[str]:
        try:
            made = tuple(self.namespaces(obj))
        except Unusable:
            made = ()
        return list(_places(self._wanted(obj), made))

    def _wanted(self, obj: T) -> Sequence[Copy]:
        try:
            return tuple(self.copies(obj))
        except Unusable:
            return ()

    async def _find(self, ctx: Context[T], copies: Sequence[Copy], spaces: Sequence[str]) -> CopyState:
        owner, client = self._owner(ctx.object), ctx.client
        secrets = {key: await client.find(Secret, key.name, key.namespace) for key in _named_by(copies)}
        names = _places(copies, spaces)
        namespaces = {name: await client.find(Namespace, name) for name in names}
        dropping = self.removal(ctx.object) == "namespaces"
        made = await _labelled(ctx, Namespace, owner) if dropping else ()
        left = any(space.name not in names for space in made)
        return CopyState(
            {key: secret for key, secret in secrets.items() if secret is not None},
            {name: space for name, space in namespaces.items() if space is not None},
            await _labelled(ctx, Secret, owner),
            made,
            await self._needed_by_others(ctx, made) if left else _nobody,
        )

    async def _needed_by_others(self, ctx: Context[T], made: Sequence[Namespace]) -> Callable[[str], bool]:
        """The namespaces that other objects of the kind ask for, or may have if one's spec is unusable."""
        wanting: dict[str, set[str]] = {}
        unsure: set[str] = set()
        try:
            # Live: the cache of a replica, or of a manager of one namespace, does not have them all.
            others = await ctx.client.list(self.kind, live=True)
        except ApiError:  # as without the right to list them everywhere
            return _anybody
        for other in others:
            if other.uid == ctx.object.uid or other.terminating:
                continue
            try:
                for name in _places(*self._asked_for(other)):
                    wanting.setdefault(name, set()).add(other.namespace)
            except Unusable:
                unsure.add(other.namespace)
        consent = self.consent

        spaces = {space.name: space for space in made}

        def needed(name: str) -> bool:
            askers = wanting.get(name, set()) | unsure
            return any(
                consent is None or consent.allows_target(asker, name, spaces.get(name)) for asker in askers
            )

        return needed


def _nobody(name: str) -> bool:
    return False


def _anybody(name: str) -> bool:
    return True


def _named_by(copies: Iterable[Copy]) -> list[Key]:
    return list(dict.fromkeys(key for copy in copies for key in (copy.source, copy.to) if key is not None))


def _places(copies: Iterable[Copy], spaces: Iterable[str]) -> dict[str, None]:
    return dict.fromkeys((*spaces, *(copy.to.namespace for copy in copies)))


async def _labelled(ctx: Context[Any], kind: type[O], owner: CopyOwner) -> Sequence[O]:
    """This owner's objects, by an index of the cache if there is one, since a cluster has many Secrets."""
    if ctx.client.cache is None:
        return await ctx.client.list(kind, labels=owner.selector())
    try:
        return await ctx.client.list(kind, index=(_INDEXES[kind], owner.index_value()))
    except KeyError:  # the controller does not take `indexes` of the copier
        return await ctx.client.list(kind, labels=owner.selector())


# --- writing ----------------------------------------------------------------------------------------


@define
class _PlanExecution:
    """Carries out one plan. Failures are collected, so that one does not hold up the rest."""

    ctx: Context[Any]
    owner: CopyOwner
    _failures: list[str] = field(factory=list, init=False)
    _waiting: dict[Key, str] = field(factory=dict, init=False)

    async def carry_out(self, plan: CopyPlan) -> Mapping[Key, str]:
        """Returns the copies that wait, and for what. Raises CopyFailed, StaleVersion."""
        made = [name for name in plan.namespaces if await self._make_namespace(name)]
        gone = [str(secret.key) for secret in plan.delete if await self._delete(secret)]
        wrote = [write for write in plan.write if await self._write(write)]
        left = [space.name for space in plan.delete_namespaces if await self._delete(space)]
        self._tell("CreatedNamespace", "made Namespaces", made)
        self._tell("Removed", "deleted Secrets", gone)
        self._tell("Copied", "wrote Secrets", [str(write.to) for write in wrote])
        self._tell("Adopted", "took over Secrets", [str(write.to) for write in wrote if write.adopted])
        self._tell("RemovedNamespace", "deleted Namespaces", left)
        if self._failures:
            raise CopyFailed("; ".join(self._failures))
        return self._waiting

    async def _make_namespace(self, name: str) -> bool:
        made = Namespace(metadata=ObjectMeta(name, labels=self.owner.labels()))
        return await self._tried(f"Namespace {name}", self.ctx.client.create(made))

    async def _write(self, write: CopyWrite) -> bool:
        if write.verb == "update" and write.stands is not None:
            act = self._update(write, write.stands)
        else:
            act = self._create(write)
        return await self._tried(f"Secret {write.to}", act, write.to)

    async def _update(self, write: CopyWrite, stands: Secret) -> None:
        patch = difference(self.owner, write.content, stands)
        metadata = {**patch.get("metadata", {}), "annotations": {SOURCE_VERSION: write.source_version}}
        guard = {"uid": stands.uid, "resourceVersion": stands.metadata.resource_version}
        await self.ctx.client.raw.merge(stands, {**patch, "metadata": metadata}, guard=guard)

    async def _create(self, write: CopyWrite) -> None:
        before = ObjectMeta() if write.stands is None else write.stands.metadata
        if write.stands is not None:
            await self.ctx.delete(write.stands)
        noted = {name: value for name, value in before.annotations.items() if name != SOURCE_VERSION}
        if write.source_version is not None:
            noted[SOURCE_VERSION] = write.source_version
        labels = {**before.labels, **self.owner.labels()}
        metadata = ObjectMeta(write.to.name, write.to.namespace, labels=labels, annotations=noted)
        try:
            await self.ctx.client.create(
                Secret(metadata=metadata, type=write.content.type, data=write.content.data)
            )
        except AlreadyExists:
            why = f"Secret {write.to} has appeared meanwhile: decide again"
            raise StaleVersion(409, "Conflict", why) from None

    async def _delete(self, obj: Secret | Namespace) -> bool:
        name = obj.key if obj.namespace else obj.name
        return await self._tried(f"{type(obj).__name__} {name}", self.ctx.delete(obj))

    async def _tried(self, what: str, act: Awaitable[object], copy: Key | None = None) -> bool:
        """Whether it was needed and succeeded. Failures are noted by kind: messages may quote Secrets."""
        try:
            await act
        except StaleVersion:
            raise
        except AlreadyExists:
            return False  # another object was faster, or a person: one Namespace serves all
        except ApiError as error:
            if copy is not None and _of_ending_namespace(error):
                self._waiting[copy] = f"Namespace {copy.namespace} is being deleted"
                return False
            why = f"{error.code} {error.reason}" if isinstance(error, StatusError) else type(error).__name__
            self._failures.append(f"{what} could not be written: {why}")
            return False
        return True

    def _tell(self, reason: str, what: str, names: Sequence[str]) -> None:
        if names:
            self.ctx.event(reason, f"{what} {', '.join(names)}")


def _of_ending_namespace(error: ApiError) -> bool:
    """Whether the namespace is being deleted. Its end is an event, so there is no need to retry."""
    return isinstance(error, Forbidden) and any(
        cause.reason == "NamespaceTerminating" for cause in error.causes
    )


def _say(ctx: Context[Any], verdicts: Sequence[Condition], keep: Sequence[str] = ()) -> None:
    """Set the conditions, with one Warning when Ready becomes False for a new reason."""
    said = {verdict.type for verdict in verdicts}
    for name in CONDITIONS:
        if name not in said and name not in keep:
            ctx.remove_condition(name)
    for verdict in verdicts:
        ctx.condition(verdict.type, verdict.status == "True", reason=verdict.reason, message=verdict.message)
        if verdict.type == "Ready" and verdict.status != "True" and not _known(ctx.object, verdict):
            ctx.event(verdict.reason, verdict.message, warning=True)


def _known(obj: Object, verdict: Condition) -> bool:
    known = (encode(obj).get("status") or {}).get("conditions") or ()
    wanted = (verdict.type, verdict.reason, verdict.message)
    return any((one.get("type"), one.get("reason"), one.get("message") or "") == wanted for one in known)
