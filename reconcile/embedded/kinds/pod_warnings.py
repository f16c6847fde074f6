"""What the writer of a pod or of a template is warned of (pkg/api/pod/warnings.go)."""

from collections.abc import Iterator
from typing import Final

from informers.apimachinery.name_rules import label_faults
from informers.apimachinery.quantities import quantity_value
from reconcile.embedded.kinds.built_in_kind import Object
from reconcile.embedded.kinds.node_selectors import NEWER_LABELS, older_label_warnings
from reconcile.embedded.kinds.pod_annotations import (
    APP_ARMOR_PREFIX,
    SECCOMP_OF_POD,
    SECCOMP_PREFIX,
    app_armor_of,
)
from reconcile.embedded.kinds.pod_parts import all_containers, containers_of, each, part
from reconcile.embedded.kinds.pod_placement import PREFERRED, REQUIRED
from reconcile.embedded.protocol.ip_rules import ip_warnings

_ANNOTATIONS: Final = {
    "scheduler.alpha.kubernetes.io/critical-pod": 'non-functional in v1.16+; use "priorityClassName" instead',
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use "sysctls" instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use "sysctls" instead',
}
_VOLUMES: Final = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
_UNSELECTIVE: Final = "a null labelSelector results in matching no pod"
_BYTES: Final = ("memory", "ephemeral-storage")

Warnings = Iterator[str]


def pod_warnings(pod: Object, old: Object | None) -> list[str]:
    """The warnings of a new pod; updates, which people seldom write, have none."""
    if old is not None:
        return []
    name = pod["metadata"].get("name") or ""
    warnings = []
    if faults := label_faults(name):
        warnings.append(f"metadata.name: it becomes the host name; a DNS label is recommended: {faults}")
    return [*warnings, *_warnings(pod["spec"], part(pod, "metadata", "annotations"), "", "spec")]


def status_warnings(pod: Object, _old: Object | None) -> list[str]:
    """The warnings for addresses in a status."""
    return [
        warning
        for name in ("podIPs", "hostIPs")
        for index, one in enumerate(each(part(pod, "status"), name))
        for warning in ip_warnings(f"status.{name}[{index}].ip", one.get("ip") or "")
    ]


def template_warnings(template: Object, path: str) -> list[str]:
    """The warnings of the template at `path`, of a workload that is new or whose spec changed."""
    spec, annotations, place = part(template, "spec"), part(template, "metadata", "annotations"), f"{path}."
    warnings = list(_warnings(spec, annotations, place, f"{path}.spec"))
    for container in containers_of(spec):
        key = f"{APP_ARMOR_PREFIX}{container.get('name') or ''}"
        if key in annotations and app_armor_of(container, spec) is None:
            why = 'deprecated since v1.30; use the "appArmorProfile" field instead'
            warnings.append(f"{place}metadata.annotations[{key}]: {why}")
    return warnings


def _warnings(spec: Object, annotations: Object, place: str, path: str) -> Warnings:
    yield from _label_warnings(spec, path)
    for key, why in _ANNOTATIONS.items():
        if key in annotations:
            yield f"{place}metadata.annotations[{key}]: {why}"
    yield from _volume_warnings(spec, path)
    yield from _list_warnings(spec, path)
    yield from _fraction_warnings(part(spec, "overhead"), f"{path}.overhead")
    if annotations:
        yield from _seccomp_warnings(spec, annotations, f"{place}metadata.annotations")
    for where, container in all_containers(spec, path):
        for kind in ("limits", "requests"):
            amounts = part(container, "resources", kind)
            yield from _fraction_warnings(amounts, f"{where}.resources.{kind}")
        yield from _variable_warnings(container, f"{where}.env")
    yield from _port_warnings(spec, path)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        yield f"{path}.terminationGracePeriodSeconds: must be >= 0; negative values will be treated as 1"
    yield from _affinity_warnings(spec, path)


# --- placement --------------------------------------------------------------------------------


def _label_warnings(spec: Object, path: str) -> Warnings:
    for key in part(spec, "nodeSelector"):
        if key in NEWER_LABELS:
            yield f'{path}.nodeSelector[{key}]: deprecated; use "{NEWER_LABELS[key]}" instead'
    nodes, place = part(spec, "affinity", "nodeAffinity"), f"{path}.affinity.nodeAffinity"
    terms = [
        (f"{place}.{REQUIRED}.nodeSelectorTerms[{index}]", term)
        for index, term in enumerate(each(part(nodes, REQUIRED), "nodeSelectorTerms"))
    ]
    terms += [
        (f"{place}.{PREFERRED}[{index}].preference", part(weighted, "preference"))
        for index, weighted in enumerate(each(nodes, PREFERRED))
    ]
    for where, term in terms:
        yield from older_label_warnings(each(term, "matchExpressions"), f"{where}.matchExpressions")
    for index, constraint in enumerate(each(spec, "topologySpreadConstraints")):
        key, where = constraint.get("topologyKey") or "", f"{path}.topologySpreadConstraints[{index}]"
        if key in NEWER_LABELS:
            yield f'{where}.topologyKey: {key} is deprecated; use "{NEWER_LABELS[key]}" instead'
        if constraint.get("labelSelector") is None:
            yield f"{where}.labelSelector: {_UNSELECTIVE}"


