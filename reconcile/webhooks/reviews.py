"""The envelope in which API servers post what a webhook is asked: AdmissionReview and ConversionReview."""

from typing import Annotated, Generic, TypeVar

import msgspec

T = TypeVar("T")

Uid = Annotated[str, msgspec.Meta(min_length=1)]


class ReviewError(ValueError):
    """A body that is not a review; the text says what was expected and has nothing of the object."""


class Review(msgspec.Struct, Generic[T], rename="camel"):
    """A review with a request of one kind."""

    api_version: str
    kind: str
    request: T


def read_request(decoder: msgspec.json.Decoder[Review[T]], api_version: str, kind: str, body: bytes) -> T:
    """The request of a review of that kind. Raises ReviewError."""
    try:
        review = decoder.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        # The message of a ValidationError names a path and types; that of malformed JSON an offset.
        raise ReviewError(f"expected kind {kind} of {api_version}: {error}") from None
    if (review.api_version, review.kind) != (api_version, kind):
        raise ReviewError(f"expected kind {kind} of {api_version}: apiVersion or kind is another")
    return review.request
