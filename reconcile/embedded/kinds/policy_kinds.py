"""PodDisruptionBudgets."""

from collections.abc import Iterator
from typing import Final

from informers.apimachinery.name_rules import path_segment_faults
from reconcile.embedded.kinds.built_in_kind import (
    BuiltInKind,
    Object,
    not_negative,
    one_of,
    spec_and_status,
)
from reconcile.embedded.kinds.condition_checks import condition_causes
from reconcile.embedded.kinds.int_or_percent import above_all_causes, amount_causes
from reconcile.embedded.kinds.label_selectors import selector_causes
from reconcile.embedded.kubectl.printing import AGE, NAMES, Cell, at
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_invalid
from reconcile.embedded.served import CellColumn


def _validate_budget(budget: Object, old: Object | None) -> Iterator[FieldCause]:
    spec = budget.get("spec") or {}
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        yield value_invalid("spec", "", "minAvailable and maxUnavailable cannot be both set")
    for field in ("minAvailable", "maxUnavailable"):
        if spec.get(field) is not None:
            yield from amount_causes(spec[field], f"spec.{field}")
            yield from above_all_causes(spec[field], f"spec.{field}")
    yield from selector_causes(spec.get("selector"), "spec.selector")
    if spec.get("unhealthyPodEvictionPolicy") is not None:
        yield from one_of(spec, "spec.unhealthyPodEvictionPolicy", ("AlwaysAllow", "IfHealthyBudget"))


def _validate_budget_status(budget: Object, old: Object | None) -> Iterator[FieldCause]:
    status = budget.get("status") or {}
    yield from condition_causes(status.get("conditions"), "status.conditions")
    yield from not_negative(
        status, "status", "disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"
    )


def _amount(field: str) -> Cell:
    cell = at("spec", field, default="N/A")
    return lambda obj, now: str(cell(obj, now))


KINDS: Final = (
    BuiltInKind(
        "policy", "PodDisruptionBudget", short_names=("pdb",), has_status=True, has_generation=True,
        unconditional_update=False,
        first_status={
            "currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0,
        },
        checks=_validate_budget,
        status_checks=_validate_budget_status,
        names_missing_fields=True,
        # A real server does not look at their metadata beyond what it asks of every object.
        check_name=path_segment_faults,
        metadata_fault_copies=2,
        columns=(
            NAMES,
            CellColumn("Min Available", _amount("minAvailable")),
            CellColumn("Max Unavailable", _amount("maxUnavailable")),
            CellColumn("Allowed Disruptions", at("status", "disruptionsAllowed", default=0), "integer"),
            AGE,
        ),
        messages={
            **spec_and_status("PodDisruptionBudget"),
            "PodDisruptionBudgetSpec": {
                1: "minAvailable:*int-or-string", 2: "selector:*LabelSelector",
                3: "maxUnavailable:*int-or-string", 4: "unhealthyPodEvictionPolicy:*string",
            },
            "PodDisruptionBudgetStatus": {
                1: "observedGeneration:int", 3: "disruptionsAllowed:int", 4: "currentHealthy:int",
                5: "desiredHealthy:int", 6: "expectedPods:int",
            },
        },
        viewed=("", "status"),
        edited=("",),
    ),
)  # fmt: skip
