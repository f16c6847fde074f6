"""Namespaces and ServiceAccounts."""

from collections.abc import Iterator
from typing import Final

from informers.apimachinery.name_rules import label_faults, label_key_faults
from reconcile.embedded.kinds.built_in_kind import BuiltInKind, Object, ObjectPart, spec_and_status
from reconcile.embedded.kubectl.printing import AGE, NAMES, at, count
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_invalid
from reconcile.embedded.protocol.object_metadata import BUILT_IN_FINALIZERS
from reconcile.embedded.served import CellColumn

_NAME_LABEL: Final = "kubernetes.io/metadata.name"


def _default_namespace(namespace: Object) -> None:
    metadata = namespace["metadata"]
    # The name of an object with generateName is not known yet when a real server sets defaults.
    if metadata.get("name") and not metadata.get("generateName"):
        _label_by_name(namespace)


def _label_by_name(namespace: Object) -> None:
    metadata = namespace["metadata"]
    metadata["labels"] = {**(metadata.get("labels") or {}), _NAME_LABEL: metadata.get("name") or ""}


def _prepare_namespace(namespace: Object, old: Object | None) -> None:
    _label_by_name(namespace)
    if old is not None:
        namespace["spec"] = old.get("spec") or {}
        return
    spec = namespace["spec"] = namespace.get("spec") or {}
    finalizers = spec.setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")


def _namespace_causes(namespace: Object, _old: Object | None) -> Iterator[FieldCause]:
    for name in (namespace.get("spec") or {}).get("finalizers") or ():
        yield from finalizer_causes(name, "spec.finalizers")


def finalizer_causes(name: str, path: str) -> Iterator[FieldCause]:
    """The faults of a finalizer in the spec of a namespace."""
    yield from (value_invalid(path, name, fault) for fault in label_key_faults(name))
    if "/" not in name and name not in BUILT_IN_FINALIZERS:
        why = "name is neither a standard finalizer name nor is it fully qualified"
        yield value_invalid(path, name, why)


def _prepare_finalizers(namespace: Object, _old: Object) -> None:
    namespace["spec"] = namespace.get("spec") or {}


def _namespace_status_causes(namespace: Object, _old: Object | None) -> Iterator[FieldCause]:
    phase = (namespace.get("status") or {}).get("phase") or ""
    ending = "deletionTimestamp" in namespace["metadata"]
    allowed, condition = ("Terminating", "is not") if ending else ("Active", "is")
    if phase != allowed:
        why = f"may only be '{allowed}' if `deletionTimestamp` {condition} empty"
        yield value_invalid("status.Phase", phase, why)


def _prepare_account(account: Object, _old: Object | None) -> None:
    # cleanSecretReferences in the strategy: a reference keeps the name only.
    if account.get("secrets"):
        account["secrets"] = [{"name": one["name"]} if one.get("name") else {} for one in account["secrets"]]


KINDS: Final = (
    BuiltInKind(
        "", "Namespace", short_names=("ns",), namespaced=False, has_status=True,
        answers_object_on_delete=True, collection_deletable=False, selectable_fields=(".status.phase",),
        defaults=_default_namespace,
        prepare=_prepare_namespace,
        checks=_namespace_causes,
        status_checks=_namespace_status_causes,
        parts={"finalize": ObjectPart(_prepare_finalizers, _namespace_causes)},
        names_missing_fields=True,
        metadata_fault_copies=4,
        first_status={"phase": "Active"},
        check_name=label_faults,
        columns=(NAMES, CellColumn("Status", at("status", "phase")), AGE),
        messages={
            **spec_and_status("Namespace"),
            "NamespaceSpec": {1: "finalizers:[string]"},
            "NamespaceStatus": {1: "phase:string"},
        },
        viewed=("", "status"),
    ),
    BuiltInKind(
        "", "ServiceAccount", short_names=("sa",), answers_object_on_delete=True,
        prepare=_prepare_account,
        names_missing_fields=True,
        metadata_fault_copies=4,
        columns=(NAMES, CellColumn("Secrets", count("secrets"), "integer"), AGE),
        messages={
            "ServiceAccount": {
                1: "metadata:ObjectMeta", 2: "secrets:[ObjectReference]",
                3: "imagePullSecrets:[LocalObjectReference]", 4: "automountServiceAccountToken:*bool",
            },
            **spec_and_status("TokenRequest"),
            "TokenRequestSpec": {
                1: "audiences:[string]", 3: "boundObjectRef:*BoundObjectReference",
                4: "expirationSeconds:*int",
            },
            "TokenRequestStatus": {1: "token:string", 2: "expirationTimestamp:time"},
            "BoundObjectReference": {
                1: "kind:string", 2: "apiVersion:string", 3: "name:string", 4: "uid:string",
            },
        },
        subresource_bodies=(("authentication.k8s.io/v1", "TokenRequest"),),
        viewed=("",),
        edited=("",),
    ),
)  # fmt: skip
