"""`application.kubero.dev/v1alpha1 KuberoPipeline`: the fields that this controller reads, and its status.

Kubero's other fields are kept in `extra`, and never shown.
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
    """How the phases log in to the registry.

    `createSecret` is `copy`, `create` or `none`. `secretRef` names a Secret to copy instead of
    `registry-login`, or for `create` one with the login, so that the pipeline holds no password.
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
    """The keys to fetch the code with, in base64, or the Secret that has them."""

    priv: str | None = field(default=None, secret=True)
    pub: str | None = field(default=None, secret=True)
    secret_ref: SecretRef | None = None
    extra: Mapping[str, Any] = field(factory=dict, extra_fields=True, secret=True)


@frozen
class Git:
    """The source of the code."""

    keys: Keys | None = None
    extra: Mapping[str, Any] = field(factory=dict, extra_fields=True, secret=True)


@frozen
class KuberoPipelineSpec:
    """What is built and where it runs.

    `removal` says what is deleted when a phase is disabled, the mode changes or the pipeline is deleted:
    `copies` (the default), `keep` (nothing) or `namespaces` (also the namespaces that were created for it,
    with everything in them). `adopt: helm` takes over the Secrets that Kubero's own operator created.
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
    """The copies that are up to date; conditions say why others are not."""

    conditions: tuple[Condition, ...] = ()
    copies: tuple[CopyStatus, ...] = ()
    observed_generation: int | None = None


@resource("application.kubero.dev/v1alpha1")
class KuberoPipeline(Object):
    """A pipeline of phases. The namespace of each phase gets the registry's credentials."""

    spec: KuberoPipelineSpec = KuberoPipelineSpec()
    status: KuberoPipelineStatus = KuberoPipelineStatus()


def definition() -> dict[str, Any]:
    """Our own CustomResourceDefinition, for servers that do not have Kubero's."""
    return definition_of(KuberoPipeline)
