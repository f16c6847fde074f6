"""Compares two schemas of a version: what the new one adds, and what objects of the old one may not fit.

A change is additive only if every object that the old schema accepts is accepted by the new one and keeps all
its fields. Where that cannot be decided from the schemas, the stored objects decide.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from attrs import evolve, frozen

from reconcile.models.definition import PRESERVE

Schema: TypeAlias = Mapping[str, Any]
Effect: TypeAlias = Literal["additive", "narrowing", "unknown"]
Proof: TypeAlias = Literal["none", "objects", "impossible"]

_COMPOSITIONS: Final = ("allOf", "anyOf", "oneOf", "not")
_DOCUMENTATION: Final = frozenset({"description", "title", "example", "externalDocs", "$schema", "id"})
_COMPARED: Final = frozenset(
    {
        *_COMPOSITIONS,
        PRESERVE,
        "additionalProperties",
        "default",
        "enum",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "format",
        "items",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "multipleOf",
        "nullable",
        "pattern",
        "properties",
        "required",
        "type",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
        "x-kubernetes-validations",
    }
)
_ANYTHING: Final[Schema] = {PRESERVE: True}
_INT_OR_STRING: Final = "int-or-string"
_EITHER: Final = [{"type": "integer"}, {"type": "string"}]
"""The branches that repeat x-kubernetes-int-or-string, and say nothing more."""
_WIDER_TYPES: Final = frozenset(
    {("integer", "number"), ("integer", _INT_OR_STRING), ("string", _INT_OR_STRING)}
)
_WIDER_FORMATS: Final = frozenset({("int32", "int64"), ("float", "double")})
_SHOWN: Final = 60
"""Characters of a value of a schema in a text."""


@frozen
class DefinitionChange:
    """One difference of a definition: the `version` (empty: of all), the `path` of the field, as in
    `spec.ports[].name`, and `what` in words.

    `effect` is `additive`, `narrowing`, or `unknown` for what no comparison decides, as rules and patterns.
    `proof` says what decides whether it may be made: `none` is needed, for stored objects are not concerned;
    the stored `objects` that it concerns; or it is `impossible` to make it safely.
    """

    version: str
    path: str
    what: str
    effect: Effect
    proof: Proof = "none"

    @property
    def reads(self) -> bool:
        """Whether stored objects must be read."""
        return self.proof == "objects"

    def __str__(self) -> str:
        return ": ".join(part for part in (self.version, self.path, self.what) if part)


def schema_changes(old: Schema, new: Schema, version: str = "") -> Iterator[DefinitionChange]:
    """The differences of two structural schemas of objects, `openAPIV3Schema`, in the order of their fields.

    Descriptions are not compared. Objects are as a server shows them: without the fields that `old` does not
    have, and with its defaults.
    """
    yield from _changes(_Place(version), _with_head(old), _with_head(new))


def _with_head(schema: Schema) -> Schema:
    """A schema with the fields that every object has, whether a definition names them or not."""
    members = schema.get("properties") or {}
    metadata = members.get("metadata") or {}
    head = {name: members.get(name) or {"type": "string"} for name in ("apiVersion", "kind")}
    return {**schema, "properties": {**members, **head, "metadata": {**metadata, **_head_of(metadata)}}}


def _head_of(metadata: Schema) -> Schema:
    names = {name: {"type": "string"} for name in ("name", "generateName")}
    return {"type": "object", PRESERVE: True, "properties": {**names, **(metadata.get("properties") or {})}}


@frozen
class _Place:
    """Where two schemas are compared.

    `judged` if the new schema has rules, compositions or the like here or above: then another value or type
    below may break them, so no default that is new goes without a look at the objects. `keys` are the fields
    here that make items of a list differ.
    """

    version: str
    path: str = ""
    judged: bool = False
    keys: Collection[str] = ()

    def under(self, new: Schema) -> "_Place":
        counted = ("minProperties", "maxProperties")
        whole = any(word in new for word in (*_COMPOSITIONS, "x-kubernetes-validations", *counted))
        nested = "enum" in new and _kind(new) not in ("string", "integer", "number", "boolean")
        return evolve(self, judged=self.judged or whole or nested)

    def field(self, name: str) -> "_Place":
        judged = self.judged or name in self.keys
        return evolve(self, path=f"{self.path}.{name}" if self.path else name, judged=judged, keys=())

    def items(self, new: Schema) -> "_Place":
        kind = new.get("x-kubernetes-list-type")
        keys = new.get("x-kubernetes-list-map-keys", ()) if kind == "map" else ()
        return evolve(self, path=f"{self.path}[]", judged=self.judged or kind == "set", keys=keys)

    def additive(self, what: str) -> DefinitionChange:
        return DefinitionChange(self.version, self.path, what, "additive")

    def additive_unless_judged(self, what: str) -> DefinitionChange:
        if not self.judged:
            return self.additive(what)
        return self.unknown(f"{what}, and rules or lists around it look at it")

    def narrowing(self, what: str, proof: Proof = "objects") -> DefinitionChange:
        return DefinitionChange(self.version, self.path, what, "narrowing", proof)

    def unknown(self, what: str) -> DefinitionChange:
        return DefinitionChange(self.version, self.path, what, "unknown", "objects")


_Changes: TypeAlias = Iterator[DefinitionChange]


def _changes(place: _Place, old: Schema, new: Schema) -> _Changes:
    if old == new:
        return
    place = place.under(new)
    before, after = _kind(old), _kind(new)
    if _takes_anything(new):
        if not _takes_anything(old):
            yield place.additive_unless_judged("any value is accepted")
        return
    if before != after:
        if after and (before, after) not in _WIDER_TYPES:
            yield place.narrowing(f"must be {after} and was {before or 'any value'}")
            return
        yield place.additive_unless_judged(f"may be {after or 'any value'} and was {before}")
    yield from _value_changes(place, old, new)
    yield from _member_changes(place, _with_embedded_head(old), _with_embedded_head(new))
    items_before, items_after = old.get("items"), new.get("items")
    if isinstance(items_before, Mapping) and isinstance(items_after, Mapping):
        yield from _changes(place.items(new), items_before, items_after)
    elif items_before != items_after:
        yield place.unknown("items is another")


def _kind(schema: Schema) -> str:
    """The type; empty for any value."""
    if schema.get("x-kubernetes-int-or-string") and not schema.get("type"):
        return _INT_OR_STRING
    return str(schema.get("type", ""))


def _takes_anything(schema: Schema) -> bool:
    said = schema.keys() - _DOCUMENTATION - {"nullable", "default"}
    return said == {PRESERVE} and bool(schema[PRESERVE])


# --- one value ------------------------------------------------------------------------------------------


def _value_changes(place: _Place, old: Schema, new: Schema) -> _Changes:
    yield from _nullable(place, old, new)
    yield from _enum(place, old, new)
    yield from _bounds(place, old, new)
    yield from _sizes(place, old, new)
    yield from _multiple(place, old, new)
    yield from _pattern_and_format(place, old, new)
    yield from _rules(place, old, new)
    yield from _compositions(place, old, new)
    yield from _list_and_map_types(place, old, new)
    for word in sorted((old.keys() | new.keys()) - _COMPARED - _DOCUMENTATION):
        if old.get(word) != new.get(word):
            yield place.unknown(f"{word} is another")


def _nullable(place: _Place, old: Schema, new: Schema) -> _Changes:
    before, after = bool(old.get("nullable")), bool(new.get("nullable"))
    if after and not before:
        yield place.additive("may be null")
    elif before and not after:
        yield place.narrowing("may not be null any more")


def _enum(place: _Place, old: Schema, new: Schema) -> _Changes:
    before, after = old.get("enum"), new.get("enum")
    if after is None:
        if before is not None:
            yield place.additive("enum is gone")
        return
    if before is None:
        yield place.narrowing(f"enum {_shown(after)} is new")
        return
    if gone := [value for value in before if not _is_among(value, after)]:
        yield place.narrowing(f"enum has no {_listed(gone)} any more")
    if added := [value for value in after if not _is_among(value, before)]:
        yield place.additive(f"enum has {_listed(added)} too")


def _is_among(value: Any, values: Sequence[Any]) -> bool:
    # In Python True equals 1, in JSON it does not.
    return any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in values)


def _bounds(place: _Place, old: Schema, new: Schema) -> _Changes:
    for word, flag, sign in (("maximum", "exclusiveMaximum", 1), ("minimum", "exclusiveMinimum", -1)):
        before, after = _bound(old, word, flag, sign), _bound(new, word, flag, sign)
        yield from _limit(place, word, before, after, _written(old, word, flag), _written(new, word, flag))


def _bound(schema: Schema, word: str, flag: str, sign: int) -> tuple[float, bool]:
    """How far values reach, greater being wider, and whether the bound itself is in."""
    if word not in schema:
        return float("inf"), True
    return sign * schema[word], not schema.get(flag)


def _written(schema: Schema, word: str, flag: str) -> str:
    if word not in schema:
        return ""
    return f"{schema[word]}{', itself excluded,' if schema.get(flag) else ''}"


def _sizes(place: _Place, old: Schema, new: Schema) -> _Changes:
    for noun in ("Length", "Items", "Properties"):
        for word, none, sign in ((f"max{noun}", float("inf"), 1), (f"min{noun}", 0, -1)):
            before, after = sign * old.get(word, none), sign * new.get(word, none)
            yield from _limit(place, word, before, after, str(old.get(word, "")), str(new.get(word, "")))


def _limit(place: _Place, word: str, before: Any, after: Any, old: str, new: str) -> _Changes:
    """`before` and `after` say how far values reach; `old` and `new` are as they are written, or empty."""
    if after < before:
        yield place.narrowing(f"{word} is {new} and {f'was {old}' if old else 'there was none'}")
    elif after > before:
        yield place.additive(f"{word} is {new} and was {old}" if new else f"{word} is gone")


def _multiple(place: _Place, old: Schema, new: Schema) -> _Changes:
    before, after = old.get("multipleOf"), new.get("multipleOf")
    if before == after:
        return
    whole = isinstance(before, int) and isinstance(after, int) and after != 0
    if after is None or (whole and before % after == 0):
        yield place.additive(f"multipleOf is {after} and was {before}" if after else "multipleOf is gone")
    else:
        yield place.narrowing(f"multipleOf is {after}" + (f" and was {before}" if before else ""))


def _pattern_and_format(place: _Place, old: Schema, new: Schema) -> _Changes:
    before, after = old.get("pattern"), new.get("pattern")
    if after is None and before is not None:
        yield place.additive("pattern is gone")
    elif before != after:
        yield place.unknown(f"pattern {_shown(after)} is {'new' if before is None else 'another one'}")
    before, after = old.get("format"), new.get("format")
    if before == after:
        return
    if after is None or (before, after) in _WIDER_FORMATS:
        # A format makes another type of a value in rules, which may fail for a plain string.
        yield place.additive_unless_judged(
            f"format is {after} and was {before}" if after else "format is gone"
        )
    else:
        yield place.narrowing(
            f"format is {after}" + (f" and was {before}" if before else " and there was none")
        )


def _rules(place: _Place, old: Schema, new: Schema) -> _Changes:
    before, after = (_rules_of(one) for one in (old, new))
    for rule in after:
        if rule not in before:
            yield place.unknown(f"the rule {_shown(rule[0])} is new or another one")
    for rule in before:
        if rule not in after:
            yield place.additive(f"the rule {_shown(rule[0])} is gone")


def _rules_of(schema: Schema) -> Sequence[tuple[str, bool]]:
    """What decides: other words of a message refuse nothing else."""
    rules = schema.get("x-kubernetes-validations") or ()
    return [(str(rule.get("rule", "")), bool(rule.get("optionalOldSelf"))) for rule in rules]


def _compositions(place: _Place, old: Schema, new: Schema) -> _Changes:
    for word in _COMPOSITIONS:
        before, after = _parts(old, word), _parts(new, word)
        if before == after:
            continue
        fewer = word == "allOf" and all(part in before for part in after)
        more = word == "anyOf" and before and all(part in after for part in before)
        if not after or fewer or more:
            yield place.additive(f"{word} accepts more" if after else f"{word} is gone")
        else:
            yield place.unknown(f"{word} is {'another' if before else 'new'}")


def _parts(schema: Schema, word: str) -> Sequence[Any]:
    """The schemas of a composition, without what documents them or repeats x-kubernetes-int-or-string."""
    if word == "not":
        return [_undocumented(schema["not"])] if "not" in schema else []
    parts = [_undocumented(part) for part in schema.get(word) or ()]
    if not schema.get("x-kubernetes-int-or-string"):
        return parts
    if word == "anyOf" and parts == _EITHER:
        return []
    return [part for part in parts if part != {"anyOf": _EITHER}] if word == "allOf" else parts


def _undocumented(value: Any) -> Any:
    if isinstance(value, Mapping):
        kept = {name: one for name, one in value.items() if name not in _DOCUMENTATION or name == "id"}
        if isinstance(kept.get("properties"), Mapping):
            members = {name: _undocumented(one) for name, one in kept["properties"].items()}
            kept = {**kept, "properties": members}
        below = {word: _undocumented(kept[word]) for word in (*_COMPOSITIONS, "items") if word in kept}
        return {**kept, **below}
    return [_undocumented(one) for one in value] if isinstance(value, list) else value


def _list_and_map_types(place: _Place, old: Schema, new: Schema) -> _Changes:
    word = "x-kubernetes-list-type"
    before, after = (one.get(word) or "atomic" for one in (old, new))
    if before != after:
        # What applied a list as a whole, or its items, owns other fields after either change.
        proof: Proof = "none" if after == "atomic" else "objects"
        yield place.narrowing(f"{word} is {after} and was {before}", proof)
    elif after == "map" and sorted(_keys(old)) != sorted(_keys(new)):
        yield place.narrowing(f"the list's keys are {_listed(_keys(new))} and were {_listed(_keys(old))}")
    word = "x-kubernetes-map-type"
    before, after = (one.get(word) or "granular" for one in (old, new))
    if before != after:
        yield place.narrowing(f"{word} is {after} and was {before}", "none")


def _keys(schema: Schema) -> Sequence[str]:
    return schema.get("x-kubernetes-list-map-keys") or ()


# --- members --------------------------------------------------------------------------------------------


def _with_embedded_head(schema: Schema) -> Schema:
    if not schema.get("x-kubernetes-embedded-resource"):
        return schema
    head = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": _ANYTHING}
    return {**schema, "properties": {**head, **(schema.get("properties") or {})}}


def _member_changes(place: _Place, old: Schema, new: Schema) -> _Changes:
    whole = "x-kubernetes-embedded-resource"
    if bool(old.get(whole)) != bool(new.get(whole)):
        yield place.narrowing(f"{whole} is {'set' if new.get(whole) else 'gone'}")
    before, after = old.get("properties") or {}, new.get("properties") or {}
    rest_before, rest_after = _rest(old), _rest(new)
    for name in dict.fromkeys((*before, *after)):
        mine, its = before.get(name, rest_before), after.get(name, rest_after)
        required = name in (old.get("required") or ()), name in (new.get("required") or ())
        yield from _field_changes(place.field(name), mine, its, *required)
    for name in new.get("required") or ():
        if name not in (old.get("required") or ()) and name not in before and name not in after:
            yield place.field(name).narrowing("is required now")
    yield from _rest_changes(place, rest_before, rest_after)


def _rest(schema: Schema) -> Schema | None:
    """The schema of members that are not named; None if servers drop them."""
    more = schema.get("additionalProperties")
    if isinstance(more, Mapping):
        return more
    return _ANYTHING if more or schema.get(PRESERVE) else None


def _rest_changes(place: _Place, before: Schema | None, after: Schema | None) -> _Changes:
    if before is not None and after is None:
        yield place.narrowing("fields that the definition does not name are dropped now")
    elif before is None and after is not None:
        yield place.additive("fields that the definition does not name are kept now")
    elif before is not None and after is not None:
        yield from _changes(place.field("*"), before, after)


def _field_changes(
    place: _Place, old: Schema | None, new: Schema | None, was_required: bool, is_required: bool
) -> _Changes:
    if new is None:
        yield place.narrowing("is gone, so servers drop it")
        return
    if old is None:
        yield _added(place, new, is_required)
        return
    yield from _default(place, old, new, is_required)
    if was_required and not is_required:
        yield place.additive("is optional now")
    elif is_required and not was_required and "default" in new:
        yield place.additive("is required now, with a default")
    elif is_required and not was_required and "default" not in old:
        yield place.narrowing("is required now, without a default")
    yield from _changes(place, old, new)


def _added(place: _Place, new: Schema, is_required: bool) -> DefinitionChange:
    if "default" in new:
        return place.additive_unless_judged(f"is new, with the default {_shown(new['default'])}")
    return (
        place.narrowing("is new and required, without a default") if is_required else place.additive("is new")
    )


def _default(place: _Place, old: Schema, new: Schema, is_required: bool) -> _Changes:
    if "default" in old and "default" not in new:
        # Servers show the default of objects that do not store the field: which do cannot be read.
        proof: Proof = "impossible" if is_required or place.judged else "none"
        yield place.narrowing(f"has no default any more, and had {_shown(old['default'])}", proof)
    elif "default" in new and "default" not in old:
        yield place.additive_unless_judged(f"has the default {_shown(new['default'])} now")
    elif old.get("default") != new.get("default"):
        words = f"has the default {_shown(new['default'])} and had {_shown(old['default'])}"
        yield place.additive_unless_judged(words)


# --- words ----------------------------------------------------------------------------------------------


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def _listed(values: Sequence[Any]) -> str:
    return ", ".join(map(_shown, values))
