"""The source of typed classes for a CustomResourceDefinition, without loss; equal schemas become one."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import attrs
import msgspec
from attrs import define, field, frozen

from reconcile.models.definition import PRESERVE, difference, schema_at
from reconcile.models.fields import Rule, camel_case
from reconcile.models.naming import class_name, plural_of, python_name, singular
from reconcile.models.objects import Object
from reconcile.models.schemas import KEYWORDS, QUANTITY_PATTERN
from reconcile.models.source import Call, ClassSource, Code, FieldSource, literal, texts

_WORDS: Final = {word: name for name, word in KEYWORDS.items()}
_RULE_WORDS: Final = {camel_case(attribute.name): attribute.name for attribute in attrs.fields(Rule)}
_DOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+")
_LABEL: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_KIND: Final = re.compile(r"[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?")
_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]


@frozen
class Typed:
    """A type as source, and the keywords of `Schema` that its schema needs besides."""

    text: str
    keywords: Mapping[str, Code]


@define
class Generator:
    """Collects the classes of one definition."""

    classes: list[ClassSource] = field(factory=list)
    _names: dict[bytes, str] = field(factory=dict)
    _taken: set[str] = field(factory=set)

    def class_of(self, schema: Mapping[str, Any], wanted: str, outer: str) -> str:
        """The name of the class of an object schema, which is created unless an equal one exists."""
        same = msgspec.json.encode(_shape(schema), order="deterministic")
        known = self._names.get(same)
        if known is not None:
            return known
        name = self.free_name(wanted, outer)
        self._names[same] = name
        fields = self.fields_of(schema, name)
        self.classes.append(
            ClassSource(name, schema.get("description", ""), fields, Call.of("frozen", {"kw_only": "True"}))
        )
        return name

    def free_name(self, wanted: str, outer: str = "") -> str:
        """An unused class name: `wanted`, or that with the name of the outer class before it."""
        candidates = [wanted, f"{outer}{wanted}", *(f"{outer}{wanted}{n}" for n in range(2, 1000))]
        name = next(c for c in candidates if c not in self._taken)
        self._taken.add(name)
        return name

    def fields_of(
        self, schema: Mapping[str, Any], owner: str, skip: Sequence[str] = (), taken: Collection[str] = ()
    ) -> list[FieldSource]:
        """The fields of a class in the order of the schema, with no name in `taken`."""
        required = schema.get("required", ())
        taken = set(taken)
        fields = []
        for wire, inner in schema.get("properties", {}).items():
            if wire not in skip:
                name = python_name(wire, taken)
                taken.add(name)
                fields.append(self._field(name, wire, inner, wire in required, owner))
        return fields

    def _field(
        self, name: str, wire: str, schema: Mapping[str, Any], required: bool, owner: str
    ) -> FieldSource:
        typed = self.typed(schema, class_name(wire), owner)
        keywords = dict(typed.keywords)
        if camel_case(name) != wire:
            keywords["wire"] = literal(wire)
        description = "" if _is_class(schema) else schema.get("description", "")
        extra: dict[str, Any] = {}
        annotation, default = _default_of(schema, typed, required)
        if "default" in schema and (default == "None" or required):
            extra["default"] = schema["default"]
        if required and default is not None:
            keywords["required"] = "True"
        if schema.get("nullable") and not (required and default is None):
            keywords["nullable"] = "True"
        if extra:
            keywords["extra"] = _with_extra(keywords.get("extra"), extra)
        if not keywords:
            return FieldSource(name, annotation, default, description)
        constrained = Call("Annotated", [("", annotation), ("", Call.of("Schema", keywords))], "[]")
        return FieldSource(name, constrained, default, description)

    def with_empty_default(self, one: FieldSource) -> FieldSource:
        """An optional status defaults to an empty one, as in hand-written classes."""
        name = str(one.annotation).removesuffix(" | None")
        cls = next((c for c in self.classes if c.name == name), None)
        if one.value != "None" or cls is None or any(field.value is None for field in cls.fields):
            return one
        return FieldSource(one.name, name, f"{name}()", one.description)

    def typed(self, schema: Mapping[str, Any], wanted: str, owner: str) -> Typed:
        rest = {
            k: v for k, v in schema.items() if k not in ("description", "default", "nullable", "required")
        }
        text = self._text(rest, schema, wanted, owner)
        return Typed(text, _keywords(rest))

    def _text(self, rest: dict[str, Any], schema: Mapping[str, Any], wanted: str, owner: str) -> str:
        """Write the type, and remove from `rest` what the type expresses."""
        if rest.pop("x-kubernetes-int-or-string", False):
            if rest.get("anyOf") == _INT_OR_STRING:
                del rest["anyOf"]
            if rest.get("pattern") == QUANTITY_PATTERN:
                del rest["pattern"]
                return "Quantity"
            return "int | str"
        kind = rest.pop("type", None)
        if kind == "object":
            return self._object(rest, schema, wanted, owner)
        if kind == "array":
            return f"tuple[{self._item(rest.pop('items'), singular(wanted), owner)}, ...]"
        if kind is None and rest.pop(PRESERVE, False):
            return "Any"
        return _scalar(kind, rest)

    def _object(self, rest: dict[str, Any], schema: Mapping[str, Any], wanted: str, owner: str) -> str:
        if rest.pop("properties", None) is not None:
            return self.class_of(schema, wanted, owner)
        values = rest.pop("additionalProperties", None)
        if isinstance(values, Mapping):
            return f"Mapping[str, {self._item(values, singular(wanted), owner)}]"
        if rest.pop(PRESERVE, False):
            return "Mapping[str, Any]"
        if values is not None:
            raise ValueError(f"{owner}.{wanted}: additionalProperties is {values!r}, which has no class")
        return self.class_of(schema, wanted, owner)

    def _item(self, schema: Mapping[str, Any], wanted: str, owner: str) -> str:
        typed = self.typed(schema, wanted, owner)
        keywords = dict(typed.keywords)
        extra = {k: schema[k] for k in ("default",) if k in schema}
        if not _is_class(schema) and "description" in schema:
            extra["description"] = schema["description"]
        if schema.get("nullable"):
            keywords["nullable"] = "True"
        if extra:
            keywords["extra"] = _with_extra(keywords.get("extra"), extra)
        text = f"{typed.text} | None" if schema.get("nullable") else typed.text
        return f"Annotated[{text}, {Call.of('Schema', keywords)}]" if keywords else text


def _is_class(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "object" and (
        "properties" in schema or not ("additionalProperties" in schema or schema.get(PRESERVE))
    )


def _shape(schema: Mapping[str, Any]) -> dict[str, Any]:
    """What makes two object schemas one class; the rest is written where the class is used."""
    return {k: schema.get(k) for k in ("properties", "required", "description")}


_OF_LITERALS: Final[Mapping[str, type]] = {"string": str, "integer": int, "boolean": bool}


def _scalar(kind: str | None, rest: dict[str, Any]) -> str:
    if "enum" in rest and all(type(value) is _OF_LITERALS.get(kind or "") for value in rest["enum"]):
        return f"Literal[{', '.join(map(literal, rest.pop('enum')))}]"
    form = rest.pop("format", "")
    if kind == "string" and form in ("date-time", "duration"):
        return "datetime.datetime" if form == "date-time" else "datetime.timedelta"
    known = {
        "string": ("str", ""),
        "integer": ("int", "int64"),
        "number": ("float", ""),
        "boolean": ("bool", ""),
    }
    if kind not in known:
        raise ValueError(f"a schema of type {kind!r} has no class")
    text, usual = known[kind]
    if form != usual:
        rest["format"] = form
    return text


def _default_of(schema: Mapping[str, Any], typed: Typed, required: bool) -> tuple[str, str | None]:
    """The annotation of a field and its default as source; None as default if a value is required."""
    default = schema.get("default")
    plain = isinstance(default, str | int | float) and default != "" and not _needs_parsing(typed.text)
    nullable = bool(schema.get("nullable"))
    if required and "default" not in schema:
        return (f"{typed.text} | None" if nullable else typed.text), None
    if plain:
        return (f"{typed.text} | None" if nullable else typed.text), literal(default)
    return ("Any" if typed.text == "Any" else f"{typed.text} | None"), "None"


def _needs_parsing(text: str) -> bool:
    return text in ("Quantity", "datetime.datetime", "datetime.timedelta") or text.startswith("Mapping")


def _keywords(rest: Mapping[str, Any]) -> dict[str, Code]:
    """The remaining schema as keywords of `Schema`."""
    said: dict[str, Code] = {}
    extra: dict[str, Any] = {}
    for word, value in rest.items():
        if word == "x-kubernetes-validations" and all(set(rule) <= _RULE_WORDS.keys() for rule in value):
            said["rules"] = _rules(value)
        elif word in _WORDS:
            said[_WORDS[word]] = literal(tuple(value) if isinstance(value, list) else value)
        else:
            extra[word] = value
    if extra:
        said["extra"] = literal(extra)
    return said


def _rules(rules: Sequence[Mapping[str, Any]]) -> Code:
    made = [Call.of("Rule", {_RULE_WORDS[k]: literal(v) for k, v in rule.items()}) for rule in rules]
    return Call("", [("", rule) for rule in made])


def _with_extra(given: Code | None, more: Mapping[str, Any]) -> Code:
    if given is None:
        return literal(more)
    return f"{str(given)[:-1]}, {literal(more)[1:]}"


def source_of(definition: Mapping[str, Any]) -> str:
    """The source of a module with a class for each version of a definition's kind.

    The stored version has the kind's name; others have their version appended. Raises ValueError for a
    definition whose schemas no class can express.
    """
    spec = definition["spec"]
    _check_names(definition["metadata"]["name"], spec)
    generator = Generator()
    versions = sorted(spec["versions"], key=lambda version: not version["storage"])
    names = {v["name"]: _kind_name(spec["names"]["kind"], v) for v in versions}
    for name in names.values():
        generator.free_name(name)
    kinds = [
        _kind(generator, spec, version, names[version["name"]], _conflict(versions[0], version))
        for version in versions
    ]
    return texts([*generator.classes, *kinds], f"{definition['metadata']['name']}: its kinds as classes.")


def _check_names(name: str, spec: Mapping[str, Any]) -> None:
    """Names become Python code, so names that an API server would refuse are refused."""
    names = spec["names"]
    labels = [
        *(version["name"] for version in spec["versions"]),
        *(names[word] for word in ("plural", "singular") if word in names),
        *(names.get("shortNames") or ()),
        *(names.get("categories") or ()),
    ]
    for text, pattern, what in (
        (name, _DOMAIN, "the name of a definition"),
        (spec["group"], _DOMAIN, "an API group"),
        (names["kind"], _KIND, "a kind"),
        (names.get("listKind", names["kind"]), _KIND, "the kind of a list"),
        *((label, _LABEL, "a lower-case label") for label in labels),
    ):
        if not isinstance(text, str) or not pattern.fullmatch(text):
            raise ValueError(f"expected {what} that an API server accepts, got {text!r}")


def _kind_name(kind: str, version: Mapping[str, Any]) -> str:
    kind = class_name(kind)
    suffix = "".join(part[:1].upper() + part[1:] for part in re.findall(r"[a-z]+|\d+", version["name"]))
    return kind if version["storage"] else f"{kind}{suffix}"


def _schema_of(version: Mapping[str, Any]) -> Mapping[str, Any]:
    anything = {"type": "object", PRESERVE: True}
    schema: Mapping[str, Any] = version.get("schema", {}).get("openAPIV3Schema", anything)
    return schema


def _conflict(stored: Mapping[str, Any], version: Mapping[str, Any]) -> str:
    if version is stored:
        return ""
    names = (stored["name"], version["name"])
    return difference(_schema_of(stored), _schema_of(version), names=names)


def _kind(
    generator: Generator, spec: Mapping[str, Any], version: Mapping[str, Any], name: str, conflict: str
) -> ClassSource:
    schema = _schema_of(version)
    if schema.get(PRESERVE) or set(schema.get("properties", {}).get("metadata", {})) - {
        "type",
        "description",
    }:
        raise ValueError(
            f"{name}: a schema that keeps unknown fields at its root, or that constrains metadata"
        )
    fields = [
        generator.with_empty_default(one)
        for one in generator.fields_of(schema, name, ("apiVersion", "kind", "metadata"), dir(Object))
    ]
    subresources = version.get("subresources", {})
    scale, notes = _scale(subresources.get("scale"), schema)
    notes += _left_out(spec, version)
    keywords: dict[str, Code] = {
        **_names(spec, name),
        **_columns(version),
        **(
            {"rules": _rules(schema["x-kubernetes-validations"])}
            if "x-kubernetes-validations" in schema
            else {}
        ),
        **scale,
    }
    if version.get("deprecated"):
        keywords["deprecated"] = literal(version.get("deprecationWarning", ""))
    has_status = "status" in subresources
    if has_status != ("status" in schema.get("properties", {})):
        keywords["has_status"] = literal(has_status)
    if conflict:
        keywords["as_installed"] = "True"
        notes.append(f"Not the same as the stored version without conversion: {conflict}.")
    api_version = f"{spec['group']}/{version['name']}"
    decorator = Call.of("resource", keywords, literal(api_version))
    return ClassSource(name, schema.get("description", ""), fields, decorator, "Object", notes)


def _names(spec: Mapping[str, Any], name: str) -> dict[str, Code]:
    names = spec["names"]
    said: dict[str, Code] = {}
    if names["kind"] != name:
        said["kind"] = literal(names["kind"])
    if names["plural"] != plural_of(names["kind"]):
        said["plural"] = literal(names["plural"])
    if spec["scope"] == "Cluster":
        said["namespaced"] = "False"
    for wire, word in (("shortNames", "short_names"), ("categories", "categories")):
        if names.get(wire):
            said[word] = literal(tuple(names[wire]))
    return said


def _left_out(spec: Mapping[str, Any], version: Mapping[str, Any]) -> list[str]:
    """What no class expresses of a definition, besides its schemas."""
    kind = spec["names"]["kind"]
    usual = {"singular": kind.lower(), "listKind": f"{kind}List"}
    odd = {word: spec["names"].get(word, name) for word, name in usual.items()}
    left_out = [f"its {word} {odd[word]}" for word, name in usual.items() if odd[word] != name]
    if spec.get("conversion", {}).get("strategy", "None") != "None":
        left_out.append("its conversion by a webhook")
    if not version["served"]:
        left_out.append("that it is not served")
    if version.get("selectableFields"):
        left_out.append("its selectable fields")
    return [f"Left out: {', '.join(left_out)}."] if left_out else []


def _columns(version: Mapping[str, Any]) -> dict[str, Code]:
    columns = version.get("additionalPrinterColumns")
    if not columns:
        return {}
    made = [(literal(column["name"]), _column(column)) for column in columns]
    if len(dict(made)) == len(made):
        return {"columns": Call("", [(f"{title}: ", column) for title, column in made], "{}")}
    pairs = [Call("", [("", title), ("", column)]) for title, column in made]
    return {"columns": Call("", [("", pair) for pair in pairs])}


def _column(column: Mapping[str, Any]) -> Code:
    words = ("type", "priority", "description", "format")
    keywords = {word: literal(column[word]) for word in words if column.get(word)}
    return Call.of("Column", keywords, literal(column["jsonPath"]))


def _scale(scale: Mapping[str, Any] | None, schema: Mapping[str, Any]) -> tuple[dict[str, Code], list[str]]:
    """The scale of a version, or a note if it does not keep the scale contract."""
    if scale is None:
        return {}, []
    paths = [scale.get(n, "") for n in ("specReplicasPath", "statusReplicasPath", "labelSelectorPath")]
    replicas, status, selector = (schema_at(schema, path) for path in paths)
    problem = ""
    if absent := _may_be_absent(schema, paths[0]):
        problem = f"{absent} may be absent, and the default of {paths[0]} with it"
    elif "default" not in replicas:
        problem = f"{paths[0]} has no default"
    elif status.get("type") != "integer":
        problem = f"{paths[1]} is not an integer"
    elif selector.get("type") != "string":
        problem = "it has no selector that is a string in status"
    if problem:
        return {}, [f"Its /scale is left out: {problem}."]
    words = dict(zip(("replicas", "status", "selector"), map(literal, paths), strict=True))
    return {"scale": Call.of("Scale", words)}, []


def _may_be_absent(schema: Mapping[str, Any], path: str) -> str:
    """The first object on a path that is not required; empty if all are."""
    here = ""
    for step in path.strip(".").split(".")[:-1]:
        here = f"{here}.{step}"
        if step not in schema.get("required", ()):
            return here
        schema = schema.get("properties", {}).get(step, {})
    return ""
