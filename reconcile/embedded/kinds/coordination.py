"""Leases."""

import re
from collections.abc import Iterator
from typing import Final

from reconcile.embedded.kinds.built_in_kind import BuiltInKind, Object, not_negative
from reconcile.embedded.kubectl.printing import AGE, NAMES, at
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_invalid
from reconcile.embedded.refusals import bad_request
from reconcile.embedded.served import CellColumn

_MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,9}(Z|[+-]\d\d:\d\d)", re.ASCII)


def _default_lease(lease: Object) -> None:
    for field in ("acquireTime", "renewTime"):
        value = (lease.get("spec") or {}).get(field)
        if value and not _MICRO_TIME.fullmatch(value):
            raise bad_request(f'parsing time "{value}": spec.{field} needs a fraction of a second')


def _validate_lease(lease: Object, old: Object | None) -> Iterator[FieldCause]:
    spec = lease.get("spec") or {}
    duration = spec.get("leaseDurationSeconds")
    if duration is not None and duration <= 0:
        yield value_invalid("spec.leaseDurationSeconds", duration, "must be greater than 0")
    yield from not_negative(spec, "spec", "leaseTransitions")


KINDS: Final = (
    BuiltInKind(
        "coordination.k8s.io", "Lease", create_on_update=True, unconditional_update=False,
        defaults=_default_lease,
        checks=_validate_lease,
        columns=(NAMES, CellColumn("Holder", at("spec", "holderIdentity")), AGE),
    ),
)  # fmt: skip
