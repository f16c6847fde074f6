"""API objects in Python: a frozen attrs class per kind, with metadata."""

import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, Literal, Self, TypeVar, dataclass_transform

import attrs
from attrs import frozen

from informers import APIResource, Key
from reconcile.models.fields import Rule, Schema, field
from reconcile.models.naming import plural_of
from reconcile.models.reading import check_model
from reconcile.models.scale import Scale, check_scale

Class = TypeVar("Class", bound="type[Object]")


@frozen
class OwnerReference:
    """The owner of an object; the one with `controller` manages it."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


@frozen
class ObjectMeta:
    """The metadata of every object. What the server sets is empty until then."""

    __sparse__: ClassVar[bool] = True

    name: str = ""
    namespace: str = ""
    labels: Mapping[str, str] = attrs.field(factory=dict)
    annotations: Mapping[str, str] = attrs.field(factory=dict)
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()
    generate_name: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime.datetime | None = None
    deletion_timestamp: datetime.datetime | None = None


CONDITION_TYPE: Final = Schema(
    max_length=316,
    pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
)
CONDITION_REASON: Final = Schema(
    required=True, min_length=1, max_length=1024, pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
)
CONDITION_MESSAGE: Final = Schema(required=True, max_length=32768)


@frozen
class Condition:
    """An observation in a status: `status` is True, False or Unknown, `reason` a CamelCase word.

    A definition constrains it as metav1.Condition does; objects that are read may break those constraints.
    """

    type: Annotated[str, CONDITION_TYPE]
    status: Annotated[str, Schema(extra={"enum": ["True", "False", "Unknown"]})]
    reason: Annotated[str, CONDITION_REASON] = ""
    message: Annotated[str, CONDITION_MESSAGE] = ""
    last_transition_time: Annotated[datetime.datetime | None, Schema(required=True)] = None
    observed_generation: Annotated[int | None, Schema(minimum=0)] = None


@frozen
class Column:
    """A printer column: `Column(".spec.image", priority=1)` is shown with `-o wide` only.

    `type` defaults to that of the field at `path`.
    """

    path: str
    type: Literal["", "integer", "number", "string", "boolean", "date"] = ""
    priority: int = 0
    description: str = ""
    format: str = ""

    @classmethod
    def of(cls, given: "str | Column") -> "Column":
        """The column for a path or a column."""
        return cls(given) if isinstance(given, str) else given


@frozen
class Kind:
    """What `@resource` declares of a class."""

    resource: APIResource
    singular: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    columns: tuple[tuple[str, Column], ...] = ()
    rules: tuple[Rule, ...] = ()
    scale: Scale | None = None
    deprecated: str | None = None
    has_status: bool | None = None
    as_installed: bool = False


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field, attrs.field))
class _Model:
    """Tells type checkers that subclasses of `Object` are built from their fields, by keyword."""


class Object(_Model):
    """Base of every kind: `@resource("example.com/v1") class Site(Object): spec: SiteSpec`."""

    __kind__: ClassVar[Kind]
    metadata: ObjectMeta = ObjectMeta()

    @property
    def name(self) -> str:
        """The name within its namespace."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """The namespace; empty for cluster-scoped kinds."""
        return self.metadata.namespace

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return Key(self.metadata.namespace, self.metadata.name)

    @property
    def uid(self) -> str:
        """The identity, which an object of the same name does not share."""
        return self.metadata.uid

    @property
    def terminating(self) -> bool:
        """Whether deletion was requested and has not ended."""
        return self.metadata.deletion_timestamp is not None

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed: `site.replace(spec=...)`."""
        this: Any = self
        changed: Self = attrs.evolve(this, **changes)
        return changed

    def with_metadata(self, **changes: Any) -> Self:
        """A copy with some fields of its metadata changed."""
        return self.replace(metadata=attrs.evolve(self.metadata, **changes))


class Unstructured(Object):
    """An object of a kind without a model, of `unstructured_kind(...)`; `body` is all of it, immutable."""

    body: Mapping[str, Any] = attrs.field(factory=dict)

    def __getitem__(self, member: str) -> Any:
        return self.body[member]


def resource(
    api_version: str,
    *,
    kind: str = "",
    plural: str = "",
    namespaced: bool = True,
    short_names: tuple[str, ...] = (),
    categories: tuple[str, ...] = (),
    columns: Mapping[str, str | Column] | Sequence[tuple[str, str | Column]] = (),
    rules: tuple[Rule | str, ...] = (),
    scale: Scale | None = None,
    deprecated: str | None = None,
    has_status: bool | None = None,
    as_installed: bool = False,
) -> Callable[[Class], Class]:
    """Make a subclass of `Object` the model of a kind.

    `kind` defaults to the class's name, `plural` to its plural in lower case. `columns` maps the titles of
    printer columns to JSON paths or `Column`s (use pairs if two have one title). `rules` are CEL over the
    whole object. `scale` makes the kind one that an autoscaler can size. `deprecated` is the warning for
    users of this version ("" for the server's own words). `has_status`: status is a subresource, by default
    if the class has a `status`. `as_installed` is for a version that others serve beside the stored one
    although the two differ, because they convert between them.

    Raises TypeError for a class that is not an `Object`, for a field without a form in JSON, for two fields
    of one JSON name, and for an invalid `scale`.
    """
    group, _, version = api_version.rpartition("/")
    pairs = columns.items() if isinstance(columns, Mapping) else columns

    def make(cls: Class) -> Class:
        if not (isinstance(cls, type) and issubclass(cls, Object)):
            raise TypeError(f"{cls.__name__} must be a subclass of Object: class {cls.__name__}(Object): ...")
        name = kind or cls.__name__
        made = attrs.define(cls, frozen=True, kw_only=True, slots=False)
        made.__kind__ = Kind(
            APIResource(group, version, name, plural or plural_of(name), namespaced),
            singular=name.lower(),
            short_names=short_names,
            categories=categories,
            columns=tuple((title, Column.of(column)) for title, column in pairs),
            rules=tuple(Rule(rule) if isinstance(rule, str) else rule for rule in rules),
            scale=scale,
            deprecated=deprecated,
            has_status=has_status,
            as_installed=as_installed,
        )
        check_model(made)
        if scale is not None:
            check_scale(made, scale)
        return made

    return make


def unstructured_kind(
    api_version: str, kind: str, *, plural: str = "", namespaced: bool = True
) -> type[Unstructured]:
    """A class for objects of a kind that has no model."""
    made = type(kind, (Unstructured,), {"__annotations__": {}})
    return resource(api_version, kind=kind, plural=plural, namespaced=namespaced)(made)


attrs.define(Object, frozen=True, kw_only=True, slots=False)
attrs.define(Unstructured, frozen=True, kw_only=True, slots=False)


def kind_of(model: type[Object] | Object) -> Kind:
    """The declaration by `@resource`. Raises TypeError for a class without it."""
    kind = getattr(model, "__kind__", None)
    if not isinstance(kind, Kind):
        name = model.__name__ if isinstance(model, type) else type(model).__name__
        raise TypeError(f'{name} is not a kind: decorate it with @resource("group/version")')
    return kind


def status_part(model: type[Object] | Object) -> str:
    """The subresource to which a status is written; empty where it is a field like others (`has_status`)."""
    return "" if kind_of(model).has_status is False else "status"
