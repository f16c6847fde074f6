"""A Kubernetes API server inside this process: for tests, for demos, for one machine."""

from reconcile.embedded.api import ApiRequest, TableRenderer
from reconcile.embedded.in_process import InProcessTransport
from reconcile.embedded.registry import Registry
from reconcile.embedded.resources import Column, ScalePaths, ServedResource
from reconcile.embedded.server import ApiServer, failure_response
from reconcile.embedded.status import Failure, FieldCause
from reconcile.embedded.watching import Watch

__all__ = [
    "ApiRequest",
    "ApiServer",
    "Column",
    "Failure",
    "FieldCause",
    "InProcessTransport",
    "Registry",
    "ScalePaths",
    "ServedResource",
    "TableRenderer",
    "Watch",
    "failure_response",
]
