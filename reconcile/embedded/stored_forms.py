"""Stored objects as each version of their resource shows them, and as they are kept."""

from typing import Any

import msgspec

from reconcile.embedded.log import Stored
from reconcile.embedded.schema.json_values import copied
from reconcile.embedded.served import ServedResource


def encode(value: object) -> bytes:
    """Compact JSON."""
    return msgspec.json.encode(value)


def body_in(stored: Stored, resource: ServedResource) -> bytes:
    """The object's JSON as this version of the resource shows it, with the defaults of today's schema."""
    if stored.encoded_by is resource and resource.storage_schema is None:
        return stored.body
    body = stored.renditions.get(resource)
    if body is None:
        body = stored.renditions[resource] = encode(_convert(stored, resource))
    return body


def object_in(stored: Stored, resource: ServedResource) -> dict[str, Any]:
    """The same, as a fresh private dict."""
    decoded: dict[str, Any] = msgspec.json.decode(body_in(stored, resource))
    return decoded


def _convert(stored: Stored, resource: ServedResource) -> dict[str, Any]:
    obj = stored.decode()
    if resource.convert is not None:
        return resource.convert(obj, resource.api_version)
    return from_storage(resource, obj)


def to_storage(resource: ServedResource, obj: dict[str, Any]) -> dict[str, Any]:
    """An object of this version in the form that is stored: `obj` itself, or a copy in the storage version.

    Without conversion the copy has another apiVersion and loses every field that only this version has. The
    defaults of the storage version come with each read, and are kept from its own writes on.
    """
    if resource.storage_schema is None:
        return obj
    kept: dict[str, Any] = copied(obj)
    kept["apiVersion"] = resource.storage_api_version
    resource.storage_schema.prune(kept)
    return kept


def from_storage(resource: ServedResource, obj: dict[str, Any]) -> dict[str, Any]:
    """What is kept, as this version shows it; uses up `obj`.

    Defaults are those of the storage version alone: a real server fills them in before it converts, and
    prunes to the version that was asked for after it.
    """
    obj["apiVersion"] = resource.api_version
    resource.kept_schema.prune(obj)
    resource.kept_schema.default(obj)
    if resource.storage_schema is not None:
        resource.schema.prune(obj)
    return obj
