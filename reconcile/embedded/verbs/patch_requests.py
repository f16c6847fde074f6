"""PATCH: JSON patch, merge patch and strategic merge; an apply goes to `apply_requests`."""

from typing import Any

from informers.transport import Response
from reconcile.embedded.api import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, ApiRequest, RequestTarget
from reconcile.embedded.engine import Engine
from reconcile.embedded.log import Stored
from reconcile.embedded.protocol.field_causes import value_invalid
from reconcile.embedded.refusals import bad_request, invalid, unreadable_patch, wrong_kind
from reconcile.embedded.stored_forms import object_in
from reconcile.embedded.verbs.apply_requests import apply_object
from reconcile.embedded.verbs.bodies import (
    check_depth,
    check_type,
    judge_strictly,
    parse_json,
    patch_type,
    place,
    require_object_name,
    strict_problems,
    write_options,
)
from reconcile.embedded.verbs.completion import warn_of_duplicate_owners
from reconcile.embedded.verbs.object_selection import require
from reconcile.embedded.verbs.patches import json_patch, merge_into, strategic_merge
from reconcile.embedded.verbs.validation import checked_shape
from reconcile.embedded.verbs.write_request import WriteRequest
from reconcile.embedded.verbs.writes import prune, replace


async def patch(engine: Engine, request: ApiRequest, target: RequestTarget) -> Response:
    kind = patch_type(request, target.resource)
    write = WriteRequest(engine, request, target, write_options(request, "PatchOptions"))
    return await write.warned(apply_object(write) if kind == APPLY_PATCH else _patch(write, kind))


async def _patch(write: WriteRequest, kind: str) -> Response:
    write.patching = True
    stored = require(write.engine, write.target)
    obj = patched(write, object_in(stored, write.resource), kind)
    return await replace_patched(write, stored, obj)


def patched(write: WriteRequest, old: dict[str, Any], kind: str) -> dict[str, Any]:
    """The result of the patch in the body; may change `old`."""
    duplicates: list[str] = []
    body = parse_json(write.request.body, duplicates)
    _judge_patch(write, strict_problems(duplicates, ()))
    if kind == JSON_PATCH:
        made = check_depth(json_patch(old, body))
    elif kind == MERGE_PATCH:
        made = merge_into(old, _mapping(body))
    else:
        made = strategic_merge(old, _mapping(body), write.resource.schema)
        made |= {"apiVersion": write.resource.api_version, "kind": write.resource.kind}
    if not isinstance(made, dict):
        raise bad_request("the patch does not make an object")
    return made


def _mapping(body: Any) -> dict[str, Any]:
    if not isinstance(body, dict):
        raise bad_request("json: cannot unmarshal the patch: expected an object")
    return body


async def replace_patched(write: WriteRequest, stored: Stored, obj: dict[str, Any]) -> Response:
    """Write the result of a patch, with the checks for patches."""
    target = write.target
    with write.reading():
        _check_kept_type(write, obj)
        check_type(obj, target)
        unknown = prune(write, obj)
        if not write.resource.custom:
            write.shape = checked_shape(write.resource, obj, None)
    place(obj, target)
    require_object_name(obj, target)
    warn_of_duplicate_owners(write, obj)
    _judge_patch(write, strict_problems((), unknown))
    return await replace(write, stored, obj)


def _check_kept_type(write: WriteRequest, obj: dict[str, Any]) -> None:
    """422 if a patch changes the type of a custom resource."""
    resource = write.resource
    if not resource.custom:
        return
    kind, api_version = obj.get("kind"), obj.get("apiVersion")
    if not isinstance(kind, str) or not kind or not isinstance(api_version, str) or not api_version:
        raise bad_request("Object 'Kind' or 'apiVersion' is missing")
    if kind != resource.kind:
        raise wrong_kind(resource, kind, write.target.name)
    if api_version != resource.api_version:
        cause = value_invalid("apiVersion", api_version, f"must be {resource.api_version}")
        raise invalid(resource, write.target.name, [cause])


def _judge_patch(write: WriteRequest, problems: list[str]) -> None:
    if problems and write.options.validation == "Strict":
        raise unreadable_patch(f"strict decoding error: {', '.join(problems)}")
    judge_strictly(problems, write.options, write.warnings)
