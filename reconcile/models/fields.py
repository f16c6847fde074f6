"""The fields of model classes: how authors declare them, and what codecs and schemas read from them."""

import enum
import functools
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal, TypedDict, TypeVar, Unpack, cast, overload

import attrs
from attrs import frozen

_SECRET: Final = "reconcile.secret"
EXTRA: Final = "reconcile.extra"

T = TypeVar("T")


class UnsetType(enum.Enum):
    """The type of UNSET."""

    UNSET = "UNSET"

    def __repr__(self) -> str:
        return "UNSET"

    def __bool__(self) -> Literal[False]:
        return False


UNSET: Final = UnsetType.UNSET
"""Absent, for fields in which None means null: `colour: str | None | UnsetType = UNSET`.

UNSET is not written; None is written as null.
"""


@frozen
class Rule:
    """A CEL rule that the server checks: `Rule("self.min <= self.max", "min is above max")`.

    `message` is what a user reads, or `message_expression` computes it in CEL; `field_path` is the relative
    path that the server blames; `reason` and `optional_old_self` are as in `x-kubernetes-validations`.
    """

    rule: str
    message: str = ""
    message_expression: str = ""
    reason: str = ""
    field_path: str = ""
    optional_old_self: bool | None = None


def _rules(given: "Rule | str | tuple[Rule | str, ...]") -> tuple[Rule, ...]:
    several = given if isinstance(given, tuple) else (given,)
    return tuple(Rule(one) if isinstance(one, str) else one for one in several)


@frozen(kw_only=True)
class Schema:
    """Constraints beyond a type, for its schema: `image: Annotated[str, Schema(min_length=1)]`.

    It constrains a field, required or with a default (`replicas: Annotated[int, Schema(minimum=0)] = 1`), and
    the items of a list or map: `tuple[Annotated[str, Schema(max_length=63)], ...]`. The server checks it; the
    decoder does not, because stored objects may be older than the rule. `rules` are CEL over `self`: a text,
    a `Rule`, or a tuple of them. `wire` is the JSON name if not the camelCase of the Python name (`pod_ip` is
    `podIp`). `required` overrides what the default implies; `extra` is added to the schema as it is.
    """

    minimum: float | None = None
    maximum: float | None = None
    exclusive_minimum: bool | None = None
    exclusive_maximum: bool | None = None
    multiple_of: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    format: str | None = None
    min_items: int | None = None
    max_items: int | None = None
    min_properties: int | None = None
    max_properties: int | None = None
    nullable: bool | None = None
    list_type: Literal["atomic", "set", "map"] | None = None
    list_map_keys: tuple[str, ...] = ()
    map_type: Literal["atomic", "granular"] | None = None
    rules: tuple[Rule, ...] = attrs.field(default=(), converter=_rules)
    required: bool | None = None
    wire: str | None = None
    extra: Mapping[str, Any] = attrs.field(factory=dict, hash=False)


NOTHING_MORE: Final = Schema()


class FieldKeywords(TypedDict, total=False):
    """The keywords of `field` besides a default: ours, and attrs' own."""

    secret: bool
    extra_fields: bool
    converter: Callable[[Any], Any]
    validator: Callable[[Any, "attrs.Attribute[Any]", Any], None]
    repr: bool | Callable[[Any], str]
    metadata: Mapping[str, Any]


@overload
def field(*, default: T, **keywords: Unpack[FieldKeywords]) -> T: ...
@overload
def field(*, factory: type[dict[Any, Any]], **keywords: Unpack[FieldKeywords]) -> dict[Any, Any]: ...
@overload
def field(*, factory: Callable[[], T], **keywords: Unpack[FieldKeywords]) -> T: ...
def field(**keywords: Any) -> Any:
    """A field with a default and further keywords: attrs' own, and two of ours.

    `secret` keeps its value out of `repr` and errors. `extra_fields` makes it the mapping of all JSON fields
    that the class does not have. Schema constraints belong in the type: `Annotated[int, Schema(minimum=0)]`.
    Raises TypeError without a default, as type checkers take a field with any value for optional, and for a
    keyword of `Schema`.
    """
    if misplaced := sorted(keywords.keys() & _SCHEMA_KEYWORDS):
        word = misplaced[0]
        raise TypeError(
            f"field() does not take {word}=: it belongs to the type, as in "
            f"Annotated[..., Schema({'rules' if word == 'rule' else word}=...)]"
        )
    secret = keywords.pop("secret", False)
    if "default" not in keywords and "factory" not in keywords:
        raise TypeError(
            "field() needs a default= or factory=: a required field has none, and its constraints in its "
            "type, as in `image: Annotated[str, Schema(min_length=1)]`"
        )
    metadata = {**keywords.pop("metadata", {}), _SECRET: secret, EXTRA: keywords.pop("extra_fields", False)}
    keywords.setdefault("repr", _hidden if secret else True)
    return attrs.field(metadata=metadata, **keywords)


