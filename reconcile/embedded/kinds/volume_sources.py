"""The sources of a PersistentVolume: their defaults, and what they must satisfy."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from informers.apimachinery.name_rules import label_faults, subdomain_faults
from reconcile.embedded.kinds.built_in_kind import Object, fill, one_of, required
from reconcile.embedded.kinds.path_rules import no_backsteps
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import (
    value_forbidden,
    value_invalid,
    value_not_supported,
    value_required,
    value_too_long,
)

_HOST_PATH_TYPES: Final = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket",
)  # fmt: skip
_MANAGED_DISK: Final = "Managed"
_MAX_BYTE: Final = 255
_MAX_TENANT: Final = 64
_MAX_DRIVER_NAME: Final = 63
# Total length of <volume name>:<targetPortal> in validateISCSIPersistentVolumeSource.
_MAX_PORTAL: Final = 64
_INITIATORS: Final[Mapping[str, re.Pattern[str]]] = {
    "iqn": re.compile(r"iqn\.\d{4}-\d{2}\.([a-zA-Z0-9.-]+)(:[^,;*&$|\s]+)\Z", re.ASCII),
    "eui": re.compile(r"\Aeui.[a-zA-Z0-9]{16}\Z", re.ASCII),
    "naa": re.compile(r"\Anaa.[a-zA-Z0-9]{32}\Z", re.ASCII),
}
_UNLESS_NULL: Final[Mapping[str, Mapping[str, Any]]] = {
    "hostPath": {"type": ""},
    "azureDisk": {"cachingMode": "ReadWrite", "kind": "Shared", "fsType": "ext4", "readOnly": False},
}
_UNLESS_EMPTY: Final[Mapping[str, Mapping[str, str]]] = {
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}
"""The defaults of fields that Go cannot tell from empty ones."""

Causes = Iterator[FieldCause]


def default_sources(spec: Object) -> None:
    fill(spec, {name: values for name, values in _UNLESS_NULL.items() if spec.get(name) is not None})
    for name, values in _UNLESS_EMPTY.items():
        source = spec.get(name)
        if source is not None:
            spec[name] = {**source, **{field: source.get(field) or value for field, value in values.items()}}


def source_causes(spec: Object, volume_name: str, path: str) -> Causes:
    """The faults of the source; exactly one must be given."""
    found = [name for name in _RULES if spec.get(name) is not None]
    if not found:
        yield value_required(path, "must specify a volume type")
    for name in found[:1]:
        yield from _RULES[name](spec[name], f"{path}.{_SHOWN.get(name, name)}")
    for name in found[1:]:
        if name == "flexVolume":  # the one that the real server does not count
            yield from _RULES[name](spec[name], f"{path}.{name}")
        else:
            shown = "cephFS" if name == "cephfs" else name
            yield value_forbidden(f"{path}.{shown}", "may not specify more than 1 volume type")
    if found and found[0] == "iscsi":
        yield from _portal_causes(spec["iscsi"], volume_name, f"{path}.iscsi")


def source_of(spec: Object) -> Object:
    """The part of the spec that says where the volume is."""
    return {name: spec[name] for name in _RULES if spec.get(name) is not None}


# --- one source -------------------------------------------------------------------------------


def _requiring(*fields: str) -> Callable[[Object, str], Causes]:
    return lambda source, path: required(source, path, *fields)


def _host_path(source: Object, path: str) -> Causes:
    if not source.get("path"):
        yield value_required(f"{path}.path")
        return
    yield from no_backsteps(source["path"], f"{path}.path")
    if source.get("type") is not None:
        yield from one_of(source, f"{path}.type", _HOST_PATH_TYPES)


def _disk(name: str) -> Callable[[Object, str], Causes]:
    def causes(source: Object, path: str) -> Causes:
        yield from required(source, path, name)
        yield from _byte(source, path, "partition")

    return causes


def _byte(source: Object, path: str, field: str) -> Causes:
    value = source.get(field) or 0
    if not 0 <= value <= _MAX_BYTE:
        yield value_invalid(f"{path}.{field}", value, f"must be between 0 and {_MAX_BYTE}, inclusive")


def _glusterfs(source: Object, path: str) -> Causes:
    yield from required(source, path, "endpoints", "path")
    namespace = source.get("endpointsNamespace")
    if namespace is None:
        return
    why = "if the endpointnamespace is set, it must be a valid namespace name"
    for fault in label_faults(namespace) if namespace else [why]:
        yield value_invalid(f"{path}.endpointsNamespace", namespace, fault)


def _flocker(source: Object, path: str) -> Causes:
    name, uuid = source.get("datasetName") or "", source.get("datasetUUID")
    if not name and not uuid:
        yield value_required(path, "one of datasetName and datasetUUID is required")
    if name and uuid:
        yield value_invalid(
            path, "resource", "datasetName and datasetUUID can not be specified simultaneously"
        )
    if "/" in name:
        yield value_invalid(f"{path}.datasetName", name, "must not contain '/'")


def _nfs(source: Object, path: str) -> Causes:
    yield from required(source, path, "server", "path")
    if not (source.get("path") or "").startswith("/"):
        yield value_invalid(f"{path}.path", source.get("path") or "", "must be an absolute path")


def _quobyte(source: Object, path: str) -> Causes:
    registry, why = source.get("registry"), "must be a host:port pair or multiple pairs separated by commas"
    if not registry:
        yield value_required(f"{path}.registry", why)
    elif len(source.get("tenant") or "") > _MAX_TENANT:
        limit = f"must be a UUID and may not exceed a length of {_MAX_TENANT} characters"
        yield value_required(f"{path}.tenant", limit)
    else:
        for pair in registry.split(","):
            if not _is_host_and_port(pair):
                yield value_invalid(f"{path}.registry", registry, why)
    yield from required(source, path, "volume")


def _is_host_and_port(text: str) -> bool:
    """As Go's net.SplitHostPort, which looks at the signs only."""
    host, colon, port = text.rpartition(":")
    if host.startswith("["):
        return host.endswith("]") and not set("[]") & set(host[1:-1] + port)
    return bool(colon) and not set(":[]") & set(host) and not set("[]") & set(port)


