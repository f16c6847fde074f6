"""Conversion between versions of a custom resource, in place of conversion webhooks."""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Protocol

from attrs import frozen


class ConversionFailed(Exception):
    """Raised by a converter; the client gets its text in a 500."""


@frozen
class ConversionRequest:
    """Objects to convert to another version."""

    webhook: Mapping[str, Any]
    """`spec.conversion.webhook` of the definition."""
    api_version: str
    """The desired version."""
    objects: Sequence[dict[str, Any]]
    """Copies that may be changed."""


class Converter(Protocol):
    """Returns the objects of a request in the desired version, in order.

    Of their metadata only labels and annotations count. Nothing is locked while it is awaited.
    """

    def __call__(self, request: ConversionRequest) -> Awaitable[Sequence[dict[str, Any]]]: ...
