"""Random structural schemas, changes of them, and objects that they accept."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final

from hypothesis import strategies as st

from reconcile.embedded.schema import compile_schema

NAMES: Final = ("a", "b", "c")
_TEXTS: Final = ("", "x", "yy", "zzz", "10")
_SCALARS: Final = ("string", "integer", "number", "boolean", "either", "anything")
_DEEPEST: Final = 2


@st.composite
def objects_of_schemas(draw: st.DrawFn) -> dict[str, Any]:
    """The schema of a kind: an object at the root, with fields of any shape."""
    schema: dict[str, Any] = draw(_objects(_DEEPEST))
    schema.pop("nullable", None)
    schema.pop("additionalProperties", None)
    return schema


@st.composite
def changed(draw: st.DrawFn, schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema after one to three changes at any places."""
    new = deepcopy(dict(schema))
    for _ in range(draw(st.integers(1, 3))):
        _change(draw, draw(st.sampled_from(list(_places(new)))))
    return new


def _places(schema: dict[str, Any]) -> list[dict[str, Any]]:
    below = [*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")]
    return [schema, *(place for one in below if isinstance(one, dict) for place in _places(one))]


def _change(draw: st.DrawFn, place: dict[str, Any]) -> None:
    is_map = "additionalProperties" in place
    other = draw(_objects(1) if "properties" in place else _maps(1) if is_map else _values(1))
    if draw(st.integers(0, 9)) == 0:
        place.clear()
        place.update(other)
        return
    kept = {"type", "items", "additionalProperties", "x-kubernetes-int-or-string"}
    word = draw(st.sampled_from(sorted({*place, *other, "nullable"} - kept)))
    if word == "properties":
        _change_members(draw, place)
    elif word in other and draw(st.booleans()):
        place[word] = other[word]
    else:
        place.pop(word, None)


def _change_members(draw: st.DrawFn, place: dict[str, Any]) -> None:
    name = draw(st.sampled_from(NAMES))
    members = place.setdefault("properties", {})
    if name in members and draw(st.integers(0, 3)) == 0:
        del members[name]
    else:
        members[name] = draw(_values(1))


# --- schemas --------------------------------------------------------------------------------------------


@st.composite
def _values(draw: st.DrawFn, depth: int) -> dict[str, Any]:
    kinds = _SCALARS if depth == 0 else (*_SCALARS, "object", "object", "map", "array", "array")
    kind = draw(st.sampled_from(kinds))
    if kind == "object":
        schema = draw(_objects(depth))
    elif kind == "map":
        schema = draw(_maps(depth))
    elif kind == "array":
        schema = draw(_arrays(depth))
    else:
        schema = draw(_scalars(kind))
    if draw(st.integers(0, 3)) == 0 and kind != "anything":
        schema["nullable"] = True
    if draw(st.integers(0, 3)) == 0:
        schema["default"] = draw(values_of(schema, with_nulls=False))
    return schema


@st.composite
def _objects(draw: st.DrawFn, depth: int) -> dict[str, Any]:
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1))
    members = {name: draw(_values(depth - 1)) for name in names}
    schema: dict[str, Any] = {"type": "object", "properties": members}
    if draw(st.integers(0, 2)) == 0:
        schema["required"] = draw(st.lists(st.sampled_from(names), unique=True, min_size=1))
    if draw(st.integers(0, 4)) == 0:
        schema["x-kubernetes-preserve-unknown-fields"] = True
    if draw(st.integers(0, 5)) == 0:
        name = draw(st.sampled_from(names))
        schema[draw(st.sampled_from(["not", "x-kubernetes-validations"]))] = 0
        if "not" in schema:
            schema["not"] = {"required": [name]}
        if "x-kubernetes-validations" in schema:
            schema["x-kubernetes-validations"] = [{"rule": f"!has(self.{name})"}]
    return {**schema, **draw(_some(maxProperties=(1, 2)))}


@st.composite
def _maps(draw: st.DrawFn, depth: int) -> dict[str, Any]:
    values = draw(_values(depth - 1))
    return {"type": "object", "additionalProperties": values, **draw(_some(maxProperties=(1, 2)))}


