"""`orchestration.aibrix.ai/v1alpha1`: RayClusterFleet and RayClusterReplicaSet, with AIBrix's fields."""

import datetime
from collections.abc import Mapping
from typing import Annotated, Any

from attrs import frozen

from reconcile import Condition, LabelSelector, Object, field, resource
from reconcile.models import Rule, Scale, Schema, definition_of

API_VERSION = "orchestration.aibrix.ai/v1alpha1"


@frozen
class ClusterTemplate:
    """The template of the RayClusters, whose controller checks `spec`; it is not decoded here."""

    spec: Mapping[str, Any]
    metadata: Mapping[str, Any] = field(factory=dict)


@frozen
class RollingUpdate:
    """How far a rollout may deviate from `replicas`: a number, or a share (`25%`)."""

    max_surge: int | str | None = None
    max_unavailable: int | str | None = None


@frozen
class Strategy:
    """How old clusters are replaced: `RollingUpdate` (the default) or `Recreate`."""

    type: str | None = None
    rolling_update: RollingUpdate | None = None


@frozen
class FleetSpec:
    """A number of RayClusters from one template. Times in seconds."""

    template: ClusterTemplate
    selector: Annotated[LabelSelector, Schema(rules=Rule("self == oldSelf", "the selector cannot change"))]
    replicas: int = 1
    strategy: Strategy | None = None
    min_ready_seconds: int = 0
    revision_history_limit: int = 10
    paused: bool = False
    progress_deadline_seconds: int = 600


@frozen
class FleetCondition:
    """A condition as in Deployments: `last_update_time` is when its reason or status last changed."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_update_time: datetime.datetime | None = None
    last_transition_time: datetime.datetime | None = None


@frozen
class FleetStatus:
    """The state of the fleet. `scaling_target_selector` selects one head pod for each replica."""

    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    collision_count: int | None = None
    scaling_target_selector: str = ""
    conditions: tuple[FleetCondition, ...] = ()
    observed_generation: int | None = None


@resource(
    API_VERSION,
    scale=Scale(selector=".status.scalingTargetSelector"),
    columns={
        "desired": ".spec.replicas",
        "current": ".status.replicas",
        "updated": ".status.updatedReplicas",
        "available": ".status.availableReplicas",
    },
)
class RayClusterFleet(Object):
    """A number of RayClusters from one template, replaced step by step when it changes."""

    spec: FleetSpec
    status: FleetStatus = FleetStatus()


@frozen
class RayClusterReplicaSetSpec:
    """A number of RayClusters from one revision of a fleet."""

    template: ClusterTemplate
    selector: LabelSelector
    replicas: int = 1
    min_ready_seconds: int = 0


@frozen
class RayClusterReplicaSetStatus:
    """The numbers of clusters; Terminating ones count nowhere."""

    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    conditions: tuple[Condition, ...] = ()
    observed_generation: int | None = None


@resource(
    API_VERSION,
    columns={"desired": ".spec.replicas", "current": ".status.replicas", "ready": ".status.readyReplicas"},
)
class RayClusterReplicaSet(Object):
    """A number of RayClusters from one template."""

    spec: RayClusterReplicaSetSpec
    status: RayClusterReplicaSetStatus = RayClusterReplicaSetStatus()


def definition() -> dict[str, Any]:
    """Our own CustomResourceDefinition of fleets, for servers that do not have AIBrix's."""
    return definition_of(RayClusterFleet)


def set_definition() -> dict[str, Any]:
    """Our own CustomResourceDefinition of their replica sets."""
    return definition_of(RayClusterReplicaSet)
