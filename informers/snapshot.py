"""One object at one version: its JSON, and the metadata needed to route it.

Memory is the cost of a cache, so snapshots are compact: bytes as body, perhaps compressed; 16 bytes as uid;
common values (namespaces, labels, owners, finalizers) shared. Nothing in them can be part of a cycle, so the
garbage collector need not track them.
"""

import binascii
import re
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from attrs import define, field

from informers.applied import Appliers
from informers.compression import Codec
from informers.resource import Key
from informers.scanning import members
from informers.stored_shape import EVERYTHING_BUT_MANAGED_FIELDS, StoredShape

T = TypeVar("T")

_UUID = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").fullmatch

SHARED = 4096
"""Different values of each sort that are shared; when full, sharing starts again."""


class SnapshotOwner(NamedTuple):
    """An owner reference. `controller` is true for the one owner that manages the object."""

    group: str
    kind: str
    name: str
    uid: str
    controller: bool


class _OwnerReference(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class _SnapshotMetadata(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int | None = None
    labels: msgspec.Raw = msgspec.Raw()
    annotations: msgspec.Raw = msgspec.Raw()
    owner_references: msgspec.Raw = msgspec.Raw()
    deletion_timestamp: str | None = None
    finalizers: msgspec.Raw = msgspec.Raw()
    managed_fields: msgspec.Raw = msgspec.Raw()


class _SnapshotObject(msgspec.Struct, gc=False):
    metadata: _SnapshotMetadata
    kind: str = ""


_SMALL = tuple(name for name in _SnapshotMetadata.__struct_encode_fields__ if name != "managedFields")
_metadata = msgspec.json.Decoder(_SnapshotObject)
_anything = msgspec.json.Decoder()
_label_map = msgspec.json.Decoder(dict[str, str] | None)
_references = msgspec.json.Decoder(list[_OwnerReference] | None)
_names = msgspec.json.Decoder(list[str] | None)


@define(eq=False)
class _Shared(Generic[T]):
    """Values read from bytes, one for all that have the same bytes."""

    _read: Callable[[bytes], T]
    _known: dict[bytes, T] = field(factory=dict, init=False)

    def of(self, raw: msgspec.Raw) -> T:
        text = bytes(raw)
        found = self._known.get(text)
        if found is None:
            found = self._read(text)
            if len(self._known) >= SHARED:
                self._known.clear()
            self._known[text] = found
        return found


def _read_labels(text: bytes) -> bytes:
    _label_map.decode(text or b"null")
    return text


def _read_owners(text: bytes) -> tuple[SnapshotOwner, ...]:
    references = _references.decode(text) if text else None
    return tuple(_owner(reference) for reference in references or ())


def _read_names(text: bytes) -> tuple[str, ...]:
    return tuple(_names.decode(text) or ()) if text else ()


_labels = _Shared(_read_labels)
_owners = _Shared(_read_owners)
_finalizers = _Shared(_read_names)
_namespaces: dict[str, str] = {}


class CompactKey(msgspec.Struct, frozen=True, gc=False):
    """A key in a store, one for each object: half as large as a tuple, and not tracked by the collector."""

    namespace: str
    name: str


class Snapshot(msgspec.Struct, frozen=True, gc=False, eq=False):
    """One object at one version, kept as bytes and decoded on reading. Deeply immutable.

    Snapshots of one uid at one resourceVersion are equal. `annotations_hash` changes with the annotations;
    `applied` are the marks of what field managers applied (`informers.applied`), if the informer keeps them.
    """

    place: CompactKey
    version: int
    generation: int | None
    annotations_hash: int
    owners: tuple[SnapshotOwner, ...]
    deletion_timestamp: str | None
    finalizers: tuple[str, ...]
    _uid: bytes | str
    _labels: bytes
    _body: bytes
    _codec: Codec | None
    applied: bytes = b""

    @classmethod
    def from_json(
        cls,
        raw: bytes | msgspec.Raw,
        shape: StoredShape = EVERYTHING_BUT_MANAGED_FIELDS,
        appliers: Appliers | None = None,
    ) -> "Snapshot":
        """Read a snapshot from an object's JSON, keeping what `shape` says.

        The applies of `appliers` are marked, whatever `shape` drops. Raises msgspec.DecodeError (of which
        msgspec.ValidationError is a subclass) if the text is not an object.
        """
        body = shape.before(bytes(raw))
        decoded = _metadata.decode(body)
        metadata = decoded.metadata
        if shape.type_meta and not decoded.kind:
            body = b"{" + shape.type_meta + body[body.index(b"{") + 1 :]
        version = metadata.resource_version
        return cls(
            CompactKey(_shared_namespace(metadata.namespace), metadata.name),
            int(version) if version.isdecimal() else 0,
            metadata.generation,
            hash(bytes(metadata.annotations)),
            _owners.of(metadata.owner_references),
            metadata.deletion_timestamp,
            _finalizers.of(metadata.finalizers),
            _packed(metadata.uid),
            _labels.of(metadata.labels),
            shape.keep(body, bytes(metadata.managed_fields)),
            shape.codec,
            b"" if appliers is None else _marks(appliers, bytes(raw), shape, metadata),
        )

    @classmethod
    def from_deep_json(cls, raw: bytes, shape: StoredShape = EVERYTHING_BUT_MANAGED_FIELDS) -> "Snapshot":
        """The same for JSON nested too deeply to be decoded; it is kept whole.

        Only a run that decodes it fails. Raises msgspec.DecodeError.
        """
        found = members(members(raw).get("metadata", b"{}"))
        small = [f'"{name}":'.encode() + found[name] for name in _SMALL if name in found]
        snapshot = cls.from_json(b'{"metadata":{' + b",".join(small) + b"}}")
        body = raw if shape.codec is None else shape.codec.pack(raw)
        return msgspec.structs.replace(snapshot, _body=body, _codec=shape.codec)

    @property
    def key(self) -> Key:
        """Which object it is."""
        return Key(self.place.namespace, self.place.name)

    @property
    def uid(self) -> str:
        """The object's uid."""
        uid = self._uid
        if isinstance(uid, str):
            return uid
        text = uid.hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def is_same_object(self, other: "Snapshot") -> bool:
        """Whether both have the same uid, without formatting it."""
        return self._uid == other._uid

    @property
    def labels(self) -> dict[str, str]:
        """A copy of the object's labels."""
        return _label_map.decode(self._labels or b"null") or {}

    @property
    def raw(self) -> bytes:
        """The object's JSON, without what its store drops (`metadata.managedFields`)."""
        return self._body if self._codec is None else self._codec.unpack(self._body)

    @property
    def size(self) -> int:
        """The size of the stored body in bytes."""
        return len(self._body)

    @property
    def terminating(self) -> bool:
        """Whether deletion was asked for and has not ended."""
        return self.deletion_timestamp is not None

    @property
    def controller(self) -> SnapshotOwner | None:
        """The owner that manages the object, if it has one."""
        return next((owner for owner in self.owners if owner.controller), None)

    def to_dict(self) -> dict[str, Any]:
        """The whole object, decoded at each call, so the caller may change it."""
        decoded: dict[str, Any] = _anything.decode(self.raw)
        return decoded

    def same_as(self, other: "Snapshot") -> bool:
        """Whether version and content are equal: one version can come with two contents.

        That happens if a schema's defaults change, or if the server was restored from a backup.
        """
        if self is other:
            return True
        if self != other:
            return False
        if self._body == other._body and self._codec is other._codec:
            return True
        try:
            return self.to_dict() == other.to_dict()
        except RecursionError:
            return False

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Snapshot):
            return NotImplemented
        return self.version == other.version and self.place == other.place and self._uid == other._uid

    def __ne__(self, other: object) -> bool:
        # A Struct has one of its own, which knows nothing of `__eq__` above.
        return not self == other

    def __hash__(self) -> int:
        return hash((self.place, self._uid, self.version))

    def __repr__(self) -> str:
        return f"Snapshot({self.key}, version={self.version})"


def _marks(appliers: Appliers, raw: bytes, shape: StoredShape, metadata: _SnapshotMetadata) -> bytes:
    if shape.transform is not None:
        metadata = _metadata.decode(raw).metadata  # a transform may have taken out what is looked for
    return appliers.marks(raw, bytes(metadata.managed_fields))


def name_in(raw: bytes) -> str:
    """The name of an unreadable object, as far as it can be found."""
    try:
        found = members(members(raw).get("metadata", b"{}"))
        parts = [
            msgspec.json.decode(found[part], type=str) for part in ("namespace", "name") if part in found
        ]
    except msgspec.DecodeError:
        parts = []
    return "/".join(parts)[:300] or f"an object of {len(raw)} bytes"


def _owner(reference: _OwnerReference) -> SnapshotOwner:
    group, _, _ = reference.api_version.rpartition("/")
    return SnapshotOwner(group, reference.kind, reference.name, reference.uid, bool(reference.controller))


def _packed(uid: str) -> bytes | str:
    """16 bytes for a UUID as Kubernetes writes it, the text for anything else."""
    if not _UUID(uid):
        return uid
    return binascii.unhexlify(uid.replace("-", ""))


def _shared_namespace(namespace: str) -> str:
    if len(_namespaces) >= SHARED:
        _namespaces.clear()
    return _namespaces.setdefault(namespace, namespace)
