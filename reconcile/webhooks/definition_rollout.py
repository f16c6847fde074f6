"""Brings a definition, and the stored objects of its kind, to the versions of the classes, step by step.

`migration_plan` decides; here the steps are carried out. Each write of the definition names the version that
was read, so of two processes only one takes a step, and the other one plans anew.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, Literal

import anyio
import msgspec
from attrs import define, evolve, field, frozen

from informers import (
    AlreadyExists,
    ApiError,
    Clock,
    Conflict,
    Forbidden,
    NotFound,
    ServerError,
    Transport,
    get_logger,
)
from reconcile.client.request_limiter import RequestLimiter
from reconcile.client.sender import Sender, json_object
from reconcile.models.definition_changes import only_narrows
from reconcile.webhooks import migration_plan as plan
from reconcile.webhooks.definition_proof import prove
from reconcile.webhooks.definition_refused import DefinitionRefused
from reconcile.webhooks.server_migration import ServerMigration
from reconcile.webhooks.stored_objects import Rewritten, StoredObjects
from reconcile.webhooks.wanted_definitions import WantedDefinition

DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SETTLE: Final = 10.0
"""Seconds after a change until each server of the control plane acts by it: they follow definitions by watch.
Objects that one of them still stored in the old version would be missed."""
POLL: Final = 1.0
POLLS: Final = 60
"""How often a definition that the server has not established yet is read again in a row."""
FIRST_WAIT: Final = 5.0
LONGEST_WAIT: Final = 600.0
"""Seconds: between two attempts, and between two looks at a definition that is as it should be."""

_log = get_logger("reconcile.definitions")


@frozen
class Report:
    """What happened, for an Event of the definition; `rewritten` is that of a pass over the objects."""

    definition: str
    uid: str
    type: Literal["Normal", "Warning"]
    reason: str
    note: str


class Reporting:
    """Gets what a rollout does; a manager makes Events and metrics of it. This one ignores it."""

    def report(self, report: Report) -> None:
        """A step was taken, or could not be taken."""

    def rewrote(self, definition: str, done: int, failed: int) -> None:
        """Report how many objects the current pass has rewritten, and how many it could not."""

    def finished(self, definition: str, finished: bool) -> None:
        """Whether the definition is as the classes want it."""


@define(eq=False)
class DefinitionRollout:
    """Takes the steps for one kind; `settle` replaces SETTLE where there is one server."""

    wanted: WantedDefinition
    transport: Transport
    clock: Clock
    limiter: RequestLimiter | None = None
    reporting: Reporting = field(factory=Reporting)
    settle: float | None = None
    _seen: plan.Seen = field(factory=plan.Seen, init=False)
    _finished: bool = field(default=False, init=False)
    """Whether the definition was as the classes want it: what it has more by now is another release's."""
    _uid: str = field(default="", init=False)
    """Of the definition that was read last, since `kubectl describe` finds its Events by that."""
    _sender: Sender = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._sender = Sender(self.transport, self.clock, self.limiter)

    @property
    def path(self) -> str:
        return f"{DEFINITIONS}/{self.wanted.name}"

    async def serve(self) -> None:
        """Let the server serve all versions of the classes, and change nothing else.

        Any number of replicas may do so at once. A definition that has all they need, and more, stays: a
        newer release, whose replicas may still work, has written it. Raises DefinitionRefused, and ApiError.
        """
        for _ in range(POLLS):
            installed = await self._read()
            step = plan.next_step(self.wanted, installed, self._seen)
            if isinstance(step, plan.Refused):
                raise DefinitionRefused(self.wanted.name, step.problem)
            if isinstance(step, plan.Change) and (not step.serves or _has_more(installed, step)):
                return
            if not isinstance(step, plan.Create | plan.Change | plan.Await):
                return
            await self._take(step, installed)

    async def run(self) -> None:
        """Take all steps, and look again from time to time; what fails is reported and tried again."""
        wait = FIRST_WAIT
        while True:
            try:
                finished = await self.finish()
            except DefinitionRefused as error:
                self._tell("Warning", "DefinitionRefused", str(error))
                finished, wait = False, LONGEST_WAIT  # a look reads all objects, and no time mends them
            except ApiError as error:
                self._tell("Warning", "DefinitionNotChanged", f"{error}; tried again in {wait:g} s")
                finished = False
            wait = LONGEST_WAIT if finished else min(2 * wait, LONGEST_WAIT)
            self.reporting.finished(self.wanted.name, finished)
            await anyio.sleep(wait * (0.5 + self.clock.random() / 2))

    async def finish(self) -> bool:
        """Take steps until none is left, or one has to be tried again later (false).

        Raises DefinitionRefused, and ApiError.
        """
        polls = 0
        while True:
            installed = await self._read()
            step = plan.next_step(self.wanted, installed, self._seen)
            polls = polls + 1 if isinstance(step, plan.Await) else 0
            if polls > POLLS and isinstance(step, plan.Await):
                self._tell("Warning", "DefinitionNotEstablished", step.what)
                return False
            if isinstance(step, plan.Finished) or (self._finished and _has_more(installed, step)):
                self._finished = True
                return True
            if isinstance(step, plan.Refused):
                raise DefinitionRefused(self.wanted.name, step.problem)
            if not await self._take(step, installed):
                return False

    async def _take(self, step: plan.Step, installed: Mapping[str, Any] | None) -> bool:
        """Whether the step was taken, or others took one meanwhile."""
        if isinstance(step, plan.Create):
            with suppress(AlreadyExists):
                await self._sender.send("POST", DEFINITIONS, bytes, body=msgspec.json.encode(step.body))
                self._tell("Normal", "DefinitionCreated", "created")
            return True
        assert installed is not None
        if isinstance(step, plan.Change):
            await self._prove(step, installed)
        with suppress(Conflict, NotFound):  # others changed the definition: it is read again
            return await self._advance(step, installed)
        return True

    async def _advance(self, step: plan.Step, installed: Mapping[str, Any]) -> bool:
        if isinstance(step, plan.Change):
            await self._change(step, installed)
        elif isinstance(step, plan.Probe):
            return await self._probe(step.version, installed)
        elif isinstance(step, plan.Migrate):
            return await self._migrate(step, installed)
        elif isinstance(step, plan.Record):
            await self._record(step.version, installed)
        else:
            await anyio.sleep(POLL)
        return True

    async def _prove(self, step: plan.Change, installed: Mapping[str, Any]) -> None:
        """Raise DefinitionRefused unless every stored object fits the definition after the step.

        The write that follows names the version of the definition that was read, so nothing else can have
        changed it. An object that is written between the two may fit the old definition alone: as after any
        update of a definition, it stays readable, and a field that it loses is in the store until its next
        write. A second look would not find that field, which servers no longer show.
        """
        proof = await prove(self._sender, installed, {**installed, "spec": step.spec})
        if not proof.is_safe:
            raise DefinitionRefused(self.wanted.name, proof.problem)
        if proof.read:
            _log.info("stored objects fit the definition", definition=self.wanted.name, read=proof.read)

    async def _change(self, step: plan.Change, installed: Mapping[str, Any]) -> None:
        changed = await self._put({**installed, "spec": step.spec})
        generation = plan.Installed(changed).generation
        if generation == plan.Installed(installed).generation:
            self._seen = evolve(self._seen, equal=generation)
            return
        self._tell("Normal", "DefinitionChanged", step.what)

    async def _probe(self, version: str, installed: Mapping[str, Any]) -> bool:
        resource = evolve(self.wanted.resource, version=version)
        try:
            await self._sender.send("GET", resource.path(), bytes, {"limit": "1"})
        except (ServerError, NotFound) as error:
            note = f"objects are not readable in {version} yet, so it is not stored: {error}"
            self._tell("Warning", "ConversionNotReady", note)
            return False
        self._seen = evolve(self._seen, converts=plan.Installed(installed).generation)
        return True

    async def _migrate(self, step: plan.Migrate, installed: Mapping[str, Any]) -> bool:
        await anyio.sleep(SETTLE if self.settle is None else self.settle)
        if not await self._by_server(step, installed):
            rewritten = await self._objects(installed).rewrite(step.drop)
            if rewritten.failed:
                self._tell_failures(step, rewritten)
                return False
            note = f"{rewritten.done} objects are stored in {step.version}"
            self._tell("Normal", "ObjectsMigrated", note)
        await self._mark(installed)
        return True

    async def _by_server(self, step: plan.Migrate, installed: Mapping[str, Any]) -> bool:
        """Whether the control plane rewrote the objects; it does not clean managedFields."""
        if step.drop:
            return False
        generation = plan.Installed(installed).generation
        migration = ServerMigration(self._sender, self.wanted.resource, generation)
        try:
            migrated = await migration.run()
        except Forbidden as error:
            _log.warning("the server may not be asked to migrate objects", error=str(error))
            return False
        if migrated:
            note = f"the control plane stored the objects in {step.version}"
            self._tell("Normal", "ObjectsMigrated", note)
        return migrated

    def _objects(self, installed: Mapping[str, Any]) -> StoredObjects:
        now = plan.Installed(installed)
        others = [name for name, one in now.versions.items() if one["served"] and name != now.stored]
        resource = evolve(self.wanted.resource, version=now.stored)
        has_status = "status" in (now.versions[now.stored].get("subresources") or {})
        return StoredObjects(self._sender, resource, has_status, others, self._progress)

    def _progress(self, rewritten: Rewritten) -> None:
        name = self.wanted.name
        _log.info("objects rewritten", definition=name, done=rewritten.done, failed=rewritten.failed)
        self.reporting.rewrote(name, rewritten.done, rewritten.failed)

    async def _mark(self, before: Mapping[str, Any]) -> None:
        """Note that all objects were rewritten, unless the definition was changed meanwhile."""
        found = await self._read()
        if found is None or found["metadata"]["uid"] != before["metadata"]["uid"]:
            return
        generation = plan.Installed(found).generation
        if generation != plan.Installed(before).generation:
            return
        metadata = found["metadata"]
        annotations = {**(metadata.get("annotations") or {}), plan.marker_of(found): str(generation)}
        await self._put({**found, "metadata": {**metadata, "annotations": annotations}})

    async def _record(self, version: str, installed: Mapping[str, Any]) -> None:
        status = {**installed["status"], "storedVersions": [version]}
        await self._put({**installed, "status": status}, "/status")
        self._tell("Normal", "StoredVersions", f"no object is stored in another version than {version}")

    async def _read(self) -> Mapping[str, Any] | None:
        try:
            found = await self._sender.send("GET", self.path, json_object)
        except NotFound:
            return None
        self._uid = found["metadata"].get("uid", "")
        return found

    async def _put(self, body: Mapping[str, Any], part: str = "") -> Mapping[str, Any]:
        encoded = msgspec.json.encode(body)
        return await self._sender.send("PUT", f"{self.path}{part}", json_object, body=encoded)

    def _tell_failures(self, step: plan.Migrate, rewritten: Rewritten) -> None:
        note = (
            f"{rewritten.failed} objects cannot be stored in {step.version}, so no version is dropped: "
            f"{'; '.join(rewritten.failures)}"
        )
        self._tell("Warning", "ObjectsNotMigrated", note)

    def _tell(self, kind: Literal["Normal", "Warning"], reason: str, note: str) -> None:
        name = self.wanted.name
        if kind == "Normal":
            _log.info("a definition goes on", definition=name, reason=reason, note=note)
        else:
            _log.warning("a definition does not go on", definition=name, reason=reason, note=note)
        self.reporting.report(Report(name, self._uid, kind, reason, note))


def _has_more(installed: Mapping[str, Any] | None, step: plan.Step) -> bool:
    """Whether the definition serves all that the classes need, and the step only takes from it."""
    if installed is None or not isinstance(step, plan.Change) or not step.serves:
        return False
    return plan.Installed(installed).is_established and only_narrows(
        installed, {**installed, "spec": step.spec}
    )
