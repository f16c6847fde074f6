"""ConversionReviews: what the conversion webhook of a definition is sent, and how its answer is read.

The rules and texts are those of webhook_converter.go of apiextensions.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from attrs import frozen

from reconcile.embedded.served import ConversionFailed, ConversionRequest
from reconcile.embedded.webhook_calls import CallFailed, WebhookCalls

SECONDS: Final = 30
"""How long a call may take; that of the client which waits for it does not matter."""
_GROUP: Final = "apiextensions.k8s.io"
_KIND: Final = "ConversionReview"
_VERSIONS: Final = ("v1", "v1beta1")
_decode = msgspec.json.decode


@frozen
class WebhookConverter:
    """The converter that posts reviews to the webhook of the definition."""

    calls: WebhookCalls
    new_uid: Callable[[], str]

    async def __call__(self, request: ConversionRequest) -> Sequence[dict[str, Any]]:
        """Raises ConversionFailed."""
        version, uid = review_version(request.webhook), self.new_uid()
        body = msgspec.json.encode(review_of(request, version, uid))
        try:
            answer = await self.calls.post(request.webhook.get("clientConfig") or {}, body, SECONDS)
        except CallFailed as failed:
            raise ConversionFailed(str(failed)) from failed
        return converted_objects(answer, version, uid)


def review_version(webhook: Mapping[str, Any]) -> str:
    """The first version of reviews that the webhook accepts and the server knows. Raises ConversionFailed."""
    for version in webhook.get("conversionReviewVersions") or ():
        if version in _VERSIONS:
            return str(version)
    raise ConversionFailed("no supported conversion review versions")


def review_of(request: ConversionRequest, version: str, uid: str) -> dict[str, Any]:
    """The review that asks for the conversion."""
    asked = {"uid": uid, "desiredAPIVersion": request.api_version, "objects": list(request.objects)}
    empty: dict[str, Any] = {"uid": "", "convertedObjects": None, "result": {"metadata": {}}}
    return {"kind": _KIND, "apiVersion": f"{_GROUP}/{version}", "request": asked, "response": empty}


def converted_objects(answer: bytes, version: str, uid: str) -> list[dict[str, Any]]:
    """The objects of an answer; their contents are not checked. Raises ConversionFailed."""
    review = _read(answer)
    kind, api_version = (_text(review, name) for name in ("kind", "apiVersion"))
    expected = f"{_GROUP}/{version}"
    if (kind and kind != _KIND) or (api_version and api_version != expected):
        raise ConversionFailed(f'no kind "{kind}" is registered for version "{api_version}" in scheme')
    group, _, short = api_version.rpartition("/")
    if version == "v1" and not (kind and api_version):
        got = f"{group}/{short}, Kind={kind}"
        raise ConversionFailed(f"expected webhook response of {expected}, Kind={_KIND}, got {got}")
    response = review.get("response")
    if response is None:
        raise ConversionFailed("no response provided")
    if not isinstance(response, dict):
        raise _unreadable("response", response)
    if version == "v1" and _text(response, "uid") != uid:  # v1beta1 never compared them
        raise ConversionFailed(f'expected response.uid="{uid}", got "{_text(response, "uid")}"')
    _require_success(response)
    objects = response.get("convertedObjects") or []
    if not isinstance(objects, list):
        raise _unreadable("response.convertedObjects", objects)
    return objects


def _require_success(response: Mapping[str, Any]) -> None:
    result = response.get("result") or {}
    if not isinstance(result, dict):
        raise _unreadable("response.result", result)
    status, message = _text(result, "status"), _text(result, "message")
    if status != "Success":
        raise ConversionFailed(message or f"response.result.status was '{status}', not 'Success'")


def _read(answer: bytes) -> dict[str, Any]:
    try:
        review = _decode(answer)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ConversionFailed(f"couldn't get version/kind; json parse error: {error}") from None
    if not isinstance(review, dict):
        raise _unreadable("the review", review)
    return review


def _text(holder: Mapping[str, Any], name: str) -> str:
    value = holder.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _unreadable(name, value)
    return value


def _unreadable(place: str, value: Any) -> ConversionFailed:
    return ConversionFailed(f"json: cannot unmarshal {place}: unexpected {type(value).__name__}")
