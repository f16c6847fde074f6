"""The controller of registry secrets, based on the public block `Copier`."""

import os

from reconcile import Context, Controller, Predecessor
from reconcile.blocks import Consent, Copier

from .. import OPERATOR
from .consent_settings import consent_from
from .desired_copies import MOST_PHASES, adopts, copies_of, phase_namespaces, removal_of
from .models import KuberoPipeline

NAME = "registry-secrets"
KUBERO = Predecessor(
    "Kubero's operator",
    deployments=("kubero-operator-controller-manager", "kubero-operator"),
    images=("kubero-operator",),
)


def make_controller(consent: Consent | None = None) -> Controller[KuberoPipeline]:
    """The controller `registry-secrets`.

    `consent` says which Secrets may be copied for which pipelines, and into which namespaces; by default it
    is read from the variables `REGISTRY_SECRETS_*`. Raises ValueError for invalid ones. Kubero itself asks no
    owner: `Consent.of_authors()`.
    """
    copier = Copier(
        KuberoPipeline,
        copies_of,
        namespaces=phase_namespaces,
        removal=removal_of,
        adopts=adopts,
        name=NAME,
        consent=consent_from(os.environ) if consent is None else consent,
        most_namespaces=MOST_PHASES,
    )

    async def keep(ctx: Context[KuberoPipeline]) -> None:
        ctx.status(observed_generation=ctx.object.metadata.generation)
        ctx.status(copies=(await copier.keep(ctx)).copies)

    return Controller(
        KuberoPipeline,
        keep,
        cleanup=copier.remove,
        watches=copier.watches,
        writes=copier.writes,
        indexes=copier.indexes,
        predecessor=KUBERO,
        name=NAME,
        operator=OPERATOR,
        former_finalizers=["application.kubero.dev/registry-secrets"],
        former_field_managers=[NAME],
    )


controller = make_controller()
"""The controller that `reconcile run registry-secrets` starts."""
