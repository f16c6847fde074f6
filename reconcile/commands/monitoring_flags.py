"""What `reconcile manifests --monitoring` is told of the Prometheus that watches the operator."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from reconcile.commands.problems import Problem
from reconcile.shipping.installation import Installation, Monitoring

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_ADDRESS: Final = re.compile(r"https?://[A-Za-z0-9][A-Za-z0-9:/._~%+@-]*")
_KEY: Final = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?", re.ASCII)
_VALUE: Final = re.compile(r"([A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?)?", re.ASCII)


def monitoring_of(
    enabled: bool,
    *,
    pods: bool,
    labels: Sequence[str],
    reader: str | None,
    authority: str | None,
    runbooks: str | None,
) -> Monitoring | None:
    """The monitoring that the flags ask for; None without --monitoring. Raises Problem."""
    flags = {
        "--pod-monitor": pods,
        "--monitoring-label": labels,
        "--metrics-reader": reader is not None,
        "--metrics-ca": authority is not None,
        "--runbooks": runbooks is not None,
    }
    if not enabled:
        if alone := [flag for flag, given in flags.items() if given]:
            raise Problem(f"{alone[0]} is about --monitoring", "give --monitoring too")
        return None
    if authority is not None and not _NAME.fullmatch(authority):
        raise Problem(f"--metrics-ca: {authority!r} is not the name of a Secret", "use a-z, 0-9 and dashes")
    if runbooks is not None and not _ADDRESS.fullmatch(runbooks):
        raise Problem(f"--runbooks: {runbooks!r} is not an address", "such as https://example.com/runbooks")
    return Monitoring(
        pods=pods,
        labels=_labels(labels),
        reader=None if reader is None else _reader(reader),
        runbooks=runbooks or "",
        authority=authority or "",
    )


def check_monitoring(operator: Installation) -> None:
    """Raises Problem for flags that would change nothing of that operator."""
    monitoring = operator.monitoring
    if monitoring is None:
        return
    if monitoring.reader is not None and not operator.review:
        raise Problem(
            "--metrics-reader binds a role, and /metrics of this operator asks for none",
            "leave it out, or give Manager(serve_certificates=) and no --namespaces",
        )
    if monitoring.authority and not operator.tls:
        raise Problem(
            "--metrics-ca names a CA, and the pods serve without TLS",
            "leave it out, or give Manager(serve_certificates=)",
        )


def _labels(texts: Sequence[str]) -> Mapping[str, str]:
    labels = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not _KEY.fullmatch(key) or not _VALUE.fullmatch(value):
            raise Problem(f"--monitoring-label: {text!r} is not a label", "such as release=prometheus")
        labels[key] = value
    return labels


def _reader(text: str) -> tuple[str, str]:
    namespace, slash, name = text.partition("/")
    if not slash or not _NAME.fullmatch(namespace) or not _NAME.fullmatch(name):
        raise Problem(
            f"--metrics-reader: {text!r} is not a ServiceAccount",
            "NAMESPACE/NAME, such as monitoring/prometheus",
        )
    return namespace, name
