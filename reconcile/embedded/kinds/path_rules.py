"""The rules for paths inside a volume."""

from collections.abc import Iterator

from reconcile.embedded.kinds.volume_sources import no_backsteps
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_invalid


def descending_path_causes(text: str, path: str) -> Iterator[FieldCause]:
    """The faults of a path that has to lead downwards (validateLocalDescendingPath)."""
    if text.startswith("/"):
        yield value_invalid(path, text, "must be a relative path")
    yield from no_backsteps(text, path)


def local_path_causes(text: str, path: str) -> Iterator[FieldCause]:
    """The faults of the path of a file that the kubelet writes (ValidateLocalNonReservedPath)."""
    yield from descending_path_causes(text, path)
    if text.startswith("..") and not text.startswith("../"):
        yield value_invalid(path, text, "must not start with '..'")
