"""The Pod Security Standards that the labels of a namespace ask for (the plugin PodSecurity)."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from reconcile.embedded.kinds.built_in_kind import Object, Others
from reconcile.embedded.kinds.pod_annotations import APP_ARMOR_PREFIX, SECCOMP_OF_POD, SECCOMP_PREFIX
from reconcile.embedded.kinds.pod_parts import PROBES, all_containers, containers_of, each, hooks_of, part
from reconcile.embedded.protocol.api_failure import Denied

_LABEL: Final = "pod-security.kubernetes.io/"
_PRIVILEGED: Final = "privileged"
_LEVELS: Final = (_PRIVILEGED, "baseline", "restricted")
_CAPABILITIES: Final = frozenset(
    {
        "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE",
        "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
    }
)  # fmt: skip
_SELINUX_TYPES: Final = ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
_SYSCTLS: Final = frozenset(
    {
        "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range", "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ip_local_reserved_ports", "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_wmem",
    }
)  # fmt: skip
_RESTRICTED_VOLUMES: Final = frozenset(
    {
        "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected",
        "secret",
    }
)  # fmt: skip
_CONFINED: Final = ("RuntimeDefault", "Localhost")


def secure_pod(pod: Object, old: Object | None, others: Others) -> list[str]:
    """The warnings of the levels that the namespace warns of. Raises Denied for those that it enforces."""
    if old is not None and not _is_significant(pod, old):
        return []
    levels = _levels(pod["metadata"].get("namespace") or "", others)
    faults = _faults(pod["spec"], part(pod, "metadata", "annotations"), levels["enforce"])
    if faults:
        raise Denied(f'violates PodSecurity "{levels["enforce"]}:latest": {", ".join(faults)}')
    return _warnings(pod, levels["warn"])


def template_security_warnings(template: Object, namespace: str, others: Others) -> list[str]:
    """The warnings for the template of a workload; nothing is enforced before its pods are made."""
    return _warnings(template, _levels(namespace, others)["warn"])


def _warnings(pod: Object, level: str) -> list[str]:
    faults = _faults(part(pod, "spec"), part(pod, "metadata", "annotations"), level)
    return [f'would violate PodSecurity "{level}:latest": {", ".join(faults)}'] if faults else []


def _levels(namespace: str, others: Others) -> dict[str, str]:
    labels = part(others.named("", "namespaces", namespace) or {}, "metadata", "labels")
    enforced, warned = (labels.get(f"{_LABEL}{mode}") for mode in ("enforce", "warn"))
    # What is enforced is also warned of, which concerns templates (PolicyToEvaluate).
    warned = enforced if warned is None and enforced in _LEVELS else warned
    return {"enforce": _level(enforced), "warn": _level(warned)}


def _level(label: str | None) -> str:
    """The level that a label names; an unknown one counts as the strictest."""
    if label is None:
        return _PRIVILEGED
    return label if label in _LEVELS else _LEVELS[-1]


def _is_significant(pod: Object, old: Object) -> bool:
    """Whether an update changes what the standards look at: images and seccomp annotations."""

    def seen(one: Object) -> object:
        annotations = part(one, "metadata", "annotations")
        profiles = {
            key: value
            for key, value in annotations.items()
            if key == SECCOMP_OF_POD or key.startswith(SECCOMP_PREFIX)
        }
        return profiles, [
            (path, container.get("image")) for path, container in all_containers(one["spec"], "spec")
        ]

    return seen(pod) != seen(old)


def _faults(spec: Object, annotations: Object, level: str) -> list[str]:
    return [fault for fault, is_broken in _CHECKS[level] if is_broken(spec, annotations)]


def _contexts(spec: Object) -> Iterator[Object]:
    """The security contexts of the pod and its containers."""
    yield part(spec, "securityContext")
    yield from _container_contexts(spec)


def _container_contexts(spec: Object) -> Iterator[Object]:
    for container in containers_of(spec):
        yield part(container, "securityContext")


def _is_windows(spec: Object) -> bool:
    return part(spec, "os").get("name") == "windows"


# --- baseline ---------------------------------------------------------------------------------


def _app_armor(spec: Object, annotations: Object) -> bool:
    profiles = (part(context, "appArmorProfile").get("type") for context in _contexts(spec))
    annotated = (value for key, value in annotations.items() if key.startswith(APP_ARMOR_PREFIX))
    odd = (value for value in annotated if value not in ("", "runtime/default"))
    return any(kind not in (None, *_CONFINED) for kind in profiles) or any(
        not value.startswith("localhost/") for value in odd
    )


def _capabilities(spec: Object, _: Object) -> bool:
    added = (part(context, "capabilities").get("add") or () for context in _container_contexts(spec))
    return any(not _CAPABILITIES.issuperset(names) for names in added)


def _host_namespaces(spec: Object, _: Object) -> bool:
    return any(spec.get(name) for name in ("hostNetwork", "hostPID", "hostIPC"))


def _host_paths(spec: Object, _: Object) -> bool:
    return any(volume.get("hostPath") is not None for volume in each(spec, "volumes"))


def _host_ports(spec: Object, _: Object) -> bool:
    return any(port.get("hostPort") for container in containers_of(spec) for port in each(container, "ports"))


def _host_probes(spec: Object, _: Object) -> bool:
    handlers = [
        handler
        for container in containers_of(spec)
        for handler in (*(part(container, name) for name in PROBES), *hooks_of(container))
    ]
    return any(
        part(handler, action).get("host") for handler in handlers for action in ("httpGet", "tcpSocket")
    )


def _privileged(spec: Object, _: Object) -> bool:
    return any(context.get("privileged") for context in _container_contexts(spec))


def _proc_mount(spec: Object, _: Object) -> bool:
    return any(context.get("procMount") not in (None, "Default") for context in _container_contexts(spec))


def _se_linux(spec: Object, _: Object) -> bool:
    options = [part(context, "seLinuxOptions") for context in _contexts(spec)]
    return any(
        (one.get("type") or "") not in _SELINUX_TYPES or one.get("user") or one.get("role") for one in options
    )


def _seccomp(spec: Object, _: Object) -> bool:
    kinds = (part(context, "seccompProfile").get("type") for context in _contexts(spec))
    return any(kind not in (None, *_CONFINED) for kind in kinds)


def _sysctls(spec: Object, _: Object) -> bool:
    return any(one.get("name") not in _SYSCTLS for one in each(part(spec, "securityContext"), "sysctls"))


def _host_process(spec: Object, _: Object) -> bool:
    return any(part(context, "windowsOptions").get("hostProcess") for context in _contexts(spec))


# --- restricted -------------------------------------------------------------------------------


def _escalation(spec: Object, _: Object) -> bool:
    contexts = _container_contexts(spec)
    return not _is_windows(spec) and any(
        context.get("allowPrivilegeEscalation") is not False for context in contexts
    )


def _undropped(spec: Object, _: Object) -> bool:
    if _is_windows(spec):
        return False
    held = [part(context, "capabilities") for context in _container_contexts(spec)]
    return any(
        "ALL" not in (one.get("drop") or ()) or {*(one.get("add") or ())} - {"NET_BIND_SERVICE"}
        for one in held
    )


def _other_volumes(spec: Object, _: Object) -> bool:
    sources = ({*volume} - {"name"} for volume in each(spec, "volumes"))
    return any(not _RESTRICTED_VOLUMES & names for names in sources)


def _may_be_root(spec: Object, _: Object) -> bool:
    own = part(spec, "securityContext").get("runAsNonRoot")
    inner = [context.get("runAsNonRoot") for context in _container_contexts(spec)]
    return own is False or False in inner or (not own and None in inner)


def _is_root(spec: Object, _: Object) -> bool:
    return any(context.get("runAsUser") == 0 for context in _contexts(spec))


def _unconfined(spec: Object, _: Object) -> bool:
    if _is_windows(spec):
        return False
    own = part(spec, "securityContext", "seccompProfile").get("type")
    inner = [part(context, "seccompProfile").get("type") for context in _container_contexts(spec)]
    return any((own if kind is None else kind) not in _CONFINED for kind in inner)


_Check = tuple[str, Callable[[Object, Object], bool]]
_BASELINE: Final[tuple[_Check, ...]] = (
    ("forbidden AppArmor profiles", _app_armor),
    ("non-default capabilities", _capabilities),
    ("host namespaces", _host_namespaces),
    ("hostPath volumes", _host_paths),
    ("hostPort", _host_ports),
    ("probe or lifecycle host", _host_probes),
    ("privileged", _privileged),
    ("procMount", _proc_mount),
    ("seLinuxOptions", _se_linux),
    ("seccompProfile", _seccomp),
    ("forbidden sysctls", _sysctls),
    ("hostProcess", _host_process),
)
_RESTRICTED: Final[tuple[_Check, ...]] = (
    ("allowPrivilegeEscalation != false", _escalation),
    ("unrestricted capabilities", _undropped),
    ("restricted volume types", _other_volumes),
    ("runAsNonRoot != true", _may_be_root),
    ("runAsUser=0", _is_root),
    ("seccompProfile", _unconfined),
)
_CHECKS: Final[Mapping[str, tuple[_Check, ...]]] = {
    _PRIVILEGED: (),
    "baseline": _BASELINE,
    "restricted": (*_BASELINE, *_RESTRICTED),
}
