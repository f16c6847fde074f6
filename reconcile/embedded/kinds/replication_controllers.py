"""ReplicationControllers."""

from typing import Final

from reconcile.embedded.kinds.apps_kinds import REPLICA_COLUMNS, SCALE
from reconcile.embedded.kinds.built_in_kind import BuiltInKind, Object
from reconcile.embedded.kinds.pod_kinds import OF_TEMPLATE, complete_template
from reconcile.embedded.kinds.workload_checks import (
    labels_of,
    name_warnings,
    replication_controller_causes,
)
from reconcile.embedded.kinds.workload_status import replica_set_status_causes
from reconcile.embedded.kubectl.printing import labels
from reconcile.embedded.served import CellColumn


def _default_controller(controller: Object) -> None:
    """Take the selector and the labels from the template, which may be missing."""
    spec = controller["spec"]
    if spec.get("template") is None:
        return
    if found := labels_of(spec["template"]):
        spec["selector"] = spec.get("selector") or dict(found)
        controller["metadata"]["labels"] = controller["metadata"].get("labels") or dict(found)
    complete_template(spec)


KINDS: Final = (
    BuiltInKind(
        "", "ReplicationController", short_names=("rc",), categories=("all",), has_status=True,
        has_generation=True, scale=SCALE,
        selectable_fields=(".status.replicas",),
        fills={"spec": {"replicas": 1}},
        defaults=_default_controller,
        first_status={"replicas": 0},
        names_missing_fields=True,
        checks=replication_controller_causes,
        status_checks=replica_set_status_causes,
        warnings=name_warnings,
        columns=(
            *REPLICA_COLUMNS,
            *OF_TEMPLATE[:2],
            CellColumn("Selector", labels("spec", "selector"), wide=True),
        ),
        viewed=("", "scale", "status"),
        edited=("", "scale"),
    ),
)  # fmt: skip
