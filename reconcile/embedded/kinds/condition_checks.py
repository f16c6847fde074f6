"""The rules for conditions of the common type (metav1.Condition)."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from informers.apimachinery.name_rules import label_key_faults
from reconcile.embedded.kinds.built_in_kind import Object, one_of
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import (
    value_duplicate,
    value_invalid,
    value_required,
    value_too_long,
)

# maxReasonLen and maxMessageLen in apimachinery's pkg/apis/meta/v1/validation.
MAX_REASON: Final = 1024
MAX_MESSAGE: Final = 32 * 1024
_REASON: Final = re.compile(r"[A-Za-z](?:[A-Za-z0-9_,:]*[A-Za-z0-9_])?")


def condition_causes(conditions: Sequence[Object] | None, path: str) -> Iterator[FieldCause]:
    """The faults of a list of conditions."""
    seen: set[Any] = set()
    for index, condition in enumerate(conditions or ()):
        place, kind = f"{path}[{index}]", condition.get("type") or ""
        if kind in seen:
            yield value_duplicate(f"{place}.type", kind)
        seen.add(kind)
        yield from _causes(condition, place)


def _causes(condition: Object, path: str) -> Iterator[FieldCause]:
    kind, reason, message = (condition.get(name) or "" for name in ("type", "reason", "message"))
    for fault in label_key_faults(kind):
        yield value_invalid(f"{path}.type", kind, fault)
    yield from one_of(condition, f"{path}.status", ("False", "True", "Unknown"))
    seen = condition.get("observedGeneration") or 0
    if seen < 0:
        yield value_invalid(f"{path}.observedGeneration", seen, "must be greater than or equal to zero")
    if not condition.get("lastTransitionTime"):
        yield value_required(f"{path}.lastTransitionTime", "must be set")
    if not reason:
        yield value_required(f"{path}.reason", "must be set")
    elif not _REASON.fullmatch(reason):
        why = "a condition reason must start with alphabetic character and end with an alphanumeric one"
        yield value_invalid(f"{path}.reason", reason, why)
    if len(reason.encode()) > MAX_REASON:
        yield value_too_long(f"{path}.reason", MAX_REASON)
    if len(message.encode()) > MAX_MESSAGE:
        yield value_too_long(f"{path}.message", MAX_MESSAGE)
