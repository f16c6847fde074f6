"""Definitions of kinds on a server: installed on an embedded one, compared with the models on any other."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from informers import APIResource, HttpRequest, Transport, error_from_response
from reconcile.client.client import Client
from reconcile.models import Object, Scale, kind_of, thaw
from reconcile.models.versions import definition_to_install

Conversion: TypeAlias = Mapping[str, Any] | None
"""The `spec.conversion` of a definition; None without functions between versions."""

_body = msgspec.json.Decoder(dict[str, Any])


async def install_missing(
    client: Client,
    kinds: Iterable[type[Object]],
    conversion_for: Callable[[type[Object]], Conversion] = lambda kind: None,
) -> list[APIResource]:
    """Install the kinds that a server does not serve yet, and return those. Raises what `install` raises."""
    installed = []
    for kind in dict.fromkeys(kinds):
        resource = kind_of(kind).resource
        if resource.plural not in await _served_names(client.transport, resource):
            await install(client, kind, conversion_for(kind))
            installed.append(resource)
    return installed


async def install(client: Client, kind: type[Object], conversion: Conversion = None) -> None:
    """Apply a kind's definition, with its installed versions. Raises TypeError if there can be none."""
    from reconcile.webhooks.calling_objects import Definition

    installed = await client.find(Definition, kind_of(kind).resource.name)
    body = None if installed is None else thaw(installed.body)
    await client.apply(definition_to_install(kind, body, conversion))


class DefinitionMismatch(Exception):
    """The server's definition of a kind lacks what the model's `scale=` promises; `missing` says what."""

    def __init__(self, resource: APIResource, missing: Sequence[str]) -> None:
        super().__init__(
            f"the installed {resource.name} ({resource.api_version}) cannot be scaled as its model says: "
            f"{'; '.join(missing)}. Apply the definition that `reconcile crds` prints"
        )
        self.resource = resource
        self.missing = tuple(missing)


async def check_scales(transport: Transport, kinds: Iterable[type[Object]]) -> None:
    """Check that served kinds with `scale=` can be scaled. Raises DefinitionMismatch and ApiError."""
    for kind in dict.fromkeys(kinds):
        scale, resource = kind_of(kind).scale, kind_of(kind).resource
        if scale is not None and (missing := await _missing(transport, resource, scale)):
            raise DefinitionMismatch(resource, missing)


async def _missing(transport: Transport, resource: APIResource, scale: Scale) -> list[str]:
    # Every identity may read discovery and OpenAPI, but not definitions.
    names = await _served_names(transport, resource)
    if resource.plural not in names:
        return []
    parts = [part for part in ("scale", "status") if f"{resource.plural}/{part}" not in names]
    missing = [f"it has no {part} subresource" for part in parts]
    document = await _read(transport, f"/openapi/v3/apis/{resource.api_version}")
    schema = _schema_of(document, resource)
    return missing if schema is None else [*missing, *_faults(schema, scale)]


async def _served_names(transport: Transport, resource: APIResource) -> set[str]:
    """The names that discovery lists beside a resource, with subresources such as `pods/status`."""
    prefix = "/apis" if resource.group else "/api"
    served = await _read(transport, f"{prefix}/{resource.api_version}")
    return {entry.get("name") for entry in served.get("resources") or ()}


async def _read(transport: Transport, path: str) -> Mapping[str, Any]:
    """The decoded answer to a GET; empty for 404."""
    answer = await transport.request(HttpRequest("GET", path, {}, {"accept": "application/json"}))
    if answer.status == 404:
        return {}
    if answer.status >= 400:
        raise error_from_response(answer.status, answer.headers, answer.body, f"GET {path}")
    return _body.decode(answer.body)


def _schema_of(document: Mapping[str, Any], resource: APIResource) -> Mapping[str, Any] | None:
    wanted = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    schemas = document.get("components", {}).get("schemas", {})
    return next((s for s in schemas.values() if wanted in s.get("x-kubernetes-group-version-kind", ())), None)


def _faults(schema: Mapping[str, Any], scale: Scale) -> list[str]:
    replicas, status, selector = (_at(schema, p) for p in (scale.replicas, scale.status, scale.selector))
    faults = []
    if replicas.get("type") != "integer":
        faults.append(f"{scale.replicas} is not an integer there")
    elif "default" not in replicas:
        faults.append(f"{scale.replicas} has no default there")
    if status.get("type") != "integer":
        faults.append(f"{scale.status} is not an integer there")
    if selector.get("type") != "string":
        faults.append(f"{scale.selector} is not a string there")
    return faults


def _at(schema: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    for step in path.strip(".").split("."):
        schema = schema.get("properties", {}).get(step, {})
    return schema
