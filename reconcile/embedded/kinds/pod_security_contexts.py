"""The rules for the security contexts of pods and containers, on both operating systems."""

import re
from collections.abc import Callable, Iterator
from typing import Final

from informers.apimachinery.name_rules import subdomain_faults
from reconcile.embedded.kinds.built_in_kind import Object
from reconcile.embedded.kinds.path_rules import descending_path_causes
from reconcile.embedded.kinds.pod_parts import each, part
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import (
    all_invalid,
    value_duplicate,
    value_invalid,
    value_not_supported,
    value_required,
    value_too_long,
)

_MAX_ID: Final = 2**31 - 1
_PROFILES: Final = ("Localhost", "RuntimeDefault", "Unconfined")
_LONGEST_PROFILE: Final = 4095  # PATH_MAX - 1
_LONGEST_SYSCTL: Final = 253
_SYSCTL_PART: Final = r"[a-z0-9](?:[-_a-z0-9]*[a-z0-9])?"
_SYSCTL: Final = re.compile(rf"(?:{_SYSCTL_PART}[./])*{_SYSCTL_PART}")
# Sysctls of the namespaces that a pod may share with its node (component-helpers/node/util/sysctl).
_IPC_SYSCTLS: Final = ("kernel.shm", "kernel.msg", "fs.mqueue.")
# Limits of Windows, and of what may be stored (validation.go).
_LONGEST_CREDENTIALS: Final = 64 * 1024
_LONGEST_DOMAIN: Final = 255
_LONGEST_USER: Final = 104
_NET_BIOS: Final = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_DNS_LABEL: Final = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_DNS_DOMAIN: Final = re.compile(rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_DOTS_AND_SPACES: Final = re.compile(r"[. ]+")
_ODD_IN_USER: Final = re.compile(r'["/\\:;|=,+*?<>@\[\]]')

Causes = Iterator[FieldCause]


def pod_context_causes(spec: Object, path: str) -> Causes:
    """The faults of the security context of a pod spec."""
    context, path = part(spec, "securityContext"), f"{path}.securityContext"
    yield from _id_causes(context, path, "fsGroup", "runAsUser", "runAsGroup")
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        yield from _one_id_causes(group, f"{path}.supplementalGroups[{index}]")
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        why = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield value_invalid(f"{path}.shareProcessNamespace", True, why)
    if not context:
        return
    yield from _sysctl_causes(spec, context, f"{path}.sysctls")
    for name, known in _POLICIES.items():
        if context.get(name) is not None and context[name] not in known:
            yield value_not_supported(f"{path}.{name}", context[name], known)
    yield from _profile_causes(context, path)


_POLICIES: Final = {
    "fsGroupChangePolicy": ("Always", "OnRootMismatch"),
    "supplementalGroupsPolicy": ("Merge", "Strict"),
    # Others need the feature SELinuxMount, which is off by default.
    "seLinuxChangePolicy": ("Recursive",),
}


def container_context_causes(container: Object, path: str, *, host_users: bool) -> Causes:
    """The faults of the security context of a container."""
    context, path = part(container, "securityContext"), f"{path}.securityContext"
    if not context:
        return
    yield from _id_causes(context, path, "runAsUser", "runAsGroup")
    mount = context.get("procMount")
    if mount is not None and mount not in ("Default", "Unmasked"):
        yield value_not_supported(f"{path}.procMount", mount, ("Default", "Unmasked"))
    if mount == "Unmasked" and host_users:
        yield value_invalid(f"{path}.procMount", mount, "`hostUsers` must be false to use `Unmasked`")
    if context.get("allowPrivilegeEscalation") is False:
        why = "cannot set `allowPrivilegeEscalation` to false and"
        if context.get("privileged"):
            yield value_invalid(path, "", f"{why} `privileged` to true")
        for capability in part(context, "capabilities").get("add") or ():
            if capability == "CAP_SYS_ADMIN":
                yield value_invalid(path, "", f"{why} `capabilities.Add` CAP_SYS_ADMIN")
    yield from _profile_causes(context, path)


def _id_causes(context: Object, path: str, *fields: str) -> Causes:
    for name in fields:
        if context.get(name) is not None:
            yield from _one_id_causes(context[name], f"{path}.{name}")


def _one_id_causes(number: int, path: str) -> Causes:
    if not 0 <= number <= _MAX_ID:
        yield value_invalid(path, number, f"must be between 0 and {_MAX_ID}, inclusive")


def _sysctl_causes(spec: Object, context: Object, path: str) -> Causes:
    seen: set[str] = set()
    for index, sysctl in enumerate(each(context, "sysctls")):
        place, name = f"{path}[{index}].name", sysctl.get("name") or ""
        if not name:
            yield value_required(place)
        elif len(name) > _LONGEST_SYSCTL or not _SYSCTL.fullmatch(name):
            yield value_invalid(
                place, name, f"must have at most {_LONGEST_SYSCTL} characters and be a sysctl"
            )
        elif name in seen:
            yield value_duplicate(place, name)
        seen.add(name)
        plain = _with_dots(name)
        if spec.get("hostNetwork") and plain.startswith("net."):
            yield value_invalid(place, name, "may not be specified when 'hostNetwork' is true")
        elif spec.get("hostIPC") and (plain.startswith(_IPC_SYSCTLS) or plain == "kernel.sem"):
            yield value_invalid(place, name, "may not be specified when 'hostIPC' is true")


def _with_dots(name: str) -> str:
    """A sysctl in the notation with dots; the first separator says which one it has (NormalizeName)."""
    first = next((sign for sign in name if sign in "./"), ".")
    return name if first == "." else name.translate({ord("."): "/", ord("/"): "."})


# --- profiles ---------------------------------------------------------------------------------


def _profile_causes(context: Object, path: str) -> Causes:
    yield from _one_profile_causes(context, path, "seccompProfile", _seccomp_causes)
    yield from _windows_causes(part(context, "windowsOptions"), f"{path}.windowsOptions")
    yield from _one_profile_causes(context, path, "appArmorProfile", _app_armor_causes)


def _one_profile_causes(
    context: Object, path: str, field: str, name_causes: Callable[[str, str | None, str], Causes]
) -> Causes:
    profile, path = context.get(field), f"{path}.{field}"
    if profile is None:
        return
    kind = profile.get("type") or ""
    if not kind:
        yield value_required(f"{path}.type", "type is required when a profile is set")
    elif kind not in _PROFILES:
        yield value_not_supported(f"{path}.type", kind, _PROFILES)
    yield from name_causes(kind, profile.get("localhostProfile"), f"{path}.localhostProfile")


def _seccomp_causes(kind: str, file: str | None, path: str) -> Causes:
    if kind != "Localhost":
        if file is not None:
            yield value_invalid(path, file, "can only be set when seccomp type is Localhost")
    elif file is None:
        yield value_required(path, "must be set when seccomp type is Localhost")
    else:
        yield from descending_path_causes(file, path)


def _app_armor_causes(kind: str, name: str | None, path: str) -> Causes:
    if kind in ("RuntimeDefault", "Unconfined") and name is not None:
        yield value_invalid(path, name, "can only be set when AppArmor type is Localhost")
    if kind != "Localhost":
        return
    if name is not None and name.strip() != name:
        yield value_invalid(path, name, "must not be padded with whitespace")
    elif not name:
        yield value_required(path, "must be set when AppArmor type is Localhost")
    if len((name or "").encode()) > _LONGEST_PROFILE:
        yield value_too_long(path, _LONGEST_PROFILE)


# --- Windows ----------------------------------------------------------------------------------


def _windows_causes(options: Object, path: str) -> Causes:
    name, credentials = options.get("gmsaCredentialSpecName"), options.get("gmsaCredentialSpec")
    if name is not None:
        yield from all_invalid(f"{path}.gmsaCredentialSpecName", name, subdomain_faults(name))
    if credentials is not None and not 0 < len(credentials.encode()) <= _LONGEST_CREDENTIALS:
        why = f"must not be empty, and be under {_LONGEST_CREDENTIALS // 1024} KiB"
        yield value_invalid(f"{path}.gmsaCredentialSpec", "", why)
    user = options.get("runAsUserName")
    if user is not None:
        yield from all_invalid(f"{path}.runAsUserName", user, _user_name_faults(user))


def _user_name_faults(name: str) -> list[str]:
    """The rule for `user` or `domain\\user` of Windows."""
    what = "runAsUserName"
    if not name:
        return [f"{what} cannot be an empty string"]
    if _CONTROL.search(name):
        return [f"{what} cannot contain control characters"]
    if name.count("\\") > 1:
        return [f"{what} cannot contain more than one backslash"]
    domain, in_domain, user = name.rpartition("\\")
    faults = []
    if len(domain) > _LONGEST_DOMAIN:
        faults.append(f"{what}'s Domain length must be under {_LONGEST_DOMAIN + 1} characters")
    if in_domain and not (_NET_BIOS.fullmatch(domain) or _DNS_DOMAIN.fullmatch(domain)):
        faults.append(f"{what}'s Domain doesn't match the NetBios nor the DNS format")
    if not user:
        faults.append(f"{what}'s User cannot be empty")
    if len(user) > _LONGEST_USER:
        faults.append(f"{what}'s User length must not be longer than {_LONGEST_USER} characters")
    if _DOTS_AND_SPACES.fullmatch(user):
        faults.append(f"{what}'s User cannot contain only periods or spaces")
    if _ODD_IN_USER.search(user):
        faults.append(f"{what}'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]")
    return faults
