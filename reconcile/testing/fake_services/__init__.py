"""Services outside the cluster with laws: their resources, clients, faults, and recorded answers."""

from reconcile.testing.fake_services.recorded_service import RecordedExchange, RecordedService
from reconcile.testing.fake_services.service import FakeService
from reconcile.testing.fake_services.service_laws import (
    AnswerLost,
    Operations,
    RateLimit,
    ServiceAnswer,
    ServiceCollection,
    ServiceRefusal,
    ServiceUnreachable,
)
from reconcile.testing.fake_services.service_recorder import ServiceRecorder, record_service
from reconcile.testing.fake_services.service_resources import Resources
from reconcile.testing.fake_services.service_routes import ServiceCall

__all__ = [
    "AnswerLost",
    "FakeService",
    "Operations",
    "RateLimit",
    "RecordedExchange",
    "RecordedService",
    "Resources",
    "ServiceAnswer",
    "ServiceCall",
    "ServiceCollection",
    "ServiceRecorder",
    "ServiceRefusal",
    "ServiceUnreachable",
    "record_service",
]
