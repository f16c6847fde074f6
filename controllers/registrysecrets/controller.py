"""The controller of registry secrets: what a pipeline wants, kept by the public block `Copier`."""

from reconcile import Context, Controller, Original, Storms, Write
from reconcile.blocks import Copier
from reconcile.incidents import Logic
from reconcile.kinds import Namespace, Secret

from .. import OPERATOR  # noqa: TID252 (another distribution may have a `controllers`)
from . import original
from .models import KuberoPipeline
from .wanted import adopts, copies_of, phase_namespaces, removal_of

NAME = "registry-secrets"
KUBERO = Original(
    "Kubero's operator",
    deployments=("kubero-operator-controller-manager", "kubero-operator"),
    images=("kubero-operator",),
)

copier = Copier(
    KuberoPipeline,
    copies_of,
    namespaces=phase_namespaces,
    removal=removal_of,
    adopts=adopts,
    name=NAME,
)


async def keep(ctx: Context[KuberoPipeline]) -> None:
    """One run: every copy is written at most once, and not at all when it is as it should be."""
    ctx.status(observed_generation=ctx.object.metadata.generation)
    done = await copier.keep(ctx)
    ctx.status(copies=done.copies)


def make_controller(logic: Logic = "ours") -> Controller[KuberoPipeline]:
    """The controller `registry-secrets`, or with `original` its control, which does as Kubero 0.2.1 did."""
    if logic == "original":
        return Controller(
            KuberoPipeline,
            original.keep,
            cleanup=original.remove,
            watches=original.WATCHES,
            writes=[Secret, Write(Namespace, ("create",))],
            storms=Storms(detect=False),  # helm-operator had no such guard
            name=NAME,
            operator=OPERATOR,
        )
    return Controller(
        KuberoPipeline,
        keep,
        cleanup=copier.remove,
        watches=copier.watches,
        writes=copier.writes,
        replaces=KUBERO,
        name=NAME,
        operator=OPERATOR,
        former_finalizers=["application.kubero.dev/registry-secrets"],
        former_field_managers=[NAME],
    )


controller = make_controller()
"""What `reconcile run registry-secrets` runs."""
