"""What the embedded server knows of one version of one resource."""

from typing import Any

from attrs import field, frozen

from reconcile.embedded.schema import Schema


@frozen
class Column:
    """A column of `kubectl get`: `type` is string, integer, number, boolean or date."""

    name: str
    type: str
    json_path: str
    description: str = ""
    priority: int = 0
    format: str = ""


@frozen
class ScalePaths:
    """Where a resource keeps what its /scale shows, as the definition writes it: `.spec.replicas`."""

    spec_replicas: str
    status_replicas: str
    selector: str = ""


@frozen
class ServedResource:
    """One version of one resource, built in or from a CustomResourceDefinition."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    list_kind: str
    schema: Schema
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
    columns: tuple[Column, ...] = ()
    selectable_fields: tuple[str, ...] = ()
    """JSON paths that field selectors may use beside metadata.name and metadata.namespace."""
    openapi: dict[str, Any] = field(factory=dict)
    """The OpenAPI v3 schema as published by discovery."""
    description: str = ""

    @property
    def api_version(self) -> str:
        """As manifests write it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def storage_key(self) -> tuple[str, str]:
        """Group and plural: versions of one resource share their objects."""
        return (self.group, self.plural)
