"""Kinds of batch/v1: work that ends."""

import datetime
from collections.abc import Mapping
from typing import Any, ClassVar

from attrs import field, frozen

from reconcile.kinds.built_in import BuiltIn
from reconcile.kinds.core import PodCondition
from reconcile.kinds.pod_models import PodTemplate, pod_template
from reconcile.models import ExtraFields, ObjectMeta, resource, structure


@frozen
class JobSpec(ExtraFields):
    """The pods that a job runs to their end."""

    template: PodTemplate = field(converter=pod_template)
    completions: int | None = None
    parallelism: int | None = None
    backoff_limit: int | None = None
    suspend: bool | None = None
    ttl_seconds_after_finished: int | None = None


@frozen
class JobStatus(ExtraFields):
    """The progress of a job, whose end the conditions Complete and Failed report."""

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
        """Whether it has ended: its condition Complete or Failed is True."""
        return any(c.type in ("Complete", "Failed") and c.status == "True" for c in self.status.conditions)


@frozen
class JobTemplate(ExtraFields):
    """The metadata and spec of jobs to be created."""

    __sparse__: ClassVar[bool] = True

    spec: JobSpec
    metadata: ObjectMeta = ObjectMeta()  # noqa: RUF009 - it is immutable


def _job_template(given: JobTemplate | Mapping[str, Any]) -> JobTemplate:
    return given if isinstance(given, JobTemplate) else structure(JobTemplate, given)


@frozen
class CronJobSpec(ExtraFields):
    """The job to create, and when; `job_template` may be given as a manifest writes it."""

    schedule: str
    job_template: JobTemplate = field(converter=_job_template)
    time_zone: str | None = None
    concurrency_policy: str | None = None
    suspend: bool | None = None


@frozen
class CronJobStatus(ExtraFields):
    """When a job was last created, and when one last succeeded."""

    last_schedule_time: datetime.datetime | None = None
    last_successful_time: datetime.datetime | None = None


@resource("batch/v1")
class CronJob(BuiltIn):
    """batch/v1 CronJob."""

    spec: CronJobSpec
    status: CronJobStatus = CronJobStatus()
