"""The operators whose kinds a controller keeps in their place, and by what they are known."""

from attrs import frozen


@frozen
class Predecessor:
    """An operator that a controller takes the place of: by what a cluster shows that it is at work.

    `leases` and `deployments` are names, in whatever namespace; `images` are parts of the names of its
    containers' images. Besides, whoever else wrote a status of the kind of late is taken for it.
    """

    name: str
    leases: tuple[str, ...] = ()
    deployments: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
