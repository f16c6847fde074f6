"""The answers that a fault gives in a server's place, in the form in which a server gives them."""

from collections.abc import Mapping
from typing import Any

import msgspec

from informers.transport import Response
from reconcile.testing.faults import Refuse
from reconcile.testing.requests import group_of, target_of

_JSON = {"content-type": "application/json"}
_TEXT = {"content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff"}
_REASONS = {
    400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 405: "MethodNotAllowed",
    409: "Conflict", 410: "Expired", 422: "Invalid", 429: "TooManyRequests", 500: "InternalError",
    503: "ServiceUnavailable", 504: "Timeout",
}  # fmt: skip


def stale(path: str) -> Response:
    """409 for a write to the object of `path`, which has changed since it was read."""
    plural, name = target_of(path)
    group = group_of(path)
    resource = f"{plural}.{group}" if group else plural
    message = (
        f'Operation cannot be fulfilled on {resource} "{name}": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    details = {"name": name, **({"group": group} if group else {}), "kind": plural}
    return Response(409, _JSON, _encode(_status(409, "Conflict", message, details)))


def refusal(refuse: Refuse) -> Response:
    """The answer that a `Refuse` describes."""
    headers = {} if refuse.retry_after is None else {"retry-after": str(refuse.retry_after)}
    if refuse.text is not None:
        return Response(refuse.code, _TEXT | headers, refuse.text.encode())
    reason = refuse.reason or _REASONS.get(refuse.code, "")
    message = refuse.message or "refused by a planned fault"
    details = None if refuse.retry_after is None else {"retryAfterSeconds": refuse.retry_after}
    return Response(refuse.code, _JSON | headers, _encode(_status(refuse.code, reason, message, details)))


def expired_event() -> bytes:
    """The line with which a watch ends whose version is no longer kept."""
    status = _status(410, "Expired", "The resourceVersion for the provided watch is too old.")
    return _encode({"type": "ERROR", "object": status}) + b"\n"


def exactly(query: Mapping[str, str], version: str) -> dict[str, str]:
    """The list of what a watch would begin with, as it was at `version`."""
    chosen = {name: query[name] for name in ("fieldSelector", "labelSelector") if name in query}
    return {**chosen, "resourceVersion": version, "resourceVersionMatch": "Exact"}


def resumed(query: Mapping[str, str], version: str) -> dict[str, str]:
    """The same watch, from `version` on and without what was there before."""
    left_out = ("sendInitialEvents", "resourceVersionMatch")
    rest = {name: value for name, value in query.items() if name not in left_out}
    return {**rest, "resourceVersion": version}


def first_events(body: bytes, version: str) -> list[bytes]:
    """The lines with which a watch begins that is to show what a list shows, down to their end."""
    found = msgspec.json.decode(body)
    kind, api_version = found["kind"].removesuffix("List"), found["apiVersion"]
    named = {"kind": kind, "apiVersion": api_version}
    lines = [{"type": "ADDED", "object": {**named, **item}} for item in found["items"]]
    metadata = {"resourceVersion": version, "annotations": {"k8s.io/initial-events-end": "true"}}
    end = {"type": "BOOKMARK", "object": {**named, "metadata": metadata}}
    return [_encode(line) + b"\n" for line in [*lines, end]]


def _status(code: int, reason: str, message: str, details: dict[str, Any] | None = None) -> dict[str, Any]:
    status: dict[str, Any] = {
        "kind": "Status", "apiVersion": "v1", "metadata": {},
        "status": "Failure", "message": message, "reason": reason,
    }  # fmt: skip
    if details:
        status["details"] = details
    return status | {"code": code}


def _encode(value: dict[str, Any]) -> bytes:
    return msgspec.json.encode(value)
