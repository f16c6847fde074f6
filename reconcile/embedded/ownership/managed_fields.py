"""managedFields, as the API server keeps them."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec
from attrs import field, frozen

from reconcile.embedded.ownership.field_sets import FieldSet, field_element

APPLY: Final = "Apply"
UPDATE: Final = "Update"
# Entries with operation Update that an object keeps; older ones are merged (DefaultMaxUpdateManagers).
MAX_UPDATERS: Final = 10
_ANCIENT: Final = "ancient-changes"
_UNTRACKED_METADATA: Final = (
    "clusterName",
    "creationTimestamp",
    "generation",
    "managedFields",
    "name",
    "namespace",
    "resourceVersion",
    "selfLink",
    "uid",
)
UNTRACKED: Final = FieldSet.of(
    (field_element("apiVersion"),),
    (field_element("kind"),),
    (field_element("metadata"),),
    *((field_element("metadata"), field_element(name)) for name in _UNTRACKED_METADATA),
)
"""Fields of the server, which no manager owns."""


@frozen(cache_hash=True)
class FieldManager:
    """The identity of an entry of managedFields.

    `api_version` is empty for Apply: an applier has one entry, whichever version it speaks.
    """

    name: str
    operation: str
    api_version: str
    subresource: str = ""


@frozen
class Ownership:
    """The fields that a manager owns, and the version and time of the write that set them.

    `time` is empty if the manager has never changed anything.
    """

    fields: FieldSet
    api_version: str
    time: str = ""
    stored: Mapping[str, Any] | None = field(default=None, eq=False)
    """The entry of managedFields that this was read from."""

    def with_fields(self, fields: FieldSet) -> "Ownership":
        return self if fields is self.fields else Ownership(fields, self.api_version, self.time)


FieldManagers = Mapping[FieldManager, Ownership]


@lru_cache(maxsize=1024)
def manager_for(name: str, operation: str, api_version: str, subresource: str) -> FieldManager:
    return FieldManager(name, operation, "" if operation == APPLY else api_version, subresource)


def decode(entries: Any) -> FieldManagers:
    """Read `metadata.managedFields`. Raises ValueError if the API server could not have written it."""
    if not isinstance(entries, list):
        raise ValueError("managedFields must be a list")
    return dict(_decode_entry(entry) for entry in entries)


def _decode_entry(entry: Any) -> tuple[FieldManager, Ownership]:
    if not isinstance(entry, dict) or entry.get("operation") not in (APPLY, UPDATE):
        raise ValueError("an entry of managedFields must have operation Apply or Update")
    if entry.get("fieldsType") != "FieldsV1":
        raise ValueError("an entry of managedFields must have fieldsType FieldsV1")
    api_version = entry.get("apiVersion", "")
    manager = manager_for(
        entry.get("manager", ""), entry["operation"], api_version, entry.get("subresource", "")
    )
    fields = _read_fields(msgspec.json.encode(entry.get("fieldsV1") or {}))
    return manager, Ownership(fields, api_version, entry.get("time") or "", entry)


@lru_cache(maxsize=1024)
def _read_fields(text: bytes) -> FieldSet:
    """Cached, since most writes have the same sets as the one before."""
    return FieldSet.from_json(msgspec.json.decode(text))


def encode(managers: FieldManagers) -> list[dict[str, Any]]:
    """`metadata.managedFields`, ordered by operation, time, manager and version."""
    return [_encode_entry(manager, ownership) for manager, ownership in sorted(managers.items(), key=_rank)]


def _rank(item: tuple[FieldManager, Ownership]) -> tuple[str, ...]:
    manager, owned = item
    return manager.operation, owned.time, manager.name, owned.api_version, manager.subresource


def _encode_entry(manager: FieldManager, ownership: Ownership) -> dict[str, Any]:
    if ownership.stored is not None:
        return dict(ownership.stored)
    entry: dict[str, Any] = {
        "manager": manager.name,
        "operation": manager.operation,
        "apiVersion": ownership.api_version,
        "time": ownership.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": ownership.fields.to_json(),
        "subresource": manager.subresource,
    }
    return {name: value for name, value in entry.items() if value or name == "fieldsV1"}


def tracked_part(obj: Mapping[str, Any]) -> dict[str, Any]:
    """An object without the fields of the server."""
    part = {name: value for name, value in obj.items() if name not in ("apiVersion", "kind")}
    metadata = part.pop("metadata", None) or {}
    if kept := {name: value for name, value in metadata.items() if name not in _UNTRACKED_METADATA}:
        part["metadata"] = kept
    return part


def tracked(managers: FieldManagers) -> FieldManagers:
    """The managers without the fields of the server, and without managers that then own nothing."""
    return released(managers, UNTRACKED, keeper=None)


def released(managers: FieldManagers, fields: FieldSet, keeper: FieldManager | None) -> FieldManagers:
    """The managers after all but `keeper` lose these fields, without managers that then own nothing."""
    left: dict[FieldManager, Ownership] = {}
    for manager, ownership in managers.items():
        kept = ownership.fields if manager == keeper else ownership.fields.difference(fields)
        if kept:
            left[manager] = ownership.with_fields(kept)
    return left


def capped(managers: FieldManagers) -> FieldManagers:
    """At most `MAX_UPDATERS` updaters: the oldest of each version are merged into one entry."""
    if len(managers) <= MAX_UPDATERS:
        return managers
    updaters = [(manager, owned) for manager, owned in managers.items() if manager.operation == UPDATE]
    updaters.sort(key=lambda item: (item[1].time, item[0].name))
    result = dict(managers)
    surplus = len(updaters) - MAX_UPDATERS
    first_of: dict[str, FieldManager] = {}
    for manager, ownership in updaters:
        if surplus <= 0:
            break
        bucket = FieldManager(_ANCIENT, UPDATE, ownership.api_version)
        first = first_of.setdefault(ownership.api_version, manager)
        if first == manager:
            continue
        if bucket not in result:
            result[bucket] = result.pop(first)
        if manager != bucket:
            del result[manager]
        merged = result[bucket].fields.union(ownership.fields)
        result[bucket] = Ownership(merged, ownership.api_version, ownership.time)
        surplus -= 1
    return result


def is_owned(entries: Any, path: Sequence[str]) -> bool:
    """Whether any manager owns the field, given by the elements of its path."""
    for entry in entries or ():
        fields = entry.get("fieldsV1") or {}
        for element in path:
            fields = fields.get(element) if isinstance(fields, dict) else None
        if fields is not None:
            return True
    return False


def disowned(entries: Any, path: Sequence[str]) -> list[dict[str, Any]]:
    """The entries without the owners of a field."""
    return encode(released(decode(entries), FieldSet.of(path), keeper=None))


def owned_by_all(managers: FieldManagers) -> FieldSet:
    """The fields that any manager owns."""
    result = FieldSet()
    for ownership in managers.values():
        result = result.union(ownership.fields)
    return result
