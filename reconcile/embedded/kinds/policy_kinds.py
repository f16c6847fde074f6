"""PodDisruptionBudgets and PriorityClasses."""

import datetime
from typing import Any, Final

from reconcile.embedded.kinds.built_in_kind import BuiltInKind, Object, default, fixed
from reconcile.embedded.kubectl.printing import AGE, NAMES, View, at, pick, truth
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_forbidden, value_invalid
from reconcile.embedded.served import CellColumn

# HighestUserDefinablePriority in pkg/apis/scheduling; the range above belongs to system classes.
MAX_USER_PRIORITY = 1_000_000_000
_SYSTEM_PRIORITY = "system-"


def _prepare_budget(budget: Object, old: Object | None) -> None:
    if old is None:
        budget["status"] = {
            "currentHealthy": 0,
            "desiredHealthy": 0,
            "disruptionsAllowed": 0,
            "expectedPods": 0,
        }


def _validate_budget(budget: Object, old: Object | None) -> list[FieldCause]:
    spec = budget.get("spec") or {}
    causes: list[FieldCause] = []
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        causes.append(value_invalid("spec", "", "minAvailable and maxUnavailable cannot be both set"))
    for field in ("minAvailable", "maxUnavailable"):
        causes += _amount_causes(spec.get(field), f"spec.{field}")
    return causes


def _amount_causes(value: object, path: str) -> list[FieldCause]:
    if isinstance(value, int) and value < 0:
        return [value_invalid(path, value, "must be greater than or equal to 0")]
    percent = value.removesuffix("%") if isinstance(value, str) else "0"
    if not (percent.isascii() and percent.isdigit()) or (isinstance(value, str) and not value.endswith("%")):
        why = "must be an integer or percentage (e.g '5%%')"
        return [value_invalid(path, value, why)]
    percent = percent.lstrip("0")
    too_many = len(percent) > 3 or int(percent or "0") > 100
    return [value_invalid(path, value, "must not be greater than 100%")] if too_many else []


def _prepare_priority_class(priority: Object, old: Object | None) -> None:
    default(priority, preemptionPolicy="PreemptLowerPriority")


def _validate_priority_class(priority: Object, old: Object | None) -> list[FieldCause]:
    value, name = priority.get("value") or 0, priority["metadata"].get("name", "")
    causes = fixed(priority, old, "value", "preemptionPolicy")
    if value > MAX_USER_PRIORITY:
        why = f"maximum allowed value of a user defined priority is {MAX_USER_PRIORITY}"
        causes.append(value_forbidden("value", why))
    if name.startswith(_SYSTEM_PRIORITY) and old is None:
        why = "priority class names with 'system-' prefix are reserved for system use only"
        causes.append(value_forbidden("metadata.name", why))
    return causes


def _amount(field: str) -> Any:
    def cell(obj: View, _now: datetime.datetime) -> str:
        value = pick(obj, "spec", field)
        return "N/A" if value is None else str(value)

    return cell


KINDS: Final = (
    BuiltInKind(
        "policy", "PodDisruptionBudget", short_names=("pdb",), has_status=True, has_generation=True,
        unconditional_update=False,
        defaults=_prepare_budget,
        checks=_validate_budget,
        columns=(
            NAMES,
            CellColumn("Min Available", _amount("minAvailable")),
            CellColumn("Max Unavailable", _amount("maxUnavailable")),
            CellColumn("Allowed Disruptions", at("status", "disruptionsAllowed", default=0), "integer"),
            AGE,
        ),
        messages={
            "PodDisruptionBudget": {
                1: "metadata:ObjectMeta", 2: "spec:PodDisruptionBudgetSpec",
                3: "status:PodDisruptionBudgetStatus",
            },
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
    BuiltInKind(
        "scheduling.k8s.io", "PriorityClass", plural="priorityclasses", short_names=("pc",),
        namespaced=False, has_generation=True,
        defaults=_prepare_priority_class,
        checks=_validate_priority_class,
        columns=(
            NAMES,
            CellColumn("Value", at("value", default=0), "integer"),
            CellColumn("Global-Default", truth("globalDefault")),
            AGE,
            CellColumn("PreemptionPolicy", at("preemptionPolicy")),
        ),
        messages={
            "PriorityClass": {
                1: "metadata:ObjectMeta", 2: "value:int", 3: "globalDefault:bool", 4: "description:string",
                5: "preemptionPolicy:*string",
            },
        },
    ),
)  # fmt: skip
