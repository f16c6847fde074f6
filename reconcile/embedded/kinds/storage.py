"""PersistentVolumes, their claims, and StorageClasses."""

import datetime
from typing import Final

from reconcile.embedded.kinds.built_in_kind import BuiltInKind, Object, default
from reconcile.embedded.kubectl.printing import AGE, NAMES, UNSET, View, at, pick, truth
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_forbidden, value_required
from reconcile.embedded.served import CellColumn

_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _prepare_volume(volume: Object, old: Object | None) -> None:
    default(volume.setdefault("spec", {}), persistentVolumeReclaimPolicy="Retain", volumeMode="Filesystem")
    if old is None:
        volume["status"] = {"phase": "Pending"}


def _prepare_claim(claim: Object, old: Object | None) -> None:
    claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
    if old is None:
        claim["status"] = {"phase": "Pending"}


def _prepare_storage_class(storage: Object, old: Object | None) -> None:
    default(storage, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def _validate_storage_class(storage: Object, old: Object | None) -> list[FieldCause]:
    causes = [] if storage.get("provisioner") else [value_required("provisioner")]
    names = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")
    return causes + [
        value_forbidden(name, "updates to this field are forbidden.")
        for name in names
        if old is not None and storage.get(name) != old.get(name)
    ]


def _access_modes(obj: View, _now: datetime.datetime) -> str:
    if not pick(obj, "spec", "volumeName"):
        return ""
    return ",".join(_MODES.get(mode, mode) for mode in pick(obj, "status", "accessModes") or ())


def _claim_capacity(obj: View, _now: datetime.datetime) -> str:
    return pick(obj, "status", "capacity", "storage") or "" if pick(obj, "spec", "volumeName") else ""


def _claim_status(obj: View, _now: datetime.datetime) -> str:
    return "Terminating" if pick(obj, "metadata", "deletionTimestamp") else pick(obj, "status", "phase") or ""


def _modes(obj: View, _now: datetime.datetime) -> str:
    return ",".join(_MODES.get(mode, mode) for mode in pick(obj, "spec", "accessModes") or ())


def _claim(obj: View, _now: datetime.datetime) -> str:
    reference = pick(obj, "spec", "claimRef")
    return f"{reference.get('namespace')}/{reference.get('name')}" if reference else ""


KINDS: Final = (
    BuiltInKind(
        "", "PersistentVolume", short_names=("pv",), namespaced=False, has_status=True,
        answers_object_on_delete=True,
        defaults=_prepare_volume,
        columns=(
            NAMES,
            CellColumn("Capacity", at("spec", "capacity", "storage")),
            CellColumn("Access Modes", _modes),
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
        defaults=_prepare_claim,
        columns=(
            NAMES,
            CellColumn("Status", _claim_status),
            CellColumn("Volume", at("spec", "volumeName")),
            CellColumn("Capacity", _claim_capacity),
            CellColumn("Access Modes", _access_modes),
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
        defaults=_prepare_storage_class,
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
