"""Admission of the deletions of garbage."""

import anyio
import msgspec
from attrs import define, field, frozen

from informers.resource import Key
from reconcile.embedded.api import ApiRequest
from reconcile.embedded.auth import service_account
from reconcile.embedded.engine import Engine
from reconcile.embedded.log import StorageKey, Stored
from reconcile.embedded.protocol.api_failure import ApiFailure
from reconcile.embedded.stored_forms import shown
from reconcile.embedded.verbs.admitting import deletion_attributes
from reconcile.embedded.verbs.deletion import DeleteOptions, Propagation

Place = tuple[StorageKey, Key]

GARBAGE_COLLECTOR = service_account("kube-system", "generic-garbage-collector")

# Seconds after which a refused deletion is tried again, at first and at most; a real server's queue waits up
# to 1,000.
FIRST_RETRY = 0.005
MAX_RETRY = 5.0


@frozen
class PlannedDeletion:
    """One state of an object that a controller is about to delete."""

    stored: Stored
    propagation: Propagation | None

    @property
    def options(self) -> DeleteOptions:
        return DeleteOptions(
            propagation=self.propagation, uid=self.stored.uid, version=str(self.stored.version)
        )


@frozen
class _Refused:
    until: float  # on the clock of the event loop
    delay: float


@define(eq=False)
class DeletionClearance:
    """Deletions of the garbage collector pass policies and webhooks, as in a cluster.

    `allows` notes what has to be asked first, and `ask` awaits the answers. One that is refused is asked
    about again, ever later. An answer counts for one state of an object.
    """

    _engine: Engine
    _asked: dict[PlannedDeletion, Place] = field(factory=dict, init=False)
    _granted: set[PlannedDeletion] = field(factory=set, init=False)
    _freed: dict[Place, None] = field(factory=dict, init=False)
    _refused: dict[PlannedDeletion, _Refused] = field(factory=dict, init=False)
    noted: int = field(default=0, init=False)
    """How many deletions were noted ever."""

    @property
    def pending(self) -> bool:
        """Whether a deletion waits for an answer, or was refused."""
        return bool(self._asked)

    def allows(self, planned: PlannedDeletion, place: Place) -> bool:
        """Whether the deletion may be made now; if not, `place` is to be looked at again once it may."""
        phases = self._engine.phases
        if planned in self._granted or not (phases.mutates or phases.validates):
            return True
        self.noted += planned not in self._asked
        self._asked[planned] = place
        return False

    def seconds(self) -> float:
        """Until something is to be asked about; it must be `pending`."""
        return max(0.0, min(map(self._due, self._asked)) - anyio.current_time())

    def _due(self, planned: PlannedDeletion) -> float:
        refused = self._refused.get(planned)
        return refused.until if refused is not None else 0.0

    def resources(self) -> set[StorageKey]:
        """The resources of which something is to be deleted."""
        return {planned.stored.encoded_by.storage_key for planned in self._asked}

    async def ask(self, resource: StorageKey) -> bool:
        """Ask about all that waits of a resource, at once; whether there is something to look at again."""
        async with anyio.create_task_group() as group:
            now = anyio.current_time()
            for planned in list(self._asked):
                if planned.stored.encoded_by.storage_key == resource and self._due(planned) <= now:
                    group.start_soon(self._ask, planned)
        return bool(self._freed)

    async def _ask(self, planned: PlannedDeletion) -> None:
        try:
            if self._is_current(planned):
                await self._admit(planned)
                self._granted.add(planned)
        except ApiFailure:
            before = self._refused.get(planned)
            delay = FIRST_RETRY if before is None else min(before.delay * 2, MAX_RETRY)
            self._refused[planned] = _Refused(anyio.current_time() + delay, delay)
            return
        self._refused.pop(planned, None)
        place = self._asked.pop(planned, None)
        if place is not None:
            self._freed[place] = None

    def freed(self) -> dict[Place, None]:
        """The places to look at again."""
        freed, self._freed = self._freed, {}
        return freed

    def _is_current(self, planned: PlannedDeletion) -> bool:
        stored = planned.stored
        return self._engine.log.get(stored.encoded_by.storage_key, stored.key) is stored

    async def _admit(self, planned: PlannedDeletion) -> None:
        """Raises ApiFailure if it is refused, or cannot be shown in the preferred version."""
        stored, phases = planned.stored, self._engine.phases
        kept = stored.encoded_by
        resource = self._engine.registry.by_kind(kept.group, kept.kind) or kept
        old, options = msgspec.json.decode(await shown(stored, resource)), planned.options.document()
        request = ApiRequest("DELETE", "", user=GARBAGE_COLLECTOR)
        attributes = deletion_attributes(request, resource, old, options, named=True)
        await phases.mutate(attributes)
        await phases.validate(attributes)

    def forget(self) -> None:
        """Drop answers about states that are no more."""
        if self._granted:
            self._granted = set(filter(self._is_current, self._granted))
        if self._refused:
            self._refused = {one: refused for one, refused in self._refused.items() if one in self._asked}
