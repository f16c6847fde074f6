"""One object at one version: its JSON, and the metadata needed to route it.

Memory is the cost of a cache, so snapshots are compact: what differs between objects is one piece of bytes,
read on demand, which ends in the body, perhaps compressed; what many have in common is shared. Nothing in
them can be part of a cycle, so the garbage collector need not track them.

A body may be compressed later, in place, while other threads read it. So each reader takes the record once.
"""

import binascii
import re
import struct
from sys import intern
from typing import Annotated, Any, NamedTuple

import msgspec

from informers.applied import Appliers
from informers.compression import Compression
from informers.resource import Key
from informers.scanning import members
from informers.stored_shape import EVERYTHING_BUT_MANAGED_FIELDS, StoredShape

_UUID = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").fullmatch

SHARED = 4096
"""Different traits that are shared; when there are more, sharing starts again."""


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
    generation: Annotated[int, msgspec.Meta(ge=1 - (1 << 63), le=(1 << 63) - 1)] | None = None
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


class SharedTraits(msgspec.Struct, frozen=True, gc=False):
    """What many objects have in common; one for all of a namespace that have the same owners."""

    namespace: str
    owners: tuple[SnapshotOwner, ...]
    finalizers: tuple[str, ...]
    deletion_timestamp: str | None
    compression: Compression | None


_traits: dict[Any, SharedTraits] = {}

_HEAD = struct.Struct("<IIIIIqq?")
"""A record begins with where its parts are, a hash of the annotations, the generation, and whether it is
compressed.

The uid follows, then the marks, and the body last. The labels are found in the body, or stand before it where
it is compressed. A uid that is not a UUID has zeros behind it, so that it is longer than the 16 bytes of one.
"""
_BODY = struct.Struct("<I").unpack_from
_UID_END = struct.Struct("<4xI").unpack_from
_MARKS = struct.Struct("<4xII").unpack_from
_LABELS = struct.Struct("<12xII").unpack_from
_ANNOTATIONS = struct.Struct("<20xq").unpack_from
_GENERATION = struct.Struct("<28xq").unpack_from
_PACKED_AT = _HEAD.size - 1
_UID_AT = _HEAD.size
_UUID_END = _UID_AT + 16
_LONGER = bytes(17)
_LABELS_NAME = b'"labels":'
_NO_GENERATION = -(1 << 63)


