"""Answers one call of a webhook: a route and the bytes of a request, to a status and a body.

The only effect is a line in the log about a function of the author that failed. An API server applies the
webhook's failure policy to any status other than 200.
"""

import traceback
from collections.abc import Iterator
from typing import Final, Literal

import msgspec
import structlog
from attrs import frozen

from informers import get_logger
from informers.functions import name_of
from reconcile.runs.run_failures import TRACEBACK_CHARACTERS
from reconcile.webhooks.admission_calls import FunctionError, admit_defaults, admit_refuses
from reconcile.webhooks.conversion_reviews import convert_review
from reconcile.webhooks.object_conversion import VersionedKind
from reconcile.webhooks.reviews import ReviewError
from reconcile.webhooks.routes import DEFAULTS, Route

MAX_BODY: Final = 8 * 1024 * 1024
"""Bytes. A review of an update has two objects, and an API server accepts 3 MiB for each."""

Result = Literal["allowed", "refused", "converted", "not-converted", "failed", "bad-request"]
"""What became of a call; label of its metric."""

_log = get_logger("reconcile.webhooks")


@frozen
class Answer:
    """`body` is JSON with the status 200, and otherwise a line of text."""

    status: int
    body: bytes
    result: Result


class _Response(msgspec.Struct):
    allowed: bool


class _Review(msgspec.Struct):
    response: _Response


_answers = msgspec.json.Decoder(_Review)


def answer(route: Route, body: bytes, log: structlog.stdlib.BoundLogger = _log) -> Answer:
    """The answer to a call. A function that fails is named in the log, with frames and without values."""
    if len(body) > MAX_BODY:
        return _refuse(413, f"expected at most {MAX_BODY} bytes, got {len(body)}")
    try:
        if isinstance(route.serves, VersionedKind):
            return _convert(route, route.serves, body, log)
        admit = admit_defaults if route.function == DEFAULTS else admit_refuses
        review = admit(route.serves, body)
    except ReviewError as error:
        return _refuse(400, str(error))
    except RecursionError:
        return _refuse(400, "the object is nested too deeply")
    except FunctionError as error:
        _report(route, error, log)
        return Answer(500, f"{error}\n".encode(), "failed")
    return Answer(200, review, "allowed" if _answers.decode(review).response.allowed else "refused")


def _convert(route: Route, kind: VersionedKind, body: bytes, log: structlog.stdlib.BoundLogger) -> Answer:
    review, failure = convert_review(kind, body)
    if failure is None:
        return Answer(200, review, "converted")
    log.warning(
        "an object was not converted",
        webhook=route.name,
        object=failure.place,
        traceback=frames_of(failure.error),
    )
    return Answer(200, review, "not-converted")


def _refuse(status: int, text: str) -> Answer:
    return Answer(status, f"{text}\n".encode(), "bad-request")


def _report(route: Route, error: FunctionError, log: structlog.stdlib.BoundLogger) -> None:
    admission = route.admission
    function = admission.defaults if route.function == DEFAULTS else admission.refuses
    log.error(
        "a function of the operator failed",
        webhook=route.name,
        function=name_of(function),
        error=str(error),
        traceback=frames_of(error.__cause__ or error),
    )


def frames_of(error: BaseException) -> str:
    """The tracebacks of an error and its causes, with classes alone: texts may quote the object."""
    parts = [
        f"{''.join(traceback.format_tb(one.__traceback__))}{type(one).__name__}" for one in _causes(error)
    ]
    return "\n".join(parts)[-TRACEBACK_CHARACTERS:]


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error, and what it came from, which an author's function raised."""
    cause: BaseException | None = error
    seen: list[BaseException] = []
    while cause is not None and all(cause is not one for one in seen):
        seen.append(cause)
        cause = cause.__cause__ or cause.__context__
    yield from reversed(seen)
