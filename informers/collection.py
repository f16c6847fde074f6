"""What an informer asks its server for."""

from collections.abc import Mapping

from attrs import frozen

_DROP = ";drop=metadata.managedFields"


@frozen
class Collection:
    """What to list and watch: a path, selectors, whether to read metadata only, and whether managedFields.

    A server from Kubernetes 1.37 on, with the gate ManagedFieldsOptOut (KEP-5958), leaves them out where it
    is asked to; others ignore that.
    """

    path: str
    selectors: Mapping[str, str]
    metadata_only: bool = False
    managed_fields: bool = True

    def accept(self, kind: str) -> dict[str, str]:
        """The Accept header for the representation."""
        form = "application/json"
        if self.metadata_only:
            form = f"{form};as={kind};g=meta.k8s.io;v=v1"
        # Without the parameter too, for servers and proxies that would refuse one that they do not know.
        return {"accept": form if self.managed_fields else f"{form}{_DROP},{form}"}
