"""A Kubernetes API server in this process, for tests, demos and single machines."""

from reconcile.embedded.admission.chain import AdmissionFunction, AdmissionFunctionFor, AdmittedWrite
from reconcile.embedded.api import ApiRequest
from reconcile.embedded.auth import ADMIN, User, service_account
from reconcile.embedded.durable.data_folder import DataFolder, Repair
from reconcile.embedded.durable.files import DataFault
from reconcile.embedded.in_process import InProcessTransport
from reconcile.embedded.kinds import BuiltInKind
from reconcile.embedded.protocol.api_failure import ApiFailure, Denied, FieldCause
from reconcile.embedded.registry import ResourceRegistry
from reconcile.embedded.served import (
    CellColumn,
    ConversionFailed,
    ConversionRequest,
    Converter,
    PathColumn,
    ScalePaths,
    ServedResource,
)
from reconcile.embedded.server import ApiServer
from reconcile.embedded.verbs.answers import failure_response
from reconcile.embedded.verbs.watching import WatchStream

__all__ = [
    "ADMIN",
    "AdmissionFunction",
    "AdmissionFunctionFor",
    "AdmittedWrite",
    "ApiFailure",
    "ApiRequest",
    "ApiServer",
    "BuiltInKind",
    "CellColumn",
    "ConversionFailed",
    "ConversionRequest",
    "Converter",
    "DataFault",
    "DataFolder",
    "Denied",
    "FieldCause",
    "InProcessTransport",
    "PathColumn",
    "Repair",
    "ResourceRegistry",
    "ScalePaths",
    "ServedResource",
    "User",
    "WatchStream",
    "failure_response",
    "service_account",
]
