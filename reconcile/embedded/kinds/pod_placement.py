"""The rules for where a pod may run: affinity, tolerations, spreading, gates."""

from collections.abc import Iterator
from typing import Any, Final

from informers.apimachinery.name_rules import label_faults, label_key_faults, label_value_faults
from reconcile.embedded.kinds.built_in_kind import Object
from reconcile.embedded.kinds.label_selectors import selector_causes
from reconcile.embedded.kinds.node_selectors import node_selector_causes, node_term_causes
from reconcile.embedded.kinds.pod_parts import each, part
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import (
    all_invalid,
    value_duplicate,
    value_forbidden,
    value_invalid,
    value_not_supported,
    value_required,
)

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_MAX_WEIGHT: Final = 100
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_ACTIONS: Final = ("DoNotSchedule", "ScheduleAnyway")
_NODE_POLICIES: Final = ("Honor", "Ignore")
_LABEL_KEYS: Final = ("matchLabelKeys", "mismatchLabelKeys")

Causes = Iterator[FieldCause]


# --- affinity ---------------------------------------------------------------------------------


def affinity_causes(spec: Object, path: str) -> Causes:
    """The faults of `affinity`."""
    affinity, path = part(spec, "affinity"), f"{path}.affinity"
    if not affinity:
        return
    nodes = part(affinity, "nodeAffinity")
    if nodes.get(REQUIRED) is not None:
        yield from node_selector_causes(nodes[REQUIRED], f"{path}.nodeAffinity.{REQUIRED}")
    for index, term in enumerate(each(nodes, PREFERRED)):
        place = f"{path}.nodeAffinity.{PREFERRED}[{index}]"
        yield from _weight_causes(term, place)
        yield from node_term_causes(part(term, "preference"), f"{place}.preference", any_value=True)
    for name in ("podAffinity", "podAntiAffinity"):
        for index, term in enumerate(each(part(affinity, name), REQUIRED)):
            yield from _pod_term_causes(term, f"{path}.{name}.{REQUIRED}[{index}]")
        for index, weighted in enumerate(each(part(affinity, name), PREFERRED)):
            place = f"{path}.{name}.{PREFERRED}[{index}]"
            yield from _weight_causes(weighted, place)
            yield from _pod_term_causes(part(weighted, "podAffinityTerm"), f"{place}.podAffinityTerm")


def _weight_causes(term: Object, path: str) -> Causes:
    weight = term.get("weight") or 0
    if not 0 < weight <= _MAX_WEIGHT:
        yield value_invalid(f"{path}.weight", weight, f"must be in the range 1-{_MAX_WEIGHT}")


def _pod_term_causes(term: Object, path: str) -> Causes:
    for name in ("labelSelector", "namespaceSelector"):
        yield from selector_causes(term.get(name), f"{path}.{name}")
    for namespace in term.get("namespaces") or ():
        yield from all_invalid(f"{path}.namespace", namespace, label_faults(namespace))
    yield from _label_key_causes(term, path)
    key = term.get("topologyKey") or ""
    if not key:
        yield value_required(f"{path}.topologyKey", "can not be empty")
    yield from all_invalid(f"{path}.topologyKey", key, label_key_faults(key))


def _label_key_causes(term: Object, path: str) -> Causes:
    """The faults of the keys whose values come from the pod (validateMatchLabelKeysAndMismatchLabelKeys)."""
    selector = term.get("labelSelector")
    for name in _LABEL_KEYS:
        keys = term.get(name) or ()
        if keys and selector is None:
            why = "must not be specified when labelSelector is not set"
            yield value_forbidden(f"{path}.{name}", why)
            continue
        for index, key in enumerate(keys):
            yield from all_invalid(f"{path}.{name}[{index}]", key, label_key_faults(key))
    matched, mismatched = (term.get(name) or [] for name in _LABEL_KEYS)
    # The strategy has added an expression for each key before; a second one is the writer's own.
    seen = set(part(term, "labelSelector", "matchLabels"))
    for expression in each(part(term, "labelSelector"), "matchExpressions"):
        key = expression.get("key") or ""
        if key in matched and key in seen:
            why = "exists in both matchLabelKeys and labelSelector"
            yield value_invalid(f"{path}[{_last_index(matched, key)}]", key, why)
        seen.add(key)
    for index, key in enumerate(matched):
        if key in mismatched:
            why = "exists in both matchLabelKeys and mismatchLabelKeys"
            yield value_invalid(f"{path}.matchLabelKeys[{index}]", key, why)


