"""Which copies of a registry Secret to write and which to delete: functions from views to a plan.

The source is copied as it is into each enabled phase's namespace. Without a usable source nothing
is written: existing copies stay, and no placeholder is ever put in place of credentials. A phase's
Namespace is made when it is missing; this version never deletes a Namespace.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

from attrs import evolve, frozen

from .copies import COPY_NAMES, Content, SecretCopy, UnusableSource, credentials, pull_secret
from .views import SOURCE_NAME, NamespaceView, PipelineView, SecretView, is_owned, ownership_labels

Status = Literal["True", "False", "Unknown"]


@frozen
class Write:
    """A copy to create, update in place, or replace: delete `stands` first, then create.

    `stands` is the Secret there now, None if there is none.
    """

    copy: SecretCopy
    verb: Literal["create", "update", "replace"]
    stands: SecretView | None = None


@frozen
class NewNamespace:
    """A Namespace to create before the copies in it are written."""

    name: str
    labels: Mapping[str, str]

    def manifest(self) -> dict[str, object]:
        """The Namespace as the API takes it."""
        metadata = {"name": self.name, "labels": dict(self.labels)}
        return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


@frozen
class Waiting:
    """What has to go before its copies can be written; its own event ends the wait."""

    namespace: str
    secret: str = ""


@frozen
class Conflict:
    """A Secret that stands where a copy belongs and is not this pipeline's. It stays untouched."""

    namespace: str
    secret: str


@frozen
class CopyStatus:
    """An entry of `status.copies`: which version of the source the copy is up to date with.

    A version and not a hash of the content, which would let readers of the status guess passwords.
    """

    namespace: str
    secret: str
    source_resource_version: str


@frozen
class ConditionValue:
    """A condition without its times; the reconciler keeps lastTransitionTime."""

    type: Literal["Ready", "SourceFound", "Conflict"]
    status: Status
    reason: str
    message: str = ""


@frozen
class Unsupported:
    """A mode that the pipeline asks for and this version does not have."""

    feature: str
    why: str

    def __str__(self) -> str:
        return f"{self.feature} is not supported: {self.why}"


