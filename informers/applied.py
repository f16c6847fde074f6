"""What field managers applied to an object: 15 bytes for each, computed when the object arrives.

The fields that `metadata.managedFields` gives a manager, with their stored values, are what it applied last:
while they equal an intent, applying it changes nothing. A store keeps a digest of them, for comparison within
one process, since managedFields are larger than many objects. No schema is needed: a member with nothing
below it is owned as a whole (scalars, atomic maps and lists), `k:` and `v:` name owned items.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from informers.apimachinery.server_fields import SET_BY_EVERY_WRITE

_TAG = 4
_DIGEST = 11
MARK = _TAG + _DIGEST
"""Bytes of one mark: with the head of a bytes object 48, which still fits a block of the allocator."""
NOTHING = bytes(_DIGEST)
"""Stands in for a digest if the manager owns no field by apply."""

_NOT_OWNED = ("apiVersion", "kind")
_NOT_OWNED_METADATA = ("name", "namespace")
"""Servers leave these out of field sets; intents have them."""
_BESIDE = "\0"
"""The name under which the surroundings of an absent owned field are kept; no member is called that."""


class _ManagedFields(msgspec.Struct, rename="camel"):
    manager: str = ""
    operation: str = ""
    api_version: str = ""
    subresource: str = ""
    fields_v1: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"{}"), name="fieldsV1")


_entries = msgspec.json.Decoder(list[_ManagedFields] | None)
_anything = msgspec.json.Decoder()
_encode = msgspec.json.Encoder(order="deterministic").encode


class Appliers:
    """The field managers of this process whose applies to objects of one API version are marked.

    An apply in another API version equals no intent: its paths belong to another schema.
    """

    def __init__(self, api_version: str, managers: Iterable[str] = ()) -> None:
        self.api_version = api_version
        self._late: set[str] = set()
        self._names: dict[str, bytes] = {}
        for manager in managers:
            self.add(manager)

    def add(self, manager: str, *, late: bool = False) -> None:
        """Mark what this manager applies from now on. `late`: objects arrived before that were not marked."""
        self._names[manager] = msgspec.json.encode(manager)
        if late:
            self._late.add(manager)

    def __contains__(self, manager: str) -> bool:
        return manager in self._names

    def saw_all(self, manager: str) -> bool:
        """Whether a missing mark of the manager proves that it owns nothing of an object by apply."""
        return manager in self._names and manager not in self._late

    def marks(self, raw: bytes, managed_fields: bytes) -> bytes:
        """The marks of an object, concatenated; `managed_fields` is the JSON text of its managedFields.

        Empty if they cannot be read. The mark of an unreadable entry equals that of no intent.
        """
        if b'"Apply"' not in managed_fields or not any(
            name in managed_fields for name in self._names.values()
        ):
            return b""
        try:
            entries = [entry for entry in _entries.decode(managed_fields) or () if self._is_wanted(entry)]
            if not entries:
                return b""
            obj = _anything.decode(raw)
            return b"".join(self._mark_of(entry, obj) for entry in entries)
        except msgspec.DecodeError:
            return b""

    def _is_wanted(self, entry: _ManagedFields) -> bool:
        return entry.operation == "Apply" and entry.manager in self._names

    def _mark_of(self, entry: _ManagedFields, obj: dict[str, Any]) -> bytes:
        if entry.api_version != self.api_version:
            return _mark(entry.manager, entry.subresource, {_BESIDE: entry.api_version})
        try:
            owned = _owned_part(entry, obj)
        except (msgspec.DecodeError, AttributeError, TypeError, IndexError):
            owned = {_BESIDE: obj}
        return _mark(entry.manager, entry.subresource, owned)


def mark_of_intent(manager: str, subresource: str, intent: Mapping[str, Any]) -> bytes:
    """The mark of an object of which a manager owns exactly what an intent says, with those values."""
    owned = dict(intent)
    for name in _NOT_OWNED:
        owned.pop(name, None)
    metadata = dict(owned.pop("metadata", None) or {})
    for name in _NOT_OWNED_METADATA:
        metadata.pop(name, None)
    if metadata:
        owned["metadata"] = metadata
    return _mark(manager, subresource, owned)


def mark_in(marks: bytes, mark: bytes) -> bytes:
    """The mark among those of an object that has the manager of `mark`; one with NOTHING if none has."""
    tag = mark[:_TAG]
    for start in range(0, len(marks), MARK):
        if marks[start : start + _TAG] == tag:
            return marks[start : start + MARK]
    return tag + NOTHING


def same_manager(one: bytes, other: bytes) -> bool:
    """Whether two marks have the same manager and subresource."""
    return one[:_TAG] == other[:_TAG]


def with_marks(marks: bytes, newer: bytes) -> bytes:
    tags = {newer[start : start + _TAG] for start in range(0, len(newer), MARK)}
    kept = [marks[start : start + MARK] for start in range(0, len(marks), MARK)]
    return b"".join(mark for mark in kept if mark[:_TAG] not in tags) + newer


def _owned_part(entry: _ManagedFields, obj: dict[str, Any]) -> dict[str, Any]:
    fields = _anything.decode(entry.fields_v1)
    metadata = {name: value for name, value in obj["metadata"].items() if name not in SET_BY_EVERY_WRITE}
    claimed = fields.get("f:metadata") or {}
    # Labels and annotations of every kind are owned one by one: claimed as a whole they are claimed empty.
    metadata |= {name: {} for name in ("labels", "annotations") if claimed.get(f"f:{name}") == {}}
    beside = {
        name: value
        for name, value in obj.items()
        if name not in ("apiVersion", "kind", "metadata") and (name != "status" or entry.subresource)
    }
    return _members(fields, {**obj, "metadata": metadata}, beside)


def _mark(manager: str, subresource: str, owned: Mapping[str, Any]) -> bytes:
    tag = _tag(manager, subresource)
    if not owned:
        return tag + NOTHING
    return tag + hashlib.blake2b(_encode(owned), digest_size=_DIGEST).digest()


@lru_cache(maxsize=1024)
def _tag(manager: str, subresource: str) -> bytes:
    return hashlib.blake2b(f"{manager}\0{subresource}".encode(), digest_size=_TAG).digest()


# --- the owned part of an object --------------------------------------------------------------------


def _owned(fields: Mapping[str, Any], live: Any) -> Any:
    if not fields:
        return live
    if isinstance(live, dict):
        return _members(fields, live, live)
    if isinstance(live, list) and all(element[:2] in (".", "k:", "v:") for element in fields):
        return _items(fields, live)
    return {_BESIDE: live}  # another writer has put a value of another type there


def _members(fields: Mapping[str, Any], live: Mapping[str, Any], beside: Mapping[str, Any]) -> dict[str, Any]:
    """The owned members of a map. `beside` stands in for an absent one.

    A server may store a value under another name (stringData of a Secret) or omit it (null, a default false):
    then a change of anything beside it may be a change of the value.
    """
    owned: dict[str, Any] = {}
    for element, below in fields.items():
        name = element[2:]
        if element == ".":
            continue
        if name in live:
            owned[name] = _owned(below, live[name])
        else:
            owned[_BESIDE] = beside
    return owned


def _items(fields: Mapping[str, Any], live: list[Any]) -> list[Any]:
    """The owned items of a keyed list or a set, in the order of the list, which an apply sets too."""
    wanted = [(element[2:], below) for element, below in fields.items() if element != "."]
    keyed = any(element.startswith("k:") for element in fields)
    names: Sequence[str] = sorted(_anything.decode(wanted[0][0])) if keyed else ()
    below_of = {_identity(_anything.decode(text), names): below for text, below in wanted}
    found = [(_identity(item, names), item) for item in live]
    owned = [_owned(below_of[identity], item) for identity, item in found if identity in below_of]
    # What cannot be found again (an item whose key was left to a default) makes it differ from every intent.
    return owned if len(owned) == len(below_of) else [*owned, {_BESIDE: live}]


def _identity(item: Any, names: Sequence[str]) -> bytes:
    return _encode([item.get(name) for name in names] if names else item)
