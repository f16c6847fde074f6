"""Which custom resources the controllers can read: those that are converted to the version they read."""

from attrs import define, field, frozen

from reconcile.embedded.engine import Engine
from reconcile.embedded.log import StorageKey, Stored
from reconcile.embedded.served import ServedResource
from reconcile.embedded.stored_forms import CONVERSION_FAILURES, kept_version, shown_object


@frozen
class _Reading:
    """An object as one version of its resource shows it."""

    stored: Stored
    resource: ServedResource
    api_version: str


@define(eq=False)
class Readability:
    """Controllers of a cluster read the preferred version, and one object that has none fails them.

    `allows` notes what has to be converted first, and `prove` awaits that. A proof counts until `forget`,
    since a real server converts each time.
    """

    _engine: Engine
    _asked: dict[_Reading, None] = field(factory=dict, init=False)
    _proven: set[_Reading] = field(factory=set, init=False)

    @property
    def pending(self) -> bool:
        """Whether something has to be converted that could not be yet."""
        return bool(self._asked)

    @property
    def proven(self) -> bool:
        return bool(self._proven)

    def allows(self, stored: Stored, *, in_storage: bool = False) -> bool:
        """Whether the object can be read, in the preferred version or in the storage version."""
        if not stored.encoded_by.custom:
            return True
        resource = self._preferred(stored)
        if resource is None:
            return True
        target = (resource.storage_api_version if in_storage else "") or resource.api_version
        version = kept_version(stored)
        if version == target:
            return True
        if version not in resource.versions:
            return False
        reading = _Reading(stored, resource, target)
        if resource.conversion is None or reading in self._proven:
            return True
        self._asked[reading] = None
        return False

    def _preferred(self, stored: Stored) -> ServedResource | None:
        return self._engine.registry.by_kind(stored.encoded_by.group, stored.encoded_by.kind)

    def resources(self) -> set[StorageKey]:
        """The resources with something to convert."""
        return {reading.resource.storage_key for reading in self._asked}

    async def prove(self, resource: StorageKey) -> bool:
        """Convert what was asked for of a resource, and return whether any of it could be converted.

        What cannot be converted stays pending while it is stored.
        """
        proven: list[_Reading] = []
        for reading in [one for one in self._asked if one.resource.storage_key == resource]:
            try:
                if self._is_current(reading):
                    await shown_object(reading.resource, reading.stored.decode(), reading.api_version)
                    proven.append(reading)
            except CONVERSION_FAILURES:
                continue
            self._asked.pop(reading, None)
        self._proven |= set(proven)
        return bool(proven)

    def _is_current(self, reading: _Reading) -> bool:
        stored, resource = reading.stored, reading.resource
        unchanged = self._engine.log.get(resource.storage_key, stored.key) is stored
        return unchanged and self._preferred(stored) is resource

    def forget(self) -> None:
        self._proven.clear()
