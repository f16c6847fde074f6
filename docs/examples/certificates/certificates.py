"""An operator that shares a certificate: its Secret is copied to all namespaces that match a selector."""

from attrs import frozen

from reconcile import (
    Condition,
    Context,
    Controller,
    Intent,
    Key,
    LabelSelector,
    Manager,
    Object,
    ObjectMeta,
    Result,
    Watch,
    resource,
)
from reconcile.errors import AlreadyExists
from reconcile.kinds import Namespace, Secret


@frozen
class SecretRef:
    namespace: str
    name: str


@frozen
class SharedCertificateSpec:
    secret: SecretRef
    namespaces: LabelSelector


@frozen
class SharedCertificateStatus:
    copies: int = 0
    conditions: tuple[Condition, ...] = ()


@resource("example.com/v1", namespaced=False, columns={"Copies": ".status.copies"})
class SharedCertificate(Object):  # cluster-scoped, so it may own objects in any namespace
    spec: SharedCertificateSpec
    status: SharedCertificateStatus = SharedCertificateStatus()


def copy_of(source: Secret, namespace: str) -> Intent[Secret]:
    metadata = ObjectMeta(source.name, namespace)
    return Intent(Secret, metadata=metadata, type=source.type, data=source.data)


async def share(ctx: Context[SharedCertificate]) -> Result | None:
    ref, client = ctx.object.spec.secret, ctx.client
    source = await client.find(Secret, ref.name, ref.namespace)
    if source is None:  # the copies stay: an old certificate is better than none
        ctx.condition("Ready", False, reason="NoSecret", message=f"{ref.namespace}/{ref.name} is missing")
        return None
    chosen = await client.list(Namespace, labels=ctx.object.spec.namespaces)
    names = [one.name for one in chosen if one.name != ref.namespace and one.status.phase == "Active"]
    taken: list[str] = []
    for name in sorted(names):
        try:
            await ctx.apply(copy_of(source, name), adopt=False)
        except AlreadyExists:  # a foreign Secret, which must not be overwritten
            taken.append(name)
    ctx.prune(Secret)  # copies in namespaces that no longer match
    ctx.status(copies=len(names) - len(taken))
    ctx.condition("Ready", not taken, reason="Taken" if taken else "Copied", message=", ".join(taken))
    return Result(requeue_after=60) if taken else None  # the deletion of a foreign Secret wakes no key


certificates = Controller(
    SharedCertificate,
    share,
    owns=[Secret],  # so copies are deleted with it, and a changed or deleted copy wakes it
    watches=[
        Watch(Secret, by=lambda shared: Key(shared.spec.secret.namespace, shared.spec.secret.name)),
        Watch(Namespace, by_labels=lambda shared: shared.spec.namespaces),
    ],
)
manager = Manager(certificates)
