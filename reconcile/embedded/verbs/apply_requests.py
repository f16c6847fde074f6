"""PATCH that is a server-side apply."""

from collections.abc import Mapping, Sequence
from typing import Any

from informers.transport import Response
from reconcile.embedded.ownership.server_side_apply import apply
from reconcile.embedded.refusals import bad_request, conflict, not_found
from reconcile.embedded.stored_forms import object_in
from reconcile.embedded.verbs.admitting import admit, guard
from reconcile.embedded.verbs.bodies import (
    check_type,
    judge_strictly,
    parse_yaml,
    place,
    require_object_name,
    strict_problems,
)
from reconcile.embedded.verbs.completion import complete_new, kept_form
from reconcile.embedded.verbs.validation import validate
from reconcile.embedded.verbs.write_request import Outdated, WriteRequest, require_place
from reconcile.embedded.verbs.writes import replace, require_create


async def apply_object(write: WriteRequest) -> Response:
    target, resource = write.target, write.resource
    stored = write.engine.get(resource, target.namespace, target.name)
    if stored is None and target.subresource:
        raise not_found(resource, target.name)
    intent = _read_intent(write, named=stored is not None)
    if stored is None and intent["metadata"].get("uid"):
        raise _missing_for_apply(write, intent)
    version = intent["metadata"].pop("resourceVersion", None)
    live = object_in(stored, resource) if stored is not None else None
    obj = await applied(write, live, intent, target.subresource, _reset_by_apply(write))
    if write.versions.waited and write.engine.get(resource, target.namespace, target.name) is not stored:
        raise Outdated
    write.applying = True
    if stored is not None and version:
        obj["metadata"]["resourceVersion"] = version
    place(obj, target)
    require_object_name(obj, target)
    if not resource.custom:
        resource.schema.prune(obj)  # nulls of the intent, which managedFields name
    if stored is None:
        require_create(write)
        return await _create_applied(write, obj)
    return await replace(write, stored, obj, tracked=True)


async def applied(
    write: WriteRequest,
    live: dict[str, Any] | None,
    intent: dict[str, Any],
    subresource: str,
    reset: Sequence[str] = (),
) -> dict[str, Any]:
    """What the intent makes of the live object. Raises ApiFailure, such as a conflict."""
    return await write.versions.complete(
        lambda: apply(
            live,
            intent,
            schema=write.resource.schema,
            manager=write.options.manager,
            force=write.options.force,
            subresource=subresource,
            api_version=write.resource.api_version,
            time=write.time,
            reset=reset,
            versions=write.versions,
        )
    )


def _reset_by_apply(write: WriteRequest) -> tuple[str, ...]:
    """What the strategy takes back from an apply (GetResetFields)."""
    resource = write.resource
    if write.target.subresource != "status":
        return ("status",) if resource.has_status and not write.target.subresource else ()
    if resource.custom:
        return ("metadata",)
    return tuple(f"metadata.{name}" for name in write.engine.kinds.of(resource).status_keeps)


def _missing_for_apply(write: WriteRequest, intent: Mapping[str, Any]) -> Exception:
    uid = intent["metadata"]["uid"]
    why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
    return conflict(write.resource, write.target.name, why)


def _read_intent(write: WriteRequest, *, named: bool) -> dict[str, Any]:
    """The object to apply; it may omit its name if it exists."""
    target = write.target
    duplicates: list[str] = []
    body = parse_yaml(write.request.body, duplicates)
    if (
        target.resource.custom
        and isinstance(body, dict)
        and body.get("kind") not in (None, target.resource.kind)
    ):
        raise bad_request(f"the kind in the data ({body['kind']}) is not {target.resource.kind}")
    intent = check_type(body, target)
    judge_strictly(strict_problems(duplicates, ()), write.options, write.warnings)
    if not named:
        place(intent, target)  # else what it conflicts with is told first
    metadata = intent["metadata"]
    if named:
        metadata.setdefault("name", target.name)
    else:
        require_object_name(intent, target)
    if metadata.get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    return intent


async def _create_applied(write: WriteRequest, obj: dict[str, Any]) -> Response:
    metadata = obj["metadata"]
    require_place(write, metadata["name"])
    write.upserting = True
    await complete_new(write, obj, tracked=True)
    validate(write, obj, None)
    await admit(write, obj, None)
    kept = await kept_form(write, obj)
    guard(write, obj, None)
    return await write.commit(201, kept)
