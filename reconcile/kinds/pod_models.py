"""Pods, and the templates from which workloads create them.

They are applied in the form in which the API server stores them (`PodPart`), so that an apply without a
change is recognised.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, TypeAlias, cast

import attrs
from attrs import frozen

from reconcile.kinds.built_in import BuiltIn
from reconcile.kinds.core import PodCondition
from reconcile.models import ExtraFields, ObjectMeta, ResourceAmounts, Schema, resource, structure
from reconcile.models.frozen import FrozenRecords
from reconcile.models.reading import LAZY


@frozen(kw_only=True)
class PodPart(ExtraFields):
    """Base of the parts of a pod, which omit empty values, as the API server does."""

    __sparse__: ClassVar[bool] = True


@frozen
class ContainerPort(PodPart):
    """A port that a container listens on."""

    container_port: int
    name: str = ""
    protocol: str = ""
    host_port: int | None = None


@frozen
class EnvVar(PodPart):
    """An environment variable of a container: a `value`, or `value_from` as manifests write it."""

    name: str
    value: str = ""
    value_from: Mapping[str, Any] | None = None


@frozen
class ResourceRequirements(PodPart):
    """The requests and limits of a container, by resource."""

    requests: ResourceAmounts = attrs.field(factory=dict)
    limits: ResourceAmounts = attrs.field(factory=dict)


@frozen
class VolumeMount(PodPart):
    """Where a container mounts a volume of its pod."""

    name: str
    mount_path: str
    sub_path: str = ""
    read_only: bool = False


@frozen
class Container(PodPart):
    """A container of a pod; probes, sources of variables and the security context as manifests write them."""

    name: str
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    env: tuple[EnvVar, ...] = ()
    env_from: tuple[Mapping[str, Any], ...] = ()
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    volume_mounts: tuple[VolumeMount, ...] = ()
    image_pull_policy: str = ""
    liveness_probe: Mapping[str, Any] | None = None
    readiness_probe: Mapping[str, Any] | None = None
    startup_probe: Mapping[str, Any] | None = None
    security_context: Mapping[str, Any] | None = None


@frozen
class Volume(PodPart):
    """A volume of a pod and its source; other sources, such as `csi` or `nfs`, are in `extra`."""

    name: str
    config_map: Mapping[str, Any] | None = None
    secret: Mapping[str, Any] | None = None
    empty_dir: Mapping[str, Any] | None = None
    persistent_volume_claim: Mapping[str, Any] | None = None


Containers: TypeAlias = Annotated[tuple[Container, ...], LAZY]


def _containers(given: "Sequence[Container | Mapping[str, Any]]") -> tuple[Container, ...]:
    if not given:
        return ()
    if type(given) is FrozenRecords:  # of a Pod that was read: each of a cache's passes here
        return cast(tuple[Container, ...], given)
    return tuple(one if isinstance(one, Container) else structure(Container, one) for one in given)


@frozen
class PodSpec(PodPart):
    """The containers of a pod and their placement. Containers may be given as a manifest writes them."""

    containers: Containers = attrs.field(default=(), converter=_containers)
    init_containers: Containers = attrs.field(default=(), converter=_containers)
    volumes: Annotated[tuple[Volume, ...], LAZY] = ()
    node_name: str | None = None
    restart_policy: str | None = None
    service_account_name: str | None = None
    node_selector: Mapping[str, str] = attrs.field(factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()
    affinity: Mapping[str, Any] | None = None
    security_context: Mapping[str, Any] | None = None
    image_pull_secrets: tuple[Mapping[str, Any], ...] = ()


@frozen
class PodTemplate(PodPart):
    """The metadata and spec of pods to be created."""

    metadata: ObjectMeta = ObjectMeta()  # noqa: RUF009 - it is immutable
    spec: PodSpec = PodSpec()


GivenTemplate: TypeAlias = PodTemplate | Mapping[str, Any]
"""A pod template as an author passes it: typed, or as a manifest writes it."""


def pod_template(given: GivenTemplate) -> PodTemplate:
    """A typed template. Raises DecodeError for a mapping that is not one."""
    return given if isinstance(given, PodTemplate) else structure(PodTemplate, given)


@frozen
class ContainerState(ExtraFields):
    """The state of a container: one of the three is set."""

    running: Mapping[str, Any] | None = None
    waiting: Mapping[str, Any] | None = None
    terminated: Mapping[str, Any] | None = None


@frozen
class ContainerStatus(ExtraFields):
    """The status of a container of a pod."""

    name: str
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()


@frozen
class PodStatus(ExtraFields):
    """The phase and conditions of a pod, and the statuses of its containers."""

    phase: str = ""
    pod_ip: Annotated[str, Schema(wire="podIP")] = ""
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


@resource("v1")
class Pod(BuiltIn):
    """v1 Pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def ready(self) -> bool:
        """Whether its Ready condition is True."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)
