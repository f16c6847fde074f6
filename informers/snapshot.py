"""One object as it was at one version: its JSON, and the metadata that routing needs."""

from typing import Any, NamedTuple

import msgspec

from informers.resource import Key


class Owner(NamedTuple):
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


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int | None = None
    labels: dict[str, str] | None = None
    annotations: msgspec.Raw = msgspec.Raw()
    owner_references: list[_OwnerReference] | None = None
    deletion_timestamp: str | None = None
    finalizers: list[str] | None = None
    managed_fields: msgspec.Raw = msgspec.Raw()


class _Object(msgspec.Struct):
    metadata: _Metadata


_metadata = msgspec.json.Decoder(_Object)
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_anything = msgspec.json.Decoder()


class Snapshot:
    """One object at one version, kept as bytes and decoded when somebody reads it.

    `raw` is the object's JSON without `metadata.managedFields`. Equality is identity of version:
    two snapshots of one uid at one resourceVersion are the same state.
    """

    __slots__ = (
        "annotations_hash",
        "deletion_timestamp",
        "finalizers",
        "generation",
        "key",
        "labels",
        "owners",
        "raw",
        "uid",
        "version",
    )

    key: Key
    uid: str
    version: int
    generation: int | None
    labels: dict[str, str]
    annotations_hash: int
    owners: tuple[Owner, ...]
    deletion_timestamp: str | None
    finalizers: tuple[str, ...]
    raw: bytes

    @classmethod
    def from_json(cls, raw: bytes | msgspec.Raw) -> "Snapshot":
        """Read a snapshot from an object's JSON.

        Raises msgspec.DecodeError (of which msgspec.ValidationError is one) for what is no object.
        """
        metadata = _metadata.decode(raw).metadata
        self = cls.__new__(cls)
        self.key = Key(metadata.namespace, metadata.name)
        self.uid = metadata.uid
        self.version = int(metadata.resource_version) if metadata.resource_version.isdigit() else 0
        self.generation = metadata.generation
        self.labels = metadata.labels or {}
        self.annotations_hash = hash(bytes(metadata.annotations))
        self.owners = tuple(_owner(reference) for reference in metadata.owner_references or ())
        self.deletion_timestamp = metadata.deletion_timestamp
        self.finalizers = tuple(metadata.finalizers or ())
        self.raw = _without_managed_fields(raw) if bytes(metadata.managed_fields) else bytes(raw)
        return self

    @property
    def terminating(self) -> bool:
        """Whether deletion was asked for and has not ended."""
        return self.deletion_timestamp is not None

    @property
    def controller(self) -> Owner | None:
        """The owner that manages the object, if it has one."""
        return next((owner for owner in self.owners if owner.controller), None)

    def to_dict(self) -> dict[str, Any]:
        """The whole object, decoded anew: changing it changes nothing else."""
        decoded: dict[str, Any] = _anything.decode(self.raw)
        return decoded

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Snapshot):
            return NotImplemented
        return self.key == other.key and self.uid == other.uid and self.version == other.version

    def __hash__(self) -> int:
        return hash((self.key, self.uid, self.version))

    def __repr__(self) -> str:
        return f"Snapshot({self.key}, version={self.version})"


def _owner(reference: _OwnerReference) -> Owner:
    group, slash, _ = reference.api_version.partition("/")
    return Owner(
        group if slash else "", reference.kind, reference.name, reference.uid, bool(reference.controller)
    )


def _without_managed_fields(raw: bytes | msgspec.Raw) -> bytes:
    members = _members.decode(raw)
    metadata = _members.decode(members["metadata"])
    del metadata["managedFields"]
    members["metadata"] = msgspec.Raw(msgspec.json.encode(metadata))
    return msgspec.json.encode(members)
