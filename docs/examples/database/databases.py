"""An operator for databases: storage, a password, a schema, and a backup at regular intervals."""

from datetime import timedelta
from typing import Annotated

import postgres
import workloads
from attrs import frozen

from reconcile import Condition, Controller, Manager, Object, Result, SyncContext, Watch, Write, resource
from reconcile.kinds import Job, Secret, Service, StatefulSet
from reconcile.models import Schema


@frozen
class DatabaseSpec:
    backup_image: str
    backup_every: Annotated[timedelta, Schema(rules="self >= duration('1m')")] = timedelta(days=1)
    keep_jobs: Annotated[int, Schema(minimum=1)] = 3
    storage: Annotated[str, Schema(rules="self == oldSelf")] = "1Gi"  # the size of a claim cannot be changed


@frozen
class DatabaseStatus:
    last_backup: str = ""
    conditions: tuple[Condition, ...] = ()


@resource("example.com/v1", columns={"Backup": ".status.lastBackup"})
class Database(Object):
    spec: DatabaseSpec
    status: DatabaseStatus = DatabaseStatus()


def password_of(db: Database) -> str:
    return f"{db.name}-password"


def keep_database(ctx: SyncContext[Database]) -> Result | None:  # a plain def runs in a thread and may block
    db, secret = ctx.object, password_of(ctx.object)
    password = ctx.generate_once("password", lambda: ctx.clock.uuid().hex, secret=secret)
    ctx.apply(workloads.service(db.name))
    server = ctx.apply(workloads.server(db.name, secret, db.spec.storage))
    ctx.condition("Ready", False, reason="NoSchema", message="the schema cannot be made yet")
    if not server.status.ready_replicas:
        return None  # the StatefulSet wakes this key when the server is up
    postgres.create_schema(f"{db.name}.{db.namespace}", password, timeout=10)  # blocks; may raise
    ctx.condition("Ready", True, reason="Serving", message="the schema is there")
    return keep_backups(ctx)


def keep_backups(ctx: SyncContext[Database]) -> Result:
    db, every, now = ctx.object, ctx.object.spec.backup_every, ctx.clock.now()
    ago = timedelta(seconds=now.timestamp()) % every
    due = f"{db.name}-{now - ago:%Y%m%d-%H%M%S}"  # named after its time, so a new process finds it
    jobs = sorted(ctx.owned(Job), key=lambda job: job.name)
    running, ended = [job for job in jobs if not job.finished], [job for job in jobs if job.finished]
    if not running and due not in [job.name for job in ended]:
        ctx.apply(workloads.backup(due, password_of(db), db.spec.backup_image, host=db.name))
        ctx.status(last_backup=due)
    ctx.prune(Job, keep=[*running, *ended[-db.spec.keep_jobs :]])
    return Result(requeue_after=every - ago)


databases = Controller(
    Database,
    keep_database,
    owns=[StatefulSet, Service, Job],
    watches=[Watch(Secret, by=password_of)],
    writes=[Write(Secret, ("create", "patch"))],
)
manager = Manager(databases)
