"""The declaration of a ring: the replicas that share the objects of an operator."""

import platform
import re
from typing import Final

from attrs import evolve, field, frozen

from informers import Clock
from informers.apimachinery.name_rules import label_faults, subdomain_faults
from reconcile.client.buckets import DEFAULT_BUCKETS, Buckets

_HOST_LENGTH: Final = 40


def _share(_: object, __: object, share: float) -> None:
    if not 0 <= share <= 1:
        raise ValueError(f"canary=: expected a share from 0 to 1 (or 0% to 100%), got {share!r}")


@frozen
class Sharding:
    """Replicas with the same `name` and `namespace` share all objects among each other, in `buckets` parts.

    The Leases of the members, and the one that holds the assignment, are in that namespace. All members need
    the same number of buckets: a power of two, and at least ten times the number of replicas for an even
    share. With `canary`, the member gets that share of all buckets at most, and does not lead, as long as
    there are others without: a new version proves itself on a few objects first. `identity` is unique among
    all processes that ever were, by default the name of its host and a random part. `version` is shown to
    people. Raises ValueError for numbers out of range, and for names that no Lease can have.
    """

    name: str
    namespace: str = "default"
    buckets: int = field(default=DEFAULT_BUCKETS, kw_only=True)
    canary: float = field(default=0.0, kw_only=True, validator=_share)
    identity: str = field(default="", kw_only=True)
    version: str = field(default="", kw_only=True)

    def __attrs_post_init__(self) -> None:
        Buckets(self.buckets)
        if not self.name:
            raise ValueError("a Sharding needs a name, which its Leases get")
        # The Leases get these names, and the name of the ring as a label: refused before anything starts.
        for what, name in (("name", self.name), ("namespace", self.namespace)):
            if label_faults(name):
                raise ValueError(
                    f"{name!r} cannot be the {what} of a ring: use at most 63 of a-z, 0-9 and dashes"
                )
        if self.identity and subdomain_faults(self.identity):
            raise ValueError(
                f"identity={self.identity!r} becomes part of a name: use a-z, 0-9, dashes and dots"
            )

    @property
    def place(self) -> str:
        """The ring as people write it."""
        return f"{self.namespace}/{self.name}"

    @property
    def leading(self) -> int:
        """The bucket beside all others whose owner runs the controllers that need all objects."""
        return self.buckets

    @property
    def parts(self) -> int:
        """How many buckets are assigned: those of objects, and the one of the leader."""
        return self.buckets + 1

    def identified(self, clock: Clock) -> "Sharding":
        """The same with an identity, which is part of the name of a Lease."""
        if self.identity:
            return self
        host = re.sub(r"[^a-z0-9]+", "-", platform.node().split(".")[0].lower())
        host = host[:_HOST_LENGTH].strip("-") or "member"
        return evolve(self, identity=f"{host}-{clock.uuid().hex[:8]}")