def _affinity_warnings(spec: Object, path: str) -> Warnings:
    if not spec.get("affinity"):
        return
    for name in ("podAffinity", "podAntiAffinity"):
        terms, place = part(spec, "affinity", name), f"{path}.affinity.{name}"
        for index, term in enumerate(each(terms, REQUIRED)):
            if term.get("labelSelector") is None:
                yield f"{place}.{REQUIRED}[{index}].labelSelector: {_UNSELECTIVE}"
        for index, weighted in enumerate(each(terms, PREFERRED)):
            if part(weighted, "podAffinityTerm").get("labelSelector") is None:
                yield f"{place}.{PREFERRED}[{index}].podAffinityTerm.labelSelector: {_UNSELECTIVE}"


# --- volumes and lists ------------------------------------------------------------------------


def _volume_warnings(spec: Object, path: str) -> Warnings:
    volumes = each(spec, "volumes")
    for index, volume in enumerate(volumes):
        place = f"{path}.volumes[{index}]"
        yield from (
            f"{place}.{name}: {why}" for name, why in _VOLUMES.items() if volume.get(name) is not None
        )
        claim = part(volume, "ephemeral", "volumeClaimTemplate", "spec", "resources")
        for kind in ("requests", "limits"):
            if _is_fraction(part(claim, kind).get("storage")):
                template = f"{place}.ephemeral.volumeClaimTemplate.spec"
                yield f"{template}.resources.{kind}[storage]: fractional byte value"
    projections = [
        (f"{path}.volumes[{index}].projected", source)
        for index, volume in enumerate(volumes)
        for source in each(part(volume, "projected"), "sources")
    ]
    tokens = {
        source["serviceAccountToken"].get("path")
        for _, source in projections
        if source.get("serviceAccountToken") is not None
    }
    for place, source in projections:
        files = [
            item.get("path")
            for name in ("configMap", "secret", "downwardAPI")
            for item in _items(source, name)
        ]
        if source.get("clusterTrustBundle") is not None:
            files.append(source["clusterTrustBundle"].get("path"))
        for file in files:
            if file in tokens:
                yield f'{place}.sources: has duplicated path with ServiceAccountToken "{file}"'


def _items(source: Object, name: str) -> list[Object]:
    return each(part(source, name), "items")


def _list_warnings(spec: Object, path: str) -> Warnings:
    for name, field in (("hostAliases", "ip"), ("imagePullSecrets", "name")):
        seen: set[str] = set()
        for index, item in enumerate(each(spec, name)):
            value = item.get(field) or ""
            if value in seen:
                yield f'{path}.{name}[{index}].{field}: duplicate {field} "{value}"'
            seen.add(value)
            if name == "imagePullSecrets" and not value:
                yield f'{path}.{name}[{index}].{field}: invalid empty name ""'
    for index, alias in enumerate(each(spec, "hostAliases")):
        yield from ip_warnings(f"{path}.hostAliases[{index}].ip", alias.get("ip") or "")
    for index, server in enumerate(part(spec, "dnsConfig").get("nameservers") or ()):
        yield from ip_warnings(f"{path}.dnsConfig.nameservers[{index}]", server)


# --- containers -------------------------------------------------------------------------------


def _fraction_warnings(amounts: Object, path: str) -> Warnings:
    for name in _BYTES:
        if _is_fraction(amounts.get(name)):
            yield f'{path}[{name}]: fractional byte value "{amounts[name]}" is invalid, must be an integer'


def _is_fraction(amount: object) -> bool:
    return amount is not None and quantity_value(str(amount)) % 1 != 0


def _seccomp_warnings(spec: Object, annotations: Object, place: str) -> Warnings:
    why = 'non-functional in v1.27+; use the "seccompProfile" field instead'
    if part(spec, "securityContext").get("seccompProfile") is None and SECCOMP_OF_POD in annotations:
        yield f"{place}[{SECCOMP_OF_POD}]: {why}"
    for container in containers_of(spec):
        key = f"{SECCOMP_PREFIX}{container.get('name') or ''}"
        if part(container, "securityContext").get("seccompProfile") is None and key in annotations:
            yield f"{place}[{key}]: {why}"


def _variable_warnings(container: Object, path: str) -> Warnings:
    seen: set[str] = set()
    for index, variable in enumerate(each(container, "env")):
        name = variable.get("name") or ""
        if name in seen and _hides(variable, f"$({name})"):
            why = f'hides previous definition of "{name}", which may be dropped when using apply'
            yield f"{path}[{index}]: {why}"
        seen.add(name)


def _hides(variable: Object, reference: str) -> bool:
    value = variable.get("value") or ""
    return variable.get("valueFrom") is not None or value == reference or reference not in value


def _port_warnings(spec: Object, path: str) -> Warnings:
    taken: dict[tuple[object, object], list[tuple[str, Object]]] = {}
    for where, container in all_containers(spec, path):
        for index, port in enumerate(each(container, "ports")):
            place = f"{where}.ports[{index}]"
            if port.get("hostIP") and not port.get("hostPort"):
                yield f"{place}: hostIP set without hostPort"
            others = taken.setdefault((port.get("containerPort"), port.get("protocol")), [])
            for other_place, other in others:
                if relation := _relation(port, other):
                    yield f"{place}: {relation} port definition with {other_place}"
            others.append((place, port))


def _relation(port: Object, other: Object) -> str:
    """How two ports of the same number and protocol get in each other's way."""
    ip, other_ip = port.get("hostIP") or "", other.get("hostIP") or ""
    number, other_number = port.get("hostPort") or 0, other.get("hostPort") or 0
    if (ip, number) == (other_ip, other_number):
        return "duplicate"
    if not number or not other_number:
        return "overlapping"
    return "dangerously ambiguous" if number == other_number and bool(ip) != bool(other_ip) else ""
