"""Finds the resource that a person names: by its kind, its plural, a short name, or `plural.group`."""

from collections.abc import Sequence

import msgspec

from informers import ApiError, APIResource, HttpRequest, Transport, error_from_response
from informers.api_errors import parsed


class _Version(msgspec.Struct, rename="camel"):
    group_version: str


class _Group(msgspec.Struct, rename="camel"):
    name: str
    preferred_version: _Version


class _Groups(msgspec.Struct):
    groups: list[_Group] = []


class _Kind(msgspec.Struct, rename="camel"):
    name: str
    kind: str
    namespaced: bool
    singular_name: str = ""
    short_names: list[str] = []


class _Kinds(msgspec.Struct):
    resources: list[_Kind] = []


_groups = msgspec.json.Decoder(_Groups).decode
_kinds = msgspec.json.Decoder(_Kinds).decode


async def resource_named(transport: Transport, word: str) -> APIResource | None:
    """The first resource of that name, in the preferred version of its group. Raises ApiError."""
    plural, _, wanted = word.lower().partition(".")
    groups = parsed(_groups, await _read(transport, "/apis"), "GET /apis").groups
    versions = ["v1", *(one.preferred_version.group_version for one in groups if wanted in ("", one.name))]
    for api_version in versions:
        group, _, version = api_version.rpartition("/")
        for one in await _served(transport, f"/apis/{api_version}" if group else f"/api/{api_version}"):
            names = (one.name, one.kind.lower(), one.singular_name, *one.short_names)
            if "/" not in one.name and plural in names and wanted in ("", group):
                return APIResource(group, version, one.kind, one.name, one.namespaced)
    return None


async def _served(transport: Transport, path: str) -> Sequence[_Kind]:
    try:
        return parsed(_kinds, await _read(transport, path), f"GET {path}").resources
    except ApiError:
        return []  # one group may be down, which another server serves


async def _read(transport: Transport, path: str) -> bytes:
    response = await transport.request(HttpRequest("GET", path, {}, {"accept": "application/json"}))
    if response.status >= 400:
        raise error_from_response(response.status, response.headers, response.body, f"GET {path}")
    return response.body
