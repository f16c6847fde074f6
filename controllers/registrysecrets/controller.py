"""Keeps the copies of registry secrets: reads, has `plan` decide, carries it out, says what came of it.

What it uses is watched by name, so a source that comes late, a copy edited by hand, or a Namespace
that has gone at last wakes exactly the pipelines concerned, and nothing is polled. No value of a
Secret reaches a status, an event, a log line or the message of an exception.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from reconcile import (
    AlreadyExists,
    ApiError,
    Context,
    Controller,
    Key,
    ObjectMeta,
    Request,
    StaleVersion,
    StatusError,
    Watch,
    encode,
)
from reconcile.incidents import Logic
from reconcile.kinds import Namespace, Secret

from . import original
from .copies import COPY_NAMES, difference
from .models import KuberoPipeline
from .plan import ConditionValue, CopyPlan, PlanCopies, Write, plan_copies, target_namespaces
from .views import (
    PIPELINE_NAME_LABEL,
    PIPELINE_NAMESPACE_LABEL,
    SOURCE_NAME,
    NamespaceView,
    PipelineView,
    SecretView,
    namespace_view,
    pipeline_view,
    secret_view,
    selector_labels,
)


class WriteFailed(Exception):
    """An object could not be written: which one, and the server's word for why, never its message."""


def make_controller(logic: Logic = "ours") -> Controller[KuberoPipeline]:
    """The controller `registry-secrets`, or with `original` its control, which plans as Kubero 0.2.1 did.

    The control also watches what helm-operator watched: the release Secrets that it writes itself.
    """
    plan = plan_copies if logic == "ours" else original.plan_copies

    async def keep(ctx: Context[KuberoPipeline]) -> None:
        await keep_copies(ctx, plan)

    used: list[Watch[KuberoPipeline, Secret]] = [Watch(Secret, by=secrets_of, everywhere=True)]
    if logic == "original":
        used.append(Watch(Secret, to=pipeline_of_release, everywhere=True))
    return Controller(
        KuberoPipeline,
        keep,
        cleanup=drop_copies,
        watches=[*used, Watch(Namespace, by=namespaces_of)],
        name="registry-secrets",
    )


def secrets_of(obj: KuberoPipeline) -> Sequence[Key]:
    """The Secrets a pipeline depends on: its source, and whatever stands where its copies belong."""
    pipeline = _view(obj)
    if pipeline is None:
        return []
    places = [Key(target, name) for target in target_namespaces(pipeline) for name in COPY_NAMES]
    return [Key(pipeline.main_namespace, SOURCE_NAME), *places]


def namespaces_of(obj: KuberoPipeline) -> Sequence[str]:
    """The Namespaces that a pipeline's copies are in."""
    pipeline = _view(obj)
    return [] if pipeline is None else target_namespaces(pipeline)


def pipeline_of_release(secret: Secret) -> Sequence[Request]:
    """Whose release the Secret records, if it is one."""
    labels = secret.metadata.labels
    if secret.type != original.RELEASE_TYPE or PIPELINE_NAME_LABEL not in labels:
        return []
    return [Request(labels[PIPELINE_NAMESPACE_LABEL], labels[PIPELINE_NAME_LABEL])]


async def keep_copies(ctx: Context[KuberoPipeline], plan_copies: PlanCopies) -> None:
    """One run: every copy is written at most once, and not at all when it is as it should be."""
    ctx.status(observed_generation=ctx.object.metadata.generation)
    try:
        pipeline = pipeline_view(encode(ctx.object))
    except ValueError as error:
        _say(ctx, ConditionValue("Ready", "False", "InvalidSpec", str(error)))
        return
    namespaces = await _namespaces(ctx, pipeline)
    plan = plan_copies(pipeline, await _source(ctx, pipeline), namespaces, await _existing(ctx, pipeline))
    try:
        await _carry_out(ctx, plan)
    except WriteFailed as failed:
        _say(ctx, ConditionValue("Ready", "False", "WriteFailed", str(failed)))
        raise
    ctx.status(copies=plan.copies)
    for condition in plan.conditions:
        _say(ctx, condition)


async def drop_copies(ctx: Context[KuberoPipeline]) -> None:
    """Delete the pipeline's copies; no owner reference could, since they are in other namespaces."""
    obj = ctx.object
    # The spec may be one that has no view, and must not keep the pipeline from going.
    pipeline = PipelineView(obj.name, obj.namespace, obj.uid, prefix=obj.name)
    for secret in await ctx.client.list(Secret, labels=selector_labels(pipeline)):
        if not secret.terminating:
            await _delete(ctx, secret_view(encode(secret)))


