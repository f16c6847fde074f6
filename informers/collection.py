"""What an informer asks its server for."""

from collections.abc import Mapping

from attrs import frozen


@frozen
class Collection:
    """What to list and watch: a path, selectors, and whether to read metadata only."""

    path: str
    selectors: Mapping[str, str]
    metadata_only: bool = False

    def accept(self, kind: str) -> dict[str, str]:
        """The Accept header for the representation."""
        if not self.metadata_only:
            return {"accept": "application/json"}
        return {"accept": f"application/json;as={kind};g=meta.k8s.io;v=v1"}
