"""Stored objects as the bytes of an answer: whole, as metadata only, or as a table."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from informers.transport import Response
from reconcile.embedded.api import META, Form
from reconcile.embedded.kubectl.tables import Tables
from reconcile.embedded.log import Stored
from reconcile.embedded.served import ServedResource
from reconcile.embedded.stored_forms import body_in, encode

JSON = "application/json"
SUCCESS: Final = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}


class _MetadataOnly(msgspec.Struct):
    metadata: msgspec.Raw


_METADATA = msgspec.json.Decoder(_MetadataOnly)


def json_response(status: int, value: object, headers: Mapping[str, str] | None = None) -> Response:
    return Response(status, {"content-type": JSON, **(headers or {})}, encode(value))


def partial_bytes(body: bytes, version: str) -> bytes:
    metadata = bytes(_METADATA.decode(body).metadata)
    return b'{"kind":"PartialObjectMetadata","apiVersion":"%s/%s","metadata":%s}' % (
        META.encode(),
        version.encode(),
        metadata,
    )


def item_bytes(stored: Stored, resource: ServedResource) -> bytes:
    """An item of a list: those of built-in kinds have neither kind nor apiVersion."""
    body = body_in(stored, resource)
    if resource.custom:
        return body
    prefix = b'{"kind":"%s","apiVersion":"%s",' % (resource.kind.encode(), resource.api_version.encode())
    return b"{" + body[len(prefix) :] if body.startswith(prefix) else body


def table(tables: Tables, resource: ServedResource, bodies: Sequence[bytes], form: Form) -> dict[str, Any]:
    objects = [msgspec.json.decode(body) for body in bodies]
    made = tables.rows(resource, objects)
    made["apiVersion"] = f"{META}/{form.version}"
    for row, obj, body in zip(made["rows"], objects, bodies, strict=True):
        if form.include == "None":
            row.pop("object", None)
        elif form.include == "Object":
            row["object"] = obj
        else:
            row["object"] = msgspec.json.decode(partial_bytes(body, form.version))
    return made


def render_object(
    tables: Tables, resource: ServedResource, body: bytes, form: Form, version: str = ""
) -> bytes:
    if form.kind == "whole":
        return body
    if form.kind == "partial":
        return partial_bytes(body, form.version)
    made = table(tables, resource, [body], form)
    made["metadata"]["resourceVersion"] = version
    return encode(made)


def render_list(
    tables: Tables,
    resource: ServedResource,
    items: Sequence[Stored],
    metadata: Mapping[str, Any],
    form: Form,
) -> bytes:
    if form.kind == "table":
        made = table(tables, resource, [body_in(item, resource) for item in items], form)
        made["metadata"] = dict(metadata)
        return encode(made)
    if form.kind == "partial":
        kind, api_version = "PartialObjectMetadataList", f"{META}/{form.version}"
        bodies = [partial_bytes(body_in(item, resource), form.version) for item in items]
    else:
        kind, api_version = resource.list_kind, resource.api_version
        bodies = [item_bytes(item, resource) for item in items]
    head = encode({"kind": kind, "apiVersion": api_version, "metadata": metadata})
    return head[:-1] + b',"items":[' + b",".join(bodies) + b"]}"