@frozen
class CopyPlan:
    """What to do about a pipeline's copies: first `namespaces`, then `delete`, then `write`."""

    namespaces: tuple[NewNamespace, ...] = ()
    write: tuple[Write, ...] = ()
    delete: tuple[SecretView, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    copies: tuple[CopyStatus, ...] = ()
    conditions: tuple[ConditionValue, ...] = ()
    unsupported: Unsupported | None = None

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to create, write or delete."""
        return not self.namespaces and not self.write and not self.delete


PlanCopies = Callable[
    [PipelineView, SecretView | None, Sequence[NamespaceView], Sequence[SecretView]], CopyPlan
]


@frozen
class _Contents:
    """What can be copied from the source, and why the rest cannot."""

    usable: tuple[Content, ...]
    source: ConditionValue


def target_namespaces(pipeline: PipelineView) -> list[str]:
    """Where copies belong: `<pipeline>-<phase>` of each enabled phase; none unless the mode is copy."""
    return [f"{pipeline.prefix}-{phase}" for phase in pipeline.phases] if pipeline.mode == "copy" else []


def plan_copies(
    pipeline: PipelineView,
    source: SecretView | None,
    namespaces: Sequence[NamespaceView],
    existing: Sequence[SecretView],
) -> CopyPlan:
    """The steps that make the copies what the pipeline and the source say.

    `source` is the Secret `registry-login` in the main namespace; `namespaces` are at least the
    target namespaces that exist; `existing` are at least the Secrets with the copies' names in
    those, and every Secret labelled as this pipeline's in any namespace.
    """
    unsupported = _unsupported(pipeline.mode)
    if unsupported is not None:
        ready = ConditionValue("Ready", "False", "ModeNotSupported", str(unsupported))
        return CopyPlan(unsupported=unsupported, conditions=(ready,))
    targets = target_namespaces(pipeline)
    retired = _retired(pipeline, targets, existing)
    if not targets:
        return CopyPlan(delete=retired, conditions=(ConditionValue("Ready", "True", "NothingToCopy"),))
    contents = _contents(pipeline, source)
    ending = {space.name for space in namespaces if space.terminating}
    copies = [
        SecretCopy(target, content.name, content.type, content.data, ownership_labels(pipeline))
        for target in targets
        for content in contents.usable
    ]
    placed = _placed(pipeline, [copy for copy in copies if copy.namespace not in ending], existing)
    plan = evolve(
        placed,
        namespaces=_missing(pipeline, targets, namespaces),
        delete=retired,
        waiting=(*(Waiting(target) for target in targets if target in ending), *placed.waiting),
        copies=_entries(placed, copies, ending, source),
    )
    return evolve(plan, conditions=_conditions(plan, contents.source))


def _unsupported(mode: str | None) -> Unsupported | None:
    if mode in (None, "none", "copy"):
        return None
    if mode == "create":
        why = f"put the credentials into a Secret {SOURCE_NAME} and use the mode copy"
    else:
        why = "the modes are copy, create and none"
    return Unsupported(f"spec.registry.createSecret {mode}", why)


def _contents(pipeline: PipelineView, source: SecretView | None) -> _Contents:
    if source is None:
        message = f"there is no Secret {pipeline.main_namespace}/{SOURCE_NAME}; existing copies are kept"
        return _Contents((), ConditionValue("SourceFound", "False", "NotFound", message))
    usable: list[Content] = []
    try:
        usable.append(pull_secret(source))
        usable.append(credentials(source, pipeline.host))
    except UnusableSource as error:
        return _Contents(tuple(usable), ConditionValue("SourceFound", "False", error.reason, error.message))
    return _Contents(tuple(usable), ConditionValue("SourceFound", "True", "Found"))


def _placed(pipeline: PipelineView, copies: Iterable[SecretCopy], existing: Sequence[SecretView]) -> CopyPlan:
    """Each copy against what stands in its place."""
    standing = {(secret.namespace, secret.name): secret for secret in existing}
    writes: list[Write] = []
    conflicts: list[Conflict] = []
    waiting: list[Waiting] = []
    for copy in copies:
        stands = standing.get((copy.namespace, copy.name))
        if stands is None:
            writes.append(Write(copy, "create"))
        elif not is_owned(pipeline, stands.labels):
            conflicts.append(Conflict(copy.namespace, copy.name))
        elif stands.terminating:
            waiting.append(Waiting(copy.namespace, copy.name))
        elif not is_up_to_date(stands, copy):
            writes.append(Write(copy, _verb(stands, copy), stands))
    return CopyPlan(write=tuple(writes), conflicts=tuple(conflicts), waiting=tuple(waiting))


def is_up_to_date(stands: SecretView, copy: SecretCopy) -> bool:
    """Whether the Secret has the copy's type, exactly its data, and at least its labels."""
    labelled = all(stands.labels.get(name) == value for name, value in copy.labels.items())
    return labelled and stands.type == copy.type and dict(stands.data) == dict(copy.data)


def _verb(stands: SecretView, copy: SecretCopy) -> Literal["update", "replace"]:
    """A Secret's type can never change, and an immutable one's data cannot either."""
    frozen_data = stands.immutable and dict(stands.data) != dict(copy.data)
    return "replace" if stands.type != copy.type or frozen_data else "update"


def _retired(
    pipeline: PipelineView, targets: Sequence[str], existing: Sequence[SecretView]
) -> tuple[SecretView, ...]:
    """Our copies where none belongs any more: the phase was disabled or the mode changed."""
    ours = [secret for secret in existing if secret.name in COPY_NAMES and is_owned(pipeline, secret.labels)]
    gone = [secret for secret in ours if secret.namespace not in targets and not secret.terminating]
    return tuple(sorted(gone, key=lambda secret: (secret.namespace, secret.name)))


def _missing(
    pipeline: PipelineView, targets: Sequence[str], namespaces: Sequence[NamespaceView]
) -> tuple[NewNamespace, ...]:
    present = {space.name for space in namespaces}
    return tuple(NewNamespace(name, ownership_labels(pipeline)) for name in targets if name not in present)


def _entries(
    placed: CopyPlan, copies: Sequence[SecretCopy], ending: set[str], source: SecretView | None
) -> tuple[CopyStatus, ...]:
    """The copies that hold what the source holds once the plan has been carried out."""
    if source is None:
        return ()
    blocked = {(one.namespace, one.secret) for one in placed.conflicts}
    blocked |= {(one.namespace, one.secret) for one in placed.waiting}
    held = [copy for copy in copies if copy.namespace not in ending]
    return tuple(
        CopyStatus(copy.namespace, copy.name, source.resource_version)
        for copy in held
        if (copy.namespace, copy.name) not in blocked
    )


def _conditions(plan: CopyPlan, source: ConditionValue) -> tuple[ConditionValue, ...]:
    conflict = _conflict(plan.conflicts)
    return (_ready(plan, source, conflict), source, conflict)


def _conflict(conflicts: Sequence[Conflict]) -> ConditionValue:
    if not conflicts:
        return ConditionValue("Conflict", "False", "NoConflict")
    names = ", ".join(f"{one.namespace}/{one.secret}" for one in conflicts)
    message = f"not written, as these Secrets belong to someone else: {names}; delete or rename them"
    return ConditionValue("Conflict", "True", "ForeignSecret", message)


def _ready(plan: CopyPlan, source: ConditionValue, conflict: ConditionValue) -> ConditionValue:
    if source.status != "True":
        return ConditionValue("Ready", "False", f"Source{source.reason}", source.message)
    if conflict.status == "True":
        return ConditionValue("Ready", "False", conflict.reason, conflict.message)
    if plan.waiting:
        names = ", ".join(f"{one.namespace}/{one.secret}".rstrip("/") for one in plan.waiting)
        return ConditionValue("Ready", "False", "WaitingForDeletion", f"being deleted by others: {names}")
    return ConditionValue("Ready", "True", "Copied")
