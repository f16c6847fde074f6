"""The rules for `metadata`."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import frozen

from informers.apimachinery.name_rules import NameCheck, label_key_faults, label_value_faults
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import (
    value_forbidden,
    value_invalid,
    value_required,
    value_too_long,
)

KNOWN_FIELDS: Mapping[str, type] = {
    "annotations": dict,
    "creationTimestamp": str,
    "deletionGracePeriodSeconds": int,
    "deletionTimestamp": str,
    "finalizers": list,
    "generateName": str,
    "generation": int,
    "labels": dict,
    "managedFields": list,
    "name": str,
    "namespace": str,
    "ownerReferences": list,
    "resourceVersion": str,
    "selfLink": str,
    "uid": str,
}
# TotalAnnotationSizeLimitB in apimachinery's api/validation.
MAX_ANNOTATION_BYTES = 256 * 1024
BUILT_IN_FINALIZERS = frozenset({"orphan", "foregroundDeletion", "kubernetes"})

# A real server checks finalizers of definitions by the rules of custom resources, which let this one pass.
_OF_DEFINITIONS = "customresourcecleanup.apiextensions.k8s.io"
_OWNER_FIELDS = frozenset({"apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"})
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
# --- shape ------------------------------------------------------------------------------------


def drop_unknown_fields(metadata: dict[str, Any]) -> list[str]:
    unknown: list[str] = []
    if not metadata.keys() <= KNOWN_FIELDS.keys():
        unknown = [field for field in metadata if field not in KNOWN_FIELDS]
    for field in unknown:
        del metadata[field]
    return [f"metadata.{field}" for field in unknown] + _drop_unknown_owner_fields(metadata)


def _drop_unknown_owner_fields(metadata: dict[str, Any]) -> list[str]:
    removed: list[str] = []
    owners = metadata.get("ownerReferences")
    for index, owner in enumerate(owners if isinstance(owners, list) else ()):
        for field in (
            [field for field in owner if field not in _OWNER_FIELDS] if isinstance(owner, dict) else ()
        ):
            del owner[field]
            removed.append(f"metadata.ownerReferences[{index}].{field}")
    return removed


def type_fault(metadata: Mapping[str, Any]) -> str:
    """The first field of a wrong type, in words; empty if there is none."""
    for field, value in metadata.items():
        expected = KNOWN_FIELDS.get(field)
        if value is None or expected is None:
            continue
        fits = _FITS.get(field)
        if type(value) is not expected or (fits is not None and not fits(value)):
            return f"metadata.{field}: unexpected {type(value).__name__}"
    return ""


_FITS: Mapping[str, Callable[[Any], object]] = {
    **dict.fromkeys(("annotations", "labels"), lambda value: all(type(one) is str for one in value.values())),
    **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), _TIME.fullmatch),
    **dict.fromkeys(
        ("managedFields", "ownerReferences"), lambda value: all(type(one) is dict for one in value)
    ),
    "finalizers": lambda value: all(type(one) is str for one in value),
}
"""Fields whose contents have types too."""


def drop_empty(metadata: dict[str, Any]) -> dict[str, Any]:
    """Remove nulls, and empty maps, lists and strings. Returns what was removed."""
    empty = {field: value for field, value in metadata.items() if not value and value != 0}
    for field in empty:
        del metadata[field]
    return empty


def drop_duplicate_owners(metadata: dict[str, Any]) -> str:
    """Keep the first of equal owner references; returns a warning if any was dropped."""
    owners = metadata.get("ownerReferences")
    if not owners or len(owners) < 2:
        return ""
    kept: list[Any] = []
    for owner in owners:
        if owner not in kept:
            kept.append(owner)
    if len(kept) == len(owners):
        return ""
    metadata["ownerReferences"] = kept
    return (
        ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, "
        "and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: "
        f"{owners[0].get('uid', '')}"
    )


# --- rules ------------------------------------------------------------------------------------


def check(
    metadata: Mapping[str, Any], name_check: NameCheck, *, custom: bool, times: int = 1
) -> tuple[list[FieldCause], list[str]]:
    """Faults and warnings, by all rules for `metadata` that need no earlier state.

    `times` is how many layers of the real server repeat the faults of labels, annotations and owners.
    """
    warnings: list[str] = []
    causes = _name_causes(metadata, name_check)
    causes += times * (
        label_causes(metadata.get("labels") or {})
        + annotation_causes(metadata.get("annotations") or {})
        + _owner_causes(metadata.get("ownerReferences") or ())
    )
    return causes + max(1, times - 2) * _finalizer_causes(metadata, custom, warnings), warnings


def _finalizer_causes(metadata: Mapping[str, Any], custom: bool, warnings: list[str]) -> list[FieldCause]:
    causes: list[FieldCause] = []
    finalizers = metadata.get("finalizers") or ()
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        why = "finalizer orphan and foregroundDeletion cannot be both set"
        causes.append(value_invalid("metadata.finalizers", f"{[*finalizers]}", why))
    for index, finalizer in enumerate(finalizers):
        causes += [
            value_invalid("metadata.finalizers", finalizer, fault) for fault in label_key_faults(finalizer)
        ]
        if "/" in finalizer or finalizer in BUILT_IN_FINALIZERS or finalizer == _OF_DEFINITIONS:
            continue
        if custom:
            warnings.append(
                f'metadata.finalizers: "{finalizer}": prefer a domain-qualified finalizer name including a '
                "path (/) to avoid accidental conflicts with other finalizer writers"
            )
        else:
            why = "name is neither a standard finalizer name nor is it fully qualified"
            causes.append(value_invalid(f"metadata.finalizers[{index}]", finalizer, why))
    return causes


def _name_causes(metadata: Mapping[str, Any], name_check: NameCheck) -> list[FieldCause]:
    causes: list[FieldCause] = []
    base = metadata.get("generateName") or ""
    if base:
        made = f"{base[:-2]}a" if len(base) > 1 and base.endswith("-") else base
        causes += [value_invalid("metadata.generateName", base, fault) for fault in name_check(made)]
    name = metadata.get("name", "")
    if not name:
        return [*causes, value_required("metadata.name", "name or generateName is required")]
    return causes + [value_invalid("metadata.name", name, fault) for fault in name_check(name)]


def check_change(metadata: Mapping[str, Any], old: Mapping[str, Any], times: int = 2) -> list[FieldCause]:
    """The rules that compare with the old `metadata`; `times` is as in `check`."""
    causes: list[FieldCause] = []
    for field in ("name", "uid", "deletionTimestamp", "deletionGracePeriodSeconds"):
        if metadata.get(field) != old.get(field):
            causes.append(value_invalid(f"metadata.{field}", metadata.get(field), "field is immutable"))
    if old.get("deletionTimestamp"):
        added = sorted(set(metadata.get("finalizers") or ()) - set(old.get("finalizers") or ()))
        if added:
            why = (
                "no new finalizers can be added if the object is being deleted, found new finalizers "
                f"[{' '.join(added)}]"
            )
            causes.append(value_forbidden("metadata.finalizers", why))
    return causes * times


def label_causes(labels: Mapping[str, str], path: str = "metadata.labels") -> list[FieldCause]:
    causes: list[FieldCause] = []
    for key, value in labels.items():
        causes += [value_invalid(path, key, fault) for fault in label_key_faults(key)]
        causes += [value_invalid(path, value, fault) for fault in label_value_faults(value)]
    return causes


def annotation_causes(annotations: Mapping[str, str], path: str = "metadata.annotations") -> list[FieldCause]:
    causes = [
        value_invalid(path, key, fault) for key in annotations for fault in label_key_faults(key.lower())
    ]
    if not annotations:
        return causes
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > MAX_ANNOTATION_BYTES:
        causes.append(value_too_long(path, MAX_ANNOTATION_BYTES))
    return causes


def _owner_causes(owners: Sequence[Mapping[str, Any]]) -> list[FieldCause]:
    causes: list[FieldCause] = []
    path = "metadata.ownerReferences"
    for owner in owners:
        if (owner.get("apiVersion"), owner.get("kind")) == ("v1", "Event"):
            causes.append(value_invalid(path, "", "/v1, Kind=Event is disallowed from being an owner"))
        for field, why in (
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ):
            if not owner.get(field):
                causes.append(value_invalid(f"{path}.{field}", owner.get(field, ""), why))
    controllers = [owner for owner in owners if owner.get("controller")]
    if len(controllers) > 1:
        why = (
            "Only one reference can have Controller set to true. Found "
            f'"true" in references for {controllers[0].get("name")} and {controllers[1].get("name")}'
        )
        causes.append(value_invalid(path, "", why))
    return causes


@frozen
class StoredOwner:
    """The part of an owner reference that deletion needs."""

    api_version: str
    kind: str
    name: str
    uid: str
    blocking: bool


def owners_of(metadata: Mapping[str, Any]) -> tuple[StoredOwner, ...]:
    return tuple(
        StoredOwner(
            owner.get("apiVersion", ""),
            owner.get("kind", ""),
            owner.get("name", ""),
            owner.get("uid", ""),
            bool(owner.get("blockOwnerDeletion")),
        )
        for owner in metadata.get("ownerReferences") or ()
    )
