"""The answers to refused requests, and the warnings of deprecated resources."""

from typing import Final

from msgspec.structs import replace

from informers.transport import Response
from reconcile.embedded.api import RequestTarget
from reconcile.embedded.protocol.api_failure import ApiFailure
from reconcile.embedded.refusals import PlainText, bad_request, too_deep
from reconcile.embedded.verbs.bodies import warning_headers, warning_text
from reconcile.embedded.verbs.rendering import json_response

REFUSALS: Final = (ApiFailure, PlainText, RecursionError, UnicodeEncodeError)
"""Errors that become answers. The last two are raised where hostile JSON is decoded or encoded."""


def refused(refusal: Exception, target: RequestTarget | None) -> Response:
    """The answer to a refused request; `target` is None if the request did not get that far."""
    response = _refusal(refusal)
    return response if target is None else with_deprecation(response, target)


def _refusal(refusal: Exception) -> Response:
    match refusal:
        case ApiFailure():
            return failure_response(refusal)
        case PlainText():
            headers = {"content-type": "text/plain; charset=utf-8"}
            return Response(refusal.code, headers, refusal.text.encode())
        case UnicodeEncodeError():
            return failure_response(bad_request("invalid UTF-8: half of a surrogate pair"))
        case _:
            return failure_response(too_deep())


def failure_response(failure: ApiFailure) -> Response:
    """The HTTP response for a failure."""
    details = failure.details or {}
    after = details.get("retryAfterSeconds")
    headers = warning_headers(failure.warnings) | ({"retry-after": str(after)} if after else {})
    return json_response(failure.code, failure.to_json(), headers)


def with_deprecation(answer: Response, target: RequestTarget) -> Response:
    """The answer, with a warning if the resource is deprecated."""
    if not target.resource.deprecation:
        return answer
    warning = warning_text(target.resource.deprecation)
    given = answer.headers.get("warning")
    headers = {**answer.headers, "warning": f"{given}, {warning}" if given else warning}
    return replace(answer, headers=headers)
