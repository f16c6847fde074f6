"""An operator that deletes objects above an age, except for those that are marked to be kept."""

from datetime import datetime, timedelta
from typing import Annotated, Literal

from attrs import frozen

from reconcile import Context, Controller, LabelSelector, Manager, Object, Write, resource
from reconcile.errors import ApiError
from reconcile.kinds import ConfigMap, Job
from reconcile.models import Schema

CLEANED: dict[str, type[Object]] = {"ConfigMap": ConfigMap, "Job": Job}
KEEP = "keep"
EVERY = 60.0


@frozen
class CleanerSpec:
    kind: Literal["ConfigMap", "Job"]
    max_age: Annotated[timedelta, Schema(rules="self > duration('0s')")]
    selector: LabelSelector = LabelSelector()
    dry_run: bool = False


@frozen
class CleanerStatus:
    would_go: tuple[str, ...] = ()
    """In a dry run: the objects that would be deleted."""


@resource("example.com/v1", columns={"Kind": ".spec.kind", "Max age": ".spec.maxAge"})
class Cleaner(Object):
    spec: CleanerSpec
    status: CleanerStatus = CleanerStatus()


def is_overdue(obj: Object, max_age: timedelta, now: datetime) -> bool:
    created = obj.metadata.creation_timestamp
    spared = KEEP in obj.metadata.labels or obj.metadata.owner_references or obj.terminating
    return not spared and created is not None and created + max_age < now


async def clean(ctx: Context[Cleaner]) -> None:
    spec, now = ctx.object.spec, ctx.clock.now()
    found = await ctx.client.list(CLEANED[spec.kind], ctx.object.namespace, labels=spec.selector)
    overdue = [one for one in found if is_overdue(one, spec.max_age, now)]
    ctx.status(would_go=tuple(one.name for one in overdue) if spec.dry_run else ())
    if spec.dry_run:
        return
    failures: list[ApiError] = []
    for one in overdue:
        try:
            await ctx.delete(one, propagation="Background", if_unchanged=True)
        except ApiError as failure:
            failures.append(failure)  # an object that cannot be deleted does not block the others
    if failures:
        raise ExceptionGroup(f"{len(failures)} of {len(overdue)} could not be deleted", failures)


cleaners = Controller(
    Cleaner,
    clean,
    every=EVERY,
    reads=CLEANED.values(),
    writes=[Write(kind, "delete") for kind in CLEANED.values()],
)
manager = Manager(cleaners)
