"""What the expressions of a mutating policy make of an object."""

import base64
import datetime
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from reconcile.embedded.ownership.typed_values import (
    SchemaMismatch,
    check_typed,
    is_granular_list,
    is_granular_map,
    merge,
)
from reconcile.embedded.schema.json_patches import FailedTest, InapplicablePatch, apply_operations
from reconcile.embedded.schema.json_values import copied
from reconcile.embedded.schema.schema_nodes import SchemaNode

_TYPE: Final = ""
"""The member in which a made object names its type; see `admission_programs`."""
_PATCH_TYPE: Final = "JSONPatch"


class UnusableMutation(Exception):
    """What an expression made cannot be applied to the object; the text is that of a real server."""


# --- ApplyConfiguration -------------------------------------------------------------------------


def configured(node: SchemaNode, obj: Mapping[str, Any], made: Any) -> dict[str, Any]:
    """`obj` with a made `Object` merged in, as server-side apply merges, but without owners.

    Raises UnusableMutation for fields that the schema does not know, and for lists, maps and structs that
    are atomic: they would lose what is not repeated.
    """
    _check_types(made, ("Object",))
    wanted = _json(made)
    wanted |= {"apiVersion": obj["apiVersion"], "kind": obj["kind"]}
    try:
        check_typed(node, wanted)
    except SchemaMismatch as mismatch:
        raise UnusableMutation(
            f"error applying patch: failed to convert patch object to typed object: {mismatch}"
        ) from None
    if atomic := list(_atomic_parts(node, wanted, "")):
        why = f"may not mutate atomic arrays, maps or structs: {', '.join(atomic)}"
        raise UnusableMutation(f"error applying patch: invalid ApplyConfiguration: {why}")
    merged: dict[str, Any] = copied(merge(node, dict(obj), wanted))
    return merged


def _atomic_parts(node: SchemaNode, value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        if not is_granular_map(node, value):
            yield path
        for name, member in value.items():
            if name in node.properties:
                yield from _atomic_parts(node.properties[name], member, f"{path}.{name}")
    elif isinstance(value, list):
        if not is_granular_list(node, value):
            yield path
        for index, item in enumerate(value):
            yield from _atomic_parts(node.item(), item, f"{path}[{index}]")


# --- JSONPatch ----------------------------------------------------------------------------------


def patched(obj: Mapping[str, Any], made: Any) -> dict[str, Any]:
    """`obj` after the made operations; `obj` itself if one of them is a `test` that fails.

    Raises UnusableMutation if they do not apply.
    """
    try:
        result = apply_operations(obj, [_operation(each) for each in made])
    except FailedTest:
        return dict(obj)
    except InapplicablePatch as error:
        raise UnusableMutation(f"JSON Patch: {error}") from None
    if not isinstance(result, dict):
        raise UnusableMutation("JSON Patch: the result is not an object")
    return result


def _operation(made: Mapping[str, Any]) -> dict[str, Any]:
    value = made.get("value")
    if isinstance(value, Mapping) and str(value.get(_TYPE, "")).startswith("Object"):
        _check_types(value, (value[_TYPE],))
    members = {name: member for name, member in made.items() if name != _TYPE}
    words = {name: members.get(name) or "" for name in ("op", "path")}
    if members.get("from"):
        words["from"] = members["from"]
    return {**words, "value": _json(members["value"])} if "value" in members else words


# --- values -------------------------------------------------------------------------------------


def _check_types(value: Any, names: Sequence[str]) -> None:
    """Raises UnusableMutation for an object whose type is not that of its place.

    The names of the types are not checked when a policy is created.
    """
    if isinstance(value, Mapping):
        named, expected = value.get(_TYPE), ".".join(names)
        if named is not None and named != expected:
            raise UnusableMutation(
                f'type mismatch: unexpected type name "{named}", expected "{expected}", which matches field '
                "name path from root Object type"
            )
        for name, member in value.items():
            _check_types(member, (*names, name))
    elif isinstance(value, list):
        for item in value:
            _check_types(item, names)


def _json(value: Any) -> Any:
    """A value of CEL as JSON, without the names of types, in an order that does not change."""
    match value:
        case Mapping():
            return {str(name): _json(value[name]) for name in sorted(value, key=str) if name != _TYPE}
        case list() | tuple():
            return [_json(item) for item in value]
        case datetime.datetime():
            return value.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z")
        case datetime.timedelta():
            return f"{value.total_seconds():g}s"
        case bytes() | bytearray():
            return base64.b64encode(value).decode()
        case _:
            return value
