"""ConversionReview (apiextensions.k8s.io/v1): answers an API server that needs objects in another version.

Pure: bytes in, bytes out.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from attrs import frozen

from informers import APIResource
from reconcile.models.conversions import ConversionError
from reconcile.webhooks.object_conversion import VersionedKind
from reconcile.webhooks.reviews import Review, Uid, read_request

API_VERSION: Final = "apiextensions.k8s.io/v1"
KIND: Final = "ConversionReview"
MAX_NAME: Final = 253
"""Characters of a name or a namespace."""


class _Request(msgspec.Struct, rename={"desired": "desiredAPIVersion"}):
    uid: Uid
    desired: str
    objects: list[dict[str, Any]]


_decoder = msgspec.json.Decoder(Review[_Request])


@frozen
class Failure:
    """Why an object was not converted. The text of the error may quote a value of it; `place` has none."""

    place: str
    error: ConversionError | RecursionError

    def __str__(self) -> str:
        return f"{self.place}: {self.error}"


def convert_review(kind: VersionedKind, body: bytes) -> tuple[bytes, Failure | None]:
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
            failure = Failure(_place(kind.resource, obj), error)
            return _answer(request.uid, [], str(failure)), failure
    return _answer(request.uid, objects, ""), None


def _place(resource: APIResource, obj: Mapping[str, Any]) -> str:
    metadata = obj.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    values = [metadata.get(name) for name in ("namespace", "name")]
    names = [value[:MAX_NAME] for value in values if isinstance(value, str) and value]
    return f"{resource.kind} {'/'.join(names)}"


def _answer(uid: str, objects: list[dict[str, Any]], failure: str) -> bytes:
    result = {"status": "Failure", "message": failure} if failure else {"status": "Success"}
    response = {"uid": uid, "convertedObjects": objects, "result": result}
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": KIND, "response": response})
