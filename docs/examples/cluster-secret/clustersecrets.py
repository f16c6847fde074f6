"""An operator that copies a Secret into namespaces by their names: a port of ClusterSecret from kopf."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from attrs import frozen

from reconcile import (
    Condition,
    Context,
    Controller,
    Index,
    Intent,
    Key,
    LabelSelector,
    Manager,
    Object,
    ObjectMeta,
    Predecessor,
    Request,
    Watch,
    resource,
)
from reconcile.errors import ApiError
from reconcile.kinds import Namespace, Secret
from reconcile.models import Schema, field
from reconcile.owners import controller_of

CREATED_BY = ("clustersecret.io/created-by", "ClusterSecrets")
"""The annotation of copies, the original's and ours."""
KOPF = "kopf.zalando.org/"
KEPT = "clustersecret.io"
"""Labels and annotations that begin so are the original's, and stay on its copies."""


class Unusable(Exception):
    """Why nothing can be copied: `reason` is a word, the message is for people and quotes no Secret."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@frozen
class SecretKeyRef:
    name: str
    namespace: str
    keys: tuple[str, ...] = ()  # all, if none is named


@frozen
class Synced:
    syncedns: tuple[str, ...] = ()


@frozen
class ClusterSecretStatus:
    """`create_fn` is what a handler of the original returned, and others read."""

    create_fn: Annotated[Synced, Schema(wire="create_fn")] = Synced()
    conditions: tuple[Condition, ...] = ()


@resource(
    "clustersecret.io/v1",
    namespaced=False,  # so that it may own Secrets in any namespace
    short_names=("csec",),
    columns={"Type": ".type"},
    has_status=False,  # in the definition that clusters have, status is a field like others
)
class ClusterSecret(Object):
    match_namespace: tuple[str, ...] = ()
    avoid_namespaces: tuple[str, ...] = ()
    type: str = "Opaque"
    data: Mapping[str, Any] = field(factory=dict, secret=True)
    status: ClusterSecretStatus = ClusterSecretStatus()


@frozen
class Settings:
    """What the original's chart sets, by the same variables."""

    replace_existing: bool = False
    blocked_labels: tuple[str, ...] = ("app.kubernetes.io",)
    """Labels that begin so are not passed on: those of a release would make its tool delete the copies."""

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> "Settings":
        blocked = environ.get("BLOCKED_LABELS", "app.kubernetes.io").split(",")
        replace = environ.get("REPLACE_EXISTING", "").strip().lower() == "true"
        return cls(replace, tuple(label.strip() for label in blocked if label.strip()))


def source_of(shared: ClusterSecret) -> SecretKeyRef | None:
    """The Secret to copy, where `data` names one instead of having values."""
    match shared.data.get("valueFrom"):
        case {"secretKeyRef": {"name": str(name), "namespace": str(space), "keys": [*keys]}}:
            return SecretKeyRef(name, space, tuple(str(key) for key in keys))
        case {"secretKeyRef": {"name": str(name), "namespace": str(space)}}:
            return SecretKeyRef(name, space)
        case _:
            return None


def is_chosen(shared: ClusterSecret, name: str) -> bool:
    """A pattern holds for names that begin with it, as in the original. Raises Unusable."""
    try:
        matched = any(re.match(pattern, name) for pattern in shared.match_namespace or (".*",))
        return matched and not any(re.match(pattern, name) for pattern in shared.avoid_namespaces)
    except re.error as error:
        raise Unusable("InvalidPattern", f"{error.pattern!r} is not a regular expression: {error}") from None


def targets_of(shared: ClusterSecret, namespaces: Iterable[Namespace]) -> list[str]:
    """Where copies belong: never over the Secret that is copied. Raises Unusable."""
    source = source_of(shared)
    own = source.namespace if source is not None and source.name == shared.name else ""
    active = sorted(one.name for one in namespaces if one.status.phase == "Active" and not one.terminating)
    return [name for name in active if name != own and is_chosen(shared, name)]


def is_copy(shared: ClusterSecret, secret: Secret) -> bool:
    """Whether a Secret of its name is its copy: one that it owns, or that the original made."""
    if (owner := controller_of(secret)) is not None:
        return owner.uid == shared.uid
    return secret.metadata.annotations.get(CREATED_BY[0]) == CREATED_BY[1]


