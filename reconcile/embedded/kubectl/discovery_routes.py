"""The paths beside the API's own: discovery, OpenAPI, version and health."""

import hashlib
import platform
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import msgspec
from attrs import define, field

from informers.transport import Response
from reconcile.embedded.api import ApiRequest, accepted
from reconcile.embedded.kubectl.discovery_documents import (
    Group,
    aggregated,
    api_group,
    api_group_list,
    api_resource_list,
    api_versions,
    groups_of,
)
from reconcile.embedded.kubectl.openapi import OpenApi, group_document
from reconcile.embedded.kubectl.openapi_v2 import swagger
from reconcile.embedded.protocol.api_failure import ApiFailure
from reconcile.embedded.refusals import method_not_allowed, no_such_resource, not_acceptable
from reconcile.embedded.registry import ResourceRegistry
from reconcile.embedded.served import ServedResource

EMULATES = (1, 36, 2)
"""The Kubernetes version whose behaviour the server follows."""

_PLAIN = {"content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff"}
_NOT_FOUND = Response(404, _PLAIN, b"404 page not found\n")
_OK = Response(200, _PLAIN, b"ok")
_OPENAPI_V2 = Response(
    200,
    {"content-type": "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"},
    # swagger: "2.0", info: {title: "none", version: "v1.0"}, paths: {}. kubectl requests it when version 3
    # lacks a kind, and can name the missing kind only if the answer is a document in protobuf.
    b"\x0a\x032.0\x12\x0c\x0a\x04none\x12\x04v1.0\x42\x00",
)
_HEALTH = ("/healthz", "/livez", "/readyz")
_AGGREGATED_VERSIONS = ("v2", "v2beta1")


@define
class Routes:
    """Answers requests for everything that is not a resource, before the server looks for one."""

    _resources: ResourceRegistry
    _openapi: OpenApi = field(factory=OpenApi)

    def __call__(self, request: ApiRequest) -> Response | None:
        """The answer to `request`, or None if its path is a resource's."""
        if _leads_to_resource(request.path):
            return None
        try:
            answer = self._document(groups_of(self._resources), request, _parts(request.path))
            if answer is not None and request.method not in ("GET", "HEAD"):
                raise method_not_allowed()
        except ApiFailure as failure:
            return Response(failure.code, {"content-type": "application/json"}, _encode(failure.to_json()))
        return answer or _NOT_FOUND

    def _document(
        self, groups: Mapping[str, Group], request: ApiRequest, parts: list[str]
    ) -> Response | None:
        match parts:
            case ["version"]:
                return _json(_version())
            case ["healthz" | "livez" | "readyz"]:
                return _OK
            case [""]:
                return _json({"paths": _root_paths(groups)})
            case ["api"]:
                core = [groups[""]]
                return _discovery(request, lambda: api_versions(request.headers.get("host", "")), core)
            case ["apis"]:
                named = [group for group in groups.values() if group.name]
                return _discovery(request, lambda: api_group_list(named), named)
            case ["apis", group] if group in groups and group:
                return _json(api_group(groups[group]))
            case ["api", version]:
                return _listed(groups[""], version)
            case ["apis", group, version] if group in groups and version in groups[group].versions and group:
                return _listed(groups[group], version)
            case ["openapi", "v2"]:
                return self._openapi_v2(request, groups)
            case ["openapi", "v3", *rest]:
                return self._schemas(groups, rest)
            case _:
                return None

    def _openapi_v2(self, request: ApiRequest, groups: Mapping[str, Group]) -> Response:
        """Empty in protobuf, and whole in JSON."""
        # kubectl writes `v2@v1.0`, and the answer is of type `v2.v1.0`.
        if "proto-openapi.spec.v2" in request.headers.get("accept", ""):
            return _OPENAPI_V2
        documents = (group_document(path, resources) for path, resources in _by_path(groups).items())
        return _tagged(request, "application/json", _encode(swagger(_version()["gitVersion"], documents)))

    def _schemas(self, groups: Mapping[str, Group], rest: list[str]) -> Response | None:
        by_path = _by_path(groups)
        if not rest:
            return _json(self._openapi.index(by_path))
        path = "/".join(rest)
        if path not in by_path:
            return None
        document = self._openapi.document(path, by_path[path])
        return Response(
            200, {"content-type": "application/json", "etag": f'"{document.digest}"'}, document.body
        )


def _listed(group: Group, version: str) -> Response:
    resources = group.versions.get(version)
    if resources is None:
        raise no_such_resource()
    return _json(api_resource_list(resources))


@lru_cache(maxsize=512)
def _leads_to_resource(path: str) -> bool:
    """Whether a path is below /api/v1 or /apis/GROUP/VERSION, as nearly all requested paths are."""
    parts = _parts(path)
    return (parts[0] == "api" and len(parts) > 2) or (parts[0] == "apis" and len(parts) > 3)


def _parts(path: str) -> list[str]:
    return path.strip("/").split("/")


def _by_path(groups: Mapping[str, Group]) -> dict[str, list[ServedResource]]:
    return {
        f"apis/{group.name}/{version}" if group.name else f"api/{version}": list(resources)
        for group in groups.values()
        for version, resources in group.versions.items()
    }


def _discovery(request: ApiRequest, plain: Callable[[], Any], groups: list[Group]) -> Response:
    """The aggregated or the plain document, as the client prefers; ApiFailure (406) if it accepts neither."""
    for media_type, parameters in accepted(request.headers.get("accept") or "*/*"):
        kind = media_type.lower()
        version = parameters.get("v", "")
        if parameters.get("as") == "APIGroupDiscoveryList" and parameters.get("g") == "apidiscovery.k8s.io":
            if kind == "application/json" and version in _AGGREGATED_VERSIONS:
                content_type = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
                return _tagged(request, content_type, _encode(aggregated(groups, version)))
        elif kind in ("application/json", "application/*", "*/*") and "as" not in parameters:
            return _tagged(request, "application/json", _encode(plain()))
    raise not_acceptable()


def _tagged(request: ApiRequest, content_type: str, body: bytes) -> Response:
    tag = f'"{hashlib.sha256(body).hexdigest().upper()}"'
    headers = {"content-type": content_type, "vary": "Accept", "etag": tag, "cache-control": "public"}
    if request.headers.get("if-none-match") == tag:
        return Response(304, headers)
    return Response(200, headers, body)


def _version() -> dict[str, str]:
    major, minor, patch = EMULATES
    return {
        "major": str(major),
        "minor": str(minor),
        "emulationMajor": str(major),
        "emulationMinor": str(minor),
        "gitVersion": f"v{major}.{minor}.{patch}+reconcile",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": f"python{platform.python_version()}",
        "compiler": platform.python_implementation(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }


def _root_paths(groups: Mapping[str, Group]) -> list[str]:
    named = [group for group in groups.values() if group.name]
    paths = ["/api", "/api/v1", "/apis", "/openapi/v3", "/version", *_HEALTH]
    for group in named:
        paths.append(f"/apis/{group.name}")
        paths += [f"/apis/{group.name}/{version}" for version in group.versions]
    return sorted(paths)


def _json(document: Any) -> Response:
    return Response(200, {"content-type": "application/json"}, _encode(document))


def _encode(document: Any) -> bytes:
    return msgspec.json.encode(document) + b"\n"
