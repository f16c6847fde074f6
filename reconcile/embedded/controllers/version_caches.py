"""Converts objects for the caches of the versions that they are not stored in, once for each change.

A real server has a cache for each served version, filled as objects are written and when a definition has
changed. Lists and watches are answered from it, also while the webhook is down.
"""

from collections.abc import Callable

from informers.resource import Key
from reconcile.embedded.engine import Engine
from reconcile.embedded.log import StorageKey, Stored, StoredChange
from reconcile.embedded.served import ServedResource
from reconcile.embedded.stored_forms import CONVERSION_FAILURES, shown


class VersionCaches:
    """`warm` converts what has been noted; `on_warm` is called with a resource whose watches may go on."""

    def __init__(self, engine: Engine, on_warm: Callable[[StorageKey], None]) -> None:
        self._engine = engine
        self._on_warm = on_warm
        self._cold: dict[StorageKey, dict[Key, None]] = {}
        self._revision = -1
        engine.log.on_shown(self._note)

    def _note(self, change: StoredChange) -> None:
        new = change.new
        if new is not None and new.encoded_by.custom and self._converting(new.encoded_by):
            self._cold.setdefault(change.resource, {})[change.key] = None

    def _converting(self, resource: ServedResource) -> bool:
        first = self._engine.registry.by_kind(resource.group, resource.kind)
        return first is not None and first.conversion is not None

    def resources(self) -> set[StorageKey]:
        """The resources with objects that have not been converted."""
        registry = self._engine.registry
        if self._revision != registry.revision:
            self._revision = registry.revision
            for key in {one.storage_key for one in registry if one.conversion is not None}:
                found = self._engine.log.snapshot(key)
                self._cold.setdefault(key, {}).update((stored.key, None) for stored in found)
        return {resource for resource, cold in self._cold.items() if cold}

    async def warm(self, resource: StorageKey) -> None:
        """Convert the objects of a resource up to the first that cannot be converted."""
        cold = self._cold.get(resource, {})
        warmed = False
        try:
            for key in list(cold):
                stored = self._engine.log.get(resource, key)
                if stored is not None:
                    await self._show(stored, resource)
                    warmed = True
                if stored is self._engine.log.get(resource, key):
                    cold.pop(key, None)
        except CONVERSION_FAILURES:
            return
        finally:
            if warmed:
                self._on_warm(resource)

    async def _show(self, stored: Stored, resource: StorageKey) -> None:
        for version in self._engine.registry:
            if version.storage_key == resource and version.conversion is not None:
                await shown(stored, version)
