"""The CEL types of the places of a schema, for the type checker.

An object with properties is a message in a descriptor pool of the schema, so that a rule about an unknown
field is found when the schema is defined.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from attrs import frozen
from cel_expr_python import cel
from google.protobuf import duration_pb2, struct_pb2, timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool

_PACKAGE: Final = "object"
KEYED_LIST: Final = f"{_PACKAGE}.KeyedList"
"""The type of lists of type set and map where types are `marked`."""
WELL_KNOWN: Final = (struct_pb2, timestamp_pb2, duration_pb2, wrappers_pb2)
_RESERVED: Final = frozenset(
    {
        *("as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in"),
        *("let", "loop", "namespace", "null", "package", "return", "true", "var", "void", "while"),
    }
)
_ACCESSIBLE = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_ESCAPES: Final = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))
_NAMED: Final = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}},
}
OBJECT_FIELDS: Final[Mapping[str, Any]] = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": _NAMED,
}
"""The fields that rules may read of every object, whatever its schema."""


def escaped(name: str) -> str | None:
    """The name of a field in rules; None if they cannot read it."""
    if name in _RESERVED:
        return f"__{name}__"
    if _ACCESSIBLE.fullmatch(name) is None:
        return None
    for sign, word in _ESCAPES:
        name = name.replace(sign, word)
    return name


@frozen
class CelShape:
    """The type of a place; `inner` is that of items and values, `name` that of a message."""

    kind: str
    """list, map, message, dyn, int, double, bool, string, bytes, timestamp, duration."""
    inner: "CelShape | None" = None
    name: str = ""
    nullable: bool = False


DYN: Final = CelShape("dyn")
_FORMATS: Final = {
    "byte": CelShape("bytes"),
    "date": CelShape("timestamp"),
    "date-time": CelShape("timestamp"),
    "duration": CelShape("duration"),
}
_SCALARS: Final = {"boolean": CelShape("bool"), "integer": CelShape("int"), "number": CelShape("double")}
_PLAIN: Final = {
    "int": (cel.Type.INT, FieldDescriptorProto.TYPE_INT64, ".google.protobuf.Int64Value"),
    "double": (cel.Type.DOUBLE, FieldDescriptorProto.TYPE_DOUBLE, ".google.protobuf.DoubleValue"),
    "bool": (cel.Type.BOOL, FieldDescriptorProto.TYPE_BOOL, ".google.protobuf.BoolValue"),
    "string": (cel.Type.STRING, FieldDescriptorProto.TYPE_STRING, ".google.protobuf.StringValue"),
    "bytes": (cel.Type.BYTES, FieldDescriptorProto.TYPE_BYTES, ".google.protobuf.BytesValue"),
}
"""The types of scalars: in CEL, in a message, and in a message with null."""
_CEL_TYPES: Final = {
    "dyn": cel.Type.DYN,
    "timestamp": cel.Type.TIMESTAMP,
    "duration": cel.Type.DURATION,
    **{kind: type_ for kind, (type_, _, _) in _PLAIN.items()},
}
_FIELD_MESSAGES: Final = {
    "timestamp": ".google.protobuf.Timestamp",
    "duration": ".google.protobuf.Duration",
    "list": ".google.protobuf.ListValue",
}
_ANY_VALUE: Final = ".google.protobuf.Value"


class Types:
    """The types of one schema: call `shape` for every place first, then `pool`.

    With `marked`, lists of type set and map have a type of their own, which shows what rules do with them.
    With `plain_names`, rules read fields by their own names, also those that are words of CEL. With
    `lenient`, what has no type of its own, such as a quantity, may be anything. The messages of several
    schemas in one pool need packages of their own.
    """

    def __init__(
        self,
        *,
        marked: bool = False,
        plain_names: bool = False,
        lenient: bool = False,
        package: str = _PACKAGE,
    ) -> None:
        self._lenient = lenient
        self._marked = marked
        self._name = str if plain_names else escaped
        self._file = FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto2")
        self._file.dependency.extend(module.DESCRIPTOR.name for module in WELL_KNOWN)
        self._shapes: dict[int, CelShape | None] = {}
        if marked:
            self._file.message_type.add(name=KEYED_LIST.partition(".")[2])

    def pool(self) -> DescriptorPool:
        """The messages of all shapes."""
        pool = DescriptorPool()
        for data in self.files():
            pool.AddSerializedFile(data)
        return pool

    def files(self) -> Iterator[bytes]:
        """The descriptions of the messages of all shapes, and of what they refer to."""
        yield from (module.DESCRIPTOR.serialized_pb for module in WELL_KNOWN)
        yield self._file.SerializeToString()

    def shape(self, schema: Mapping[str, Any], *, is_object: bool = False) -> CelShape | None:
        """The shape of a schema; None if rules cannot read its values."""
        known = self._shapes.get(id(schema))
        if known is None:
            known = self._shapes[id(schema)] = self._new_shape(schema, is_object=is_object)
        return known

    def _new_shape(self, schema: Mapping[str, Any], *, is_object: bool) -> CelShape | None:
        if schema.get("x-kubernetes-int-or-string"):
            return DYN
        kind, nullable = schema.get("type", ""), bool(schema.get("nullable"))
        if kind == "object":
            return self._object(schema, is_object=is_object)
        if kind == "array":
            if self._marked and schema.get("x-kubernetes-list-type") in ("set", "map"):
                return CelShape("message", name=KEYED_LIST)
            items = schema.get("items")
            inner = self.shape(items) if isinstance(items, Mapping) else None
            return None if inner is None else CelShape("list", inner)
        if kind == "string":
            found = _FORMATS.get(schema.get("format", ""), CelShape("string"))
        else:
            found = _SCALARS.get(kind, DYN)
            if found is DYN:
                return DYN if self._lenient else None
        return CelShape(found.kind, nullable=nullable)

    def _object(self, schema: Mapping[str, Any], *, is_object: bool) -> CelShape | None:
        additional = schema.get("additionalProperties")
        if isinstance(additional, Mapping):
            inner = self.shape(additional)
            return None if inner is None else CelShape("map", inner)
        if additional:
            return CelShape("map", DYN)
        if self._lenient and schema.get("x-kubernetes-preserve-unknown-fields"):
            return DYN
        members = dict(schema.get("properties", {}))
        if is_object or schema.get("x-kubernetes-embedded-resource"):
            members |= OBJECT_FIELDS
        return self._message(members)

    def _message(self, members: Mapping[str, Any]) -> CelShape:
        name = f"Object{len(self._file.message_type)}"
        message = self._file.message_type.add(name=name)
        message.options.deprecated_legacy_json_field_conflicts = True
        for member, schema in members.items():
            shape, field = self.shape(schema), self._name(member)
            if shape is not None and field is not None:
                _add_field(message, field, shape, self._file.package)
        return CelShape("message", name=f"{self._file.package}.{name}")


def cel_type(shape: CelShape) -> cel.Type:
    if shape.kind == "message":
        return cel.Type(shape.name)
    if shape.kind == "list":
        return cel.Type.List(cel_type(shape.inner or DYN))
    if shape.kind == "map":
        return cel.Type.Map(cel.Type.STRING, cel_type(shape.inner or DYN))
    return _CEL_TYPES[shape.kind]


def _add_field(message: DescriptorProto, name: str, shape: CelShape, package: str) -> None:
    entry_name = _entry_name(name)
    if shape.kind == "map" and any(entry.name == entry_name for entry in message.nested_type):
        declare(message, name, DYN)
    elif shape.kind == "map":
        entry = message.nested_type.add(name=entry_name)
        entry.options.map_entry = True
        declare(entry, "key", CelShape("string"))
        declare(entry, "value", shape.inner or DYN)
        where = f".{package}.{message.name}.{entry.name}"
        declare(message, name, CelShape("message", name=where[1:]), repeated=True)
    elif shape.kind == "list":
        declare(message, name, shape.inner or DYN, repeated=True)
    else:
        declare(message, name, shape)


def _entry_name(field: str) -> str:
    """The name that protobuf requires for the entries of a map."""
    return "".join(word[:1].upper() + word[1:] for word in field.split("_")) + "Entry"


def declare(message: DescriptorProto, name: str, shape: CelShape, *, repeated: bool = False) -> None:
    # Maps and lists within maps and lists have no type here: their content is checked when a rule runs.
    number = len(message.field) + 1
    field = message.field.add(name=name, number=number, json_name=f"field{number}")
    field.label = FieldDescriptorProto.LABEL_REPEATED if repeated else FieldDescriptorProto.LABEL_OPTIONAL
    _, plain, with_null = _PLAIN.get(shape.kind, (None, None, None))
    if plain is not None and not (shape.nullable and not repeated):
        field.type = plain
        return
    field.type = FieldDescriptorProto.TYPE_MESSAGE
    if shape.kind == "message":
        field.type_name = f".{shape.name}"
    else:
        field.type_name = with_null or _FIELD_MESSAGES.get(shape.kind, _ANY_VALUE)
