"""Kinds of other groups: workloads, their budgets, leases and ways in."""

import datetime
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from reconcile.kinds.core import BuiltIn, PodCondition
from reconcile.models import Condition, ExtraFields, LabelSelector, resource


@frozen
class DeploymentSpec(ExtraFields):
    """What a deployment keeps running; `template` is a pod template as manifests write it."""

    selector: LabelSelector
    template: Mapping[str, Any]
    replicas: int | None = None


@frozen
class DeploymentStatus(ExtraFields):
    """How far a deployment has come."""

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
        """Whether all its pods are of the present template and available: what kubectl rollout status awaits.

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
    """How many pods of a template a replica set keeps."""

    selector: LabelSelector
    template: Mapping[str, Any]
    replicas: int | None = None
    min_ready_seconds: int | None = None


@frozen
class ReplicaSetStatus(ExtraFields):
    """How many pods of a replica set there are."""

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
class ScaleTargetRef(ExtraFields):
    """What an autoscaler sizes."""

    kind: str
    name: str
    api_version: str | None = None


@frozen
class HorizontalPodAutoscalerSpec(ExtraFields):
    """Between which sizes, and by which metrics; metrics and behaviour as manifests write them."""

    scale_target_ref: ScaleTargetRef
    max_replicas: int
    min_replicas: int | None = None
    metrics: tuple[Mapping[str, Any], ...] | None = None
    behavior: Mapping[str, Any] | None = None


@frozen
class HorizontalPodAutoscalerStatus(ExtraFields):
    """What an autoscaler saw and decided."""

    observed_generation: int | None = None
    current_replicas: int = 0
    desired_replicas: int = 0
    last_scale_time: datetime.datetime | None = None
    current_metrics: tuple[Mapping[str, Any], ...] | None = None
    conditions: tuple[PodCondition, ...] = ()


@resource("autoscaling/v2")
class HorizontalPodAutoscaler(BuiltIn):
    """autoscaling/v2 HorizontalPodAutoscaler."""

    spec: HorizontalPodAutoscalerSpec
    status: HorizontalPodAutoscalerStatus = HorizontalPodAutoscalerStatus()


@frozen
class StatefulSetSpec(ExtraFields):
    """What a stateful set keeps running, each under a name of its own."""

    selector: LabelSelector
    template: Mapping[str, Any]
    replicas: int | None = None
    service_name: str | None = None
    volume_claim_templates: tuple[Mapping[str, Any], ...] | None = None


@frozen
class StatefulSetStatus(ExtraFields):
    """How far a stateful set has come."""

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
        """Whether all its pods are of the present template and ready; not while a partition holds some back.

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
    """What a daemon set keeps running on each node."""

    selector: LabelSelector
    template: Mapping[str, Any]


@frozen
class DaemonSetStatus(ExtraFields):
    """How far a daemon set has come."""

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
        """Whether each node that shall has a pod of its present template, and that is available.

        False until the DaemonSet controller has seen the present generation.
        """
        wanted = self.status.desired_number_scheduled
        return (
            self.status.observed_generation >= self.metadata.generation
            and self.status.updated_number_scheduled >= wanted
            and self.status.number_available >= wanted
        )


@frozen
class JobSpec(ExtraFields):
    """What a job runs to its end."""

    template: Mapping[str, Any]
    completions: int | None = None
    parallelism: int | None = None
    backoff_limit: int | None = None
    suspend: bool | None = None
    ttl_seconds_after_finished: int | None = None


@frozen
class JobStatus(ExtraFields):
    """How a job goes; its conditions Complete and Failed say that it has ended."""

    active: int = 0
    succeeded: int = 0
    failed: int = 0
    start_time: datetime.datetime | None = None
    completion_time: datetime.datetime | None = None
    conditions: tuple[PodCondition, ...] = ()


@resource("batch/v1")
class Job(BuiltIn):
    """batch/v1 Job."""

    spec: JobSpec
    status: JobStatus = JobStatus()

    @property
    def finished(self) -> bool:
        """Whether it has ended, well or not: its condition Complete or Failed is True."""
        return any(c.type in ("Complete", "Failed") and c.status == "True" for c in self.status.conditions)


@frozen
class CronJobSpec(ExtraFields):
    """Which job is made, and when."""

    schedule: str
    job_template: Mapping[str, Any]
    time_zone: str | None = None
    concurrency_policy: str | None = None
    suspend: bool | None = None


@frozen
class CronJobStatus(ExtraFields):
    """When a job was last made, and when one last succeeded."""

    last_schedule_time: datetime.datetime | None = None
    last_successful_time: datetime.datetime | None = None


@resource("batch/v1")
class CronJob(BuiltIn):
    """batch/v1 CronJob."""

    spec: CronJobSpec
    status: CronJobStatus = CronJobStatus()


@frozen
class IngressSpec(ExtraFields):
    """Which hosts and paths lead where; rules and TLS as manifests write them."""

    ingress_class_name: str | None = None
    rules: tuple[Mapping[str, Any], ...] | None = None
    tls: tuple[Mapping[str, Any], ...] | None = None


@resource("networking.k8s.io/v1", plural="ingresses")
class Ingress(BuiltIn):
    """networking.k8s.io/v1 Ingress."""

    spec: IngressSpec = IngressSpec()


@frozen
class PodDisruptionBudgetSpec(ExtraFields):
    """How many pods evictions must leave, as a number or a percentage."""

    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


@frozen
class PodDisruptionBudgetStatus(ExtraFields):
    """How many evictions there may be now."""

    observed_generation: int = 0
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0


@resource("policy/v1")
class PodDisruptionBudget(BuiltIn):
    """policy/v1 PodDisruptionBudget."""

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


@frozen
class LeaseSpec(ExtraFields):
    """Who holds a lease, and for how long."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


@resource("coordination.k8s.io/v1")
class Lease(BuiltIn):
    """coordination.k8s.io/v1 Lease."""

    spec: LeaseSpec = LeaseSpec()