_SCHEMA_KEYWORDS: Final = frozenset({"rule", *(attribute.name for attribute in attrs.fields(Schema))})


def _hidden(_: object) -> str:
    return "***"


@frozen
class ModelField:
    """A field of a model; `type` lacks None, UnsetType and Annotated; `default` is NOTHING if required."""

    name: str
    argument: str
    wire: str
    type: Any
    default: Any
    nullable: bool
    unset: bool
    secret: bool
    schema: Schema

    @property
    def needed(self) -> bool:
        return self.default is attrs.NOTHING


def camel_case(name: str) -> str:
    """`pull_secret` is `pullSecret`; a trailing underscore (`from_`) is dropped."""
    head, *rest = name.strip("_").split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest)


def fields_of(cls: type[Any]) -> tuple[ModelField, ...]:
    """A class's fields, in order. Raises TypeError if two share a JSON name, NameError for unknown types."""
    known = cls.__dict__.get("__model_fields__")
    if known is None:
        attrs.resolve_types(cls)
        attributes = [one for one in attrs.fields(cls) if one.init and not one.metadata.get(EXTRA)]
        known = tuple(map(_model_field, attributes))
        _refuse_clashes(cls, known)
        cls.__model_fields__ = known
    return cast(tuple[ModelField, ...], known)


def fields_by_wire(cls: Any) -> dict[str, ModelField]:
    """The fields of a model class by their JSON names; none for other types."""
    return {f.wire: f for f in fields_of(cls)} if isinstance(cls, type) and attrs.has(cls) else {}


def _refuse_clashes(cls: type[Any], fields: tuple[ModelField, ...]) -> None:
    seen: dict[str, str] = {}
    for one in fields:
        if one.wire in seen:
            raise TypeError(
                f"{cls.__name__}.{seen[one.wire]} and .{one.name} are both {one.wire!r} in JSON: "
                "give one of them another name in JSON: Annotated[..., Schema(wire=...)]"
            )
        seen[one.wire] = one.name


def _model_field(attribute: "attrs.Attribute[Any]") -> ModelField:
    inner, extras = split_annotated(attribute.type)
    parts = union_parts(inner)
    kept = tuple(part for part in parts if part not in (type(None), UnsetType))
    plain, more = split_annotated(kept[0] if len(kept) == 1 else typing.Union[kept] if kept else type(None))  # noqa: UP007
    schemas = [one for one in (*more, *extras) if isinstance(one, Schema)]
    schema = functools.reduce(_combined, schemas, NOTHING_MORE)
    return ModelField(
        name=attribute.name,
        argument=attribute.alias or attribute.name,
        wire=schema.wire or camel_case(attribute.name),
        type=_annotated(plain, more, extras),
        default=_default(attribute),
        nullable=type(None) in parts or inner is Any,
        unset=UnsetType in parts,
        secret=bool(attribute.metadata.get(_SECRET)),
        schema=schema,
    )


def _annotated(plain: Any, *groups: tuple[Any, ...]) -> Any:
    """The type with its Annotated metadata, except for schemas, which belong to the field."""
    kept = [one for group in groups for one in group if not isinstance(one, Schema)]
    for one in kept:
        plain = Annotated[plain, one]
    return plain


def _combined(one: Schema, other: Schema) -> Schema:
    said = {
        a.name: value
        for a in attrs.fields(Schema)
        if (value := getattr(other, a.name)) not in (None, (), {}) and a.name != "extra"
    }
    return attrs.evolve(one, **said, extra={**one.extra, **other.extra})


def _default(attribute: "attrs.Attribute[Any]") -> Any:
    default: Any = attribute.default
    if isinstance(default, attrs.Factory):  # type: ignore[arg-type]
        return default.factory() if not default.takes_self else None
    return default


def split_annotated(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """A type, and its Annotated metadata."""
    if typing.get_origin(annotation) is Annotated:
        plain, *extras = typing.get_args(annotation)
        return plain, tuple(extras)
    return annotation, ()


def union_parts(annotation: Any) -> tuple[Any, ...]:
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        return typing.get_args(annotation)
    return (type(None) if annotation is None else annotation,)
