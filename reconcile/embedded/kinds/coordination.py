"""Leases."""

import re
from typing import Final

from reconcile.embedded.kinds.built_in_kind import BuiltInKind, Object
from reconcile.embedded.kubectl.printing import AGE, NAMES, at
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_invalid
from reconcile.embedded.refusals import bad_request
from reconcile.embedded.served import CellColumn

_MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,9}(Z|[+-]\d\d:\d\d)", re.ASCII)


def _prepare_lease(lease: Object, old: Object | None) -> None:
    for field in ("acquireTime", "renewTime"):
        value = (lease.get("spec") or {}).get(field)
        if value and not _MICRO_TIME.fullmatch(value):
            raise bad_request(f'parsing time "{value}": spec.{field} needs a fraction of a second')


def _validate_lease(lease: Object, old: Object | None) -> list[FieldCause]:
    spec = lease.get("spec") or {}
    causes: list[FieldCause] = []
    duration = spec.get("leaseDurationSeconds")
    if duration is not None and duration <= 0:
        causes.append(value_invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    transitions = spec.get("leaseTransitions")
    if transitions is not None and transitions < 0:
        causes.append(
            value_invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0")
        )
    return causes


KINDS: Final = (
    BuiltInKind(
        "coordination.k8s.io", "Lease", create_on_update=True, unconditional_update=False,
        defaults=_prepare_lease,
        checks=_validate_lease,
        columns=(NAMES, CellColumn("Holder", at("spec", "holderIdentity")), AGE),
    ),
)  # fmt: skip
