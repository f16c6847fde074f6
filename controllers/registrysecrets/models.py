"""`application.kubero.dev/v1alpha1 KuberoPipeline` as far as this controller reads it, and its status."""

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from reconcile import Condition, Object, definition_of, field, resource

from .plan import CopyStatus


@frozen
class Registry:
    """How the phases get at the registry. User name and password are of the mode create, unused here."""

    create_secret: str | None = None
    host: str | None = None
    username: str | None = field(default=None, secret=True)
    password: str | None = field(default=None, secret=True)


@frozen
class Phase:
    """A stage of the pipeline; an enabled one has a namespace of its own."""

    name: str = ""
    enabled: bool = False
    context: str | None = None


@frozen
class KuberoPipelineSpec:
    """What is built and where it runs. `git` holds deploy keys and is never shown."""

    name: str | None = None
    deploymentstrategy: str | None = None
    buildstrategy: str | None = None
    mainnamespace: str | None = None
    registry: Registry | None = None
    phases: tuple[Phase, ...] = ()
    reviewapps: bool | None = None
    git: Mapping[str, Any] | None = field(default=None, secret=True)


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
