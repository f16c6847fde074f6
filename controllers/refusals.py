"""The faults that a controller would report in the status, as refusals of an admission webhook."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from reconcile import Object
from reconcile.webhooks import Admission, AdmissionRequest, Refusal

from . import OPERATOR

_FAULT = re.compile(r"(?P<field>(?:spec|metadata)(?:\.+[\w/-]+|\[[^\]]*\])*):?\s+(?P<message>.+)", re.DOTALL)
"""`spec.replicas: must not be negative`, `spec.minReplicas is below 0`."""


def refusing(kind: type[Object], faults_of: Callable[[Any], Iterable[str]]) -> Admission[Any]:
    """An admission of a bundled kind that refuses what its controller would leave alone for these faults."""

    def refuses(obj: Any, old: Any, request: AdmissionRequest) -> Iterator[Refusal]:
        return map(refusal_of, faults_of(obj))

    return Admission(kind, refuses=refuses, operator=OPERATOR)


def refusal_of(fault: str) -> Refusal:
    """The refusal of a fault, whose text begins with the path of a field, if it is about one."""
    found = _FAULT.fullmatch(fault)
    return Refusal(fault) if found is None else Refusal(found["message"], found["field"])
