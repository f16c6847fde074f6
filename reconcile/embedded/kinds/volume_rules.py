"""What PersistentVolumes must satisfy, and what the API server adds to them."""

import posixpath
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final

from informers.apimachinery.name_rules import subdomain_faults
from reconcile.embedded.kinds.built_in_kind import Object, Others, immutable, one_of, same
from reconcile.embedded.kinds.node_selectors import (
    NEWER_LABELS,
    has_odd_values,
    node_selector_causes,
    older_label_warnings,
)
from reconcile.embedded.kinds.resource_rules import not_negative_causes, positive_causes
from reconcile.embedded.kinds.volume_sources import default_sources, source_causes, source_of
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import (
    value_forbidden,
    value_invalid,
    value_not_supported,
    value_required,
)

CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
VOLUME_MODES: Final = ("Block", "Filesystem")

_PROTECTION: Final = "kubernetes.io/pv-protection"
_MOUNT_ANNOTATION: Final = "volume.beta.kubernetes.io/mount-options"
_ONCE_FOR_A_POD: Final = "ReadWriteOncePod"
_ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", _ONCE_FOR_A_POD)
_RECLAIM_POLICIES: Final = ("Delete", "Recycle", "Retain")
_MOUNTABLE: Final = frozenset(
    {
        "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "nfs", "rbd", "quobyte", "iscsi", "cinder",
        "cephfs", "azureFile", "vsphereVolume", "azureDisk", "csi", "storageos",
    }
)  # fmt: skip
"""The sources that take mount options (checkMountOption in pkg/volume/validation)."""
_WITHOUT_FUNCTION: Final = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}


def default_volume(volume: Object) -> None:
    spec = volume.setdefault("spec", {})
    if not spec.get("persistentVolumeReclaimPolicy"):
        spec["persistentVolumeReclaimPolicy"] = "Retain"
    if spec.get("volumeMode") is None:
        spec["volumeMode"] = "Filesystem"
    default_sources(spec)


def protect(obj: Object, old: Object | None, finalizer: str) -> None:
    """Let a new object be kept while it is in use (the admission plugin StorageObjectInUseProtection)."""
    finalizers = obj["metadata"].get("finalizers") or []
    if old is None and finalizer not in finalizers:
        obj["metadata"]["finalizers"] = [*finalizers, finalizer]


def admit_volume(volume: Object, old: Object | None, _others: Others) -> None:
    protect(volume, old, _PROTECTION)


def stamp_volume(volume: Object, old: Object | None, time: str) -> None:
    """Note when the phase changed, unless the writer of the status says when."""
    if old is None:
        volume["status"] = {"phase": "Pending", "lastPhaseTransitionTime": time}
        return
    status, before = volume.get("status") or {}, old.get("status") or {}
    said = status.get("lastPhaseTransitionTime")
    unsaid = said is None or said == before.get("lastPhaseTransitionTime")
    if unsaid and status.get("phase") != before.get("phase"):
        volume["status"] = {**status, "lastPhaseTransitionTime": time}


# --- rules ------------------------------------------------------------------------------------


def volume_causes(volume: Object, old: Object | None) -> Iterator[FieldCause]:
    """The faults of a PersistentVolume.

    The strategy validates an updated volume twice, by itself and with its predecessor.
    """
    causes = list(_volume_causes(volume, old))
    yield from causes
    yield from _mount_option_causes(volume)
    if old is not None:
        yield from causes
        yield from _change_causes(volume["spec"], old.get("spec") or {})


def _volume_causes(volume: Object, old: Object | None) -> Iterator[FieldCause]:
    spec: Object = volume["spec"]
    yield from access_mode_causes(spec.get("accessModes") or [], "spec.accessModes")
    yield from _capacity_causes(spec.get("capacity") or {})
    yield from one_of(spec, "spec.persistentVolumeReclaimPolicy", _RECLAIM_POLICIES)
    yield from _affinity_causes(spec, old)
    yield from source_causes(spec, volume["metadata"].get("name") or "", "spec")
    path = (spec.get("hostPath") or {}).get("path") or ""
    if _is_root(path) and spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        why = "may not be 'recycle' for a hostPath mount of '/'"
        yield value_forbidden("spec.persistentVolumeReclaimPolicy", why)
    yield from class_name_causes(spec, "spec", "storageClassName")
    yield from one_of(spec, "spec.volumeMode", VOLUME_MODES)
    if spec.get("volumeAttributesClassName") is not None:
        if not spec["volumeAttributesClassName"]:
            yield value_required("spec.volumeAttributesClassName", "an empty string is disallowed")
        yield from class_name_causes(spec, "spec", "volumeAttributesClassName")
        if spec.get("csi") is None:
            why = "has to be specified when using volumeAttributesClassName"
            yield value_required("spec.csi", why)


def _is_root(path: str) -> bool:
    return path.startswith("/") and posixpath.normpath(path).strip("/") == ""


