"""PersistentVolumes, their claims, and StorageClasses."""

import datetime
from collections.abc import Iterator, Mapping
from typing import Final

from informers.apimachinery.name_rules import label_key_faults
from reconcile.embedded.kinds.built_in_kind import BuiltInKind, Object, immutable, one_of
from reconcile.embedded.kinds.claim_rules import (
    admit_claim,
    claim_causes,
    claim_status_causes,
    claim_warnings,
    default_claim,
    prepare_claim,
)
from reconcile.embedded.kinds.node_selectors import older_label_warnings, topology_causes
from reconcile.embedded.kinds.volume_rules import (
    admit_volume,
    default_volume,
    stamp_volume,
    volume_causes,
    volume_warnings,
)
from reconcile.embedded.kubectl.printing import AGE, NAMES, UNSET, Cell, View, at, pick, truth
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_invalid, value_required, value_too_long
from reconcile.embedded.served import CellColumn

_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


# maxProvisionerParameterSize and maxProvisionerParameterLen in pkg/apis/storage/validation.
_MAX_PARAMETER_BYTES = 256 * 1024
_MAX_PARAMETERS = 512
_FIXED = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")


def _storage_class_causes(storage: Object, old: Object | None) -> Iterator[FieldCause]:
    provisioner = storage.get("provisioner") or ""
    if not provisioner:
        yield value_required("provisioner")
    for fault in label_key_faults(provisioner.lower()) if provisioner else ():
        yield value_invalid("provisioner", provisioner, fault)
    yield from _parameter_causes(storage.get("parameters") or {})
    if storage.get("reclaimPolicy"):
        yield from one_of(storage, "reclaimPolicy", ("Delete", "Retain"))
    yield from one_of(storage, "volumeBindingMode", ("Immediate", "WaitForFirstConsumer"))
    yield from topology_causes(storage.get("allowedTopologies") or [], "allowedTopologies")
    for name in _FIXED if old is not None else ():
        yield from immutable(storage.get(name), (old or {}).get(name), name)


def _parameter_causes(parameters: Mapping[str, str]) -> Iterator[FieldCause]:
    if len(parameters) > _MAX_PARAMETERS:
        yield value_too_long("parameters", _MAX_PARAMETERS)
        return
    if "" in parameters:
        yield value_invalid("parameters", "", "field can not be empty.")
    size = sum(len(key.encode()) + len(value.encode()) for key, value in parameters.items())
    if size > _MAX_PARAMETER_BYTES:
        yield value_too_long("parameters", _MAX_PARAMETER_BYTES)


def _storage_class_warnings(storage: Object, _old: Object | None) -> list[str]:
    return [
        warning
        for index, term in enumerate(storage.get("allowedTopologies") or ())
        for warning in older_label_warnings(
            term.get("matchLabelExpressions") or [], f"allowedTopologies[{index}].matchLabelExpressions"
        )
    ]


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
        defaults=default_volume,
        admit=admit_volume,
        stamp=stamp_volume,
        checks=volume_causes,
        names_missing_fields=True,
        warnings=volume_warnings,
        metadata_fault_copies=4,
        change_fault_copies=1,
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
        defaults=default_claim,
        admit=admit_claim,
        first_status={"phase": "Pending"},
        prepare=prepare_claim,
        checks=claim_causes,
        status_checks=claim_status_causes,
        names_missing_fields=True,
        warnings=claim_warnings,
        metadata_fault_copies=5,
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
        checks=_storage_class_causes,
        names_missing_fields=True,
        warnings=_storage_class_warnings,
        metadata_fault_copies=4,
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
