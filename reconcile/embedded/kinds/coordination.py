"""Leases."""

from collections.abc import Iterator
from typing import Final

from reconcile.embedded.kinds.built_in_kind import BuiltInKind, Object, not_negative
from reconcile.embedded.kubectl.printing import AGE, NAMES, at
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_invalid
from reconcile.embedded.served import CellColumn

_COORDINATED: Final = ("strategy", "preferredHolder")


def _prepare_lease(lease: Object, _old: Object | None) -> None:
    # The feature CoordinatedLeaderElection is off by default.
    for field in _COORDINATED:
        (lease.get("spec") or {}).pop(field, None)


def _lease_causes(lease: Object, _old: Object | None) -> Iterator[FieldCause]:
    spec = lease.get("spec") or {}
    duration = spec.get("leaseDurationSeconds")
    if duration is not None and duration <= 0:
        yield value_invalid("spec.leaseDurationSeconds", duration, "must be greater than 0")
    yield from not_negative(spec, "spec", "leaseTransitions")


KINDS: Final = (
    BuiltInKind(
        "coordination.k8s.io", "Lease", create_on_update=True, unconditional_update=False,
        prepare=_prepare_lease,
        checks=_lease_causes,
        names_missing_fields=True,
        columns=(NAMES, CellColumn("Holder", at("spec", "holderIdentity")), AGE),
    ),
)  # fmt: skip
