"""Kinds of apps/v1: workloads that keep pods running."""

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from reconcile.kinds.built_in import BuiltIn
from reconcile.kinds.core import PodCondition
from reconcile.kinds.pod_models import PodTemplate, pod_template
from reconcile.models import Condition, ExtraFields, LabelSelector, resource


@frozen
class DeploymentSpec(ExtraFields):
    """The desired pods of a deployment; `template` may be given as a manifest writes it."""

    selector: LabelSelector
    template: PodTemplate = field(converter=pod_template)
    replicas: int | None = None


@frozen
class DeploymentStatus(ExtraFields):
    """The progress of a deployment."""

    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    conditions: tuple[Condition, ...] = ()


@resource("apps/v1")
class Deployment(BuiltIn):
    """apps/v1 Deployment."""

    spec: DeploymentSpec
    status: DeploymentStatus = DeploymentStatus()

    @property
    def rolled_out(self) -> bool:
        """Whether all pods are of the present template and available, as `kubectl rollout status` waits for.

        False until the Deployment controller has seen the present generation.
        """
        wanted = 1 if self.spec.replicas is None else self.spec.replicas
        return (
            self.status.observed_generation >= self.metadata.generation
            and self.status.updated_replicas >= wanted
            and self.status.replicas <= self.status.updated_replicas <= self.status.available_replicas
        )


@frozen
class ReplicaSetSpec(ExtraFields):
    """The desired number of pods of a template."""

    selector: LabelSelector
    template: PodTemplate = field(converter=pod_template)
    replicas: int | None = None
    min_ready_seconds: int | None = None


@frozen
class ReplicaSetStatus(ExtraFields):
    """The present pods of a replica set."""

    observed_generation: int = 0
    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    conditions: tuple[PodCondition, ...] = ()


@resource("apps/v1")
class ReplicaSet(BuiltIn):
    """apps/v1 ReplicaSet."""

    spec: ReplicaSetSpec
    status: ReplicaSetStatus = ReplicaSetStatus()


@frozen
class StatefulSetSpec(ExtraFields):
    """The desired pods of a stateful set, each with its own name."""

    selector: LabelSelector
    template: PodTemplate = field(converter=pod_template)
    replicas: int | None = None
    service_name: str | None = None
    volume_claim_templates: tuple[Mapping[str, Any], ...] | None = None


@frozen
class StatefulSetStatus(ExtraFields):
    """The progress of a stateful set."""

    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    updated_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""


@resource("apps/v1")
class StatefulSet(BuiltIn):
    """apps/v1 StatefulSet."""

    spec: StatefulSetSpec
    status: StatefulSetStatus = StatefulSetStatus()

    @property
    def rolled_out(self) -> bool:
        """Whether all pods are of the present template and ready; False while a partition holds some back.

        False until the StatefulSet controller has seen the present generation.
        """
        wanted = 1 if self.spec.replicas is None else self.spec.replicas
        return (
            self.status.observed_generation >= self.metadata.generation
            and self.status.ready_replicas >= wanted
            and self.status.current_revision == self.status.update_revision
        )


@frozen
class DaemonSetSpec(ExtraFields):
    """The pod that a daemon set runs on each node."""

    selector: LabelSelector
    template: PodTemplate = field(converter=pod_template)


@frozen
class DaemonSetStatus(ExtraFields):
    """The progress of a daemon set."""

    observed_generation: int = 0
    desired_number_scheduled: int = 0
    number_ready: int = 0
    number_available: int = 0
    updated_number_scheduled: int = 0


@resource("apps/v1")
class DaemonSet(BuiltIn):
    """apps/v1 DaemonSet."""

    spec: DaemonSetSpec
    status: DaemonSetStatus = DaemonSetStatus()

    @property
    def rolled_out(self) -> bool:
        """Whether each selected node has an available pod of the present template.

        False until the DaemonSet controller has seen the present generation.
        """
        wanted = self.status.desired_number_scheduled
        return (
            self.status.observed_generation >= self.metadata.generation
            and self.status.updated_number_scheduled >= wanted
            and self.status.number_available >= wanted
        )