def _iscsi(source: Object, path: str) -> Causes:
    yield from required(source, path, "targetPortal")
    if not source.get("iqn"):
        yield value_required(f"{path}.iqn")
    elif not _is_initiator(source["iqn"]):
        yield value_invalid(f"{path}.iqn", source["iqn"], "must be valid format")
    yield from _byte(source, path, "lun")
    secret = source.get("secretRef")
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and secret is None:
        yield value_required(f"{path}.secretRef")
    if secret is not None:
        yield from required(secret, f"{path}.secretRef", "name")
    initiator = source.get("initiatorName")
    if initiator is not None and not _is_initiator(initiator):
        yield value_invalid(f"{path}.initiatorname", initiator, "must be valid format")


def _is_initiator(name: str) -> bool:
    form = _INITIATORS.get(name[:3])
    return form is not None and form.search(name) is not None


def _portal_causes(source: Object, volume_name: str, path: str) -> Causes:
    portal = source.get("targetPortal") or ""
    if source.get("initiatorName") is not None and len(f"{volume_name}:{portal}") > _MAX_PORTAL:
        why = (
            f"Total length of <volume name>:<iscsi.targetPortal> must be under {_MAX_PORTAL} characters if "
            "iscsi.initiatorName is specified."
        )
        yield value_invalid(f"{path}.targetportal", portal, why)


def _fc(source: Object, path: str) -> Causes:
    targets, wwids, lun = source.get("targetWWNs") or (), source.get("wwids") or (), source.get("lun")
    if not targets and not wwids:
        yield value_required(f"{path}.targetWWNs", "must specify either targetWWNs or wwids, but not both")
    if targets and wwids:
        why = "targetWWNs and wwids can not be specified simultaneously"
        yield value_invalid(f"{path}.targetWWNs", f"{[*targets]}", why)
    if targets and lun is None:
        yield value_required(f"{path}.lun", "lun is required if targetWWNs is specified")
    elif targets:
        yield from _byte(source, path, "lun")


def _flex_volume(source: Object, path: str) -> Causes:
    yield from required(source, path, "driver")
    for key in source.get("options") or ():
        namespace = f".{key.partition('/')[0].lower()}"
        if namespace.endswith((".kubernetes.io", ".k8s.io")):
            why = "kubernetes.io and k8s.io namespaces are reserved"
            yield value_invalid(f"{path}.options[{key}]", key, why)


