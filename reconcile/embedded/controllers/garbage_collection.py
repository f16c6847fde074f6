"""What controllers do for every object: collect garbage, end namespaces and definitions."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import anyio

from informers.resource import Key
from reconcile.embedded.controllers.deletion_clearance import (
    DeletionClearance,
    Place,
    PlannedDeletion,
)
from reconcile.embedded.controllers.event_expiry import EVENTS, EventExpiry
from reconcile.embedded.controllers.foreign_owners import record_foreign_owner
from reconcile.embedded.controllers.namespace_conditions import set_content_failure
from reconcile.embedded.controllers.readability import Readability
from reconcile.embedded.engine import Engine
from reconcile.embedded.kinds.custom_definitions import set_condition
from reconcile.embedded.log import DEFINITIONS, NAMESPACES, StorageKey, Stored, StoredChange
from reconcile.embedded.protocol.api_failure import ApiFailure
from reconcile.embedded.protocol.object_metadata import StoredOwner
from reconcile.embedded.verbs.deletion import (
    CLEANUP,
    FOREGROUND,
    ORPHAN,
    DeleteOptions,
    Propagation,
    remove,
    remove_finished,
)

_DEPARTED = 500
"""How many deleted owners are kept: the size of the cache of absent owners in kube-controller-manager."""


class GarbageCollector:
    """Keeps the graph of owners and dependents. Changes queue objects to check; `settle` checks them."""

    def __init__(self, engine: Engine, readable: Readability, clearance: DeletionClearance) -> None:
        self._engine = engine
        self._readable = readable
        self._clearance = clearance
        self._unreadable: dict[Place, None] = {}
        self._places: dict[str, Place] = {}
        self._dependents: dict[str, dict[Place, None]] = {}
        self._to_check: dict[Place, None] = {}
        self._namespaces: dict[str, None] = {}
        self._definitions: dict[str, None] = {}
        self._events = EventExpiry(engine)
        self._departed: OrderedDict[str, None] = OrderedDict()
        self._unknown: dict[Place, None] = {}
        self._unknown_since = 0
        self._unmarked: set[Place] = set()
        self._woken: anyio.Event | None = None
        engine.log.on_change(self._note)

    def take_over(self, other: "GarbageCollector") -> None:
        """Copy the graph of `other`, of whose log this one has a copy."""
        self._places = dict(other._places)
        self._dependents = {uid: dict(places) for uid, places in other._dependents.items()}
        self._events.take_over(other._events)

    def resume(self, version: int) -> None:
        """Know that everything up to `version` was written by an earlier run."""
        self._events.resumed = version

    def wake(self) -> None:
        """Let `run` settle."""
        if self._woken is not None:
            self._woken.set()

    async def run(self, settle: Callable[[], None]) -> None:
        """Call `settle` after every change, and when something falls due, until cancelled."""
        while True:
            self._woken = anyio.Event()
            settle()
            with anyio.move_on_after(self._events.seconds_to_next()):
                await self._woken.wait()

    def settle(self) -> None:
        """Do all work that is due now, and what follows from it."""
        self._events.expire()
        self._look_again()
        while self._to_check or self._namespaces or self._definitions:
            while self._to_check:
                place = next(iter(self._to_check))
                del self._to_check[place]
                self._check(place)
            for name in list(self._definitions):
                del self._definitions[name]
                self._end_definition(name)
            for name in list(self._namespaces):
                del self._namespaces[name]
                self._end_namespace(name)
        self._readable.forget()
        self._clearance.forget()

    # --- from changes to work ---

    def _note(self, change: StoredChange) -> None:
        place = (change.resource, change.key)
        self._index(place, change.old, change.new)
        if change.new is None:
            self._note_removal(change)
        elif change.new.owners or change.new.deleting:
            self._to_check[place] = None
        if place in self._unmarked:
            self._unmarked.remove(place)
            self._look_above(change)
        if change.resource == NAMESPACES and change.new is not None and change.new.deleting:
            self._namespaces[change.key.name] = None
        if change.resource == DEFINITIONS and change.new is not None and change.new.deleting:
            self._definitions[change.key.name] = None
        self._events.note(change)
        self.wake()

    def _index(self, place: Place, old: Stored | None, new: Stored | None) -> None:
        before = old.owners if old is not None else ()
        after = new.owners if new is not None else ()
        if before is not after and before != after:
            for owner in before:
                dependents = self._dependents.get(owner.uid, {})
                dependents.pop(place, None)
                if not dependents:
                    self._dependents.pop(owner.uid, None)
            for owner in after:
                self._dependents.setdefault(owner.uid, {})[place] = None
        if old is not None and (new is None or new.uid != old.uid):
            self._places.pop(old.uid, None)
        if new is not None:
            self._places[new.uid] = place

    def _note_removal(self, change: StoredChange) -> None:
        assert change.old is not None
        dependents = self._dependents.get(change.old.uid, ())
        if dependents:
            self._departed[change.old.uid] = None
            if len(self._departed) > _DEPARTED:
                self._departed.popitem(last=False)
        for dependent in dependents:
            self._to_check[dependent] = None
        for owner in change.old.owners:
            if owner.uid in self._places:
                self._to_check[self._places[owner.uid]] = None
        self._look_above(change)

    def _look_above(self, change: StoredChange) -> None:
        """Go on with the end of the namespace or the definition of what has changed."""
        if self._is_terminating(NAMESPACES, change.key.namespace):
            self._namespaces[change.key.namespace] = None
        definition = f"{change.resource[1]}.{change.resource[0]}"
        if self._is_terminating(DEFINITIONS, definition):
            self._definitions[definition] = None

    def _is_terminating(self, resource: StorageKey, name: str) -> bool:
        stored = self._engine.log.get(resource, Key("", name))
        return stored is not None and stored.deleting

    # --- owners and dependents ---

    def _look_again(self) -> None:
        """Check again what could not be decided, if served kinds have changed or objects were converted."""
        self._to_check |= self._clearance.freed()
        served_changed = self._unknown_since != self._engine.registry.revision
        if served_changed:
            self._unknown_since = self._engine.registry.revision
            self._to_check |= self._unknown
            self._unknown.clear()
        if served_changed or self._readable.proven:
            self._to_check |= self._unreadable
            self._unreadable.clear()

    def _check(self, place: Place) -> None:
        stored = self._engine.log.get(*place)
        if stored is None:
            return
        if stored.deleting and place[0] == DEFINITIONS:
            self._definitions[place[1].name] = None
        elif stored.deleting and place[0] == NAMESPACES:
            self._namespaces[place[1].name] = None
        if (stored.owners or stored.finalizers) and not self._readable.allows(stored):
            self._unreadable[place] = None
        elif stored.deleting and ORPHAN in stored.finalizers:
            self._orphan_dependents(place, stored)
        elif stored.deleting and FOREGROUND in stored.finalizers:
            self._await_dependents(place, stored)
        elif stored.owners and not stored.deleting:
            self._check_owners(place, stored)

    def _check_owners(self, place: Place, stored: Stored) -> None:
        if not all(self._is_known(owner, place) for owner in stored.owners):
            self._unknown[place] = None
            return
        # The three groups and what follows from them are attemptToDeleteItem of kube-controller-manager.
        absent = [owner for owner in stored.owners if not self._is_present(owner, place)]
        for owner in absent:
            self._record_if_foreign(stored, owner)
        waiting = [owner for owner in stored.owners if owner not in absent and self._is_waiting(owner)]
        firm = len(stored.owners) - len(absent) - len(waiting)
        if firm and (absent or waiting):
            self._drop_owners(stored, {owner.uid for owner in (*absent, *waiting)})
        elif not firm:
            foreground = bool(waiting) and bool(self._dependents.get(stored.uid))
            propagation = "Foreground" if foreground else _policy_of(stored)
            self._delete(PlannedDeletion(stored, propagation), place)

    def _is_known(self, owner: StoredOwner, place: Place) -> bool:
        """Whether it can be decided that the owner exists; if not, nothing is collected.

        Its kind must be served, unless its deletion was seen; and a cluster-wide object cannot have an owner
        in a namespace.
        """
        group, _, version = owner.api_version.rpartition("/")
        resource = self._engine.registry.by_kind(group, owner.kind, version)
        if resource is not None and resource.namespaced and not place[1].namespace:
            stored = self._engine.log.get(*place)
            if stored is not None:
                record_foreign_owner(self._engine, stored, owner)
            return False
        return resource is not None or owner.uid in self._departed

    def _is_present(self, owner: StoredOwner, place: Place) -> bool:
        """Whether an owner of this uid, kind and name exists, cluster-wide or in the object's namespace."""
        found = self._places.get(owner.uid)
        stored = None if found is None else self._engine.log.get(*found)
        if found is None or stored is None:
            return False
        resource, key = found
        kind = (stored.encoded_by.group, stored.encoded_by.kind)
        same_kind = resource == EVENTS or kind == (owner.api_version.rpartition("/")[0], owner.kind)
        return same_kind and key.name == owner.name and key.namespace in ("", place[1].namespace)

    def _record_if_foreign(self, stored: Stored, owner: StoredOwner) -> None:
        found = self._places.get(owner.uid)
        if found is not None and found[1].namespace not in ("", stored.key.namespace):
            record_foreign_owner(self._engine, stored, owner)

    def _is_waiting(self, owner: StoredOwner) -> bool:
        stored = self._engine.log.get(*self._places[owner.uid])
        return stored is not None and stored.deleting and FOREGROUND in stored.finalizers

    def _await_dependents(self, place: Place, owner: Stored) -> None:
        for dependent in list(self._dependents.get(owner.uid, ())):
            stored = self._engine.log.get(*dependent)
            if stored is not None and not stored.deleting:
                self._check_owners(dependent, stored)
        remaining = [self._engine.log.get(*dependent) for dependent in self._dependents.get(owner.uid, ())]
        owners = [reference for stored in remaining if stored is not None for reference in stored.owners]
        if not any(reference.blocking and reference.uid == owner.uid for reference in owners):
            self._drop_finalizer(place, FOREGROUND)

    def _orphan_dependents(self, place: Place, owner: Stored) -> None:
        for dependent in list(self._dependents.get(owner.uid, ())):
            stored = self._engine.log.get(*dependent)
            if stored is not None:
                self._drop_owners(stored, {owner.uid})
        self._drop_finalizer(place, ORPHAN)

    def _drop_owners(self, stored: Stored, uids: set[str]) -> None:
        obj = stored.decode()
        metadata = obj["metadata"]
        kept = [owner for owner in metadata["ownerReferences"] if owner.get("uid") not in uids]
        _keep(metadata, "ownerReferences", kept)
        self._engine.put_if_it_fits(stored.encoded_by, obj)

    def _drop_finalizer(self, place: Place, finalizer: str) -> None:
        stored = self._engine.log.get(*place)
        if stored is None or finalizer not in stored.finalizers:
            return
        obj = stored.decode()
        _keep(obj["metadata"], "finalizers", [name for name in stored.finalizers if name != finalizer])
        self._put_or_remove(stored, obj)

    def _put_or_remove(self, stored: Stored, obj: dict[str, Any]) -> None:
        if self._engine.is_finished(stored.encoded_by, obj):
            remove_finished(self._engine, stored.encoded_by, stored.key)
        else:
            self._engine.put_if_it_fits(stored.encoded_by, obj)

    def _delete(self, planned: PlannedDeletion, place: Place) -> None:
        """Delete it, or look at `place` again once admission allows that."""
        if self._clearance.allows(planned, place):
            self._remove(planned.stored, DeleteOptions(propagation=planned.propagation))

    def _remove(self, stored: Stored, options: DeleteOptions) -> None:
        """Delete it, unless it has no room for the marks of its deletion: then its next change counts."""
        try:
            remove(self._engine, stored.encoded_by, stored, options)
        except ApiFailure:
            self._unmarked.add((stored.encoded_by.storage_key, stored.key))

    # --- namespaces and definitions ---

    def _end_namespace(self, name: str) -> None:
        unreadable = [key for key in self._engine.log.resources() if not self._can_list(key)]
        for resource in self._engine.log.resources():
            if resource not in unreadable:
                self._delete_all(resource, name)
        place = (NAMESPACES, Key("", name))
        stored = self._engine.log.get(*place)
        if stored is None or not stored.deleting:
            return
        namespace = stored.decode()
        if unreadable:
            self._unreadable[place] = None
            names = [f"{plural}.{group}" for group, plural in unreadable]
            set_content_failure(namespace, names, self._engine.now())
            if namespace != stored.decode():
                self._engine.put_if_it_fits(stored.encoded_by, namespace)
            return
        if self._has_content(name):
            return
        finalizers = (namespace.get("spec") or {}).get("finalizers") or []
        if "kubernetes" not in finalizers:
            return
        _keep(namespace["spec"], "finalizers", [name for name in finalizers if name != "kubernetes"])
        self._put_or_remove(stored, namespace)

    def _can_list(self, resource: StorageKey, *, in_storage: bool = False) -> bool:
        """Whether all objects of a resource can be read: one that cannot fails the lists of any namespace."""
        objects = self._engine.log.snapshot(resource)
        if not objects or not objects[0].encoded_by.custom:
            return True
        # All are asked, so that they are converted together.
        return not [stored for stored in objects if not self._readable.allows(stored, in_storage=in_storage)]

    def _has_content(self, namespace: str) -> bool:
        log = self._engine.log
        return any(
            stored.key.namespace == namespace
            for resource in log.resources()
            for stored in log.snapshot(resource)
        )

    def _end_definition(self, name: str) -> None:
        stored = self._engine.log.get(DEFINITIONS, Key("", name))
        if stored is None or CLEANUP not in stored.finalizers:
            return
        plural, _, group = name.partition(".")
        if not self._can_list((group, plural), in_storage=True):
            self._unreadable[DEFINITIONS, stored.key] = None
            return
        self._delete_all((group, plural))
        if self._engine.log.count((group, plural)):
            self._mark_instances_ending(stored)
        else:
            self._drop_finalizer((DEFINITIONS, stored.key), CLEANUP)

    def _mark_instances_ending(self, stored: Stored) -> None:
        definition = stored.decode()
        status = definition.setdefault("status", {})
        conditions = {condition["type"]: condition for condition in status.get("conditions") or ()}
        if conditions.get("Terminating", {}).get("status") == "True":
            return
        why = ("InstanceDeletionInProgress", "CustomResource deletion is in progress")
        set_condition(conditions, "Terminating", "True", *why, self._engine.now())
        status["conditions"] = list(conditions.values())
        self._engine.put_if_it_fits(stored.encoded_by, definition)

    def _delete_all(self, resource: StorageKey, namespace: str | None = None) -> None:
        for stored in list(self._engine.log.snapshot(resource)):
            if namespace in (None, stored.key.namespace) and not stored.deleting:
                self._remove(stored, DeleteOptions())


def _keep(holder: dict[str, Any], member: str, kept: list[Any]) -> None:
    holder[member] = kept
    if not kept:
        del holder[member]


def _policy_of(stored: Stored) -> Propagation:
    if ORPHAN in stored.finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in stored.finalizers else "Background"
