"""Conversion between the versions of a custom resource, where a cluster calls conversion webhooks."""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Protocol

from attrs import frozen


class ConversionFailed(Exception):
    """Raised by a converter that cannot convert; the text reaches the client in a 500."""


@frozen
class ConversionRequest:
    """Objects that are to be shown, or kept, in another version."""

    webhook: Mapping[str, Any]
    """`spec.conversion.webhook` of the definition."""
    api_version: str
    """The version that is asked for."""
    objects: Sequence[dict[str, Any]]
    """Copies, which may be changed."""


class Converter(Protocol):
    """Answers the objects of a request in the version asked for, in order.

    Of their metadata only labels and annotations count. Nothing is held while it is awaited.
    """

    def __call__(self, request: ConversionRequest) -> Awaitable[Sequence[dict[str, Any]]]: ...
