"""`application.kubero.dev/v1alpha1 KuberoPipeline` as far as this controller reads it, and its status.

What Kubero has besides is kept, in `extra`, and never shown.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from attrs import frozen

from reconcile import Condition, Object, field, resource
from reconcile.blocks import CopyStatus
from reconcile.models import Schema, definition_of


@frozen
class SecretRef:
    """A Secret in the pipeline's own namespace, by name."""

    name: str = ""


@frozen
class PipelineRegistry:
    """How the phases get at the registry.

    `createSecret` is `copy`, `create` or `none`. `secretRef` names a Secret to copy in the place of
    `registry-login`, and for `create` one with the login, so that no password stands in the pipeline.
    """

    create_secret: str | None = None
    host: str | None = None
    username: str | None = field(default=None, secret=True)
    password: str | None = field(default=None, secret=True)
    secret_ref: SecretRef | None = None
    extra: Mapping[str, Any] = field(factory=dict, extra_fields=True, secret=True)


@frozen
class PipelinePhase:
    """A stage of the pipeline; an enabled one has a namespace of its own."""

    name: str = ""
    enabled: bool = False
    context: str | None = None
    extra: Mapping[str, Any] = field(factory=dict, extra_fields=True, secret=True)


@frozen
class Keys:
    """The keys by which code is fetched, in base64; or the Secret that has them."""

    priv: str | None = field(default=None, secret=True)
    pub: str | None = field(default=None, secret=True)
    secret_ref: SecretRef | None = None
    extra: Mapping[str, Any] = field(factory=dict, extra_fields=True, secret=True)


@frozen
class Git:
    """Where the code comes from."""

    keys: Keys | None = None
    extra: Mapping[str, Any] = field(factory=dict, extra_fields=True, secret=True)


@frozen
class KuberoPipelineSpec:
    """What is built and where it runs.

    `removal` says what goes when a phase is disabled, the mode changes or the pipeline is deleted:
    `copies` (the default), `keep` (nothing) or `namespaces` (also the namespaces that were made for it,
    with all that is in them). `adopt: helm` takes over the Secrets that Kubero's own operator made.
    """

    name: str | None = None
    deploymentstrategy: str | None = None
    buildstrategy: str | None = None
    mainnamespace: str | None = None
    registry: PipelineRegistry | None = None
    git: Git | None = None
    phases: Annotated[tuple[PipelinePhase, ...] | None, Schema(max_items=100)] = None
    reviewapps: bool | None = None
    removal: str | None = None
    adopt: str | None = None
    extra: Mapping[str, Any] = field(factory=dict, extra_fields=True, secret=True)


@frozen
class KuberoPipelineStatus:
    """Which copies hold what the source holds, and what stands in the way of the others."""

    conditions: tuple[Condition, ...] = ()
    copies: tuple[CopyStatus, ...] = ()
    observed_generation: int | None = None


@resource("application.kubero.dev/v1alpha1")
class KuberoPipeline(Object):
    """A pipeline of phases, whose namespaces get the registry's credentials."""

    spec: KuberoPipelineSpec = KuberoPipelineSpec()
    status: KuberoPipelineStatus = KuberoPipelineStatus()


def definition() -> dict[str, Any]:
    """Our own CustomResourceDefinition, for servers that do not have Kubero's."""
    return definition_of(KuberoPipeline)
