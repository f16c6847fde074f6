"""The answers of faults, in the form in which a server gives them."""

from collections.abc import Mapping

import msgspec

from informers.transport import Response
from reconcile.embedded import ApiFailure
from reconcile.testing.faults import Refuse
from reconcile.testing.recorded_requests import target_of

_JSON = {"content-type": "application/json"}
_TEXT = {"content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff"}
_REASONS = {
    400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 405: "MethodNotAllowed",
    409: "Conflict", 410: "Expired", 422: "Invalid", 429: "TooManyRequests", 500: "InternalError",
    503: "ServiceUnavailable", 504: "Timeout",
}  # fmt: skip


def stale_version(path: str) -> Response:
    """409 for a write to the object of `path`, as if it had changed since it was read."""
    target = target_of(path)
    resource = f"{target.resource}.{target.group}" if target.group else target.resource
    message = (
        f'Operation cannot be fulfilled on {resource} "{target.name}": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    group = {"group": target.group} if target.group else {}
    details = {"name": target.name, **group, "kind": target.resource}
    return _response(ApiFailure(409, "Conflict", message, details), {})


def refusal(refuse: Refuse) -> Response:
    headers = {} if refuse.retry_after is None else {"retry-after": str(refuse.retry_after)}
    if refuse.text is not None:
        return Response(refuse.code, _TEXT | headers, refuse.text.encode())
    reason = refuse.reason or _REASONS.get(refuse.code, "")
    message = refuse.message or "refused by a planned fault"
    details = None if refuse.retry_after is None else {"retryAfterSeconds": refuse.retry_after}
    return _response(ApiFailure(refuse.code, reason, message, details), headers)


def expired_event() -> bytes:
    """The line that ends a watch of a version that is no longer kept."""
    failure = ApiFailure(410, "Expired", "The resourceVersion for the provided watch is too old.")
    return msgspec.json.encode({"type": "ERROR", "object": failure.to_json()}) + b"\n"


def list_at(query: Mapping[str, str], version: str) -> dict[str, str]:
    """The query of a list of the initial objects of a watch, at `version`."""
    selectors = {name: query[name] for name in ("fieldSelector", "labelSelector") if name in query}
    return {**selectors, "resourceVersion": version, "resourceVersionMatch": "Exact"}


def watch_from(query: Mapping[str, str], version: str) -> dict[str, str]:
    """The query of the same watch from `version` on, without initial events."""
    left_out = ("sendInitialEvents", "resourceVersionMatch")
    rest = {name: value for name, value in query.items() if name not in left_out}
    return {**rest, "resourceVersion": version}


def initial_events(body: bytes, version: str) -> list[bytes]:
    """The initial events of a watch for the objects of a list, and their final bookmark."""
    listed = msgspec.json.decode(body)
    kind = {"kind": listed["kind"].removesuffix("List"), "apiVersion": listed["apiVersion"]}
    lines = [{"type": "ADDED", "object": {**kind, **item}} for item in listed["items"]]
    metadata = {"resourceVersion": version, "annotations": {"k8s.io/initial-events-end": "true"}}
    end = {"type": "BOOKMARK", "object": {**kind, "metadata": metadata}}
    return [msgspec.json.encode(line) + b"\n" for line in [*lines, end]]


def _response(failure: ApiFailure, headers: Mapping[str, str]) -> Response:
    return Response(failure.code, {**_JSON, **headers}, msgspec.json.encode(failure.to_json()))
