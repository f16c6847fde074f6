"""Names of things: a resource of the API, and an object in it."""

from typing import NamedTuple

from attrs import frozen

from informers.api_errors import NotFound


def is_path_segment(name: str) -> bool:
    """Whether a name is a single path segment; `%2F` is a slash to a server."""
    return name not in (".", "..") and "/" not in name and "%" not in name


class Key(NamedTuple):
    """The identity of an object of a resource. `namespace` is empty for cluster-scoped resources."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@frozen(cache_hash=True)
class APIResource:
    """A kind as one API server serves it, with what is needed to build paths."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """As manifests write it: `apps/v1`, or `v1` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def name(self) -> str:
        """As RBAC and error messages write it: `deployments.apps`, or `pods`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The path of an object, of a collection in a namespace, or of one over all namespaces.

        Raises NotFound for a name that no object can have: a slash would lead to another path.
        """
        if not (is_path_segment(name) and is_path_segment(namespace)):
            raise NotFound(404, "NotFound", f"{self.name} {namespace}/{name}: / and % are not in a name")
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if namespace and self.namespaced:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part]
        return "/".join(parts)

    def __str__(self) -> str:
        return self.name
