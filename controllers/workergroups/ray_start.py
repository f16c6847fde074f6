"""The `ray start` command: its options, and the resources that Ray may use."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from reconcile import Quantity

from .ray_pod_view import Object
from .raycluster_status import TPU, is_gpu

DASHBOARD_AGENT_PORT = 52365
METRICS_PORT = 8080
_OPTIONS_WITH_BOOLEAN_VALUE = ("log-color", "include-dashboard")
_ACCELERATORS = {TPU: "TPU", "aws.amazon.com/neuroncore": "neuron_cores"}


def start_command(
    verb: str,
    params: Mapping[str, str],
    container: Object,
    *,
    resources: Mapping[str, Any],
    labels: Mapping[str, str],
) -> str:
    """`verb` with the given options, the resources of the group or else the container, and labels."""
    if resources:
        options = {**params, **resource_options(resources)}
    else:
        limits = _whole_units(container, "limits")
        options = {**_usable(container, limits), **params, **_accelerators(params, limits)}
    if labels:
        options.setdefault("labels", ",".join(f"{name}={labels[name]}" for name in sorted(labels)))
    return f"{verb} {_all_flags(options)}"


def common_params(given: Mapping[str, str], defaults: Mapping[str, str]) -> dict[str, str]:
    """The options of every Ray pod. Given ones win, except `block`: the container must not end."""
    common = {
        "metrics-export-port": str(METRICS_PORT),
        "dashboard-agent-listen-port": str(DASHBOARD_AGENT_PORT),
    }
    return {**common, **defaults, **given, "block": "true"}


def resource_options(resources: Mapping[str, Any]) -> dict[str, str]:
    """The options for a group's `resources`, which replace those of its container."""
    amounts = {name: math.ceil(Quantity(text).value) for name, text in resources.items()}
    known = {"cpu": "num-cpus", "memory": "memory"}
    options = {known[name.lower()]: str(n) for name, n in amounts.items() if name.lower() in known}
    gpus = sum(n for name, n in amounts.items() if is_gpu(name.lower()))
    if gpus:
        options["num-gpus"] = str(gpus)
    others = {
        _ACCELERATORS.get(name, name): n
        for name, n in amounts.items()
        if name.lower() not in known and not is_gpu(name.lower())
    }
    if others:
        options["resources"] = _quoted(others)
    return options


def _quoted(resources: Mapping[str, float]) -> str:
    return f"'{msgspec.json.encode(resources, order='sorted').decode()}'"


def _whole_units(container: Object, kind: str) -> dict[str, int]:
    """Rounded up as Go's `Quantity.Value()`: half a CPU is one to Ray."""
    return {name: math.ceil(Quantity(text).value) for name, text in (container.get(kind) or {}).items()}


def _usable(container: Object, limits: Mapping[str, int]) -> dict[str, str]:
    """The limits of the container, so that Ray schedules no more than that."""
    options = {
        "num-cpus": limits.get("cpu") or _whole_units(container, "requests").get("cpu"),
        "memory": limits.get("memory"),
        "num-gpus": next((limits[name] for name in sorted(limits) if is_gpu(name) and limits[name]), 0),
    }
    return {name: str(amount) for name, amount in options.items() if amount}


def _accelerators(params: Mapping[str, str], limits: Mapping[str, int]) -> dict[str, str]:
    """The `resources` option with the first custom accelerator of the limits, unless it names one."""
    named = _custom_resources(params.get("resources"))
    first = next((name for name in sorted(limits) if name in _ACCELERATORS and limits[name]), None)
    if first is None or named is None or not named.keys().isdisjoint(_ACCELERATORS.values()):
        return {}
    everything = {**named, _ACCELERATORS[first]: limits[first]}
    return {"resources": f"'{msgspec.json.encode(everything).decode()}'"}


def _custom_resources(option: str | None) -> dict[str, float] | None:
    """The resources in the user's option; None if its quoting cannot be read: it then stays as it is."""
    if option is None:
        return {}
    try:
        return msgspec.json.decode(option.strip("'\"` "), type=dict[str, float])
    except msgspec.DecodeError:
        return None


def _all_flags(params: Mapping[str, str]) -> str:
    return " ".join(flag for name in sorted(params) for flag in _flag(name, params[name]))


def _flag(name: str, value: str) -> Iterator[str]:
    is_switch = value.lower() in ("true", "false") and name not in _OPTIONS_WITH_BOOLEAN_VALUE
    if not is_switch:
        yield f"--{name}={value}"
    elif value.lower() == "true":
        yield f"--{name}"