class Snapshot(msgspec.Struct, frozen=True, gc=False, eq=False):
    """One object at one version, kept as bytes and decoded on reading. Deeply immutable.

    Only the form in which its store keeps the body may change (`compress`), and no reader sees that.
    Snapshots of one uid at one resourceVersion are equal.
    """

    name: str
    version: int
    _traits: SharedTraits
    _record: bytes

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
        marks = b"" if appliers is None else _marks(appliers, bytes(raw), shape, metadata)
        return cls(
            metadata.name,
            int(version) if version.isdecimal() else 0,
            _traits_of(metadata, shape.compression),
            _record_of(metadata, marks, shape.keep(body, bytes(metadata.managed_fields)), shape.compression),
        )

    @classmethod
    def from_deep_json(cls, raw: bytes, shape: StoredShape = EVERYTHING_BUT_MANAGED_FIELDS) -> "Snapshot":
        """The same for JSON nested too deeply to be decoded; it is kept whole.

        Only a run that decodes it fails. Raises msgspec.DecodeError.
        """
        found = members(members(raw).get("metadata", b"{}"))
        small = [f'"{name}":'.encode() + found[name] for name in _SMALL if name in found]
        metadata = _metadata.decode(b'{"metadata":{' + b",".join(small) + b"}}").metadata
        version = metadata.resource_version
        return cls(
            metadata.name,
            int(version) if version.isdecimal() else 0,
            _traits_of(metadata, shape.compression),
            _record_of(metadata, b"", raw, shape.compression),
        )

    def with_marks(self, applied: bytes) -> "Snapshot":
        """The same state with other marks."""
        record = self._record
        body_at, uid_end, marks_end, start, end, *rest = _HEAD.unpack_from(record)
        more = len(applied) - (marks_end - uid_end)
        places = body_at + more, uid_end, marks_end + more, start + more, end + more
        parts = _HEAD.pack(*places, *rest), record[_UID_AT:uid_end], applied, record[marks_end:]
        return Snapshot(self.name, self.version, self._traits, b"".join(parts))

    def compress(self) -> int:
        """Compress the stored body in place, if it is not and its store allows it; returns the bytes saved.

        In place, because indexes and handlers know a snapshot by its identity. All that it says stays as it
        was. To be called by the store that holds it.
        """
        record, compression = self._record, self._traits.compression
        if record[_PACKED_AT] or compression is None:
            return 0
        body_at, uid_end, marks_end, start, end, hashed, generation, _ = _HEAD.unpack_from(record)
        labels, body = record[start:end], compression.pack(record[body_at:])
        body_after = marks_end + len(labels)
        head = _HEAD.pack(body_after, uid_end, marks_end, marks_end, body_after, hashed, generation, True)
        packed = b"".join((head, record[_UID_AT:marks_end], labels, body))
        msgspec.structs.force_setattr(self, "_record", packed)
        saved: int = len(record) - body_at - len(body)
        return saved

    @property
    def namespace(self) -> str:
        """The object's namespace; empty if it has none."""
        return self._traits.namespace

    @property
    def key(self) -> Key:
        """Which object it is."""
        return Key(self._traits.namespace, self.name)

    @property
    def generation(self) -> int | None:
        """The generation of the object's spec, if the server counts it."""
        generation: int = _GENERATION(self._record)[0]
        return None if generation == _NO_GENERATION else generation

    @property
    def annotations_hash(self) -> int:
        """A number that changes with the annotations."""
        hashed: int = _ANNOTATIONS(self._record)[0]
        return hashed

    @property
    def owners(self) -> tuple[SnapshotOwner, ...]:
        """The owner references."""
        return self._traits.owners

    @property
    def finalizers(self) -> tuple[str, ...]:
        """The finalizers, in their order."""
        return self._traits.finalizers

    @property
    def deletion_timestamp(self) -> str | None:
        """When deletion was asked for, or None."""
        return self._traits.deletion_timestamp

    @property
    def uid(self) -> str:
        """The object's uid."""
        uid = self._uid()
        if len(uid) != 16:
            return uid[: -len(_LONGER)].decode("utf-8", "surrogatepass")
        text = uid.hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def is_same_object(self, other: "Snapshot") -> bool:
        """Whether both have the same uid, without formatting it."""
        return self._uid() == other._uid()

    def _uid(self) -> bytes:
        record = self._record
        return record[_UID_AT : _UID_END(record)[0]]

    @property
    def applied(self) -> bytes:
        """The marks of what field managers applied (`informers.applied`), if the informer keeps them."""
        record = self._record
        start, end = _MARKS(record)
        return record[start:end]

    @property
    def labels(self) -> dict[str, str]:
        """A copy of the object's labels."""
        record = self._record
        start, end = _LABELS(record)
        return _label_map.decode(record[start:end] or b"null") or {}

    @property
    def raw(self) -> bytes:
        """The object's JSON, without what its store drops (`metadata.managedFields`)."""
        record, compression = self._record, self._traits.compression
        body = record[_BODY(record)[0] :]
        if compression is None:
            return body
        compression.reads += 1
        return compression.unpack(body) if record[_PACKED_AT] else body

    def _whole(self, record: bytes) -> bytes:
        """The body in a record of this snapshot, decompressed; does not count as a read."""
        body, compression = record[_BODY(record)[0] :], self._traits.compression
        return compression.unpack(body) if record[_PACKED_AT] and compression is not None else body

    @property
    def size(self) -> int:
        """The size of the stored body in bytes."""
        record = self._record
        return len(record) - int(_BODY(record)[0])

    @property
    def compressed(self) -> bool:
        """Whether the stored body is compressed."""
        return bool(self._record[_PACKED_AT])

    @property
    def terminating(self) -> bool:
        """Whether deletion was asked for and has not ended."""
        return self._traits.deletion_timestamp is not None

    @property
    def controller(self) -> SnapshotOwner | None:
        """The owner that manages the object, if it has one."""
        return next((owner for owner in self._traits.owners if owner.controller), None)

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
        if self.version != other.version or self != other:  # most differ by it
            return False
        one, two = self._record, other._record
        same_form = one[_PACKED_AT] == two[_PACKED_AT] and (
            self._traits.compression is other._traits.compression or not one[_PACKED_AT]
        )
        if same_form and one[_BODY(one)[0] :] == two[_BODY(two)[0] :]:
            return True
        # Not by `raw`: a list compares all objects, and that says nothing of how often bodies are read.
        whole, others = self._whole(one), other._whole(two)
        if not same_form and whole == others:
            return True
        try:
            return bool(_anything.decode(whole) == _anything.decode(others))
        except RecursionError:
            return False

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Snapshot):
            return NotImplemented
        return (
            self.version == other.version
            and self.name == other.name
            and self._traits.namespace == other._traits.namespace
            and self._uid() == other._uid()
        )

    def __ne__(self, other: object) -> bool:
        # A Struct has one of its own, which knows nothing of `__eq__` above.
        return not self == other

    def __hash__(self) -> int:
        return hash((self.name, self.version))

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
    return SnapshotOwner(
        intern(group), intern(reference.kind), reference.name, reference.uid, bool(reference.controller)
    )


def _traits_of(metadata: _SnapshotMetadata, compression: Compression | None) -> SharedTraits:
    owners, finalizers = bytes(metadata.owner_references), bytes(metadata.finalizers)
    common = metadata.namespace, owners, finalizers, metadata.deletion_timestamp, compression
    known = _traits.get(common)
    if known is not None:
        return known
    traits = SharedTraits(
        intern(metadata.namespace),
        tuple(map(_owner, _references.decode(owners) or ())) if owners else (),
        tuple(_names.decode(finalizers) or ()) if finalizers else (),
        metadata.deletion_timestamp,
        compression,
    )
    if len(_traits) >= SHARED:
        _traits.clear()
    _traits[common] = traits
    return traits


def _record_of(
    metadata: _SnapshotMetadata, applied: bytes, body: bytes, compression: Compression | None
) -> bytes:
    uid, labels, generation = metadata.uid, bytes(metadata.labels), metadata.generation
    if _UUID(uid):
        packed, uid_end = binascii.unhexlify(uid.replace("-", "")), _UUID_END
    else:
        packed = uid.encode("utf-8", "surrogatepass") + _LONGER
        uid_end = _UID_AT + len(packed)
    is_packed = compression is not None and compression.on_arrival
    if compression is not None and is_packed:
        body = compression.pack(body)
    marks_end = body_at = start = uid_end + len(applied)
    beside = b""
    if labels:
        _label_map.decode(labels)  # so that no reader finds that they are something else
        # The name first: a short text is found sooner than a long one.
        found = body.find(_LABELS_NAME) + len(_LABELS_NAME)
        if body.startswith(labels, found) or (found := body.find(labels)) >= 0:
            start += found
        else:
            beside = labels
            body_at += len(labels)
    head = _HEAD.pack(
        body_at,
        uid_end,
        marks_end,
        start,
        start + len(labels),
        hash(bytes(metadata.annotations)),
        _NO_GENERATION if generation is None else generation,
        is_packed,
    )
    return b"".join((head, packed, applied, beside, body))
