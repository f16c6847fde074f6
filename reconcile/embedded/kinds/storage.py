"""PersistentVolumes, their claims, and StorageClasses."""

import datetime
from collections.abc import Iterator
from typing import Final

from reconcile.embedded.kinds.built_in_kind import BuiltInKind, Object, required
from reconcile.embedded.kubectl.printing import AGE, NAMES, UNSET, Cell, View, at, pick, truth
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_forbidden
from reconcile.embedded.served import CellColumn

_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _validate_storage_class(storage: Object, old: Object | None) -> Iterator[FieldCause]:
    yield from required(storage, "", "provisioner")
    for name in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
        if old is not None and storage.get(name) != old.get(name):
            yield value_forbidden(name, "updates to this field are forbidden.")


def _claim_status(obj: View, _now: datetime.datetime) -> str:
    return "Terminating" if pick(obj, "metadata", "deletionTimestamp") else pick(obj, "status", "phase") or ""


def _modes(part: str) -> Cell:
    def cell(obj: View, _now: datetime.datetime) -> str:
        return ",".join(_MODES.get(mode, mode) for mode in pick(obj, part, "accessModes") or ())

    return cell


def _once_bound(cell: Cell) -> Cell:
    return lambda obj, now: cell(obj, now) if pick(obj, "spec", "volumeName") else ""


def _claim(obj: View, _now: datetime.datetime) -> str:
    reference = pick(obj, "spec", "claimRef")
    return f"{reference.get('namespace')}/{reference.get('name')}" if reference else ""


KINDS: Final = (
    BuiltInKind(
        "", "PersistentVolume", short_names=("pv",), namespaced=False, has_status=True,
        answers_object_on_delete=True,
        fills={"spec": {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"}},
        first_status={"phase": "Pending"},
        columns=(
            NAMES,
            CellColumn("Capacity", at("spec", "capacity", "storage")),
            CellColumn("Access Modes", _modes("spec")),
            CellColumn("Reclaim Policy", at("spec", "persistentVolumeReclaimPolicy")),
            CellColumn("Status", at("status", "phase")),
            CellColumn("Claim", _claim),
            CellColumn("StorageClass", at("spec", "storageClassName")),
            CellColumn("VolumeAttributesClass", at("spec", "volumeAttributesClassName", default=UNSET)),
            CellColumn("Reason", at("status", "reason")),
            AGE,
            CellColumn("VolumeMode", at("spec", "volumeMode", default=UNSET), wide=True),
        ),
    ),
    BuiltInKind(
        "", "PersistentVolumeClaim", short_names=("pvc",), has_status=True, answers_object_on_delete=True,
        fills={"spec": {"volumeMode": "Filesystem"}},
        first_status={"phase": "Pending"},
        columns=(
            NAMES,
            CellColumn("Status", _claim_status),
            CellColumn("Volume", at("spec", "volumeName")),
            CellColumn("Capacity", _once_bound(at("status", "capacity", "storage"))),
            CellColumn("Access Modes", _once_bound(_modes("status"))),
            CellColumn("StorageClass", at("spec", "storageClassName")),
            CellColumn("VolumeAttributesClass", at("spec", "volumeAttributesClassName", default=UNSET)),
            AGE,
            CellColumn("VolumeMode", at("spec", "volumeMode", default=UNSET), wide=True),
        ),
        viewed=("", "status"),
        edited=("",),
    ),
    BuiltInKind(
        "storage.k8s.io", "StorageClass", plural="storageclasses", short_names=("sc",), namespaced=False,
        answers_object_on_delete=True,
        fills={"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
        checks=_validate_storage_class,
        columns=(
            NAMES,
            CellColumn("Provisioner", at("provisioner")),
            CellColumn("ReclaimPolicy", at("reclaimPolicy")),
            CellColumn("VolumeBindingMode", at("volumeBindingMode")),
            CellColumn("AllowVolumeExpansion", truth("allowVolumeExpansion")),
            AGE,
        ),
    ),
)  # fmt: skip