# --- reading ----------------------------------------------------------------------------------------


async def _source(ctx: Context[KuberoPipeline], pipeline: PipelineView) -> SecretView | None:
    found = await ctx.client.find(Secret, SOURCE_NAME, pipeline.main_namespace)
    return None if found is None else secret_view(encode(found))


async def _namespaces(ctx: Context[KuberoPipeline], pipeline: PipelineView) -> Sequence[NamespaceView]:
    found = [await ctx.client.find(Namespace, name) for name in target_namespaces(pipeline)]
    return [namespace_view(encode(one)) for one in found if one is not None]


async def _existing(ctx: Context[KuberoPipeline], pipeline: PipelineView) -> Sequence[SecretView]:
    """What stands where copies belong, whoever made it, and everything labelled as this pipeline's."""
    targets = target_namespaces(pipeline)
    placed = [await ctx.client.find(Secret, name, target) for target in targets for name in COPY_NAMES]
    labelled = await ctx.client.list(Secret, labels=selector_labels(pipeline))
    found = {secret.uid: secret for secret in (*placed, *labelled) if secret is not None}
    return [secret_view(encode(secret)) for secret in found.values()]


def _view(obj: KuberoPipeline) -> PipelineView | None:
    try:
        return pipeline_view(encode(obj))
    except ValueError:
        return None


# --- writing ----------------------------------------------------------------------------------------


async def _carry_out(ctx: Context[KuberoPipeline], plan: CopyPlan) -> None:
    for namespace in plan.namespaces:
        with _writing(f"Namespace {namespace.name}"):
            await _create_namespace(
                ctx, Namespace(metadata=ObjectMeta(namespace.name, labels=namespace.labels))
            )
    for secret in plan.delete:
        await _delete(ctx, secret)
        ctx.event("Removed", f"deleted Secret {secret.namespace}/{secret.name}")
    for write in plan.write:
        with _writing(f"Secret {write.copy.namespace}/{write.copy.name}"):
            await _write(ctx, write)


async def _create_namespace(ctx: Context[KuberoPipeline], namespace: Namespace) -> None:
    try:
        await ctx.create(namespace)
    except AlreadyExists:
        # Another pipeline of the same prefix was faster, or a person was: one Namespace serves both.
        return
    ctx.event("CreatedNamespace", f"created Namespace {namespace.name}")


async def _write(ctx: Context[KuberoPipeline], write: Write) -> None:
    copy, stands = write.copy, write.stands
    if stands is not None and write.verb == "update":
        patch = difference(copy, stands)
        if not patch:
            return
        guard = {"uid": stands.uid, "resourceVersion": stands.resource_version}
        await ctx.client.merge(_reference(stands), patch, guard=guard)
    else:
        if stands is not None:
            await ctx.delete(_reference(stands))
        metadata = ObjectMeta(copy.name, copy.namespace, labels=copy.labels)
        await ctx.create(Secret(metadata=metadata, type=copy.type, data=copy.data))
    ctx.event("Copied", f"wrote Secret {copy.namespace}/{copy.name}")


async def _delete(ctx: Context[KuberoPipeline], secret: SecretView) -> None:
    with _writing(f"Secret {secret.namespace}/{secret.name}"):
        await ctx.delete(_reference(secret))


def _reference(secret: SecretView) -> Secret:
    return Secret(metadata=ObjectMeta(secret.name, secret.namespace, uid=secret.uid))


@contextmanager
def _writing(what: str) -> Iterator[None]:
    """A server's message about a Secret may quote it, so only the kind of error goes on."""
    try:
        yield
    except StaleVersion:
        raise
    except ApiError as error:
        why = f"{error.code} {error.reason}" if isinstance(error, StatusError) else type(error).__name__
        raise WriteFailed(f"{what} could not be written: {why}") from None


def _say(ctx: Context[KuberoPipeline], value: ConditionValue) -> None:
    """Set the condition; tell people once when it is news and bad."""
    ctx.condition(value.type, value.status, reason=value.reason, message=value.message)
    known = {(one.type, one.reason, one.message) for one in ctx.object.status.conditions}
    bad = value.type == "Ready" and value.status != "True"
    if bad and (value.type, value.reason, value.message) not in known:
        ctx.event(value.reason, value.message, warning=True)


controller = make_controller()
