"""The rules that depend on the operating system of a pod and on what it shares with its node."""

from collections.abc import Iterator
from typing import Final

from reconcile.embedded.kinds.built_in_kind import Object
from reconcile.embedded.kinds.pod_parts import all_containers, part
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import (
    value_forbidden,
    value_invalid,
    value_not_supported,
    value_required,
)

_SYSTEMS: Final = ("linux", "windows")
_LINUX_OF_POD: Final = (
    "appArmorProfile", "seLinuxOptions", "seccompProfile", "fsGroup", "fsGroupChangePolicy", "sysctls",
    "runAsUser", "runAsGroup", "supplementalGroups", "supplementalGroupsPolicy", "seLinuxChangePolicy",
)  # fmt: skip
_LINUX_OF_CONTAINERS: Final = (
    "appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities", "readOnlyRootFilesystem",
    "privileged", "allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup",
)  # fmt: skip

Causes = Iterator[FieldCause]


def system_causes(spec: Object, path: str) -> Causes:
    """The faults of a pod spec for its operating system."""
    yield from _host_process_causes(spec, path)
    yield from _host_users_causes(spec, path)
    if spec.get("os") is None:
        return
    name = part(spec, "os").get("name") or ""
    if not name:
        yield value_required(f"{path}.os.name", "cannot be empty")
    elif name not in _SYSTEMS:
        yield value_not_supported(f"{path}.os", name, _SYSTEMS)
    else:
        yield from (_linux_causes if name == "linux" else _windows_causes)(spec, path)


def _linux_causes(spec: Object, path: str) -> Causes:
    for place, holder in ((path, spec), *all_containers(spec, path)):
        if part(holder, "securityContext").get("windowsOptions") is not None:
            why = "windows options cannot be set for a linux pod"
            yield value_forbidden(f"{place}.securityContext.windowsOptions", why)


def _windows_causes(spec: Object, path: str) -> Causes:
    why, context = "cannot be set for a windows pod", part(spec, "securityContext")
    for name in _LINUX_OF_POD:
        given = context.get(name)
        if given is not None and (name != "sysctls" or given):
            yield value_forbidden(f"{path}.securityContext.{name}", why)
    for name in ("hostUsers", "shareProcessNamespace"):
        if spec.get(name) is not None:
            yield value_forbidden(f"{path}.{name}", why)
    for name in ("hostPID", "hostIPC"):
        if spec.get(name):
            yield value_forbidden(f"{path}.{name}", why)
    for place, container in all_containers(spec, path):
        own = part(container, "securityContext")
        for name in _LINUX_OF_CONTAINERS:
            if own.get(name) is not None:
                yield value_forbidden(f"{place}.securityContext.{name}", why)


def _host_process_causes(spec: Object, path: str) -> Causes:
    """The faults of containers that are processes of a Windows node (validateWindowsHostProcessPod)."""
    of_pod = part(spec, "securityContext", "windowsOptions").get("hostProcess")
    containers = list(all_containers(spec, path))
    count = 0
    for place, container in containers:
        own = part(container, "securityContext", "windowsOptions").get("hostProcess")
        if of_pod is not None and own is not None and own != of_pod:
            where = f"{place}.securityContext.windowsOptions.hostProcess"
            yield value_invalid(where, own, "pod hostProcess value must be identical if both are specified")
        count += bool(of_pod if own is None else own)
    if not count:
        return
    if count != len(containers):
        why = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        yield value_invalid(path, "", why)
    if not spec.get("hostNetwork"):
        why = "hostNetwork must be true if pod contains any hostProcess containers"
        yield value_invalid(f"{path}.hostNetwork", False, why)


def _host_users_causes(spec: Object, path: str) -> Causes:
    """A pod with users of its own shares no other namespace; the real server writes two of them so."""
    if spec.get("hostUsers") is not False:
        return
    for name, shown in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
        if spec.get(name):
            yield value_forbidden(f"{path}.{shown}", "when `pod.Spec.HostUsers` is false")
