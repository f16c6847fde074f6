"""The rules for the containers of a pod: regular ones, init containers, sidecars and ephemeral ones."""

from collections.abc import Collection, Iterator
from typing import Any, Final

from attrs import frozen

from informers.apimachinery.name_rules import label_faults, port_name_faults
from reconcile.embedded.kinds.built_in_kind import Object
from reconcile.embedded.kinds.pod_environment import environment_causes
from reconcile.embedded.kinds.pod_handlers import hook_causes, probe_causes
from reconcile.embedded.kinds.pod_mounts import Volumes, mount_causes
from reconcile.embedded.kinds.pod_parts import PROBES, each, is_sidecar, part
from reconcile.embedded.kinds.pod_resource_rules import resize_policy_causes, resource_causes
from reconcile.embedded.kinds.pod_security_contexts import container_context_causes
from reconcile.embedded.kinds.pod_volumes import pull_policy_causes
from reconcile.embedded.kinds.port_rules import PROTOCOLS, port_number_causes
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import (
    all_invalid,
    value_duplicate,
    value_forbidden,
    value_invalid,
    value_not_found,
    value_not_supported,
    value_required,
    value_too_many,
)

_MESSAGE_POLICIES: Final = ("File", "FallbackToLogsOnError")
_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
# maxRestartPolicyRules, and the exit codes that one rule may name.
_MAX_RULES: Final = 20
_MAX_EXIT_CODES: Final = 255
_NOT_EPHEMERAL: Final = (
    "ports", "resources", *PROBES, "lifecycle", "resizePolicy", "restartPolicy", "restartPolicyRules",
)  # fmt: skip

Causes = Iterator[FieldCause]


@frozen
class Surroundings:
    """What the rules for a container need to know of its pod."""

    volumes: Volumes
    claims: Collection[str]
    restart_policy: str
    grace: int
    host_users: bool


def container_list_causes(spec: Object, path: str, pod: Surroundings) -> Causes:
    """The faults of `containers`, `initContainers` and `ephemeralContainers`."""
    yield from _regular_causes(spec, f"{path}.containers", pod)
    yield from _init_causes(spec, f"{path}.initContainers", pod)
    yield from _ephemeral_causes(spec, f"{path}.ephemeralContainers", pod)


def _regular_causes(spec: Object, path: str, pod: Surroundings) -> Causes:
    if not spec.get("containers"):
        yield value_required(path)
        return
    names: set[str] = set()
    ports: set[str] = set()
    for index, container in enumerate(each(spec, "containers")):
        place, name = f"{path}[{index}]", container.get("name") or ""
        yield from _common_causes(container, place, pod)
        if name in names:
            yield value_duplicate(f"{place}.name", name)
        names.add(name)
        yield from hook_causes(container, place, pod.grace)
        yield from probe_causes(container, place)
        yield from _restart_causes(container, place)
        yield from _host_port_causes(container, place, ports)


def _init_causes(spec: Object, path: str, pod: Surroundings) -> Causes:
    names = _names_of(spec, "containers")
    for index, container in enumerate(each(spec, "initContainers")):
        place, name = f"{path}[{index}]", container.get("name") or ""
        yield from _common_causes(container, place, pod)
        yield from _restart_causes(container, place)
        if name in names:
            yield value_duplicate(f"{place}.name", name)
        names |= {name} - {""}
        # They run one by one, and the real server counts the ports of each from the first.
        yield from _host_port_causes(container, f"{path}[0]", set())
        if is_sidecar(container):
            yield from hook_causes(container, place, pod.grace)
            yield from probe_causes(container, place)
            continue
        for field in ("lifecycle", *PROBES):
            if container.get(field) is not None:
                why = "may not be set for init containers without restartPolicy=Always"
                yield value_forbidden(f"{place}.{field}", why)


def _ephemeral_causes(spec: Object, path: str, pod: Surroundings) -> Causes:
    lasting = _names_of(spec, "containers") | _names_of(spec, "initContainers")
    names = set(lasting)
    for index, container in enumerate(each(spec, "ephemeralContainers")):
        place, name = f"{path}[{index}]", container.get("name") or ""
        yield from _common_causes(container, place, pod)
        yield from image_causes(container, place)
        if name in names:
            yield value_duplicate(f"{place}.name", name)
        names.add(name)
        target = container.get("targetContainerName")
        if target and target not in lasting:
            yield value_not_found(f"{place}.targetContainerName", target)
        for field in _NOT_EPHEMERAL:
            if container.get(field):
                yield value_forbidden(f"{place}.{field}", "cannot be set for an Ephemeral Container")
        for number, mount in enumerate(each(container, "volumeMounts")):
            for field in ("subPath", "subPathExpr"):
                if mount.get(field):
                    where = f"{place}.volumeMounts[{number}].{field}"
                    yield value_forbidden(where, "cannot be set for an Ephemeral Container")


