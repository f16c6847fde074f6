"""What Deployments, ReplicaSets, DaemonSets and ReplicationControllers have to be."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from informers.apimachinery.name_rules import label_faults
from reconcile.embedded.kinds.built_in_kind import Object, not_negative, same
from reconcile.embedded.kinds.int_or_percent import above_all_causes, amount_causes, is_nothing
from reconcile.embedded.kinds.label_selectors import (
    has_odd_value,
    is_empty,
    is_parsable,
    selector_causes,
    selects,
)
from reconcile.embedded.kinds.pod_kinds import template_causes
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import (
    value_forbidden,
    value_invalid,
    value_not_supported,
    value_required,
)

LASTING_POLICIES: Final = ("Always",)
"""The restart policies of pods that are to run for ever."""
_MISMATCH: Final = "`selector` does not match template `labels`"
_STRATEGIES: Final = ("Recreate", "RollingUpdate")
_DAEMON_STRATEGIES: Final = ("RollingUpdate", "OnDelete")


# --- the kinds --------------------------------------------------------------------------------


def deployment_causes(deployment: Object, old: Object | None) -> Iterator[FieldCause]:
    """The faults of a Deployment."""
    spec = deployment["spec"]
    yield from not_negative(
        spec, "spec", "replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"
    )
    yield from selected_template_causes(spec)
    yield from _strategy_causes(spec["strategy"], "spec.strategy")
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= (spec.get("minReadySeconds") or 0):
        yield value_invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")
    yield from _fixed_selector(spec, old)


def replica_set_causes(replica_set: Object, old: Object | None) -> Iterator[FieldCause]:
    """The faults of a ReplicaSet."""
    spec = replica_set["spec"]
    yield from not_negative(spec, "spec", "replicas", "minReadySeconds")
    yield from selected_template_causes(spec)
    yield from _fixed_selector(spec, old)


def replication_controller_causes(controller: Object, old: Object | None) -> Iterator[FieldCause]:
    """The faults of a ReplicationController, whose selector is a plain map."""
    spec = controller["spec"]
    yield from not_negative(spec, "spec", "replicas", "minReadySeconds")
    selector, template = spec.get("selector") or {}, spec.get("template")
    if not selector:
        yield value_required("spec.selector")
    if template is None:
        yield value_required("spec.template")
        return
    labels = labels_of(template)
    if selector and not selector.items() <= labels.items():
        yield value_invalid("spec.template.metadata.labels", labels, _MISMATCH)
    yield from lasting_template_causes(template)


def daemon_set_causes(daemon_set: Object, old: Object | None) -> Iterator[FieldCause]:
    """The faults of a DaemonSet; unlike others it checks its template whatever the selector is."""
    spec = daemon_set["spec"]
    selector, labels = spec.get("selector"), labels_of(spec["template"])
    had_odd = old is not None and has_odd_value(old["spec"].get("selector"))
    yield from selector_causes(selector, "spec.selector", any_value=had_odd)
    if is_parsable(selector) and not selects(selector, labels):
        yield value_invalid("spec.template.metadata.labels", labels, _MISMATCH)
    if selector is not None and is_empty(selector):
        yield value_invalid("spec.selector", selector, "empty selector is invalid for daemonset")
    yield from lasting_template_causes(spec["template"])
    yield from not_negative(spec, "spec", "minReadySeconds", "revisionHistoryLimit")
    yield from _daemon_strategy_causes(spec["updateStrategy"], "spec.updateStrategy")
    yield from _fixed_selector(spec, old)


# --- selectors and templates ------------------------------------------------------------------


def labels_of(template: Mapping[str, Any]) -> Mapping[str, str]:
    """The labels that pods of a template get."""
    return (template.get("metadata") or {}).get("labels") or {}


def selector_and_label_causes(spec: Object) -> Iterator[FieldCause]:
    """The faults of a required selector, which has to select the labels of the template."""
    selector, labels = spec.get("selector"), labels_of(spec["template"])
    if selector is None:
        yield value_required("spec.selector")
    elif is_empty(selector):
        yield value_invalid("spec.selector", selector, "empty selector is invalid")
        return
    if not is_parsable(selector):
        yield from selector_causes(selector, "spec.selector")
        yield value_invalid("spec.selector", selector, "invalid label selector")
    elif not selects(selector, labels):
        yield value_invalid("spec.template.metadata.labels", labels, _MISMATCH)


def selected_template_causes(spec: Object) -> Iterator[FieldCause]:
    """The faults of a required selector and of the template, which is looked at if the selector is clear."""
    yield from selector_and_label_causes(spec)
    if is_parsable(spec.get("selector")):
        yield from lasting_template_causes(spec["template"])


def lasting_template_causes(template: Object) -> Iterator[FieldCause]:
    """The faults of a template of pods that are to run for ever."""
    yield from template_causes(template, "spec.template", LASTING_POLICIES)
    if (template.get("spec") or {}).get("activeDeadlineSeconds") is not None:
        yield value_forbidden("spec.template.spec.activeDeadlineSeconds", "pods are to run for ever")


def _fixed_selector(spec: Object, old: Object | None) -> Iterator[FieldCause]:
    if old is not None and not same(old["spec"].get("selector"), spec.get("selector")):
        yield value_invalid("spec.selector", spec.get("selector"), "field is immutable")


# --- strategies -------------------------------------------------------------------------------


def _strategy_causes(strategy: Object, path: str) -> Iterator[FieldCause]:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind not in _STRATEGIES:
        yield value_not_supported(path, kind or "", _STRATEGIES)
    elif kind == "Recreate":
        if rolling is not None:
            why = "may not be specified when strategy `type` is 'Recreate'"
            yield value_forbidden(f"{path}.rollingUpdate", why)
    else:
        yield from _rolling_causes(rolling or {}, f"{path}.rollingUpdate")


def _rolling_causes(rolling: Object, path: str) -> Iterator[FieldCause]:
    unavailable, surge = rolling.get("maxUnavailable") or 0, rolling.get("maxSurge") or 0
    yield from amount_causes(unavailable, f"{path}.maxUnavailable")
    yield from amount_causes(surge, f"{path}.maxSurge")
    if is_nothing(unavailable) and is_nothing(surge):
        yield value_invalid(f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0")
    yield from above_all_causes(unavailable, f"{path}.maxUnavailable")


def _daemon_strategy_causes(strategy: Object, path: str) -> Iterator[FieldCause]:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate") or {}
    if kind not in _DAEMON_STRATEGIES:
        yield value_not_supported(path, kind or "", _DAEMON_STRATEGIES)
        return
    if kind == "OnDelete":
        return
    unavailable, surge = rolling.get("maxUnavailable") or 0, rolling.get("maxSurge") or 0
    for value, name in ((unavailable, "maxUnavailable"), (surge, "maxSurge")):
        yield from amount_causes(value, f"{path}.rollingUpdate.{name}")
        yield from above_all_causes(value, f"{path}.rollingUpdate.{name}")
    if is_nothing(unavailable) and is_nothing(surge):
        yield value_required(f"{path}.rollingUpdate.maxUnavailable", "cannot be 0 when maxSurge is 0")
    elif not is_nothing(unavailable) and not is_nothing(surge):
        why = "may not be set when maxUnavailable is non-zero"
        yield value_invalid(f"{path}.rollingUpdate.maxSurge", surge, why)


# --- warnings ---------------------------------------------------------------------------------


def name_warnings(obj: Object, old: Object | None) -> list[str]:
    """The warning for a new object whose name makes no good names of pods."""
    faults = label_faults(obj["metadata"].get("name", "")) if old is None else []
    if not faults:
        return []
    why = "this is used in Pod names and hostnames, which can result in surprising behavior"
    return [f"metadata.name: {why}; a DNS label is recommended: {faults}"]
