"""ConversionReview (apiextensions.k8s.io/v1): answers an API server that needs objects in another version.

Pure: bytes in, bytes out.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from informers import APIResource
from reconcile.models.conversions import ConversionError
from reconcile.webhooks.admission_reviews import ReviewError
from reconcile.webhooks.object_conversion import VersionedKind

API_VERSION: Final = "apiextensions.k8s.io/v1"
KIND: Final = "ConversionReview"


class _Request(msgspec.Struct, rename={"desired": "desiredAPIVersion"}):
    uid: str
    desired: str
    objects: list[dict[str, Any]]


class _Review(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    request: _Request | None = None


_decoder = msgspec.json.Decoder(_Review)


def convert_review(kind: VersionedKind, body: bytes) -> tuple[bytes, ConversionError | None]:
    """The answer to a review, and why an object could not be converted, for the log.

    The protocol has one result for all objects: none is converted if one cannot be, and the message names
    it. Raises ReviewError.
    """
    request = _read(body)
    objects: list[dict[str, Any]] = []
    for obj in request.objects:
        try:
            objects.append(kind.convert(obj, request.desired))
        except (ConversionError, RecursionError) as error:
            failure = ConversionError(f"{_place(kind.resource, obj)}: {error}")
            failure.__cause__ = error
            return _answer(request.uid, [], str(failure)), failure
    return _answer(request.uid, objects, ""), None


def _read(body: bytes) -> _Request:
    try:
        review = _decoder.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ReviewError(f"expected a {KIND} of {API_VERSION}: {error}") from None
    if review.api_version != API_VERSION or review.kind != KIND:
        raise ReviewError(f"expected a {KIND} of {API_VERSION}: apiVersion or kind is another")
    if review.request is None or not review.request.uid:
        raise ReviewError(f"expected a {KIND} with a request that has a uid")
    return review.request


def _place(resource: APIResource, obj: Mapping[str, Any]) -> str:
    metadata = obj.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    names = [str(metadata[name]) for name in ("namespace", "name") if metadata.get(name)]
    return f"{resource.kind} {'/'.join(names)}"


def _answer(uid: str, objects: list[dict[str, Any]], failure: str) -> bytes:
    result = {"status": "Failure", "message": failure} if failure else {"status": "Success"}
    response = {"uid": uid, "convertedObjects": objects, "result": result}
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": KIND, "response": response})