@st.composite
def _arrays(draw: st.DrawFn, depth: int) -> dict[str, Any]:
    bounds = draw(_some(maxItems=(1, 2), minItems=(0, 1)))
    items = draw(_values(depth - 1))
    items.pop("nullable", None)
    items.pop("default", None)
    schema = {"type": "array", "items": items, **bounds}
    if draw(st.integers(0, 2)) == 0 and items.get("type") in ("string", "integer"):
        schema["x-kubernetes-list-type"] = draw(st.sampled_from(["set", "atomic"]))
    elif draw(st.booleans()) and "a" in items.get("properties", ()):
        items["properties"]["a"] = {"type": "string", **draw(_some(default=("x", "yy")))}
        schema |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}
        if "default" not in items["properties"]["a"]:
            items["required"] = sorted({*items.get("required", ()), "a"})
    return schema


@st.composite
def _scalars(draw: st.DrawFn, kind: str) -> dict[str, Any]:
    if kind == "anything":
        return {"x-kubernetes-preserve-unknown-fields": True}
    if kind == "either":
        return {"x-kubernetes-int-or-string": True, **draw(_some(pattern=("^[0-9]+$",)))}
    schema = {"type": kind}
    if kind == "string":
        lengths = draw(_some(maxLength=(1, 2, 3), minLength=(0, 1), pattern=("x", "y")))
        formats = draw(_some(format=("date-time", "other"))) if draw(st.integers(0, 5)) == 0 else {}
        enum = draw(st.lists(st.sampled_from(_TEXTS), unique=True, min_size=1))
        return {**schema, **lengths, **formats, **({"enum": enum} if draw(st.integers(0, 3)) == 0 else {})}
    if kind in ("integer", "number"):
        bounds = draw(_some(maximum=(2, 3), minimum=(0, 1), multipleOf=(1, 2), format=("int32", "int64")))
        flags = draw(_some(exclusiveMaximum=(True,), exclusiveMinimum=(True,)))
        kept = {word: flag for word, flag in flags.items() if word[9:].lower() in bounds}
        return {**schema, **bounds, **kept}
    return schema


def _some(**choices: tuple[Any, ...]) -> st.SearchStrategy[dict[str, Any]]:
    """Some of the keywords, most of the time none."""
    each = {word: st.sampled_from(values) for word, values in choices.items()}
    return st.just({}) | st.fixed_dictionaries({}, optional=each)


# --- objects --------------------------------------------------------------------------------------------


@st.composite
def values_of(draw: st.DrawFn, schema: Mapping[str, Any], *, with_nulls: bool = True) -> Any:
    """A value that probably fits."""
    if with_nulls and schema.get("nullable") and draw(st.integers(0, 3)) == 0:
        return None
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    kind = schema.get("type")
    if kind == "object":
        return draw(_members_of(schema, with_nulls))
    if kind == "array":
        items = st.deferred(lambda: values_of(schema["items"], with_nulls=with_nulls))
        return draw(st.lists(items, max_size=2))
    if kind == "boolean":
        return draw(st.booleans())
    if kind in ("integer", "number"):
        return draw(st.sampled_from([0, 1, 2, 3, 4] + ([0.5] if kind == "number" else [])))
    if kind == "string":
        return draw(st.sampled_from([*_TEXTS, "xy"]))
    if schema.get("x-kubernetes-int-or-string"):
        return draw(st.sampled_from([1, "10", "x"]))
    return draw(st.sampled_from([1, "x", True, [1, "x"], {"a": 1, "b": "x"}, {}]))


@st.composite
def _members_of(draw: st.DrawFn, schema: Mapping[str, Any], with_nulls: bool) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, member in schema.get("properties", {}).items():
        if name in schema.get("required", ()) or draw(st.booleans()):
            members[name] = draw(values_of(member, with_nulls=with_nulls))
    more = schema.get("additionalProperties")
    if isinstance(more, Mapping) and draw(st.booleans()):
        members["d"] = draw(values_of(more, with_nulls=with_nulls))
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        for name in draw(st.lists(st.sampled_from([*NAMES, "d"]), unique=True, max_size=2)):
            members.setdefault(name, draw(st.sampled_from([1, "x", {"a": 1}])))
    return members


def shown(schema: Mapping[str, Any], obj: dict[str, Any]) -> dict[str, Any] | None:
    """The object as a server with this schema stores and shows it; None if it refuses it."""
    compiled, body = compile_schema(schema), deepcopy(obj)
    compiled.prune(body)
    compiled.default(body)
    return None if compiled.validate(body) else body
