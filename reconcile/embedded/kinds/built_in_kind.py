"""The record of a built-in kind: its resource, defaults, checks, columns, protobuf and default roles."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import cached_property
from typing import Any, Protocol

from attrs import evolve, field, fields_dict, frozen

from informers.apimachinery.name_rules import NameCheck, subdomain_faults
from reconcile.embedded.kubectl.protobuf import Messages
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_invalid, value_not_supported, value_required
from reconcile.embedded.schema import SchemaNode, Steps, compile_schema
from reconcile.embedded.schema.builtin_schemas import schema_for
from reconcile.embedded.served import CellColumn, Convert, ConvertPath, ScalePaths, ServedResource

Object = dict[str, Any]
Defaults = Callable[[Object], None]
Prepare = Callable[[Object, Object | None], None]
Stamp = Callable[[Object, Object | None, str], None]


class Others(Protocol):
    """The stored objects of every kind, decoded."""

    def every(self, group: str, plural: str) -> Iterable[Object]:
        """All of a kind, by namespace and name."""
        ...

    def within(self, group: str, plural: str, namespace: str) -> Iterable[Object]:
        """Those of a namespace, by name."""
        ...

    def named(self, group: str, plural: str, name: str, namespace: str = "") -> Object | None:
        """The one with this name; a cluster-scoped kind has no namespace."""
        ...


Admit = Callable[[Object, Object | None, Others], Iterable[str] | None]
Allocate = Callable[[Object, Object | None, Others], Iterable[FieldCause]]
Checks = Callable[[Object, Object | None], Iterable[FieldCause]]
Warnings = Callable[[Object, Object | None], list[str]]


@frozen
class ObjectPart:
    """A part of an object that has an endpoint of its own (`pods/resize`), through which only it changes."""

    prepare: Callable[[Object, Object], None]
    """Drops in place what is not of this part, after managedFields were computed."""
    checks: Callable[[Object, Object], Iterable[FieldCause]]


@frozen(eq=False)
class BuiltInKind:
    """A kind that the server has without a CustomResourceDefinition, with everything specific to it.

    Functions get the new object and the stored one, None on create. Records are compared by identity.
    """

    group: str
    name: str
    """As manifests write it: `Deployment`."""
    versions: tuple[str, ...] = ("v1",)
    """Objects are kept in the version that they were written in; `convert` shows them in another."""
    openapi: Mapping[str, Any] | None = None
    """The OpenAPI v3 schema; None for the one that Kubernetes publishes for this kind."""
    grafts: Mapping[Steps, SchemaNode] = field(factory=dict)
    """Parts of the schema that OpenAPI cannot express, by their path in it."""

    # --- the resource; each field as in ServedResource ---
    plural: str = ""
    """By default the lower-case kind with an s."""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    namespaced: bool = True
    has_status: bool = False
    has_generation: bool = False
    generation_follows: tuple[str, ...] = ()
    scale: ScalePaths | None = None
    selectable_fields: tuple[str, ...] = ()
    create_on_update: bool = False
    unconditional_update: bool = True
    answers_object_on_delete: bool = False
    collection_deletable: bool = True
    create_only: bool = False
    deprecation: str = ""
    stored_as: tuple[str, str] | None = None
    convert: Convert | None = None
    convert_path: ConvertPath | None = None

    # --- what a write meets, in this order ---
    fills: Mapping[str, Any] = field(factory=dict)
    """Defaults of fields, at any depth; for a list, those of each item."""
    defaults: Defaults = lambda obj: None
    """Further defaults that decoding sets, in place (SetDefaults_ of the Go type).

    managedFields are computed after them, so that the writer owns them, and nothing that comes later.
    """
    admit: Admit | None = None
    """What built-in admission plugins set or refuse, in place.

    `Others` has the objects that plugins depend on (PriorityClass, StorageClass). It may return warnings for
    the writer. Raises Denied.
    """
    allocate: Allocate | None = None
    """What is taken from a pool of the server, set in place before `prepare` (BeginCreate and BeginUpdate).

    If it yields causes, the write is refused with these alone. It is not called for subresources.
    """
    allocate_with_state: Callable[[], Allocate] | None = None
    """Creates the `allocate` of one server."""
    prepare: Prepare = lambda obj, old: None
    """What the strategy of the kind sets, in place (PrepareForCreate and PrepareForUpdate)."""
    first_status: Mapping[str, Any] | None = None
    """The status that the strategy gives a new object."""
    keeps_first_status: bool = False
    """Whether a new object has the status that its writer gives it."""
    stamp: Stamp = lambda obj, old, time: None
    """What the strategy sets that depends on the time of the write, in place."""
    checks: Checks = lambda obj, old: ()
    """The faults of an object, beyond what its schema says."""
    names_missing_fields: bool = False
    """Its checks report missing fields, in place of the schema.

    A real server knows no schema of built-in kinds: a missing part is an empty one, whose fields are checked.
    """
    status_checks: Checks = lambda obj, old: ()
    """The faults of an object whose status was written; `checks` are not asked then."""
    status_keeps: tuple[str, ...] = ()
    """The metadata that a write of the status leaves alone; most strategies reset the spec only."""
    parts: Mapping[str, ObjectPart] = field(factory=dict)
    """Its parts by the names of their subresources; they are read as the whole object."""
    check_name: NameCheck = subdomain_faults
    warnings: Warnings = lambda obj, old: []
    """Warnings for the writer of an object that is accepted, except through its status."""
    status_warnings: Warnings = lambda obj, old: []
    """Warnings for the writer of a status that is accepted."""
    metadata_fault_copies: int = 3
    """How often the real server names a fault of labels, annotations and owners in an update."""
    change_fault_copies: int = 2
    """How often it names a change of metadata that may not change."""

    # --- kubectl ---
    columns: tuple[CellColumn, ...] = ()
    """What `kubectl get` shows; by default Name and Age."""
    messages: Messages = field(factory=dict)
    """Its protobuf messages.

    The one with its name, which may follow its version (`v1.HorizontalPodAutoscaler`), is the kind's own;
    without one, protobuf bodies are refused.
    """
    subresource_bodies: tuple[tuple[str, str], ...] = ()
    """apiVersion and kind of the protobuf bodies of its subresources; `messages` has them by kind."""

    # --- default roles ---
    viewed: tuple[str, ...] = ()
    """What the role `view` may read: "" for the objects, and subresources such as `status`."""
    edited: tuple[str, ...] = ()
    """What the role `edit` may write."""

    @cached_property
    def plural_name(self) -> str:
        """As paths write it: `deployments`."""
        return self.plural or f"{self.name.lower()}s"

    @cached_property
    def resources(self) -> tuple[ServedResource, ...]:
        """One for each version, shared by all servers."""
        return tuple(self._resource(version) for version in self.versions)

    def _resource(self, version: str) -> ServedResource:
        openapi = schema_for(self.group, version, self.name) if self.openapi is None else dict(self.openapi)
        return ServedResource(
            version=version,
            kind=self.name,
            plural=self.plural_name,
            singular=self.name.lower(),
            list_kind=f"{self.name}List",
            schema=compile_schema(openapi, unique_lists=False, grafts=self.grafts),
            cell_columns=self.columns,
            openapi=openapi,
            description=openapi.get("description", ""),
            **{name: getattr(self, name) for name in _OF_RESOURCE},
        )

    def set_defaults(self, obj: Object) -> None:
        """Set in place what decoding sets."""
        fill(obj, self.fills)
        self.defaults(obj)

    def complete(self, obj: Object, old: Object | None, time: str) -> None:
        """Set in place what the strategy sets, before the object is checked; `old` is None for a new one."""
        if old is None and self.first_status is not None:
            obj["status"] = deepcopy(self.first_status)
        self.prepare(obj, old)
        self.stamp(obj, old, time)

    def for_one_server(self) -> "BuiltInKind":
        """Itself, or a copy that has the state of one server."""
        return self if self.allocate_with_state is None else evolve(self, allocate=self.allocate_with_state())


_OF_RESOURCE = (fields_dict(BuiltInKind).keys() & fields_dict(ServedResource).keys()) - {
    "columns",
    "openapi",
    "plural",
}
"""The fields of both that mean the same."""


def spec_and_status(name: str, status: str = "") -> Messages:
    """The message of a kind with metadata, a spec and a status, whose type may have another name."""
    return {name: {1: "metadata:ObjectMeta", 2: f"spec:{name}Spec", 3: f"status:{status or name}Status"}}


def fill(place: Object, values: Mapping[str, Any]) -> None:
    """Set the fields that are missing or null, at any depth; for a list, those of each item."""
    for name, value in values.items():
        if isinstance(value, dict):
            place[name] = place.get(name) or {}
            fill(place[name], value)
        elif isinstance(value, list):
            for item in place.get(name) or ():
                fill(item, value[0])
        elif place.get(name) is None:
            place[name] = value


def fill_empty(place: Object, **values: Any) -> None:
    """Set the fields that are missing, null or zero: Go knows the difference of pointers only."""
    for name, value in values.items():
        if not place.get(name):
            place[name] = value


def fixed(obj: Object, old: Object | None, *fields: str) -> Iterator[FieldCause]:
    """The causes for fields that may not change and did."""
    for name in fields:
        if old is not None and obj.get(name) != old.get(name):
            yield FieldCause("FieldValueInvalid", "Invalid value: field is immutable", name)


def required(obj: Mapping[str, Any], place: str, *fields: str) -> Iterator[FieldCause]:
    for name in fields:
        if not obj.get(name):
            yield value_required(f"{place}.{name}".lstrip("."))


def one_of(obj: Mapping[str, Any], path: str, supported: Sequence[str]) -> Iterator[FieldCause]:
    """The cause for a value outside a fixed set; `obj` has the last field of `path`."""
    value = obj.get(path.rpartition(".")[2])
    if value not in supported:
        yield value_not_supported(path, value or "", supported)


def not_negative(spec: Mapping[str, Any], place: str, *fields: str) -> Iterator[FieldCause]:
    for name in fields:
        value = spec.get(name)
        if isinstance(value, int) and value < 0:
            yield value_invalid(f"{place}.{name}", value, "must be greater than or equal to 0")


def immutable(value: object, old: object, path: str) -> Iterator[FieldCause]:
    """The cause for a value that may not change and did."""
    if not same(value, old):
        yield value_invalid(path, "" if isinstance(value, dict | list) else value, "field is immutable")


def same(value: object, other: object) -> bool:
    """Whether two decoded values mean the same to Go: what is null or an empty list or map may be missing."""
    return _meaning(value) == _meaning(other)


def _meaning(value: object) -> object:
    if isinstance(value, dict):
        members = ((name, _meaning(member)) for name, member in value.items())
        return {name: member for name, member in members if member is not None} or None
    if isinstance(value, list):
        return [_meaning(item) for item in value] or None
    return value
