"""The controller of registry secrets: what a pipeline wants, kept by the public block `Copier`."""

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

    `consent` says which Secrets may be copied for whose pipelines, and where to; by default what the
    variables `REGISTRY_SECRETS_*` of the environment say. Raises ValueError for those without a meaning.
    Kubero asks no owner: `Consent.of_authors()`.
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
        done = await copier.keep(ctx)
        ctx.status(copies=done.copies)

    return Controller(
        KuberoPipeline,
        keep,
        cleanup=copier.remove,
        watches=copier.watches,
        writes=copier.writes,
        predecessor=KUBERO,
        name=NAME,
        operator=OPERATOR,
        former_finalizers=["application.kubero.dev/registry-secrets"],
        former_field_managers=[NAME],
    )


controller = make_controller()
"""What `reconcile run registry-secrets` runs."""
