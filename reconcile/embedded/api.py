"""A request, the resource that its path names, and the form of the answer."""

from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec
from attrs import frozen

from reconcile.embedded.auth.users import ADMIN, User
from reconcile.embedded.protocol.request_info import RequestPlace, place_of
from reconcile.embedded.refusals import bad_request, no_such_resource, not_acceptable, page_not_found
from reconcile.embedded.registry import ResourceRegistry
from reconcile.embedded.served import ServedResource

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
META = "meta.k8s.io"
META_VERSIONS = ("v1", "v1beta1")


class ApiRequest(msgspec.Struct, frozen=True):
    """One request. `path` is decoded and has no query; header names are in lower case."""

    method: str
    path: str
    query: Mapping[str, str] = msgspec.field(default_factory=dict)
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    body: bytes = b""
    user: User = ADMIN


@frozen
class RequestTarget:
    """What a path names: a collection (without `name`), an object, or a subresource of one."""

    resource: ServedResource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def find_target(path: str, registry: ResourceRegistry) -> RequestTarget:
    """What is served at `path`. Raises ApiFailure or PlainText (404) if there is nothing."""
    return target_at(place_of(path), registry)


def target_at(place: RequestPlace | None, registry: ResourceRegistry) -> RequestTarget:
    """`find_target` for a parsed path; None stands for a path outside all resources."""
    if place is None or not registry.serves(place.group, place.version):
        raise page_not_found()
    resource = registry.get(place.group, place.version, place.resource)
    if resource is None:
        raise page_not_found() if registry.is_custom(place.group) else no_such_resource()
    below = "/".join((place.subresource, *place.rest))
    misplaced = place.within and not resource.namespaced
    nameless = place.name and resource.namespaced and not place.within
    if misplaced or nameless:
        raise page_not_found() if resource.custom else no_such_resource()
    return RequestTarget(resource, place.within, place.name, below)


def patch_types(resource: ServedResource) -> tuple[str, ...]:
    if resource.custom:
        return (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)
    return (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, APPLY_PATCH)


# --- the form of the answer -------------------------------------------------------------------


@frozen
class Form:
    """How objects are shown: whole, as metadata only, or as a table."""

    kind: Literal["whole", "partial", "table"] = "whole"
    version: str = "v1"
    include: str = "Metadata"  # what a table's rows carry beside the cells: Metadata, Object or None


WHOLE = Form()


def wanted_form(request: ApiRequest, resource: ServedResource, *, listing: bool) -> Form:
    """The first form in Accept that the server supports. Raises ApiFailure (406) if there is none."""
    accept = request.headers.get("accept", "")
    if not accept or accept in ("application/json", "*/*"):
        return WHOLE
    for media_type, parameters in accepted(accept):
        if media_type not in ("application/json", "application/*", "*/*"):
            continue
        form = _form(parameters, request, listing)
        if form is not None:
            return form
    raise not_acceptable(None if resource.custom else {})


def accepted(header: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The media types of an Accept header with their parameters, in the client's order."""
    for clause in header.split(","):
        media_type, *parts = clause.split(";")
        pairs = (part.partition("=") for part in parts if part)
        yield media_type.strip(), {name.strip(): value.strip() for name, _, value in pairs}


def _form(parameters: Mapping[str, str], request: ApiRequest, listing: bool) -> Form | None:
    shape = parameters.get("as")
    if not shape:
        return WHOLE
    if parameters.get("g") != META or parameters.get("v") not in META_VERSIONS:
        return None
    version = parameters["v"]
    if shape == "Table":
        included = request.query.get("includeObject") or "Metadata"
        if included not in ("Metadata", "Object", "None"):
            raise bad_request(
                f'Unable to convert to Table as requested: includeObject: Invalid value: "{included}": '
                "must be 'Metadata', 'Object', 'None', or empty"
            )
        return Form("table", version, included)
    if shape == ("PartialObjectMetadataList" if listing else "PartialObjectMetadata"):
        return Form("partial", version)
    if shape in ("PartialObjectMetadata", "PartialObjectMetadataList"):
        raise not_acceptable()  # understood, and so not passed over for what else would be taken
    return None
