"""The resources that are served now: built-in ones, and those of definitions."""

from collections.abc import Iterable, Iterator, Sequence

from reconcile.embedded.served import ServedResource


class ResourceRegistry:
    """Resources by group, version and plural, and by group and kind.

    `revision` grows with every change, so that derived values (discovery) can be cached.
    """

    def __init__(self, built_in: Iterable[ServedResource]) -> None:
        self.revision = 0
        self._resources: dict[tuple[str, str, str], ServedResource] = {}
        self._custom: dict[str, tuple[ServedResource, ...]] = {}
        for resource in built_in:
            self._resources[resource.group, resource.version, resource.plural] = resource
        self._built_in_groups = {resource.group for resource in self}
        self._index()

    def _index(self) -> None:
        self._served = {(resource.group, resource.version) for resource in self}
        self._kinds: dict[tuple[str, str], list[ServedResource]] = {}
        for resource in self:
            self._kinds.setdefault((resource.group, resource.kind), []).append(resource)

    def copy(self) -> "ResourceRegistry":
        """A separate registry with the same resources."""
        other = ResourceRegistry(())
        other._resources = dict(self._resources)
        other._custom = dict(self._custom)
        other._built_in_groups, other._served = self._built_in_groups, self._served
        other._kinds = self._kinds
        return other

    def __iter__(self) -> Iterator[ServedResource]:
        """Every version of every resource."""
        return iter(list(self._resources.values()))

    def get(self, group: str, version: str, plural: str) -> ServedResource | None:
        """One version of a resource, by its plural."""
        return self._resources.get((group, version, plural))

    def by_kind(self, group: str, kind: str, version: str = "") -> ServedResource | None:
        """A resource by its kind, in `version` or in the first version served."""
        for resource in self._kinds.get((group, kind), ()):
            if version in ("", resource.version):
                return resource
        return None

    def serves(self, group: str, version: str) -> bool:
        """Whether this group and version has any resource."""
        return (group, version) in self._served

    def is_custom(self, group: str) -> bool:
        """Whether the group exists only through definitions."""
        return group not in self._built_in_groups

    def define(self, definition: str, resources: Sequence[ServedResource]) -> tuple[ServedResource, ...]:
        """Serve `resources` for the named definition instead of its previous ones, which it returns."""
        before = self._custom.pop(definition, ())
        for resource in before:
            del self._resources[resource.group, resource.version, resource.plural]
        if resources:
            self._custom[definition] = tuple(resources)
        for resource in resources:
            self._resources[resource.group, resource.version, resource.plural] = resource
        self._index()
        self.revision += 1
        return before
