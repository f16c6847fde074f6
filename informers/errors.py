"""Every way in which an API server, or the way to it, fails: one tree.

ApiError
├── TransportError             no answer came
│   ├── Unreachable            the server cannot have seen the request: sending again is safe
│   └── OutcomeUnknown         it may have been carried out: look before sending again
├── MalformedAnswer            what came is not what an API server says
└── StatusError                the server answered and refused
    ├── BadRequest             400, 405, 406, 415: the request itself is wrong
    ├── Unauthorized           401
    ├── Forbidden              403
    ├── NotFound               404
    ├── Conflict               409, always one of the four below
    │   ├── StaleVersion       the object has changed since it was read
    │   ├── AlreadyExists      the name is taken
    │   ├── OwnedByOther       another field manager owns what was applied
    │   └── PreconditionFailed the object was replaced by another of its name
    ├── Expired                410: the version asked for is no longer kept
    ├── Invalid                413, 422: the object breaks its schema or a rule of its kind
    ├── TooManyRequests        429: `retry_after` says when
    └── ServerError            5xx
        └── ServerTimeout      504: it may have been carried out
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec
from attrs import frozen


class ApiError(Exception):
    """Anything that goes wrong between a client and an API server."""


class TransportError(ApiError):
    """No answer came. `request` says to what, as `GET https://…/api/v1/pods`."""

    def __init__(self, message: str, request: str = "") -> None:
        super().__init__(f"{request}: {message}" if request else message)
        self.request = request


class Unreachable(TransportError):
    """The server cannot have seen the request: sending it again is safe."""


class OutcomeUnknown(TransportError):
    """The request was sent and no answer came: it may have been carried out."""


class MalformedAnswer(ApiError):
    """What came is not what an API server says: something else may answer in its place."""


@frozen
class Cause:
    """One reason of several for which a server refused: `reason`, `message` and the `field` at fault."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusError(ApiError):
    """The server answered and refused.

    `code` is the HTTP status, `reason` the machine-readable word of the Status body (empty where
    the body was none), `causes` the single faults, `retry_after` the seconds after which the server
    wants to be asked again (None: it did not say), `request` the method and path.
    """

    codes: ClassVar[tuple[int, ...]] = ()

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        causes: tuple[Cause, ...] = (),
        details: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
        request: str = "",
    ) -> None:
        super().__init__(
            f"{request}: {code} {reason}: {message}" if request else f"{code} {reason}: {message}"
        )
        self.code = code
        self.reason = reason
        self.message = message
        self.causes = causes
        self.details: Mapping[str, Any] = details or {}
        self.retry_after = retry_after
        self.request = request


class BadRequest(StatusError):
    """The request itself is wrong; sending it again will not help."""

    codes = (400, 405, 406, 415)


class Unauthorized(StatusError):
    """The server does not know who is asking."""

    codes = (401,)


class Forbidden(StatusError):
    """Who is asking may not do this, or nobody may do it now (a namespace that is terminating)."""

    codes = (403,)


class NotFound(StatusError):
    """There is no such object, or no such resource."""

    codes = (404,)


class Conflict(StatusError):
    """The request and the stored object do not fit together; see the four subclasses."""


class StaleVersion(Conflict):
    """The object has changed since it was read."""


class AlreadyExists(Conflict):
    """The name is taken."""


class OwnedByOther(Conflict):
    """Another field manager owns a field that was applied; `causes` name manager and field."""


class PreconditionFailed(Conflict):
    """The object is not the one that was meant: it was replaced by another of its name."""


class Expired(StatusError):
    """The version, or the page, that was asked for is no longer kept."""

    codes = (410,)


class Invalid(StatusError):
    """The object breaks its schema or a rule of its kind; `causes` name the fields."""

    codes = (413, 422)


class TooManyRequests(StatusError):
    """The server is busy, or not ready yet; `retry_after` says when to ask again."""

    codes = (429,)


class ServerError(StatusError):
    """The server failed."""


class ServerTimeout(ServerError):
    """The server gave up waiting: the request may have been carried out."""

    codes = (504,)


_BY_CODE: dict[int, type[StatusError]] = {
    code: kind
    for kind in (
        BadRequest, Unauthorized, Forbidden, NotFound, Expired, Invalid, TooManyRequests, ServerTimeout
    )
    for code in kind.codes
}  # fmt: skip


def error_from_response(code: int, headers: Mapping[str, str], body: bytes, request: str = "") -> StatusError:
    """The typed error for an answer of 400 or more, whatever its body is: a Status, text or nothing."""
    status = _status_body(body)
    details = status.get("details") or {}
    causes = tuple(
        Cause(c.get("reason", ""), c.get("message", ""), c.get("field", ""))
        for c in details.get("causes") or ()
    )
    reason = status.get("reason") or ""
    message = status.get("message") or body[:500].decode(errors="replace").strip() or "no message"
    kind = _conflict(reason, message, causes) if code == 409 else _BY_CODE.get(code)
    if kind is None:
        kind = ServerError if code >= 500 else BadRequest
    return kind(
        code,
        reason,
        message,
        causes=causes,
        details=details,
        retry_after=_retry_after(headers, details),
        request=request,
    )


def error_from_status(status: Mapping[str, Any], request: str = "") -> StatusError:
    """The typed error for a Status object that came inside a stream (an ERROR event of a watch)."""
    code = status.get("code")
    if not isinstance(code, int) or code < 400:
        code = 410 if status.get("reason") in ("Expired", "Gone") else 500
    return error_from_response(code, {}, msgspec.json.encode(status), request)


def _conflict(reason: str, message: str, causes: tuple[Cause, ...]) -> type[Conflict]:
    if reason == "AlreadyExists":
        return AlreadyExists
    if any(cause.reason == "FieldManagerConflict" for cause in causes):
        return OwnedByOther
    if "Precondition failed: ResourceVersion" in message:
        return StaleVersion
    if "precondition" in message.lower():
        return PreconditionFailed
    return StaleVersion


def _status_body(body: bytes) -> dict[str, Any]:
    try:
        status = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return {}
    return status if isinstance(status, dict) and status.get("kind") == "Status" else {}


def _retry_after(headers: Mapping[str, str], details: Mapping[str, Any]) -> float | None:
    for value in (headers.get("retry-after"), details.get("retryAfterSeconds")):
        try:
            if value is not None:
                return max(0.0, float(value))
        except (TypeError, ValueError):
            continue
    return None
