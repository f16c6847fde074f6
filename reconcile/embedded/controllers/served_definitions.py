"""Keeps what is served in step with the CustomResourceDefinitions that are stored."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from informers.resource import Key
from reconcile.embedded.engine import Engine
from reconcile.embedded.kinds.custom_definitions import accepted_status, name_conflict, resources_of
from reconcile.embedded.log import DEFINITIONS, Stored, StoredChange
from reconcile.embedded.served import ServedResource


class Definitions:
    """`sync` serves changed definitions; `on_replaced` gets the resources that are no longer served."""

    def __init__(self, engine: Engine, on_replaced: Callable[[Sequence[ServedResource]], None]) -> None:
        self._engine = engine
        self._on_replaced = on_replaced
        self._changed: dict[str, None] = {}
        self._serving: dict[str, tuple[str, int]] = {}
        self._versions: dict[str, Any] = {}
        engine.log.on_change(self._note)

    def take_over(self, other: "Definitions") -> None:
        self._serving = dict(other._serving)
        self._versions = dict(other._versions)

    def resume(self, definitions: Iterable[Stored]) -> None:
        """Serve the definitions that an earlier run served, before their objects are there."""
        decoded = [(stored, stored.decode()) for stored in definitions]
        # Of two that want the same names, the one that had them keeps them.
        for stored, definition in sorted(decoded, key=lambda one: not _accepted(one[1])):
            if not name_conflict(definition, self._engine.registry):
                self._define(stored, definition)

    def _note(self, change: StoredChange) -> None:
        if change.resource == DEFINITIONS:
            self._changed[change.key.name] = None

    def sync(self) -> None:
        while self._changed:
            name = next(iter(self._changed))
            del self._changed[name]
            stored = self._engine.log.get(DEFINITIONS, Key("", name))
            if stored is None:
                self._withdraw(name)
            else:
                self._serve(name, stored)

    def follow(self) -> None:
        """Serve what is stored now, after changes were taken back; `sync` does the rest when it can write."""
        for name in self._changed:
            stored = self._engine.log.get(DEFINITIONS, Key("", name))
            if stored is None:
                self._serving.pop(name, None)
                self._versions.pop(name, None)
                self._on_replaced(self._engine.registry.define(name, ()))
                continue
            definition = stored.decode()
            serves = self._serving.get(name) == _state(stored, definition)
            if not serves and not name_conflict(definition, self._engine.registry):
                self._define(stored, definition)

    def _withdraw(self, name: str) -> None:
        self._serving.pop(name, None)
        self._versions.pop(name, None)
        self._on_replaced(self._engine.registry.define(name, ()))
        for other in self._engine.log.snapshot(DEFINITIONS):
            if other.key.name not in self._serving:
                self._changed[other.key.name] = None

    def _serve(self, name: str, stored: Stored) -> None:
        definition = stored.decode()
        conflict = name_conflict(definition, self._engine.registry)
        self._write_status(stored, definition, conflict)
        if conflict:
            return
        if (
            stored.deleting
            and name in self._serving
            and self._versions[name] == definition["spec"]["versions"]
        ):
            return
        if self._serving.get(name) != _state(stored, definition):
            self._define(stored, definition)

    def _define(self, stored: Stored, definition: dict[str, Any]) -> None:
        name = stored.key.name
        self._serving[name] = _state(stored, definition)
        self._versions[name] = definition["spec"]["versions"]
        resources = resources_of(definition, self._engine.converter)
        self._on_replaced(self._engine.registry.define(name, resources))

    def _write_status(self, stored: Stored, definition: dict[str, Any], conflict: str) -> None:
        status = accepted_status(definition, conflict, self._engine.now())
        if status != definition.get("status"):
            self._engine.put_if_it_fits(stored.encoded_by, {**definition, "status": status})


def _state(stored: Stored, definition: dict[str, Any]) -> tuple[str, int]:
    return stored.uid, definition["metadata"].get("generation", 1)


def _accepted(definition: dict[str, Any]) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "NamesAccepted" and one["status"] == "True" for one in conditions)
