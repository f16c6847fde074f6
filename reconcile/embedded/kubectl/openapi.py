"""The OpenAPI v3 documents, one for each group version: kubectl validates, patches and explains with them."""

import hashlib
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from attrs import define, field, frozen

from reconcile.embedded.api import patch_types
from reconcile.embedded.schema.builtin_schemas import component_name, published
from reconcile.embedded.schema.go_structs import GO_STRUCT
from reconcile.embedded.schema.object_meta import OBJECT_META_SCHEMA
from reconcile.embedded.served import ServedResource

Document = dict[str, Any]

_GVK = "x-kubernetes-group-version-kind"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_DESCRIBED = {"V1ObjectMeta": f"#/components/schemas/{_META}"}
# kubectl refuses to create and to apply unless the PATCH operations have fieldValidation.
_WRITING = ("dryRun", "fieldManager", "fieldValidation")
_LISTING = (
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
    "watch",
)
_DELETING = ("dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy")

_ROOT_FIELDS: Document = {
    "apiVersion": {
        "type": "string",
        "description": "APIVersion defines the versioned schema of this representation of an object.",
    },
    "kind": {"type": "string", "description": "Kind is a string value representing the REST resource."},
}
_DESCRIPTIONS = {
    "name": "Unique within a namespace.",
    "namespace": "The space within which each name is unique.",
    "generateName": "The prefix of a name that the server makes.",
    "labels": "Keys and values that organize and select objects.",
    "annotations": "Keys and values that tools store with an object.",
    "finalizers": "Must be empty before the object is removed.",
    "ownerReferences": "The objects that this one depends on.",
    "managedFields": "Which manager set which fields.",
    "uid": "Unique in time and space; set by the server.",
    "resourceVersion": "The version of the object; set by the server.",
    "generation": "Counts the changes of the desired state; set by the server.",
    "creationTimestamp": "Set by the server.",
    "deletionTimestamp": "Set by the server.",
    "deletionGracePeriodSeconds": "Set by the server.",
    "selfLink": "No longer filled in.",
}


