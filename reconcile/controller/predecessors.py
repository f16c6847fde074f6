"""The operators that a controller takes over from, and how they are recognized."""

from attrs import frozen


@frozen
class Predecessor:
    """An operator that a controller replaces, and how a cluster shows that it is at work.

    `leases` and `deployments` are names, in any namespace; `images` are parts of the names of its containers'
    images. A recent status of the kind by another writer counts too.
    """

    name: str
    leases: tuple[str, ...] = ()
    deployments: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
