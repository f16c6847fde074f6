"""Pods, alone and as templates: defaults, quality of service, and what may change."""

from reconcile.embedded.kinds.kind_rules import Object
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_forbidden, value_invalid, value_required
from reconcile.embedded.protocol.names import label_faults


def prepare_pod(pod: Object, old: Object | None) -> None:
    """Complete a new pod."""
    if old is not None:
        return
    default_pod_spec(pod.setdefault("spec", {}))
    pod["status"] = {"phase": "Pending", "qosClass": _qos_class(pod["spec"])}


def default_pod_spec(spec: Object) -> None:
    """Fill in what a pod spec leaves out."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    for container in [*spec.get("containers", ()), *spec.get("initContainers", ())]:
        _default_container(container)


def _default_container(container: Object) -> None:
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    image = container.get("image", "")
    tag = image.rpartition("/")[2].partition("@")[0].partition(":")[2]
    latest = tag == "latest" or (not tag and "@" not in image)
    container.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")


def _qos_class(spec: Object) -> str:
    containers = [*spec.get("containers", ()), *spec.get("initContainers", ())]
    demands = [container.get("resources") or {} for container in containers]
    if not any(demand.get("requests") or demand.get("limits") for demand in demands):
        return "BestEffort"
    return "Guaranteed" if all(_is_guaranteed(demand) for demand in demands) else "Burstable"


def _is_guaranteed(demand: Object) -> bool:
    limits, requests = demand.get("limits") or {}, demand.get("requests") or {}
    named = {"cpu", "memory"} <= limits.keys()
    return named and all(requests.get(name, limits[name]) == limits[name] for name in ("cpu", "memory"))


def validate_pod(pod: Object, old: Object | None) -> list[FieldCause]:
    """The faults of a pod, or of a change to one."""
    spec = pod.get("spec") or {}
    if old is None:
        return container_causes(spec, "spec")
    changed = {
        name for name in {*spec, *old.get("spec", {})} if spec.get(name) != old.get("spec", {}).get(name)
    }
    free = {"activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations", "schedulingGates"}
    if _only_images_differ(spec, old.get("spec", {})):
        free |= {"containers", "initContainers"}
    if changed <= free:
        return []
    why = (
        "pod updates may not change fields other than `spec.containers[*].image`,"
        "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to "
        "existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
        "previously negative)"
    )
    return [value_forbidden("spec", why)]


def container_causes(spec: Object, place: str) -> list[FieldCause]:
    """What is wrong about the containers of a pod spec, which stands at `place`."""
    containers = spec.get("containers") or []
    if not containers:
        return [value_required(f"{place}.containers")]
    causes: list[FieldCause] = []
    seen: set[str] = set()
    for index, container in enumerate(containers):
        name, path = container.get("name") or "", f"{place}.containers[{index}]"
        if not name:
            causes.append(value_required(f"{path}.name"))
        elif name in seen:
            causes.append(FieldCause("FieldValueDuplicate", f'Duplicate value: "{name}"', f"{path}.name"))
        else:
            causes += [value_invalid(f"{path}.name", name, fault) for fault in label_faults(name)]
        if not container.get("image"):
            causes.append(value_required(f"{path}.image"))
        seen.add(name)
    return causes


def _only_images_differ(spec: Object, old: Object) -> bool:
    for name in ("containers", "initContainers"):
        ours, theirs = spec.get(name) or [], old.get(name) or []
        if len(ours) != len(theirs):
            return False
        if any({**a, "image": ""} != {**b, "image": ""} for a, b in zip(ours, theirs, strict=True)):
            return False
    return True
