"""Every way in which an API server, or the connection to it, fails: one tree below `ApiError`."""

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, ClassVar, TypeVar

import msgspec
from attrs import frozen

R = TypeVar("R")


class ApiError(Exception):
    """Any failure between a client and an API server."""

    @property
    def may_have_acted(self) -> bool:
        """Whether a failed write may have been carried out: read the object before writing again.

        False if the server was not reached, or answered 4xx (429 included, which priority and fairness sends
        instead of handling the request) or the 503 that `ServerError` excepts. True otherwise.
        """
        return False


class TransportError(ApiError):
    """No answer came. `request` is the request, as `GET https://…/api/v1/pods`."""

    def __init__(self, message: str, request: str = "") -> None:
        super().__init__(f"{request}: {message}" if request else message)
        self.request = request


class Unreachable(TransportError):
    """The server cannot have seen the request: sending it again is safe."""


class OutcomeUnknown(TransportError):
    """The request was sent and no answer came: it may have been carried out."""

    @property
    def may_have_acted(self) -> bool:
        """Always."""
        return True


class MalformedAnswer(ApiError):
    """The answer is not one of an API server: something else may answer in its place."""

    @property
    def may_have_acted(self) -> bool:
        """Always: a server that acted may stand behind what answered."""
        return True


@frozen
class StatusCause:
    """One of several reasons for a refusal: `reason`, `message` and the `field` at fault."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusError(ApiError):
    """The server answered and refused.

    `code` is the HTTP status, `reason` the word of the Status body (empty without one), `causes` the single
    faults, `retry_after` the seconds to wait before the next call, if any, `request` the method and path.
    """

    codes: ClassVar[tuple[int, ...]] = ()

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        causes: tuple[StatusCause, ...] = (),
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
    """The request is wrong; sending it again will not help."""

    codes = (400, 405, 406, 415)


class Unauthorized(StatusError):
    """The server does not accept the credentials."""

    codes = (401,)


class Forbidden(StatusError):
    """The user may not do this, or it is not allowed now (in a terminating namespace)."""

    codes = (403,)


class NotFound(StatusError):
    """The object, or its resource, does not exist."""

    codes = (404,)


class Conflict(StatusError):
    """The request does not fit the stored object; see the four subclasses."""


class StaleVersion(Conflict):
    """The object has changed since it was read."""


class AlreadyExists(Conflict):
    """The name is taken."""


class OwnedByOther(Conflict):
    """Another field manager owns a field that was applied; `causes` name manager and field."""


class PreconditionFailed(Conflict):
    """The object is another one: it was replaced by an object of the same name."""


class Expired(StatusError):
    """The requested version, or the requested page, is no longer kept."""

    codes = (410,)


class Invalid(StatusError):
    """The object breaks its schema or a rule of its kind; `causes` name the fields."""

    codes = (413, 422)


class TooManyRequests(StatusError):
    """The server is busy, or not ready yet; `retry_after` says when to ask again."""

    codes = (429,)


class ServerError(StatusError):
    """The server failed; a write may still have been carried out."""

    @property
    def may_have_acted(self) -> bool:
        """True, unless it is a 503 with a Status of reason ServiceUnavailable and a time to wait.

        That comes from the server itself, before its handlers are installed. A 500 may follow a commit in
        etcd (`etcdserver: request timed out`), and a proxy answers 502 or 503 for a connection that broke.
        """
        turned_away = self.code == 503 and self.reason == "ServiceUnavailable"
        return not (turned_away and self.retry_after is not None)


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


def parsed(read: Callable[[bytes], R], body: bytes, request: str) -> R:
    """Read the body of an answer with `read`. Raises MalformedAnswer if that fails.

    The message has no part of the body, which may hold a Secret.
    """
    try:
        return read(body)
    except (msgspec.DecodeError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        problem = str(error) if isinstance(error, msgspec.DecodeError) else type(error).__name__
        raise MalformedAnswer(
            f"{request}: an answer of {len(body)} bytes that an API server would not give ({problem})"
        ) from None


_GATEWAY_CODES = (502, 503, 504)


def is_unreachable(error: BaseException) -> bool:
    """Whether no API server answered: every `TransportError`, and 502, 503 and 504 without a Status.

    Those come from a load balancer or, for one API group, an aggregator. A busy server (429) has answered.
    """
    if isinstance(error, StatusError):
        return error.code in _GATEWAY_CODES and not error.reason
    return isinstance(error, TransportError)


def error_from_response(code: int, headers: Mapping[str, str], body: bytes, request: str = "") -> StatusError:
    """The typed error for an answer of 400 or more, whatever its body is: a Status, text or empty."""
    status = _status_body(body)
    details = _mapping(status.get("details"))
    listed = details.get("causes")
    causes = tuple(_cause(cause) for cause in listed) if isinstance(listed, list) else ()
    reason = _text(status.get("reason"))
    message = _text(status.get("message")) or body[:500].decode(errors="replace").strip() or "no message"
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
    """The typed error for a Status object inside a stream (an ERROR event of a watch)."""
    code = status.get("code")
    if not isinstance(code, int) or not 400 <= code < 600:
        code = 410 if status.get("reason") in ("Expired", "Gone") else 500
    return error_from_response(code, {}, msgspec.json.encode(status), request)


def _conflict(reason: str, message: str, causes: tuple[StatusCause, ...]) -> type[Conflict]:
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
    except (msgspec.DecodeError, RecursionError):
        return {}
    return status if isinstance(status, dict) and status.get("kind") == "Status" else {}


def _cause(cause: Any) -> StatusCause:
    cause = _mapping(cause)
    return StatusCause(_text(cause.get("reason")), _text(cause.get("message")), _text(cause.get("field")))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _retry_after(headers: Mapping[str, str], details: Mapping[str, Any]) -> float | None:
    for value in (headers.get("retry-after"), details.get("retryAfterSeconds")):
        try:
            seconds = None if value is None else float(value)
        except (TypeError, ValueError, OverflowError):
            continue
        if seconds is not None and isfinite(seconds):
            return max(0.0, seconds)
    return None
