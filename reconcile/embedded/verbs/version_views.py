"""Objects in the versions of their managers, as server-side apply compares them."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from attrs import define, field

from reconcile.embedded.ownership.manager_versions import UnknownVersion
from reconcile.embedded.schema import SchemaNode
from reconcile.embedded.served import ServedResource
from reconcile.embedded.stored_forms import converted, encode

A = TypeVar("A")


class _FormNeeded(Exception):
    """The computation needs an object in another version, which takes a converter."""

    def __init__(self, obj: Mapping[str, Any], api_version: str) -> None:
        super().__init__(api_version)
        self.obj = obj
        self.api_version = api_version


@define
class VersionViews:
    """The versions of the resource of one write. Those of a built-in kind are not described."""

    resource: ServedResource
    waited: bool = False
    """Whether a converter was awaited, so that other writes may have come."""
    _forms: dict[tuple[str, bytes], dict[str, Any]] = field(factory=dict)

    def node_of(self, api_version: str) -> SchemaNode | None:
        """The schema of a version. Raises UnknownVersion if the definition no longer has it."""
        versions = self.resource.versions
        if not versions:
            return None
        if api_version not in versions:
            raise UnknownVersion(f"request to convert CR to an invalid group/version: {api_version}")
        return versions[api_version].whole

    def form_in(self, obj: Mapping[str, Any], api_version: str) -> Mapping[str, Any]:
        """The object in another version; a real server converts without pruning where no webhook does."""
        if self.resource.conversion is None:
            return obj
        form = self._forms.get((api_version, encode(obj)))
        if form is None:
            raise _FormNeeded(obj, api_version)
        return form

    async def complete(self, compute: Callable[[], A]) -> A:
        """The result of `compute`, which must be pure, once all forms that it needs have been converted.

        Raises ApiFailure (500) if one cannot be converted.
        """
        while True:
            try:
                return compute()
            except _FormNeeded as needed:
                made = await converted(self.resource, dict(needed.obj), needed.api_version)
                self._forms[needed.api_version, encode(needed.obj)] = made
                self.waited = True