def _azure_file(source: Object, path: str) -> Causes:
    yield from required(source, path, "secretName", "shareName")
    if source.get("secretNamespace") == "":
        yield value_required(f"{path}.secretNamespace")


def _azure_disk(source: Object, path: str) -> Causes:
    yield from required(source, path, "diskName", "diskURI")
    if source.get("cachingMode") is not None:
        yield from one_of(source, f"{path}.cachingMode", ("None", "ReadOnly", "ReadWrite"))
    kind, uri = source.get("kind"), source.get("diskURI") or ""
    if kind is None:
        return
    yield from one_of(source, f"{path}.kind", ("Dedicated", _MANAGED_DISK, "Shared"))
    if kind == _MANAGED_DISK and not uri.startswith("/subscriptions/"):
        form = (
            "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
        )
        yield value_not_supported(f"{path}.diskURI", uri, [form])
    if kind != _MANAGED_DISK and not uri.startswith("https://"):
        form = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
        yield value_not_supported(f"{path}.diskURI", uri, [form])


def _cinder(source: Object, path: str) -> Causes:
    yield from required(source, path, "volumeID")
    if source.get("secretRef") is not None:
        yield from required(source["secretRef"], f"{path}.secretRef", "name", "namespace")


def _local(source: Object, path: str) -> Causes:
    yield from required(source, path, "path")
    yield from no_backsteps(source.get("path") or "", f"{path}.path")


def _storage_os(source: Object, path: str) -> Causes:
    yield from required(source, path, "volumeName")
    for field in ("volumeName", "volumeNamespace"):
        value = source.get(field)
        for fault in label_faults(value) if value else ():
            yield value_invalid(f"{path}.{field}", value, fault)
    if source.get("secretRef") is not None:
        yield from required(source["secretRef"], f"{path}.secretRef", "name", "namespace")


def _csi(source: Object, path: str) -> Causes:
    yield from csi_driver_causes(source.get("driver") or "", f"{path}.driver")
    yield from required(source, path, "volumeHandle")
    for action in ("controllerPublish", "controllerExpand", "nodePublish", "nodeExpand"):
        reference = source.get(f"{action}SecretRef")
        if reference is not None:
            yield from _secret_causes(reference, f"{path}.{action}SecretRef")


def csi_driver_causes(name: str, path: str) -> Causes:
    """The faults of the name of a CSI driver."""
    if not name:
        yield value_required(path)
        return
    if len(name) > _MAX_DRIVER_NAME:
        yield value_too_long(path, _MAX_DRIVER_NAME)
    for fault in subdomain_faults(name.lower()):
        yield value_invalid(path, name, fault)


def _secret_causes(reference: Object, path: str) -> Causes:
    for field, faults in (("name", subdomain_faults), ("namespace", label_faults)):
        value = reference.get(field)
        if not value:
            yield value_required(f"{path}.{field}")
            continue
        for fault in faults(value):
            yield value_invalid(f"{path}.{field}", value, fault)


_RULES: Final[Mapping[str, Callable[[Object, str], Causes]]] = {
    "hostPath": _host_path,
    "gcePersistentDisk": _disk("pdName"),
    "awsElasticBlockStore": _disk("volumeID"),
    "glusterfs": _glusterfs,
    "flocker": _flocker,
    "nfs": _nfs,
    "rbd": _requiring("monitors", "image"),
    "quobyte": _quobyte,
    "cephfs": _requiring("monitors"),
    "iscsi": _iscsi,
    "cinder": _cinder,
    "fc": _fc,
    "flexVolume": _flex_volume,
    "azureFile": _azure_file,
    "vsphereVolume": _requiring("volumePath"),
    "photonPersistentDisk": _requiring("pdID"),
    "portworxVolume": _requiring("volumeID"),
    "azureDisk": _azure_disk,
    "scaleIO": _requiring("gateway", "system", "volumeName"),
    "local": _local,
    "storageos": _storage_os,
    "csi": _csi,
}
"""By field, in the order in which the real server counts them."""
_SHOWN: Final = {"gcePersistentDisk": "persistentDisk"}
"""Where the real server names a field differently."""