def _last_index(keys: list[str], key: str) -> int:
    return len(keys) - 1 - keys[::-1].index(key)


# --- tolerations, spreading, gates ------------------------------------------------------------


def toleration_causes(tolerations: list[Object], path: str) -> Causes:
    """The faults of a list of tolerations."""
    for index, toleration in enumerate(tolerations):
        place = f"{path}[{index}]"
        key, operator = toleration.get("key") or "", toleration.get("operator") or ""
        value, effect = toleration.get("value") or "", toleration.get("effect") or ""
        if key:
            yield from all_invalid(f"{place}.key", key, label_key_faults(key))
        elif operator != "Exists":
            why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            yield value_invalid(f"{place}.operator", operator, why)
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            why = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            yield value_invalid(f"{place}.effect", effect, why)
        yield from _operator_causes(operator, value, f"{place}.operator")
        if effect and effect not in _EFFECTS:
            yield value_not_supported(f"{place}.effect", effect, _EFFECTS)


def _operator_causes(operator: str, value: str, path: str) -> Causes:
    if operator in ("Equal", ""):
        if faults := label_value_faults(value):
            yield value_invalid(path, value, ";".join(faults))
    elif operator != "Exists":
        yield value_not_supported(path, operator, ("Equal", "Exists"))
    elif value:
        yield value_invalid(path, value, "value must be empty when `operator` is 'Exists'")


def spread_causes(spec: Object, path: str) -> Causes:
    """The faults of `topologySpreadConstraints`."""
    constraints = each(spec, "topologySpreadConstraints")
    for index, constraint in enumerate(constraints):
        place = f"{path}.topologySpreadConstraints[{index}]"
        skew, domains = constraint.get("maxSkew") or 0, constraint.get("minDomains")
        key, action = constraint.get("topologyKey") or "", constraint.get("whenUnsatisfiable") or ""
        if skew <= 0:
            yield value_invalid(f"{place}.maxSkew", skew, "must be greater than zero")
        if not key:
            yield value_required(f"{place}.topologyKey", "can not be empty")
        if action not in _ACTIONS:
            yield value_not_supported(f"{place}.whenUnsatisfiable", action, _ACTIONS)
        if any(_kind_of(later) == (key, action) for later in constraints[index + 1 :]):
            yield value_duplicate(f"{place}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}")
        if domains is not None and domains <= 0:
            yield value_invalid(f"{place}.minDomains", domains, "must be greater than zero")
        if domains is not None and action != "DoNotSchedule":
            why = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
            yield value_invalid(f"{place}.minDomains", domains, why)
        for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if constraint.get(name) is not None and constraint[name] not in _NODE_POLICIES:
                yield value_not_supported(f"{place}.{name}", constraint[name], _NODE_POLICIES)
        yield from _spread_key_causes(constraint, place)
        yield from selector_causes(constraint.get("labelSelector"), f"{place}.labelSelector")


def _kind_of(constraint: Object) -> tuple[Any, Any]:
    return constraint.get("topologyKey") or "", constraint.get("whenUnsatisfiable") or ""


def _spread_key_causes(constraint: Object, path: str) -> Causes:
    keys, selector = constraint.get("matchLabelKeys") or [], constraint.get("labelSelector")
    if not keys:
        return
    if selector is None:
        why = "must not be specified when labelSelector is not set"
        yield value_forbidden(f"{path}.matchLabelKeys", why)
    for index, key in enumerate(keys):
        yield from all_invalid(f"{path}.matchLabelKeys[{index}]", key, label_key_faults(key))
    seen = set(part(constraint, "labelSelector", "matchLabels"))
    for expression in each(selector or {}, "matchExpressions"):
        key = expression.get("key") or ""
        if key in keys and key in seen:
            why = "exists in both matchLabelKeys and labelSelector"
            yield value_invalid(f"{path}.matchLabelKeys[{_last_index(keys, key)}]", key, why)
        seen.add(key)


def gate_causes(spec: Object, path: str) -> Causes:
    """The faults of `readinessGates` and `schedulingGates`."""
    for index, gate in enumerate(each(spec, "readinessGates")):
        kind = gate.get("conditionType") or ""
        yield from all_invalid(f"{path}.readinessGates[{index}].conditionType", kind, label_key_faults(kind))
    seen: set[str] = set()
    for index, gate in enumerate(each(spec, "schedulingGates")):
        place, name = f"{path}.schedulingGates[{index}]", gate.get("name") or ""
        yield from all_invalid(place, name, label_key_faults(name))
        if name in seen:
            yield value_duplicate(place, name)
        seen.add(name)
