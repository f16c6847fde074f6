"""The annotations in which autoscaling/v1 keeps what only autoscaling/v2 has fields for.

Metrics are kept in the form of autoscaling/v1, behavior in that of the Go type inside a real server.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

_Row = tuple[str, str, Any]
"""A field of the older form, its path in the newer one, and what an absent one is; None leaves it out."""

_NAME: Final[_Row] = ("metricName", "metric.name", "")
_SELECTOR: Final[_Row] = ("selector", "metric.selector", None)
_DESCRIBED: Final[_Row] = ("target", "describedObject", {"kind": "", "name": ""})

_SPEC: Final[Mapping[str, Sequence[_Row]]] = {
    "object": (
        _DESCRIBED,
        _NAME,
        ("targetValue", "target.value", "0"),
        _SELECTOR,
        ("averageValue", "target.averageValue", None),
    ),
    "pods": (_NAME, ("targetAverageValue", "target.averageValue", "0"), _SELECTOR),
    "resource": (
        ("name", "name", ""),
        ("targetAverageUtilization", "target.averageUtilization", None),
        ("targetAverageValue", "target.averageValue", None),
    ),
    "containerResource": (
        ("name", "name", ""),
        ("targetAverageUtilization", "target.averageUtilization", None),
        ("targetAverageValue", "target.averageValue", None),
        ("container", "container", ""),
    ),
    "external": (
        _NAME,
        ("metricSelector", "metric.selector", None),
        ("targetValue", "target.value", None),
        ("targetAverageValue", "target.averageValue", None),
    ),
}
_STATUS: Final[Mapping[str, Sequence[_Row]]] = {
    "object": (
        _DESCRIBED,
        _NAME,
        ("currentValue", "current.value", "0"),
        _SELECTOR,
        ("averageValue", "current.averageValue", None),
    ),
    "pods": (_NAME, ("currentAverageValue", "current.averageValue", "0"), _SELECTOR),
    "resource": (
        ("name", "name", ""),
        ("currentAverageUtilization", "current.averageUtilization", None),
        ("currentAverageValue", "current.averageValue", "0"),
    ),
    "containerResource": (
        ("name", "name", ""),
        ("currentAverageUtilization", "current.averageUtilization", None),
        ("currentAverageValue", "current.averageValue", "0"),
        ("container", "container", ""),
    ),
    "external": (
        _NAME,
        ("metricSelector", "metric.selector", None),
        ("currentValue", "current.value", "0"),
        ("currentAverageValue", "current.averageValue", None),
    ),
}
_RULES: Final = ("stabilizationWindowSeconds", "selectPolicy", "policies", "tolerance")
_POLICY: Final = ("type", "value", "periodSeconds")


def older_metrics(metrics: Sequence[Mapping[str, Any]], *, status: bool = False) -> list[dict[str, Any]]:
    """Metrics, or those of a status, as autoscaling/v1 writes them."""
    table = _STATUS if status else _SPEC
    return [_older(metric, table) for metric in metrics]


def _older(metric: Mapping[str, Any], table: Mapping[str, Sequence[_Row]]) -> dict[str, Any]:
    made: dict[str, Any] = {"type": metric.get("type") or ""}
    for member, rows in table.items():
        source = metric.get(member)
        if source is not None:
            values = ((name, _at(source, path), absent) for name, path, absent in rows)
            made[member] = {
                name: absent if value is None else value
                for name, value, absent in values
                if value is not None or absent is not None
            }
    return made


def newer_metrics(metrics: Any, *, status: bool = False) -> Any:
    """The reverse of `older_metrics`; what has another form is left as it is."""
    if not isinstance(metrics, list):
        return metrics
    table = _STATUS if status else _SPEC
    return [_newer(metric, table) if isinstance(metric, dict) else metric for metric in metrics]


def _newer(metric: Mapping[str, Any], table: Mapping[str, Sequence[_Row]]) -> dict[str, Any]:
    made: dict[str, Any] = {"type": metric.get("type")}
    for member, rows in table.items():
        source = metric.get(member)
        if not isinstance(source, dict):
            made |= {} if source is None else {member: source}
            continue
        made[member] = {}
        for name, path, _ in rows:
            if source.get(name) is not None:
                _put(made[member], path, source[name])
        if table is _SPEC:
            target = made[member].setdefault("target", {})
            made[member]["target"] = {"type": _target_type(member, target), **target}
    return made


def _target_type(member: str, target: Mapping[str, Any]) -> str:
    """Which type of target the fields of the older form mean."""
    if member in ("resource", "containerResource"):
        return "Utilization" if "averageUtilization" in target else "AverageValue"
    by_value = "value" in target if member == "external" else "averageValue" not in target
    return "Value" if by_value and member != "pods" else "AverageValue"


def _at(source: Mapping[str, Any], path: str) -> Any:
    value: Any = source
    for step in path.split("."):
        value = (value or {}).get(step)
    return value


def _put(place: dict[str, Any], path: str, value: Any) -> None:
    *steps, last = path.split(".")
    for step in steps:
        place = place.setdefault(step, {})
    place[last] = value


def older_behavior(behavior: Mapping[str, Any]) -> dict[str, Any]:
    """Behavior with the field names of the Go type, and all of its fields."""
    return {
        _capitalized(name): None if behavior.get(name) is None else _rules(behavior[name])
        for name in ("scaleUp", "scaleDown")
    }


def _rules(rules: Mapping[str, Any]) -> dict[str, Any]:
    made = {_capitalized(name): rules.get(name) for name in _RULES}
    if rules.get("policies") is not None:
        made["Policies"] = [
            {_capitalized(name): policy.get(name) for name in _POLICY} for policy in rules["policies"]
        ]
    return made


def _capitalized(name: str) -> str:
    return name[0].upper() + name[1:]


def newer_behavior(behavior: Any) -> Any:
    """The reverse of `older_behavior`; as in Go, it does not matter how names are capitalised."""
    if isinstance(behavior, list):
        return [newer_behavior(item) for item in behavior]
    if not isinstance(behavior, dict):
        return behavior
    known = {name.lower(): name for name in ("scaleUp", "scaleDown", *_RULES, *_POLICY)}
    return {
        known.get(name.lower(), name): newer_behavior(value)
        for name, value in behavior.items()
        if value is not None
    }