def _names_of(spec: Object, name: str) -> set[str]:
    return {container.get("name") or "" for container in each(spec, name)}


def image_causes(container: Object, path: str) -> Causes:
    """The fault of an image with blanks around it, which templates may have."""
    image = container.get("image") or ""
    if image.strip() != image:
        yield value_invalid(f"{path}.image", image, "must not have leading or trailing whitespace")


# --- any container ----------------------------------------------------------------------------


def _common_causes(container: Object, path: str, pod: Surroundings) -> Causes:
    name = container.get("name") or ""
    if not name:
        yield value_required(f"{path}.name")
    else:
        yield from all_invalid(f"{path}.name", name, label_faults(name))
    if not container.get("image"):
        yield value_required(f"{path}.image")
    policy = container.get("terminationMessagePolicy")
    if policy not in _MESSAGE_POLICIES:
        yield value_not_supported(f"{path}.terminationMessagePolicy", policy, _MESSAGE_POLICIES)
    yield from _port_causes(container, f"{path}.ports")
    yield from environment_causes(container, path)
    yield from mount_causes(container, path, pod.volumes)
    yield from pull_policy_causes(container.get("imagePullPolicy") or "", f"{path}.imagePullPolicy")
    yield from resource_causes(part(container, "resources"), f"{path}.resources", pod.claims)
    yield from resize_policy_causes(container, f"{path}.resizePolicy", pod.restart_policy)
    yield from container_context_causes(container, path, host_users=pod.host_users)


def _port_causes(container: Object, path: str) -> Causes:
    names: set[str] = set()
    for index, port in enumerate(each(container, "ports")):
        place, name = f"{path}[{index}]", port.get("name") or ""
        faults = port_name_faults(name) if name else []
        yield from all_invalid(f"{place}.name", name, faults)
        if name and not faults:
            if name in names:
                yield value_duplicate(f"{place}.name", name)
            names.add(name)
        if not port.get("containerPort"):
            yield value_required(f"{place}.containerPort")
        else:
            yield from port_number_causes(f"{place}.containerPort", port["containerPort"])
        if port.get("hostPort"):
            yield from port_number_causes(f"{place}.hostPort", port["hostPort"])
        if port.get("protocol") not in PROTOCOLS:
            yield value_not_supported(f"{place}.protocol", port.get("protocol"), PROTOCOLS)


def _host_port_causes(container: Object, path: str, taken: set[str]) -> Causes:
    for index, port in enumerate(each(container, "ports")):
        if not port.get("hostPort"):
            continue
        key = f"{port.get('protocol')}/{port.get('hostIP') or ''}/{port['hostPort']}"
        if key in taken:
            yield value_duplicate(f"{path}.ports[{index}].hostPort", key)
        taken.add(key)


def _restart_causes(container: Object, path: str) -> Causes:
    policy, rules = container.get("restartPolicy"), each(container, "restartPolicyRules")
    if policy is None and rules:
        why = "must specify restartPolicy when restart rules are used"
        yield value_required(f"{path}.restartPolicy", why)
    if policy is not None and policy not in _RESTART_POLICIES:
        yield value_not_supported(f"{path}.restartPolicy", policy, _RESTART_POLICIES)
    if len(rules) > _MAX_RULES:
        yield value_too_many(f"{path}.restartPolicyRules", len(rules), _MAX_RULES)
    for index, rule in enumerate(rules):
        yield from _restart_rule_causes(rule, f"{path}.restartPolicyRules[{index}]")


def _restart_rule_causes(rule: Object, path: str) -> Causes:
    if rule.get("action") != "Restart":
        yield value_not_supported(f"{path}.action", rule.get("action") or "", ("Restart",))
    codes: Any = rule.get("exitCodes")
    if codes is None:
        yield value_required(f"{path}.exitCodes", "must be specified")
        return
    operator, values = codes.get("operator") or "", codes.get("values") or ()
    if operator not in ("In", "NotIn"):
        yield value_not_supported(f"{path}.exitCodes.operator", operator, ("In", "NotIn"))
    if len(values) > _MAX_EXIT_CODES:
        yield value_too_many(f"{path}.exitCodes.values", len(values), _MAX_EXIT_CODES)
