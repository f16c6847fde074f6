"""What admission plugins set in pods or refuse: priorities, tolerations, runtime classes."""

from typing import Final

from reconcile.embedded.kinds.built_in_kind import Object, Others
from reconcile.embedded.kinds.pod_limits import apply_limits
from reconcile.embedded.kinds.pod_parts import each, part
from reconcile.embedded.kinds.pod_security import secure_pod
from reconcile.embedded.kinds.pod_strategy import app_armor_warnings
from reconcile.embedded.kinds.priority_classes import SYSTEM_CLASSES
from reconcile.embedded.protocol.api_failure import Denied

# defaultTolerationSeconds: five minutes on a node that is not ready or cannot be reached.
_TOLERATED_SECONDS: Final = 300
_TOLERATED: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_PREEMPTING: Final = "PreemptLowerPriority"


def admit_pod(pod: Object, old: Object | None, others: Others) -> list[str]:
    """Complete a pod as the plugins that are on by default do; returns warnings. Raises Denied."""
    spec = pod["spec"]
    if old is None:
        _set_priority(spec, others)
        _apply_runtime_class(spec, others)
        apply_limits(pod, others)
    else:
        _keep_priority(spec, part(old, "spec"))
    _add_tolerations(spec)
    warnings = app_armor_warnings(pod) if old is None else []
    return [*warnings, *secure_pod(pod, old, others)]


# --- Priority ---------------------------------------------------------------------------------


def _set_priority(spec: Object, others: Others) -> None:
    name = spec.get("priorityClassName") or ""
    found = _priority_class(name, others) if name else _default_class(others)
    if name and found is None:
        raise Denied(f"no PriorityClass with name {name} was found")
    if found is not None:
        spec["priorityClassName"] = found["metadata"]["name"]
    priority = (found or {}).get("value") or 0
    policy = (found or {}).get("preemptionPolicy") or _PREEMPTING
    given = spec.get("priority")
    if given is not None and given != priority:
        raise Denied(
            f"the integer value of priority ({given}) must not be provided in pod spec; priority admission "
            f"controller computed {priority} from the given PriorityClass name"
        )
    preempts = spec.get("preemptionPolicy")
    if preempts is not None and preempts != policy:
        raise Denied(
            f"the string value of PreemptionPolicy ({preempts}) must not be provided in pod spec; priority "
            f"admission controller computed {policy} from the given PriorityClass name"
        )
    spec["priority"], spec["preemptionPolicy"] = priority, policy


def _priority_class(name: str, others: Others) -> Object | None:
    found = others.named("scheduling.k8s.io", "priorityclasses", name)
    if found is None and name in SYSTEM_CLASSES:
        return {"metadata": {"name": name}, "value": SYSTEM_CLASSES[name]}
    return found


def _default_class(others: Others) -> Object | None:
    """The least of the classes that are the default."""
    classes = others.every("scheduling.k8s.io", "priorityclasses")
    defaults = [one for one in classes if one.get("globalDefault")]
    return min(defaults, key=lambda one: int(one.get("value") or 0), default=None)


def _keep_priority(spec: Object, before: Object) -> None:
    """An update may leave out what was computed."""
    for name in ("priority", "preemptionPolicy"):
        if spec.get(name) is None and before.get(name) is not None:
            spec[name] = before[name]


# --- DefaultTolerationSeconds -----------------------------------------------------------------


def _add_tolerations(spec: Object) -> None:
    given = each(spec, "tolerations")
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATED_SECONDS}
        for key in _TOLERATED
        if not any(_tolerates(toleration, key) for toleration in given)
    ]
    if added:
        spec["tolerations"] = [*given, *added]


def _tolerates(toleration: Object, key: str) -> bool:
    return toleration.get("key") in (key, "", None) and toleration.get("effect") in ("NoExecute", "", None)


# --- RuntimeClass -----------------------------------------------------------------------------


def _apply_runtime_class(spec: Object, others: Others) -> None:
    name = spec.get("runtimeClassName")
    if name is None:
        _take_overhead(spec, {})
        return
    found = others.named("node.k8s.io", "runtimeclasses", name)
    if found is None:
        raise Denied(f'pod rejected: RuntimeClass "{name}" not found')
    _take_overhead(spec, part(found, "overhead", "podFixed"))
    _take_scheduling(spec, part(found, "scheduling"))


def _take_overhead(spec: Object, fixed: Object) -> None:
    given = spec.get("overhead")
    if given and not fixed:
        raise Denied("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
    if given and given != fixed:
        raise Denied("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
    if fixed:
        spec["overhead"] = dict(fixed)


def _take_scheduling(spec: Object, scheduling: Object) -> None:
    selector, given = part(scheduling, "nodeSelector"), part(spec, "nodeSelector")
    for key, value in selector.items():
        if given.get(key, value) != value:
            raise Denied(
                f"conflict: pod.spec.nodeSelector[{key}] is {given[key]}, the RuntimeClass has {value}"
            )
    if selector:
        spec["nodeSelector"] = {**given, **selector}
    tolerations = each(spec, "tolerations")
    tolerations += [one for one in each(scheduling, "tolerations") if one not in tolerations]
    if tolerations:
        spec["tolerations"] = tolerations
