"""The rules for probes and lifecycle hooks."""

import re
from collections.abc import Iterator
from typing import Any, Final

from reconcile.embedded.kinds.built_in_kind import Object, not_negative
from reconcile.embedded.kinds.pod_parts import HOOKS, PROBES, each
from reconcile.embedded.kinds.port_rules import port_causes
from reconcile.embedded.protocol.api_failure import FieldCause
from reconcile.embedded.protocol.field_causes import (
    value_forbidden,
    value_invalid,
    value_not_supported,
    value_required,
)

_HEADER_NAME: Final = re.compile(r"[-A-Za-z0-9]+")
_COUNTS: Final = (
    "initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold",
)  # fmt: skip
_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")


def probe_causes(container: Object, path: str) -> Iterator[FieldCause]:
    """The faults of the probes of a container that may have them."""
    for name in PROBES:
        probe = container.get(name)
        if probe is not None:
            yield from _probe_causes(name, probe, f"{path}.{name}")


def _probe_causes(name: str, probe: Object, path: str) -> Iterator[FieldCause]:
    yield from _handler_causes(probe, path, 0)
    yield from not_negative(probe, path, *_COUNTS)
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None and grace <= 0:
        yield value_invalid(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than 0")
    if name == "readinessProbe":
        if grace is not None:
            why = "must not be set for readinessProbes"
            yield value_invalid(f"{path}.terminationGracePeriodSeconds", grace, why)
    elif probe.get("successThreshold") != 1:
        yield value_invalid(f"{path}.successThreshold", probe.get("successThreshold") or 0, "must be 1")


def hook_causes(container: Object, path: str, grace: int) -> Iterator[FieldCause]:
    """The faults of the lifecycle of a container whose pod ends within `grace` seconds."""
    lifecycle = container.get("lifecycle") or {}
    for name in HOOKS:
        if lifecycle.get(name) is not None:
            yield from _handler_causes(lifecycle[name], f"{path}.lifecycle.{name}", grace)


def _handler_causes(handler: Object, path: str, grace: int) -> Iterator[FieldCause]:
    given = [name for name in _HANDLERS if handler.get(name) is not None]
    if not given:
        yield value_required(path, "must specify a handler type")
        return
    first, *more = given
    place, action = f"{path}.{first}", handler[first]
    match first:
        case "exec":
            if not action.get("command"):
                yield value_required(f"{place}.command")
        case "httpGet":
            yield from _http_causes(action, place)
        case "sleep":
            seconds = action.get("seconds") or 0
            if not 0 <= seconds <= grace:
                why = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
                yield value_invalid(place, seconds, why)
        case _:
            yield from _port_causes(action, place)
    for name in more:
        yield value_forbidden(f"{path}.{name}", "may not specify more than 1 handler type")


def _http_causes(action: Object, path: str) -> Iterator[FieldCause]:
    if not action.get("path"):
        yield value_required(f"{path}.path")
    yield from _port_causes(action, path)
    if action.get("scheme") not in ("HTTP", "HTTPS"):
        yield value_not_supported(f"{path}.scheme", action.get("scheme") or "", ("HTTP", "HTTPS"))
    for header in each(action, "httpHeaders"):
        name = header.get("name") or ""
        if not _HEADER_NAME.fullmatch(name):
            why = "a valid HTTP header must consist of alphanumeric characters or '-'"
            yield value_invalid(f"{path}.httpHeaders", name, why)


def _port_causes(action: Object, path: str) -> Iterator[FieldCause]:
    port: Any = action.get("port")
    yield from port_causes(f"{path}.port", 0 if port is None else port)
