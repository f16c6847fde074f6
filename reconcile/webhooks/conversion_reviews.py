"""ConversionReview (apiextensions.k8s.io/v1): answers an API server that needs objects in another version.

Pure: bytes in, bytes out.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from informers import APIResource
from reconcile.models.conversions import ConversionError
from reconcile.webhooks.object_conversion import VersionedKind
from reconcile.webhooks.reviews import Review, Uid, read_request

API_VERSION: Final = "apiextensions.k8s.io/v1"
KIND: Final = "ConversionReview"


class _Request(msgspec.Struct, rename={"desired": "desiredAPIVersion"}):
    uid: Uid
    desired: str
    objects: list[dict[str, Any]]


_decoder = msgspec.json.Decoder(Review[_Request])


def convert_review(kind: VersionedKind, body: bytes) -> tuple[bytes, ConversionError | None]:
    """The answer to a review, and why an object could not be converted, for the log.

    The protocol has one result for all objects: none is converted if one cannot be, and the message names
    it. Raises ReviewError.
    """
    request = read_request(_decoder, API_VERSION, KIND, body)
    objects: list[dict[str, Any]] = []
    for obj in request.objects:
        try:
            objects.append(kind.convert(obj, request.desired))
        except (ConversionError, RecursionError) as error:
            failure = ConversionError(f"{_place(kind.resource, obj)}: {error}")
            failure.__cause__ = error
            return _answer(request.uid, [], str(failure)), failure
    return _answer(request.uid, objects, ""), None


def _place(resource: APIResource, obj: Mapping[str, Any]) -> str:
    metadata = obj.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    names = [str(metadata[name]) for name in ("namespace", "name") if metadata.get(name)]
    return f"{resource.kind} {'/'.join(names)}"


def _answer(uid: str, objects: list[dict[str, Any]], failure: str) -> bytes:
    result = {"status": "Failure", "message": failure} if failure else {"status": "Success"}
    response = {"uid": uid, "convertedObjects": objects, "result": result}
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": KIND, "response": response})
