"""One version of one resource, as the embedded server serves, stores and converts it."""

import datetime
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

from attrs import field, frozen

from reconcile.embedded.schema import ResourceSchema

Convert = Callable[[dict[str, Any], str], dict[str, Any]]
"""Converts an object to an apiVersion; it may change its argument."""
ConvertPath = Callable[[str, str], str]
"""The path of a field in objects of an apiVersion; the argument may be the path in another version."""


class ConversionFailed(Exception):
    """Raised by a converter; the client gets its text in a 500."""


@frozen
class ConversionRequest:
    """Objects to convert to another version."""

    webhook: Mapping[str, Any]
    """`spec.conversion.webhook` of the definition."""
    api_version: str
    """The desired version."""
    objects: Sequence[dict[str, Any]]
    """Copies that may be changed."""


class Converter(Protocol):
    """Returns the objects of a request in the desired version, in order.

    Of their metadata only labels and annotations count. Nothing is locked while it is awaited.
    """

    def __call__(self, request: ConversionRequest) -> Awaitable[Sequence[dict[str, Any]]]: ...


@frozen
class PathColumn:
    """A column of `kubectl get`: `type` is string, integer, number, boolean or date."""

    name: str
    type: str
    json_path: str
    description: str = ""
    priority: int = 0
    format: str = ""


@frozen
class CellColumn:
    """A column of `kubectl get` whose cells a function computes; `wide` ones need `-o wide`."""

    name: str
    cell: Callable[[Mapping[str, Any], datetime.datetime], Any]
    """Called with the object and the current time."""
    type: str = "string"
    wide: bool = False


@frozen
class ScalePaths:
    """Where a resource keeps the fields of its /scale, as definitions write them: `.spec.replicas`."""

    spec_replicas: str
    status_replicas: str
    selector: str = ""


@frozen(eq=False)
class ServedResource:
    """One version of one resource, built in or from a CustomResourceDefinition.

    Instances compare by identity: what one of them encoded is valid for it alone.
    """

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    list_kind: str
    schema: ResourceSchema
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    has_status: bool = False
    scale: ScalePaths | None = None
    has_generation: bool = True
    generation_follows: tuple[str, ...] = ()
    """The metadata whose changes increase the generation too (annotations of a Deployment)."""
    custom: bool = False
    """From a CustomResourceDefinition; some errors differ from those of built-in kinds."""
    create_on_update: bool = False
    """A PUT of a missing object creates it (Lease, Event)."""
    unconditional_update: bool = False
    """A PUT without resourceVersion is accepted (most built-in kinds)."""
    answers_object_on_delete: bool = False
    """DELETE answers with the object instead of a Status (Pod, Namespace, Service)."""
    columns: tuple[PathColumn, ...] = ()
    cell_columns: tuple[CellColumn, ...] = ()
    """Columns of a built-in kind; they replace `columns`."""
    selectable_fields: tuple[str, ...] = ()
    """Paths for field selectors beside metadata.name and metadata.namespace: `.spec.nodeName`."""
    openapi: dict[str, Any] = field(factory=dict)
    """The OpenAPI v3 schema that discovery publishes."""
    description: str = ""
    deprecation: str = ""
    """The warning in every answer of this version."""
    create_only: bool = False
    """Objects are posted and answered, but not stored (reviews)."""
    collection_deletable: bool = True
    """DELETE on the collection is served."""
    storage_schema: ResourceSchema | None = None
    """The schema of the storage version, if that is another version."""
    storage_api_version: str = ""
    """The apiVersion of the storage version, if that is another version."""
    stored_as: tuple[str, str] | None = None
    """Group and plural of the resource that stores these objects (Events of both groups)."""
    versions: Mapping[str, ResourceSchema] = field(factory=dict)
    """The schemas of all versions of its definition, by apiVersion, also of those that are not served."""
    conversion: "Conversion | None" = None
    """For definitions with conversion webhooks."""
    made_from: str = ""
    """Which state of its definition it is made from: uid and generation. Empty for built-in kinds."""
    convert: Convert | None = None
    """For built-in kinds that are stored in another version."""
    convert_path: ConvertPath | None = None
    """The same for the paths of field selectors."""

    @cached_property
    def api_version(self) -> str:
        """As manifests write it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def storage_key(self) -> tuple[str, str]:
        """Group and plural: versions of one resource share their objects."""
        return self.stored_as or (self.group, self.plural)

    @property
    def kept_schema(self) -> ResourceSchema:
        """The schema of the storage version, whose fields and defaults stored objects have."""
        return self.storage_schema or self.schema

    @property
    def name(self) -> str:
        """As in error messages: `deployments.apps`, or `pods`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def qualified_kind(self) -> str:
        """As in error messages: `Deployment.apps`, or `Pod`."""
        return f"{self.kind}.{self.group}" if self.group else self.kind


@frozen(eq=False)
class Conversion:
    """How a converter that has to be awaited converts between the versions of a definition."""

    converter: Converter
    webhook: Mapping[str, Any]
    kept: ServedResource  # the storage version, in the form that writes of other versions store
