"""Services outside the cluster with laws: their resources, clients, faults, and recorded answers."""

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
from reconcile.testing.fake_services.service_resources import Resources
from reconcile.testing.fake_services.service_routes import ServiceCall

__all__ = [
    "AnswerLost",
    "FakeService",
    "Operations",
    "RateLimit",
    "Resources",
    "ServiceAnswer",
    "ServiceCall",
    "ServiceCollection",
    "ServiceRefusal",
    "ServiceUnreachable",
]
