"""The rules for the mounts and devices of a container."""

from collections.abc import Iterator, Mapping
from typing import Final

from reconcile.embedded.kinds.built_in_kind import Object
from reconcile.embedded.kinds.path_rules import descending_path_causes
from reconcile.embedded.kinds.pod_parts import each, part
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import (
    value_forbidden,
    value_invalid,
    value_not_found,
    value_not_supported,
    value_required,
)

Volumes = Mapping[str, Object]
"""The valid volumes of a pod by name."""

_PROPAGATIONS: Final = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE: Final = ("Disabled", "Enabled", "IfPossible")


def mount_causes(container: Object, path: str, volumes: Volumes) -> Iterator[FieldCause]:
    """The faults of `volumeMounts` and `volumeDevices`."""
    devices = {one.get("name") or "": one.get("devicePath") or "" for one in each(container, "volumeDevices")}
    seen: set[str] = set()
    for index, mount in enumerate(each(container, "volumeMounts")):
        place = f"{path}.volumeMounts[{index}]"
        name, where = mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            yield value_required(f"{place}.name")
        if name not in volumes:
            yield value_not_found(f"{place}.name", name)
        if not where:
            yield value_required(f"{place}.mountPath")
        if where in seen:
            yield value_invalid(f"{place}.mountPath", where, "must be unique")
        seen.add(where)
        if name in devices:
            yield value_invalid(f"{place}.name", name, "must not already exist in volumeDevices")
        if where in devices.values():
            why = "must not already exist as a path in volumeDevices"
            yield value_invalid(f"{place}.mountPath", where, why)
        yield from _sub_path_causes(mount, place, f"{path}.volumeMounts", volumes.get(name, {}))
        yield from _propagation_causes(mount, f"{path}.volumeMounts", container)
        yield from _recursion_causes(mount, f"{path}.volumeMounts.recursiveReadOnly")
    yield from _device_causes(container, f"{path}.volumeDevices", volumes)


def _sub_path_causes(mount: Object, place: str, shown: str, volume: Object) -> Iterator[FieldCause]:
    """`shown` is where the real server sees what is wrong with a path: at the list."""
    plain, expanded = mount.get("subPath") or "", mount.get("subPathExpr") or ""
    for name, text in (("subPath", plain), ("subPathExpr", expanded)):
        if text and volume.get("image") is not None:
            yield value_invalid(f"{place}.{name}", text, "not allowed in image volume sources")
    if plain:
        yield from descending_path_causes(plain, f"{shown}.subPath")
    if expanded and plain:
        why = "subPathExpr and subPath are mutually exclusive"
        yield value_invalid(f"{place}.subPathExpr", expanded, why)
    if expanded:
        yield from descending_path_causes(expanded, f"{shown}.subPathExpr")


def _propagation_causes(mount: Object, shown: str, container: Object) -> Iterator[FieldCause]:
    path, propagation = f"{shown}.mountPropagation", mount.get("mountPropagation")
    if propagation is None:
        return
    if propagation not in _PROPAGATIONS:
        yield value_not_supported(path, propagation, _PROPAGATIONS)
    if propagation == "Bidirectional" and not part(container, "securityContext").get("privileged"):
        why = "Bidirectional mount propagation is available only to privileged containers"
        yield value_forbidden(path, why)


def _recursion_causes(mount: Object, path: str) -> Iterator[FieldCause]:
    recursive = mount.get("recursiveReadOnly")
    if recursive is None or recursive == "Disabled":
        return
    if recursive not in _RECURSIVE:
        yield value_not_supported(path, recursive, _RECURSIVE)
        return
    if not mount.get("readOnly"):
        yield value_forbidden(path, "may only be specified when readOnly is true")
    if mount.get("mountPropagation") not in (None, "None"):
        why = "may only be specified when mountPropagation is None or not specified"
        yield value_forbidden(path, why)


def _device_causes(container: Object, path: str, volumes: Volumes) -> Iterator[FieldCause]:
    mounts = {one.get("name") or "": one.get("mountPath") or "" for one in each(container, "volumeMounts")}
    names: set[str] = set()
    paths: set[str] = set()
    for index, device in enumerate(each(container, "volumeDevices")):
        place = f"{path}[{index}]"
        name, where = device.get("name") or "", device.get("devicePath") or ""
        if not name:
            yield value_required(f"{place}.name")
        if name in names:
            yield value_invalid(f"{place}.name", name, "must be unique")
        if name not in volumes:
            yield value_not_found(f"{place}.name", name)
        elif not {"persistentVolumeClaim", "ephemeral"} & _sources(volumes[name]):
            why = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            yield value_invalid(f"{place}.name", name, why)
        if not where:
            yield value_required(f"{place}.devicePath")
        if where in paths:
            yield value_invalid(f"{place}.devicePath", where, "must be unique")
        if ".." in where.split("/"):
            yield value_invalid(f"{place}.devicePath", where, "can not contain backsteps ('..')")
        else:
            paths.add(where)
        if name in mounts:
            yield value_invalid(f"{place}.name", name, "must not already exist in volumeMounts")
        if where in mounts.values():
            why = "must not already exist as a path in volumeMounts"
            yield value_invalid(f"{place}.devicePath", where, why)
        names |= {name} - {""}


def _sources(volume: Object) -> set[str]:
    return {name for name, source in volume.items() if source is not None}
