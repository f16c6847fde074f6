"""The controller of registry secrets, based on the public block `Copier`."""

import os
from collections.abc import Iterator, Mapping

from reconcile import Context, Controller, Predecessor
from reconcile.blocks import Consent, Copier, Unusable

from .. import OPERATOR
from ..refusals import refusing
from .desired_copies import MOST_PHASES, adopts, copies_of, phase_namespaces, removal_of
from .models import KuberoPipeline

NAME = "registry-secrets"
KUBERO = Predecessor(
    "Kubero's operator",
    deployments=("kubero-operator-controller-manager", "kubero-operator"),
    images=("kubero-operator",),
)

TRUST_AUTHORS = "REGISTRY_SECRETS_TRUST_AUTHORS"
"""Turns on Kubero's behaviour: a pipeline may copy any Secret into any namespace."""
SOURCES = "REGISTRY_SECRETS_SOURCES"
NAMESPACES = "REGISTRY_SECRETS_NAMESPACES"


def consent_from(environ: Mapping[str, str]) -> Consent:
    """The consent in the environment; unset variables allow nothing. Raises ValueError."""
    authors = environ.get(TRUST_AUTHORS, "").strip().lower()
    if authors not in ("", "true", "false"):
        raise ValueError(f"{TRUST_AUTHORS}: expected true or false, got {authors!r}")
    if authors == "true":
        return Consent.of_authors()
    try:
        return Consent(sources=_list(environ, SOURCES), namespaces=_list(environ, NAMESPACES))
    except ValueError as error:
        raise ValueError(
            f"{SOURCES} or {NAMESPACES}: {error}; for example shop:kubero/registry-login and shop:shop-*"
        ) from None


def faults_of(pipeline: KuberoPipeline) -> Iterator[str]:
    """Why nothing would be copied for a pipeline; the first fault alone, as in the status."""
    try:
        copies_of(pipeline)
    except Unusable as problem:
        yield problem.message


def _list(environ: Mapping[str, str], name: str) -> list[str]:
    return [part for part in environ.get(name, "").split(",") if part.strip()]


def make_controller(consent: Consent | None = None) -> Controller[KuberoPipeline]:
    """The controller `registry-secrets`.

    `consent` says which Secrets may be copied for which pipelines, and into which namespaces, by default as
    the variables `REGISTRY_SECRETS_*` say. Raises ValueError for invalid ones. Kubero itself asks for no
    consent: `Consent.of_authors()`.
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
        admission=refusing(KuberoPipeline, faults_of),
        predecessor=KUBERO,
        name=NAME,
        operator=OPERATOR,
        former_finalizers=["application.kubero.dev/registry-secrets"],
        former_field_managers=[NAME],
    )


controller = make_controller()
"""The controller that `reconcile run registry-secrets` starts."""
