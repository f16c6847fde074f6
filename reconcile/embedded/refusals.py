"""Errors that several packages raise, with the text and details of kube-apiserver."""

from collections.abc import Sequence
from typing import Any

from reconcile.embedded.protocol.api_failure import ApiFailure, FieldCause
from reconcile.embedded.protocol.field_causes import value_invalid
from reconcile.embedded.served import ServedResource


class PlainText(Exception):
    """An answer in plain text instead of a Status."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


def page_not_found() -> PlainText:
    return PlainText(404, "404 page not found\n")


def details_of(resource: ServedResource, name: str = "") -> dict[str, Any]:
    """`details` that name an object by its plural."""
    details = {"name": name, "group": resource.group, "kind": resource.plural}
    return {field: value for field, value in details.items() if value}


def details_by_kind(resource: ServedResource, name: str = "") -> dict[str, Any]:
    """`details` that name an object by its Kind, as in 422 answers."""
    details = {"name": name, "group": resource.storage_key[0], "kind": resource.kind}
    return {field: value for field, value in details.items() if value}


def bad_request(message: str) -> ApiFailure:
    return ApiFailure(400, "BadRequest", message)


def too_deep() -> ApiFailure:
    return bad_request("the object is nested too deeply: exceeded max depth")


def no_such_resource() -> ApiFailure:
    """404 for a resource that a built-in group does not have."""
    return ApiFailure(404, "NotFound", "the server could not find the requested resource", {})


def not_found(resource: ServedResource, name: str) -> ApiFailure:
    return ApiFailure(404, "NotFound", f'{resource.name} "{name}" not found', details_of(resource, name))


def already_exists(resource: ServedResource, name: str, *, deleting: bool = False) -> ApiFailure:
    """409 for a name that is taken, with `deleting` by an object that is being deleted."""
    prefix = "object is being deleted: " if deleting else ""
    message = f'{prefix}{resource.name} "{name}" already exists'
    return ApiFailure(409, "AlreadyExists", message, details_of(resource, name))


def name_collision(resource: ServedResource, base: str) -> ApiFailure:
    """409 if every generated name was taken."""
    details = details_of(resource, base) | {"retryAfterSeconds": 1}
    message = (
        f'{resource.name} "{base}" already exists, the server was not able to generate a unique name for '
        "the object"
    )
    return ApiFailure(409, "AlreadyExists", message, details)


def conflict(resource: ServedResource, name: str, why: str) -> ApiFailure:
    """409 for an object that does not meet the request's preconditions."""
    message = f'Operation cannot be fulfilled on {resource.name} "{name}": {why}'
    return ApiFailure(409, "Conflict", message, details_of(resource, name))


def wrong_uid(resource: ServedResource, name: str, asked: str, uid: str) -> ApiFailure:
    """409 for an object that was replaced by another one of the same name."""
    why = f"Precondition failed: UID in precondition: {asked}, UID in object meta: {uid}"
    return conflict(resource, name, why)


def stale(resource: ServedResource, name: str) -> ApiFailure:
    """409 for a write based on an older version."""
    return conflict(
        resource,
        name,
        "the object has been modified; please apply your changes to the latest version and try again",
    )


def invalid(resource: ServedResource, name: str, causes: Sequence[FieldCause]) -> ApiFailure:
    """422 with one cause per fault."""
    return invalid_kind(resource.qualified_kind, name, causes, details_by_kind(resource, name))


def missing_version(resource: ServedResource, name: str) -> ApiFailure:
    """422 for an update without a required resourceVersion; unlike others it names the plural."""
    cause = value_invalid("metadata.resourceVersion", 0, "must be specified for an update")
    return invalid_kind(resource.name, name, [cause], details_of(resource, name))


def invalid_options(kind: str, causes: Sequence[FieldCause]) -> ApiFailure:
    """422 for CreateOptions, ListOptions and the like."""
    return invalid_kind(f"{kind}.meta.k8s.io", "", causes, {"group": "meta.k8s.io", "kind": kind})


def wrong_kind(resource: ServedResource, kind: str, name: str) -> ApiFailure:
    """422 for an object of another kind than its custom resource, which it is named by."""
    cause = value_invalid("kind", kind, f"must be {resource.kind}")
    details = {"name": name, "group": resource.group, "kind": kind}
    return invalid_kind(f"{kind}.{resource.group}", name, [cause], details)


def invalid_kind(
    qualified_kind: str, name: str, causes: Sequence[FieldCause], details: dict[str, Any]
) -> ApiFailure:
    """422 for anything that is not an object of a resource."""
    text = aggregate(causes)
    return ApiFailure(422, "Invalid", f'{qualified_kind} "{name}" is invalid: {text}', details, causes)


def aggregate(causes: Sequence[FieldCause]) -> str:
    """All causes in one text, each once; empty if there are none."""
    texts = (f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in causes)
    faults = list(dict.fromkeys(texts))
    return f"[{', '.join(faults)}]" if len(faults) > 1 else "".join(faults)


def unreadable_patch(why: str) -> ApiFailure:
    """422 for a patch whose result is not an object of the kind; its message has no name."""
    cause = FieldCause("FieldValueInvalid", f"Invalid value: {why}", "patch")
    return ApiFailure(422, "Invalid", f' "" is invalid: patch: {cause.message}', {}, [cause])


def forbidden(resource: ServedResource, name: str, why: str, causes: Sequence[FieldCause] = ()) -> ApiFailure:
    """403 for a request that no role could allow."""
    message = f'{resource.name} "{name}" is forbidden: {why}'
    return ApiFailure(403, "Forbidden", message, details_of(resource, name), causes)


def method_not_allowed() -> ApiFailure:
    message = "the server does not allow this method on the requested resource"
    return ApiFailure(405, "MethodNotAllowed", message, {})


def unsupported_media_type(accepted: Sequence[str]) -> ApiFailure:
    message = (
        "the body of the request was in an unknown format - accepted media types include: "
        f"{', '.join(accepted)}"
    )
    return ApiFailure(415, "UnsupportedMediaType", message)


def not_acceptable(details: dict[str, Any] | None = None) -> ApiFailure:
    message = "only the following media types are accepted: application/json"
    return ApiFailure(406, "NotAcceptable", message, details)


def expired(asked: int, oldest: int) -> ApiFailure:
    """410: the log no longer reaches back to the requested version."""
    return ApiFailure(410, "Expired", f"too old resource version: {asked} ({oldest})")


def bare_server_error(message: str) -> ApiFailure:
    """500 without a reason, as kube-apiserver answers some client errors."""
    return ApiFailure(500, "", message)


def must_wait() -> ApiFailure:
    """500 where admission or conversion would have to wait and cannot."""
    return internal(
        "admission or conversion has to wait for an answer: await ApiServer.respond() in place of handle()"
    )


def internal(message: str) -> ApiFailure:
    text = f"Internal error occurred: {message}"
    return ApiFailure(500, "InternalError", text, {}, [FieldCause("", message)])
