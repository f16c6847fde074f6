"""The Lease, which a manager imports for its election: alone, as most need no other of these kinds."""

from attrs import frozen

from reconcile.kinds.built_in import BuiltIn
from reconcile.models import ExtraFields, resource


@frozen
class LeaseSpec(ExtraFields):
    """The holder of a lease, and its duration."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


@resource("coordination.k8s.io/v1")
class Lease(BuiltIn):
    """coordination.k8s.io/v1 Lease."""

    spec: LeaseSpec = LeaseSpec()
