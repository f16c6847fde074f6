"""The versions of a resource, as far as the owners of fields have to be compared in them."""

from collections.abc import Mapping
from typing import Any, Final, Protocol

from reconcile.embedded.ownership.typed_values import SchemaMismatch
from reconcile.embedded.schema.schema_nodes import SchemaNode


class Versions(Protocol):
    """The versions of a resource, in which the managers of an object are compared.

    A real server shows an object in the version of each of its managers, without pruning it. If a field is
    not declared there, an apply fails, and any other write loses all managedFields.
    """

    def node_of(self, api_version: str) -> SchemaNode | None:
        """The schema of a version; None if it is not described. Raises UnknownVersion."""

    def form_in(self, obj: Mapping[str, Any], api_version: str) -> Mapping[str, Any]:
        """An object of the version that is written, in another one."""


class UnknownVersion(SchemaMismatch):
    """A manager has a version that is no longer defined."""


class OneVersion:
    """The versions of a resource whose other versions are not described."""

    def node_of(self, api_version: str) -> SchemaNode | None:
        return None

    def form_in(self, obj: Mapping[str, Any], api_version: str) -> Mapping[str, Any]:
        return obj


ONE_VERSION: Final = OneVersion()
