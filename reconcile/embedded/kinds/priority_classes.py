"""PriorityClasses."""

from collections.abc import Iterator
from typing import Final

from reconcile.embedded.kinds.built_in_kind import BuiltInKind, Object, Others, immutable, one_of
from reconcile.embedded.kubectl.printing import AGE, NAMES, at, truth
from reconcile.embedded.protocol.api_failure import Denied, FieldCause
from reconcile.embedded.protocol.field_causes import value_forbidden, value_required
from reconcile.embedded.served import CellColumn

# HighestUserDefinablePriority in pkg/apis/scheduling; the range above belongs to system classes.
MAX_USER_PRIORITY = 1_000_000_000
_SYSTEM_PREFIX: Final = "system-"
# Classes that every cluster has from its start (pkg/apis/scheduling/v1/helpers.go).
SYSTEM_CLASSES: Final = {
    "system-cluster-critical": 2 * MAX_USER_PRIORITY,
    "system-node-critical": 2 * MAX_USER_PRIORITY + 1000,
}
_POLICIES: Final = ("PreemptLowerPriority", "Never")


def _admit_priority_class(priority: Object, _old: Object | None, others: Others) -> None:
    """Allow one default for all pods (the admission plugin Priority)."""
    if not priority.get("globalDefault"):
        return
    name = priority["metadata"].get("name")
    for other in others.every("scheduling.k8s.io", "priorityclasses"):
        if other.get("globalDefault") and other["metadata"]["name"] != name:
            why = "is already marked as default. Only one default can exist"
            raise Denied(f"PriorityClass {other['metadata']['name']} {why}")


def _prepare_priority_class(priority: Object, old: Object | None) -> None:
    if old is None:
        priority["metadata"]["generation"] = 1  # which no update increases


def _priority_class_causes(priority: Object, old: Object | None) -> Iterator[FieldCause]:
    value, policy = priority.get("value") or 0, priority.get("preemptionPolicy")
    if old is not None:
        if value != (old.get("value") or 0):
            yield value_forbidden("value", "may not be changed in an update.")
        yield from immutable(policy, old.get("preemptionPolicy"), "preemptionPolicy")
        return
    name = priority["metadata"].get("name") or ""
    if name.startswith(_SYSTEM_PREFIX):
        if SYSTEM_CLASSES.get(name) != value or priority.get("globalDefault"):
            why = f"priority class names with '{_SYSTEM_PREFIX}' prefix are reserved for system use only"
            yield value_forbidden("metadata.name", why)
    elif value > MAX_USER_PRIORITY:
        why = f"maximum allowed value of a user defined priority is {MAX_USER_PRIORITY}"
        yield value_forbidden("value", why)
    if policy == "":
        yield value_required("preemptionPolicy")
    elif policy is not None:
        yield from one_of(priority, "preemptionPolicy", _POLICIES)


KINDS: Final = (
    BuiltInKind(
        "scheduling.k8s.io", "PriorityClass", plural="priorityclasses", short_names=("pc",),
        namespaced=False,
        fills={"preemptionPolicy": "PreemptLowerPriority"},
        admit=_admit_priority_class,
        prepare=_prepare_priority_class,
        checks=_priority_class_causes,
        names_missing_fields=True,
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
