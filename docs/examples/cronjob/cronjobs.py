"""An operator that starts Jobs by a schedule: Kubernetes' CronJob, as kubebuilder's tutorial builds it."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Literal

from attrs import frozen
from cronsim import CronSim, CronSimError

from reconcile import Condition, Context, Controller, Intent, Manager, Object, ObjectMeta, Result, resource
from reconcile.conditions import is_true
from reconcile.errors import TerminalError
from reconcile.kinds import Job, JobSpec
from reconcile.models import Schema

SCHEDULED_AT = "batch.example.com/scheduled-at"

Verdict = Literal["OnSchedule", "Due", "Suspended", "TooLate", "Blocked"]


@frozen
class CronJobSpec:
    schedule: str
    """Five fields of cron, in UTC."""
    job: JobSpec
    suspend: bool = False
    concurrency: Literal["Allow", "Forbid", "Replace"] = "Allow"
    starting_deadline: Annotated[timedelta | None, Schema(rules="self > duration('0s')")] = None
    """How late a Job may start; after that it is skipped. Without a deadline it starts however late."""
    keep_succeeded: Annotated[int, Schema(minimum=0)] = 3
    keep_failed: Annotated[int, Schema(minimum=0)] = 1


@frozen
class CronJobStatus:
    last_schedule: datetime | None = None
    active: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()


@resource(
    "batch.example.com/v1",
    columns={"Schedule": ".spec.schedule", "Last schedule": ".status.lastSchedule"},
    rules=("size(self.metadata.name) <= 49",),  # a Job's name is also a label: 63, and the time takes 14
)
class CronJob(Object):
    spec: CronJobSpec
    status: CronJobStatus = CronJobStatus()


def latest(schedule: str, now: datetime) -> datetime:
    """The last scheduled time that is not in the future. Raises CronSimError if `schedule` is invalid."""
    return next(CronSim(schedule, now + timedelta(seconds=1), reverse=True))


def decide(spec: CronJobSpec, due: datetime, last: datetime, now: datetime, *, running: bool) -> Verdict:
    """What happens to the Job that was due last; a pure function."""
    if spec.suspend:
        return "Suspended"
    if due <= last:
        return "OnSchedule"
    if spec.starting_deadline is not None and due + spec.starting_deadline < now:
        return "TooLate"
    return "Blocked" if running and spec.concurrency == "Forbid" else "Due"


def job_for(cron: CronJob, at: datetime) -> Intent[Job]:
    name = f"{cron.name}-{at:%Y%m%d-%H%M}"  # named after its time, so no run starts it twice
    return Intent(
        Job, metadata=ObjectMeta(name, annotations={SCHEDULED_AT: at.isoformat()}), spec=cron.spec.job
    )


def scheduled_at(job: Job) -> datetime:
    return datetime.fromisoformat(job.metadata.annotations[SCHEDULED_AT])


def kept(spec: CronJobSpec, jobs: Sequence[Job], recorded: datetime) -> list[Job]:
    """The jobs, oldest first, that are kept; `recorded` is the last time in the status."""
    succeeded = [job for job in jobs if is_true(job.status.conditions, "Complete")]
    failed = [job for job in jobs if is_true(job.status.conditions, "Failed")]
    # `or None`: with a limit of 0 all are surplus, and [:-0] would be none of them.
    surplus = succeeded[: -spec.keep_succeeded or None] + failed[: -spec.keep_failed or None]
    # Until the status has its time, the Job itself is the only record that it was started.
    return [job for job in jobs if job not in surplus or scheduled_at(job) > recorded]


async def keep_cron_job(ctx: Context[CronJob]) -> Result | None:
    cron, spec, now = ctx.object, ctx.object.spec, ctx.clock.now()
    try:
        due, upcoming = latest(spec.schedule, now), next(CronSim(spec.schedule, now))
    except CronSimError as error:
        ctx.condition("OnSchedule", False, reason="NoSchedule", message=str(error))
        raise TerminalError(f"{spec.schedule!r} is not a schedule: {error}") from error

    jobs = sorted(await ctx.owned(Job), key=scheduled_at)
    running = [job for job in jobs if not job.finished]
    created = cron.metadata.creation_timestamp or now
    recorded = cron.status.last_schedule or created
    last = max([recorded, *map(scheduled_at, jobs)])
    verdict = decide(spec, due, last, now, running=bool(running))
    if verdict == "Due":
        if spec.concurrency == "Replace":
            for job in running:
                await ctx.delete(job, propagation="Background")  # with its pods
            running = []
        last, running = due, [*running, await ctx.apply(job_for(cron, due))]

    ctx.status(active=tuple(job.name for job in running), last_schedule=last if last > created else None)
    started = verdict in ("OnSchedule", "Due")
    missing = "" if started or spec.suspend else f"the Job of {due:%Y-%m-%d %H:%M} has not been started"
    ctx.condition("OnSchedule", started, reason="OnSchedule" if started else verdict, message=missing)
    ctx.prune(Job, keep=kept(spec, jobs, recorded))
    return None if spec.suspend else Result(requeue_after=upcoming - now)


cron_jobs = Controller(CronJob, keep_cron_job, owns=[Job])
manager = Manager(cron_jobs)