def _public(schema: Any) -> Any:
    """A schema without the keyword of this server."""
    if isinstance(schema, list):
        return [_public(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {keyword: _public(value) for keyword, value in schema.items() if keyword != GO_STRUCT}


_METADATA: Document = _public(OBJECT_META_SCHEMA)
_FIELDS: Document = _METADATA["properties"]
_OWNER: Document = _FIELDS["ownerReferences"]["items"]
_OBJECT_META: Document = {
    **_METADATA,
    "description": "ObjectMeta is the metadata that all persisted resources have.",
    "properties": {
        **{name: {**_FIELDS[name], "description": text} for name, text in _DESCRIPTIONS.items()},
        # Published as required and not checked: Go decodes a missing name as an empty one.
        "ownerReferences": {
            **_FIELDS["ownerReferences"],
            "description": _DESCRIPTIONS["ownerReferences"],
            "items": {**_OWNER, "required": ["apiVersion", "kind", "name", "uid"]},
        },
    },
}


@frozen
class GroupDocument:
    body: bytes
    digest: str
    """SHA-256 of the body."""


@define
class OpenApi:
    """Builds each document when it is first requested, and again when its resources have changed."""

    _documents: dict[str, tuple[tuple[ServedResource, ...], GroupDocument]] = field(factory=dict)

    def index(self, by_path: Mapping[str, Sequence[ServedResource]]) -> Document:
        """The answer to /openapi/v3; `by_path` has the resources of `api/v1`, `apis/apps/v1` and so on."""
        self._documents = {path: kept for path, kept in self._documents.items() if path in by_path}
        return {
            "paths": {
                path: {
                    "serverRelativeURL": f"/openapi/v3/{path}?hash={self.document(path, resources).digest}"
                }
                for path, resources in by_path.items()
            }
        }

    def document(self, path: str, resources: Sequence[ServedResource]) -> GroupDocument:
        known = self._documents.get(path)
        if known and len(known[0]) == len(resources) and all(map(operator.is_, known[0], resources)):
            return known[1]
        body = msgspec.json.encode(group_document(path, resources))
        document = GroupDocument(body, hashlib.sha256(body).hexdigest().upper())
        self._documents[path] = (tuple(resources), document)
        return document


def group_document(path: str, resources: Sequence[ServedResource]) -> Document:
    """The document of one group version, served under a `path` such as `apis/apps/v1`."""
    paths: Document = {}
    schemas: Document = {_META: _OBJECT_META}
    for resource in resources:
        schemas |= _published_schemas(resource)
        paths |= _paths(f"/{path}", resource)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": resources[0].version},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def schema_name(resource: ServedResource) -> str:
    """The component name of a kind: `com.example.v1.Widget`, `io.k8s.api.apps.v1.Deployment`."""
    if resource.custom:
        return ".".join((*reversed(resource.group.split(".")), resource.version, resource.kind))
    return f"io.k8s.api.{resource.group.partition('.')[0] or 'core'}.{resource.version}.{resource.kind}"


def _published_schemas(resource: ServedResource) -> Document:
    if resource.custom or not resource.openapi:
        return {schema_name(resource): _published_schema(resource, resource.openapi)}
    try:
        types = published(resource.group, resource.version, resource.kind, _DESCRIBED)
    except KeyError:
        return {schema_name(resource): _published_schema(resource, resource.openapi)}
    kind = next(iter(types))
    others = {component_name(name): schema for name, schema in types.items() if name != kind}
    return {schema_name(resource): _published_schema(resource, types[kind]), **others}


def _published_schema(resource: ServedResource, openapi: Document) -> Document:
    schema = dict(openapi) or {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    if description := resource.description or schema.get("description"):
        schema["description"] = description
    own = {key: value for key, value in schema.get("properties", {}).items() if key != "metadata"}
    metadata = {
        "description": "Standard object's metadata.",
        "allOf": [{"$ref": f"#/components/schemas/{_META}"}],
        "default": {},
    }
    schema["properties"] = _ROOT_FIELDS | {"metadata": metadata} | own
    schema[_GVK] = [{"group": resource.group, "version": resource.version, "kind": resource.kind}]
    return schema


def _paths(root: str, resource: ServedResource) -> Document:
    collection = (
        f"{root}/namespaces/{{namespace}}/{resource.plural}"
        if resource.namespaced
        else f"{root}/{resource.plural}"
    )
    item = f"{collection}/{{name}}"
    paths: Document = {
        collection: {
            "get": _operation(resource, "list", _LISTING),
            "post": _operation(resource, "post", _WRITING, takes_object=True),
            "delete": _operation(resource, "deletecollection", _LISTING + _DELETING),
            "parameters": _path_parameters(collection),
        },
        item: _item_operations(resource, item) | {"delete": _operation(resource, "delete", _DELETING)},
    }
    if resource.namespaced:
        paths[f"{root}/{resource.plural}"] = {"get": _operation(resource, "list", _LISTING)}
    for name, served in (("status", resource.has_status), ("scale", resource.scale is not None)):
        if served:
            # Without a kind: kubectl takes the first PATCH of a kind for the object's own.
            paths[f"{item}/{name}"] = _item_operations(resource, item, named=False)
    return paths


def _item_operations(resource: ServedResource, path: str, *, named: bool = True) -> Document:
    return {
        "get": _operation(resource, "get", (), named=named),
        "put": _operation(resource, "put", _WRITING, takes_object=True, named=named),
        "patch": _patch_operation(resource, named=named),
        "parameters": _path_parameters(path),
    }


def _operation(
    resource: ServedResource,
    action: str,
    parameters: Sequence[str],
    *,
    takes_object: bool = False,
    named: bool = True,
) -> Document:
    reference = {"schema": {"$ref": f"#/components/schemas/{schema_name(resource)}"}}
    operation: Document = {"x-kubernetes-action": action, "responses": {"200": {"description": "OK"}}}
    if parameters:
        operation["parameters"] = [_query_parameter(name) for name in parameters]
    if takes_object:
        operation["requestBody"] = {"content": {"*/*": reference}, "required": True}
    if action in ("get", "post", "put"):
        operation["responses"]["200"]["content"] = {"application/json": reference}
    if named:
        operation[_GVK] = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    return operation


def _patch_operation(resource: ServedResource, *, named: bool) -> Document:
    operation = _operation(resource, "patch", (*_WRITING, "force"), named=named)
    operation["requestBody"] = {
        "content": {name: {"schema": {"type": "object"}} for name in patch_types(resource)},
        "required": True,
    }
    return operation


def _query_parameter(name: str) -> Document:
    kind = {"limit": "integer", "timeoutSeconds": "integer", "gracePeriodSeconds": "integer"}.get(
        name, "string"
    )
    if name in ("watch", "force", "allowWatchBookmarks", "sendInitialEvents", "orphanDependents"):
        kind = "boolean"
    return {"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": True}}


def _path_parameters(path: str) -> list[Document]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "uniqueItems": True}}
        for name in ("namespace", "name")
        if f"{{{name}}}" in path
    ]
