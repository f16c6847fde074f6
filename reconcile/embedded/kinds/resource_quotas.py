"""ResourceQuotas."""

import datetime
from collections.abc import Iterator, Mapping
from typing import Any, Final

from reconcile.embedded.kinds.built_in_kind import BuiltInKind, Object, spec_and_status
from reconcile.embedded.kinds.resource_rules import amount_causes, is_quota_name, quota_resource_causes
from reconcile.embedded.kubectl.printing import AGE, NAMES, Cell, View, pick
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import value_invalid, value_required
from reconcile.embedded.served import CellColumn

_COUNTED_BY_NAME = frozenset(
    {
        "configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "resourcequotas",
        "secrets", "services",
    }
)  # fmt: skip
_OF_PODS: Final = frozenset(
    {
        "pods", "cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory",
    }
)  # fmt: skip
_SCOPES: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(("Terminating", "NotTerminating", "NotBestEffort", "PriorityClass"), _OF_PODS),
    "CrossNamespacePodAffinity": _OF_PODS,
    "BestEffort": frozenset({"pods"}),
    "VolumeAttributesClass": frozenset({"persistentvolumeclaims", "requests.storage"}),
}
"""The resources that each scope can be applied to (IsResourceQuotaScopeValidForResource)."""
_WITHOUT_CHOICE: Final = frozenset(
    {"BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity"}
)
"""Scopes that a selector can only ask to exist."""
_CONFLICTS: Final = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})


# --- rules ------------------------------------------------------------------------------------


def _quota_causes(quota: Object, old: Object | None) -> Iterator[FieldCause]:
    spec = quota.get("spec") or {}
    yield from _amounts_causes(spec.get("hard"), "spec.hard")
    yield from _scope_causes(spec)
    yield from _selector_causes(spec)
    if old is not None and {*(spec.get("scopes") or ())} != {*((old.get("spec") or {}).get("scopes") or ())}:
        yield value_invalid("spec.scopes", f"{spec.get('scopes')}", "field is immutable")


def _status_causes(quota: Object, _old: Object | None) -> Iterator[FieldCause]:
    for part in ("hard", "used"):
        yield from _amounts_causes((quota.get("status") or {}).get(part), f"status.{part}")


def _amounts_causes(amounts: Mapping[str, Any] | None, path: str) -> Iterator[FieldCause]:
    for name, quantity in (amounts or {}).items():
        yield from quota_resource_causes(name, f"{path}[{name}]")
        yield from amount_causes(name, quantity, f"{path}[{name}]")


def _scope_causes(spec: Object) -> Iterator[FieldCause]:
    scopes: list[str] = spec.get("scopes") or []
    for scope in scopes:
        if scope not in _SCOPES:
            yield value_invalid("spec.scopes", f"{scopes}", "unsupported scope")
        yield from _unfit_causes(scope, spec, "spec.scopes")
    yield from _conflict_causes(scopes, "spec.scopes")


def _selector_causes(spec: Object) -> Iterator[FieldCause]:
    path = "spec.scopeSelector.matchExpressions"
    requirements = (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    for requirement in requirements:
        scope, operator = requirement.get("scopeName") or "", requirement.get("operator") or ""
        if scope not in _SCOPES:
            yield value_invalid(f"{path}.scopeName", scope, "unsupported scope")
        yield from _unfit_causes(scope, spec, path)
        if scope in _WITHOUT_CHOICE and operator != "Exists":
            yield value_invalid(f"{path}.operator", operator, f"must be 'Exist' when scope is {scope}")
        yield from _operator_causes(operator, requirement.get("values") or [], path)
    yield from _conflict_causes([one.get("scopeName") or "" for one in requirements], path)


def _operator_causes(operator: str, values: list[str], path: str) -> Iterator[FieldCause]:
    match operator:
        case "In" | "NotIn":
            if not values:
                why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                yield value_required(f"{path}.values", why)
        case "Exists" | "DoesNotExist":
            if values:
                why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                yield value_invalid(f"{path}.values", f"{values}", why)
        case _:
            yield value_invalid(f"{path}.operator", operator, "not a valid selector operator")


def _unfit_causes(scope: str, spec: Object, path: str) -> Iterator[FieldCause]:
    fit = _SCOPES.get(scope)
    for name in sorted(spec.get("hard") or {}):
        if fit is not None and is_quota_name(name) and name not in fit:
            yield value_invalid(path, scope, "unsupported scope applied to resource")


def _conflict_causes(scopes: list[str], path: str) -> Iterator[FieldCause]:
    for pair in _CONFLICTS:
        if pair <= {*scopes}:
            yield value_invalid(path, f"{scopes}", "conflicting scopes")


# --- counting and columns ---------------------------------------------------------------------


def _quota(prefix: str, *, limits: bool) -> Cell:
    """`used/hard` of the names with the prefix, or with `limits` False of all others."""

    def cell(obj: View, _now: datetime.datetime) -> str:
        hard, used = pick(obj, "status", "hard") or {}, pick(obj, "status", "used") or {}
        names = sorted(name for name in hard if name.startswith(prefix) is limits)
        return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)

    return cell


def counted_resource(name: str) -> tuple[str, str] | None:
    """Group and plural of what a quota's `pods` or `count/deployments.apps` counts; None for other names."""
    if name in _COUNTED_BY_NAME:
        return ("", name)
    if not name.startswith("count/"):
        return None
    plural, _, group = name.removeprefix("count/").partition(".")
    return (group, plural)


KINDS: Final = (
    BuiltInKind(
        "", "ResourceQuota", short_names=("quota",), has_status=True, answers_object_on_delete=True,
        first_status={},
        checks=_quota_causes,
        status_checks=_status_causes,
        names_missing_fields=True,
        columns=(
            NAMES,
            CellColumn("Request", _quota("limits.", limits=False)),
            CellColumn("Limit", _quota("limits.", limits=True)),
            AGE,
        ),
        messages={
            **spec_and_status("ResourceQuota"),
            "ResourceQuotaSpec": {1: "hard:{quantity}", 2: "scopes:[string]"},
            "ResourceQuotaStatus": {1: "hard:{quantity}", 2: "used:{quantity}"},
        },
        viewed=("", "status"),
    ),
)  # fmt: skip