def access_mode_causes(modes: list[str], path: str) -> Iterator[FieldCause]:
    """The faults of the access modes of a volume or a claim."""
    if not modes:
        yield value_required(path, "at least 1 access mode is required")
    for mode in modes:
        if mode not in _ACCESS_MODES:
            yield value_not_supported(path, mode, _ACCESS_MODES)
    if _ONCE_FOR_A_POD in modes and {*modes} & {*_ACCESS_MODES} != {_ONCE_FOR_A_POD}:
        yield value_forbidden(path, f"may not use {_ONCE_FOR_A_POD} with other access modes")


def class_name_causes(spec: Object, path: str, field: str) -> Iterator[FieldCause]:
    """The faults of a name of a class, which may be missing or empty."""
    name = spec.get(field)
    for fault in subdomain_faults(name) if name else ():
        yield value_invalid(f"{path}.{field}", name, fault)


def _capacity_causes(capacity: Object) -> Iterator[FieldCause]:
    if not capacity:
        yield value_required("spec.capacity")
    if [*capacity] != ["storage"]:
        yield value_not_supported("spec.capacity", f"{capacity}", ["storage"])
    for name, quantity in capacity.items():
        yield from not_negative_causes(quantity, f"spec.capacity[{name}]")
        yield from positive_causes(quantity, f"spec.capacity[{name}]")


def _affinity_causes(spec: Object, old: Object | None) -> Iterator[FieldCause]:
    affinity = spec.get("nodeAffinity")
    if affinity is None:
        if spec.get("local") is not None and next(iter(source_of(spec))) == "local":
            yield value_required("spec.nodeAffinity", "Local volume requires node affinity")
        return
    if affinity.get("required") is None:
        yield value_required("spec.nodeAffinity.required", "must specify required node constraints")
        return
    before = (((old or {}).get("spec") or {}).get("nodeAffinity") or {}).get("required") or {}
    yield from node_selector_causes(
        affinity["required"], "spec.nodeAffinity.required", any_value=has_odd_values(before)
    )


def _mount_option_causes(volume: Object) -> Iterator[FieldCause]:
    if _MOUNT_ANNOTATION not in (volume["metadata"].get("annotations") or {}):
        return
    if not _MOUNTABLE & volume["spec"].keys():
        path = f"metadata.annotations.{_MOUNT_ANNOTATION}"
        yield value_forbidden(path, "may not specify mount options for this volume type")


def _change_causes(spec: Object, old: Object) -> Iterator[FieldCause]:
    source, before = deepcopy(source_of(spec)), source_of(old)
    if before.get("csi") and source.get("csi") and before["csi"].get("controllerExpandSecretRef") is None:
        source["csi"].pop("controllerExpandSecretRef", None)  # may be given later
    if not same(source, before):
        why = "spec.persistentvolumesource is immutable after creation"
        yield value_forbidden("spec.persistentvolumesource", why)
    yield from immutable(spec.get("volumeMode"), old.get("volumeMode"), "volumeMode")
    if old.get("nodeAffinity") is not None:
        renamed = _with_newer_labels(spec.get("nodeAffinity"), old["nodeAffinity"])
        yield from immutable(spec.get("nodeAffinity"), renamed, "nodeAffinity")
    name = "volumeAttributesClassName"
    if old.get(name) is not None and spec.get(name) is None:
        yield value_forbidden(f"spec.{name}", "update from non-nil value to nil is forbidden")


def _with_newer_labels(new: Any, old: Any) -> Any:
    """The old affinity with the newer names of its labels where the new one has them."""
    if isinstance(old, dict) and isinstance(new, dict):
        newer = NEWER_LABELS.get(str(old.get("key")))
        if newer is not None and new.get("key") == newer:
            return {**old, "key": newer}
        return {name: _with_newer_labels(new.get(name), value) for name, value in old.items()}
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [_with_newer_labels(one, other) for one, other in zip(new, old, strict=True)]
    return old


# --- warnings ---------------------------------------------------------------------------------


def volume_warnings(volume: Object, _old: Object | None) -> list[str]:
    """The warnings for the writer of a volume (pkg/api/persistentvolume)."""
    spec: Object = volume["spec"]
    annotations = volume["metadata"].get("annotations") or {}
    newer = {CLASS_ANNOTATION: "storageClassName", _MOUNT_ANNOTATION: "mountOptions"}
    warnings = [
        f'metadata.annotations[{name}]: is deprecated; use the attribute "{field}" instead'
        for name, field in newer.items()
        if name in annotations
    ]
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        warnings.append("spec.persistentVolumeReclaimPolicy: Recycle is deprecated; provision dynamically")
    sources = source_of(spec)
    warnings += [f"spec.{name}: {why}" for name, why in _WITHOUT_FUNCTION.items() if name in sources]
    terms = ((spec.get("nodeAffinity") or {}).get("required") or {}).get("nodeSelectorTerms") or ()
    for index, term in enumerate(terms):
        place = f"spec.nodeAffinity.required.nodeSelectorTerms[{index}].matchExpressions"
        warnings += older_label_warnings(term.get("matchExpressions") or [], place)
    return warnings
