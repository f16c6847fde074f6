"""What the embedded server knows of one version of one resource."""

import datetime
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from attrs import field, frozen

from reconcile.embedded.protocol.conversion import Converter
from reconcile.embedded.schema import ResourceSchema

Convert = Callable[[dict[str, Any], str], dict[str, Any]]
"""Converts an object to an apiVersion; it may change the one that it is given."""
ConvertPath = Callable[[str, str], str]
"""Where a field stands in objects of an apiVersion, whichever version's path names it."""


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
    """A column of `kubectl get` whose cells a function makes; `wide` ones appear with `-o wide` only."""

    name: str
    cell: Callable[[Mapping[str, Any], datetime.datetime], Any]
    """From the object and the time now."""
    type: str = "string"
    wide: bool = False


@frozen
class ScalePaths:
    """Where a resource keeps what its /scale shows, as the definition writes it: `.spec.replicas`."""

    spec_replicas: str
    status_replicas: str
    selector: str = ""


@frozen(eq=False)
class ServedResource:
    """One version of one resource, built in or from a CustomResourceDefinition.

    Two are the same only if they are one object: what was encoded by one is valid for it alone.
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
    custom: bool = False
    """From a CustomResourceDefinition, whose errors differ in places from those of built-in kinds."""
    create_on_update: bool = False
    """A PUT on a missing object creates it (Lease, Event)."""
    unconditional_update: bool = False
    """A PUT without resourceVersion is taken (most built-in kinds)."""
    answers_object_on_delete: bool = False
    """DELETE answers with the object instead of a Status (Pod, Namespace, Service)."""
    columns: tuple[PathColumn, ...] = ()
    cell_columns: tuple[CellColumn, ...] = ()
    """The columns of a built-in kind; they replace `columns`."""
    selectable_fields: tuple[str, ...] = ()
    """Paths that field selectors may use beside metadata.name and metadata.namespace: `.spec.nodeName`."""
    openapi: dict[str, Any] = field(factory=dict)
    """The OpenAPI v3 schema as published by discovery."""
    description: str = ""
    deprecation: str = ""
    """The warning that every answer of this version carries."""
    create_only: bool = False
    """Objects are posted and answered, never kept (the reviews)."""
    collection_deletable: bool = True
    """DELETE on the collection is served."""
    storage_schema: ResourceSchema | None = None
    """The schema of the version that objects are kept in, where that is another one."""
    storage_api_version: str = ""
    """The apiVersion that objects are kept with, where that is another one."""
    stored_as: tuple[str, str] | None = None
    """Group and plural of another resource whose objects these are (Events of both groups)."""
    conversion: "Conversion | None" = None
    """How objects of a definition with conversion webhooks are shown and kept."""
    convert: Convert | None = None
    """How a built-in kind shows what was stored in another of its versions."""
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
        """What is kept of an object: what its storage version knows, with the defaults of that version."""
        return self.storage_schema or self.schema

    @property
    def name(self) -> str:
        """As error messages write it: `deployments.apps`, or `pods`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def qualified_kind(self) -> str:
        """As error messages write it: `Deployment.apps`, or `Pod`."""
        return f"{self.kind}.{self.group}" if self.group else self.kind


@frozen(eq=False)
class Conversion:
    """How the versions of one definition are converted into each other by waiting for a converter."""

    converter: Converter
    webhook: Mapping[str, Any]
    kept: ServedResource
    """The storage version, as what writes of other versions are kept as: its defaults come with each read."""
    schemas: Mapping[str, ResourceSchema]
    """The schemas of all versions, by apiVersion."""
