"""Namespaces, Nodes, ServiceAccounts, ResourceQuotas and LimitRanges."""

import datetime
from typing import Final

from informers.apimachinery.name_rules import label_faults
from reconcile.embedded.kinds.built_in_kind import BuiltInKind, Object, spec_and_status
from reconcile.embedded.kubectl.ages import UNKNOWN
from reconcile.embedded.kubectl.printing import AGE, CREATED, NAMES, NONE, Cell, View, at, count, joined, pick
from reconcile.embedded.served import CellColumn

_COUNTED_BY_NAME = frozenset(
    {
        "configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "resourcequotas",
        "secrets", "services",
    }
)  # fmt: skip


def _prepare_namespace(namespace: Object, old: Object | None) -> None:
    metadata = namespace["metadata"]
    own = {"kubernetes.io/metadata.name": metadata.get("name", "")}
    metadata["labels"] = {**(metadata.get("labels") or {}), **own}
    if old is not None:
        namespace["spec"] = old.get("spec") or {}
        return
    spec = namespace["spec"] = namespace.get("spec") or {}
    finalizers = spec.setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")


def _node_status(obj: View, _now: datetime.datetime) -> str:
    conditions = {item.get("type"): item.get("status") for item in pick(obj, "status", "conditions") or ()}
    ready = {"True": "Ready", None: "Unknown"}.get(conditions.get("Ready"), "NotReady")
    return f"{ready},SchedulingDisabled" if pick(obj, "spec", "unschedulable") else ready


def _node_roles(obj: View, _now: datetime.datetime) -> str:
    labels = pick(obj, "metadata", "labels") or {}
    prefix = "node-role.kubernetes.io/"
    roles = {key.removeprefix(prefix) for key in labels if key.startswith(prefix)}
    if role := labels.get("kubernetes.io/role"):
        roles.add(role)
    return joined(sorted(roles))


def _node_address(kind: str) -> Cell:
    def cell(obj: View, _now: datetime.datetime) -> str:
        for address in pick(obj, "status", "addresses") or ():
            if address.get("type") == kind:
                return str(address.get("address", NONE))
        return NONE

    return cell


def _node_info(name: str) -> Cell:
    return at("status", "nodeInfo", name, default=UNKNOWN)


def _quota(prefix: str, *, limits: bool) -> Cell:
    """`used/hard` of the names with the prefix, or with `limits` False of all others."""

    def cell(obj: View, _now: datetime.datetime) -> str:
        hard, used = pick(obj, "status", "hard") or {}, pick(obj, "status", "used") or {}
        names = sorted(name for name in hard if name.startswith(prefix) is limits)
        return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)

    return cell


def counted_resource(name: str) -> tuple[str, str] | None:
    """Group and plural of what a quota's `pods` or `count/deployments.apps` counts; None for other names."""
    if name in _COUNTED_BY_NAME:
        return ("", name)
    if not name.startswith("count/"):
        return None
    plural, _, group = name.removeprefix("count/").partition(".")
    return (group, plural)


def _warn_of_uncounted(quota: Object, old: Object | None) -> list[str]:
    spec = quota.get("spec") or {}
    if spec.get("scopes") or spec.get("scopeSelector"):
        return ["spec.scopes: the embedded server does not evaluate scopes; this quota has no effect"]
    return [
        f"spec.hard[{name}]: the embedded server counts objects only; this limit has no effect"
        for name in sorted(spec.get("hard") or {})
        if counted_resource(name) is None
    ]


KINDS: Final = (
    BuiltInKind(
        "", "Namespace", short_names=("ns",), namespaced=False, has_status=True,
        answers_object_on_delete=True, collection_deletable=False, selectable_fields=(".status.phase",),
        prepare=_prepare_namespace,
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
        "", "Node", short_names=("no",), namespaced=False, has_status=True,
        selectable_fields=(".spec.unschedulable",),
        columns=(
            NAMES,
            CellColumn("Status", _node_status),
            CellColumn("Roles", _node_roles),
            AGE,
            CellColumn("Version", at("status", "nodeInfo", "kubeletVersion")),
            CellColumn("Internal-IP", _node_address("InternalIP"), wide=True),
            CellColumn("External-IP", _node_address("ExternalIP"), wide=True),
            CellColumn("OS-Image", _node_info("osImage"), wide=True),
            CellColumn("Kernel-Version", _node_info("kernelVersion"), wide=True),
            CellColumn("Container-Runtime", _node_info("containerRuntimeVersion"), wide=True),
        ),
    ),
    BuiltInKind(
        "", "ServiceAccount", short_names=("sa",), answers_object_on_delete=True,
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
    BuiltInKind(
        "", "ResourceQuota", short_names=("quota",), has_status=True, answers_object_on_delete=True,
        first_status={},
        warnings=_warn_of_uncounted,
        columns=(
            NAMES,
            CellColumn("Request", _quota("limits.", limits=False)),
            CellColumn("Limit", _quota("limits.", limits=True)),
            AGE,
        ),
        messages={
            **spec_and_status("ResourceQuota"),
            "ResourceQuotaSpec": {1: "hard:{quantity}", 2: "scopes:[string]"},
            "ResourceQuotaStatus": {1: "hard:{quantity}", 2: "used:{quantity}"},
        },
        viewed=("", "status"),
    ),
    BuiltInKind(
        "", "LimitRange", short_names=("limits",), create_on_update=True,
        columns=(NAMES, CREATED),
        viewed=("",),
    ),
)  # fmt: skip
