"""What PersistentVolumeClaims must satisfy, and what the API server adds to them."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Final

from informers.apimachinery.name_rules import label_faults, label_key_faults, subdomain_faults
from reconcile.embedded.kinds.built_in_kind import Object, Others, immutable, one_of, required, same
from reconcile.embedded.kinds.default_classes import default_class
from reconcile.embedded.kinds.label_selectors import has_odd_value, selector_causes
from reconcile.embedded.kinds.resource_amounts import is_native
from reconcile.embedded.kinds.resource_rules import (
    amount,
    amount_causes,
    amount_in,
    not_negative_causes,
    positive_causes,
)
from reconcile.embedded.kinds.volume_rules import (
    CLASS_ANNOTATION,
    VOLUME_MODES,
    access_mode_causes,
    class_name_causes,
    protect,
)
from reconcile.embedded.protocol.api_failure import Denied, FieldCause
from reconcile.embedded.protocol.field_causes import (
    value_forbidden,
    value_invalid,
    value_not_supported,
    value_required,
)

_PROTECTION: Final = "kubernetes.io/pvc-protection"
_DEFAULT_CLASS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_CLAIM: Final = "PersistentVolumeClaim"
_OLD_SOURCES: Final = {("", _CLAIM), ("snapshot.storage.k8s.io", "VolumeSnapshot")}
"""Group and kind of what `dataSource` may name; other things are named by `dataSourceRef` alone."""
_RESIZING: Final = (
    "ControllerResizeInProgress", "ControllerResizeInfeasible", "NodeResizeInProgress",
    "NodeResizeInfeasible", "NodeResizePending",
)  # fmt: skip


def default_claim(claim: Object) -> None:
    spec = claim.setdefault("spec", {})
    if spec.get("volumeMode") is None:
        spec["volumeMode"] = "Filesystem"


# --- admission --------------------------------------------------------------------------------


def admit_claim(claim: Object, old: Object | None, others: Others) -> None:
    """Give a new claim the default class and protect it; let only bound claims of growing classes grow."""
    protect(claim, old, _PROTECTION)
    if old is None:
        _set_default_class(claim, others)
        _check_limits(claim, others)
    elif amount(_wanted(claim)) > amount(_wanted(old)):
        _check_growth(claim, old, others)


def _set_default_class(claim: Object, others: Others) -> None:
    if class_of(claim) is not None:
        return
    name = default_class(others.every("storage.k8s.io", "storageclasses"), *_DEFAULT_CLASS)
    if name is not None:
        claim["spec"]["storageClassName"] = name


def class_of(claim: Object) -> str | None:
    """The name of the class of a claim, None if it leaves that to the cluster."""
    annotated = (claim["metadata"].get("annotations") or {}).get(CLASS_ANNOTATION)
    name: str | None = claim["spec"].get("storageClassName") if annotated is None else annotated
    return name


def _check_limits(claim: Object, others: Others) -> None:
    """Refuse what a LimitRange of the namespace does not allow."""
    wanted, namespace = _wanted(claim), claim["metadata"].get("namespace") or ""
    for limit_range in others.within("", "limitranges", namespace):
        for limit in (limit_range.get("spec") or {}).get("limits") or ():
            if limit.get("type") == _CLAIM and wanted is not None:
                _check_limit(limit, str(wanted))


def _check_limit(limit: Object, wanted: str) -> None:
    least, most = ((limit.get(name) or {}).get("storage") for name in ("min", "max"))
    if least is not None and amount(wanted) < amount(least):
        raise Denied(f"minimum storage usage per {_CLAIM} is {least}, but request is {wanted}")
    if most is not None and amount(wanted) > amount(most):
        raise Denied(f"maximum storage usage per {_CLAIM} is {most}, but request is {wanted}")


def _check_growth(claim: Object, old: Object, others: Others) -> None:
    # PersistentVolumeClaimResize asks the old claim and refuses with 403, before anything is validated.
    if (old.get("status") or {}).get("phase") != "Bound":
        return
    name = class_of(old)
    found = others.named("storage.k8s.io", "storageclasses", name) if name else None
    if found is None or class_of(claim) != name or not found.get("allowVolumeExpansion"):
        why = (
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc "
            "must support resize"
        )
        raise Denied(why)


def _wanted(claim: Object) -> object:
    """The storage that a claim asks for."""
    resources = (claim.get("spec") or {}).get("resources") or {}
    return (resources.get("requests") or {}).get("storage")


# --- strategy ---------------------------------------------------------------------------------


def prepare_claim(claim: Object, old: Object | None) -> None:
    """Keep the two ways to name a data source alike, as far as both can name it."""
    spec, before = claim["spec"], (old or {}).get("spec") or {}
    reference = spec.get("dataSourceRef") or {}
    if reference.get("namespace") and not before.get("dataSourceRef"):
        spec.pop("dataSourceRef")  # the feature CrossNamespaceVolumeDataSource is off by default
    had_source = before.get("dataSource") is not None or before.get("dataSourceRef") is not None
    source = spec.get("dataSource")
    legacy = source is not None and not had_source and spec.get("dataSourceRef") is None
    if legacy and (source.get("apiGroup") or "", source.get("kind")) not in _OLD_SOURCES:
        del spec["dataSource"]
    if old is None:
        _equal_sources(spec)


def _equal_sources(spec: Object) -> None:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and reference is None:
        spec["dataSourceRef"] = {**source}
    elif reference is not None and source is None and not reference.get("namespace"):
        spec["dataSource"] = {name: value for name, value in reference.items() if name != "namespace"}


# --- rules ------------------------------------------------------------------------------------


def claim_causes(claim: Object, old: Object | None) -> Iterator[FieldCause]:
    """The faults of a claim.

    The strategy validates an updated claim twice, by itself and with its predecessor.
    """
    causes = list(claim_spec_causes(claim["spec"], "spec", (old or {}).get("spec")))
    yield from causes
    if old is not None:
        yield from causes
        yield from _change_causes(claim, old)


def claim_spec_causes(spec: Object, path: str, old: Object | None = None) -> Iterator[FieldCause]:
    """The faults of the spec of a claim, or of the template of one."""
    yield from access_mode_causes(spec.get("accessModes") or [], f"{path}.accessModes")
    odd = old is not None and has_odd_value(old.get("selector"))
    yield from selector_causes(spec.get("selector"), f"{path}.selector", any_value=odd)
    yield from _storage_causes(spec, f"{path}.resources[storage]")
    yield from class_name_causes(spec, path, "storageClassName")
    if spec.get("volumeMode") is not None:
        yield from one_of(spec, f"{path}.volumeMode", VOLUME_MODES)
    had_group = any(((old or {}).get(name) or {}).get("apiGroup") is not None for name in _SOURCES)
    for name in _SOURCES:
        if spec.get(name) is not None:
            yield from _source_causes(spec[name], f"{path}.{name}", any_group=had_group)
    yield from _agreement_causes(spec, path)
    yield from class_name_causes(spec, path, "volumeAttributesClassName")


_SOURCES: Final = ("dataSource", "dataSourceRef")


def _storage_causes(spec: Object, path: str) -> Iterator[FieldCause]:
    requests = (spec.get("resources") or {}).get("requests") or {}
    if "storage" not in requests:
        yield value_required(path)
        return
    yield from positive_causes(requests["storage"], path)


def _source_causes(source: Object, path: str, *, any_group: bool) -> Iterator[FieldCause]:
    yield from required(source, path, "name", "kind")
    group, kind = source.get("apiGroup") or "", source.get("kind") or ""
    if not group and kind != _CLAIM:
        yield value_invalid(path, kind, f"must be '{_CLAIM}' when referencing the default apiGroup")
    for fault in subdomain_faults(group) if group and not any_group else ():
        yield value_invalid(f"{path}.apiGroup", group, fault)
    namespace = source.get("namespace")
    for fault in label_faults(namespace) if namespace else ():
        yield value_invalid(f"{path}.namespace", namespace, fault)


def _agreement_causes(spec: Object, path: str) -> Iterator[FieldCause]:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is None or reference is None:
        return
    if reference.get("namespace"):
        why = "may not be specified when dataSourceRef.namespace is specified"
        yield value_invalid(path, f"{path}.dataSource", why)
    elif any(source.get(name) != reference.get(name) for name in ("apiGroup", "kind", "name")):
        yield value_invalid(path, f"{path}.dataSource", "must match dataSourceRef")


def _change_causes(claim: Object, old: Object) -> Iterator[FieldCause]:
    spec, before = deepcopy(claim["spec"]), deepcopy(old.get("spec") or {})
    if not before.get("volumeName"):
        before["volumeName"] = spec.get("volumeName")
    annotated = _annotated_class(old)
    if _moves_class_from_annotation(claim, old):
        spec.pop("storageClassName")
    else:
        path = f"metadata.annotations[{CLASS_ANNOTATION}]"
        yield from immutable(_annotated_class(claim) or "", annotated or "", path)
        if before.get("storageClassName") is None and annotated in (None, spec.get("storageClassName")):
            before["storageClassName"] = spec.get("storageClassName")
    if (claim.get("status") or {}).get("phase") == "Bound":
        _allow_growth(spec, before)
    if not same(spec, before):
        why = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for "
            "bound claims"
        )
        yield value_forbidden("spec", why)
    size, capacity = amount(_wanted(claim)), (old.get("status") or {}).get("capacity")
    if size < amount(_wanted(old)) and size <= amount_in(capacity, "storage"):
        why = "field can not be less than status.capacity"
        yield value_forbidden("spec.resources.requests.storage", why)
    yield from immutable(spec.get("volumeMode"), before.get("volumeMode"), "volumeMode")
    yield from _attributes_class_causes(claim["spec"], old.get("spec") or {})


def _annotated_class(claim: Object) -> str | None:
    name: str | None = (claim["metadata"].get("annotations") or {}).get(CLASS_ANNOTATION)
    return name


def _moves_class_from_annotation(claim: Object, old: Object) -> bool:
    annotated, given = _annotated_class(old), claim["spec"].get("storageClassName")
    if annotated is None or (old.get("spec") or {}).get("storageClassName") is not None:
        return False
    return bool(given == annotated and _annotated_class(claim) in (None, annotated))


def _allow_growth(spec: Object, before: Object) -> None:
    """Make the parts of a bound claim equal that may differ; `_change_causes` looks at them by themselves."""
    requests = (spec.get("resources") or {}).get("requests")
    if requests is not None:
        former = ((before.get("resources") or {}).get("requests") or {}).get("storage")
        requests["storage"] = former
    if spec.get("volumeAttributesClassName") is not None:
        spec["volumeAttributesClassName"] = before.get("volumeAttributesClassName")


def _attributes_class_causes(spec: Object, old: Object) -> Iterator[FieldCause]:
    name = "volumeAttributesClassName"
    if old.get(name) is None or spec.get(name) == old[name]:
        return
    if spec.get(name) is None:
        yield value_forbidden(f"spec.{name}", "update from non-nil value to nil is forbidden")
    elif not spec[name]:
        yield value_forbidden(f"spec.{name}", "update from non-nil value to an empty string is forbidden")


def claim_status_causes(claim: Object, _old: Object | None) -> Iterator[FieldCause]:
    """The faults of a status that is written."""
    status = claim.get("status") or {}
    for name, quantity in (status.get("capacity") or {}).items():
        yield from not_negative_causes(quantity, f"status.capacity[{name}]")
    for name, state in (status.get("allocatedResourceStatuses") or {}).items():
        yield from _resource_key_causes(name, "status.allocatedResourceStatus")
        if state not in _RESIZING:
            yield value_not_supported("status.allocatedResourceStatus", name, _RESIZING)
    for name, quantity in (status.get("allocatedResources") or {}).items():
        causes = [*_resource_key_causes(name, "status.allocatedResources")]
        if not causes:
            path = f"status.allocatedResources[{name}]"
            causes = [*not_negative_causes(quantity, path)] or [*amount_causes("storage", quantity, path)]
        yield from causes


def _resource_key_causes(name: str, path: str) -> Iterator[FieldCause]:
    faults = label_key_faults(name)
    yield from (value_invalid(path, name, fault) for fault in faults)
    if not faults and is_native(name) and name != "storage":
        yield value_not_supported(path, name, ["storage"])


# --- warnings ---------------------------------------------------------------------------------


def claim_warnings(claim: Object, _old: Object | None) -> list[str]:
    """The warnings for the writer of a claim (pkg/api/persistentvolumeclaim)."""
    warnings: list[str] = []
    if _annotated_class(claim) is not None:
        why = "is deprecated; use the attribute storageClassName instead"
        warnings.append(f"metadata.annotations[{CLASS_ANNOTATION}]: {why}")
    resources = claim["spec"].get("resources") or {}
    for part in ("requests", "limits"):
        value = amount_in(resources.get(part), "storage")
        if value != value.to_integral_value():
            warnings.append(f"spec.resources.{part}[storage]: a fraction of a byte, must be an integer")
    return warnings