async def data_for(ctx: Context[ClusterSecret]) -> Mapping[str, str]:
    """The data of the copies. Raises Unusable."""
    source = source_of(ctx.object)
    if source is None:
        data = ctx.object.data
        if odd := sorted(key for key, value in data.items() if not isinstance(value, str)):
            raise Unusable("InvalidData", f"not text: {', '.join(odd)}")
        return data
    found = await ctx.client.find(Secret, source.name, source.namespace)
    if found is None:
        raise Unusable("NoSource", f"there is no Secret {source.namespace}/{source.name}; copies stay")
    if missing := sorted(set(source.keys) - set(found.data)):
        raise Unusable("NoKey", f"Secret {source.namespace}/{source.name} lacks {', '.join(missing)}")
    return {key: value for key, value in found.data.items() if not source.keys or key in source.keys}


def without(names: Mapping[str, str], blocked: Sequence[str]) -> dict[str, str]:
    return {name: value for name, value in names.items() if not name.startswith(tuple(blocked))}


def marks_on(names: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in names.items() if name.startswith(KEPT)}


@frozen
class Sharing:
    settings: Settings

    async def share(self, ctx: Context[ClusterSecret]) -> None:
        shared = ctx.object
        try:
            targets = targets_of(shared, await ctx.client.list(Namespace))
            data = await data_for(ctx)
        except Unusable as problem:
            ctx.condition("Ready", False, reason=problem.reason, message=str(problem))
            return
        standing = {one.namespace: one for one in await named(ctx)}
        for space, copy in standing.items():
            if space not in targets and is_copy(shared, copy):
                await ctx.delete(copy)
        free = [space for space in targets if self._may_write(shared, standing.get(space))]
        failed: dict[str, ApiError] = {}
        for space in free:
            try:
                await self._write(ctx, space, data, standing.get(space))
            except ApiError as error:  # one namespace holds up no other
                failed[space] = error
        taken = [space for space in targets if space not in free]
        ctx.status(create_fn=Synced(tuple(space for space in free if space not in failed)))
        reason = "WriteFailed" if failed else "Taken" if taken else "Copied"
        ctx.condition("Ready", reason == "Copied", reason=reason, message=", ".join([*failed] or taken))
        if failed:
            raise ExceptionGroup("copies could not be written", [*failed.values()])

    def _may_write(self, shared: ClusterSecret, stands: Secret | None) -> bool:
        if stands is None or is_copy(shared, stands):
            return True
        return self.settings.replace_existing and controller_of(stands) is None

    async def _write(
        self, ctx: Context[ClusterSecret], space: str, data: Mapping[str, str], stands: Secret | None
    ) -> None:
        shared, before = ctx.object, ObjectMeta() if stands is None else stands.metadata
        kind = shared.type or "Opaque"  # a server makes Opaque of an empty one too
        if stands is not None and (stands.immutable or (stands.type or "Opaque") != kind):
            await ctx.delete(stands)  # its type, or its data, can never be changed
        elif stands is not None and (surplus := stands.data.keys() - data.keys()):
            await ctx.client.raw.merge(stands, {"data": dict.fromkeys(surplus)})
        metadata = ObjectMeta(
            shared.name,
            space,
            labels={
                **marks_on(before.labels),
                **without(shared.metadata.labels, self.settings.blocked_labels),
            },
            annotations={
                **marks_on(before.annotations),
                **without(shared.metadata.annotations, (KOPF, "kubectl.kubernetes.io")),
                CREATED_BY[0]: CREATED_BY[1],
            },
        )
        copy = Intent(Secret, metadata=metadata, type=kind, data=data)
        await ctx.apply(copy, adopt=stands is not None)  # not one that has appeared meanwhile


async def named(ctx: Context[ClusterSecret]) -> Sequence[Secret]:
    """The Secrets of its name, in all namespaces."""
    return await ctx.client.list(Secret, index=("by-name", ctx.object.name))


async def drop(ctx: Context[ClusterSecret]) -> None:
    for secret in await named(ctx):
        if is_copy(ctx.object, secret):
            await ctx.delete(secret)


def source_key(shared: ClusterSecret) -> Key | None:
    source = source_of(shared)
    return None if source is None else Key(source.namespace, source.name)


def cluster_secrets(settings: Settings = Settings()) -> Controller[ClusterSecret]:
    return Controller(
        ClusterSecret,
        Sharing(settings).share,
        cleanup=drop,
        owns=[Secret],
        watches=[
            Watch(Namespace, by_labels=lambda shared: LabelSelector()),  # any: names cannot be selected
            Watch(Secret, by=source_key),
            Watch(Secret, to=lambda secret: [Request("", secret.name)]),  # copies have its name
        ],
        indexes={"by-name": Index(Secret, lambda secret: secret.name)},
        predecessor=Predecessor.kopf(
            "ClusterSecret on kopf",
            deployments="clustersecret",
            images="clustersecret/clustersecret",
            unfinished="run",  # its handlers do nothing outside of the cluster
        ),
    )


manager = Manager(cluster_secrets(Settings.of(os.environ)))
