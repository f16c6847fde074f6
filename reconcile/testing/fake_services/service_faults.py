"""Which faults a request to a service outside the cluster may meet."""

from collections.abc import Iterator

from reconcile.testing.fake_services.service import FakeService
from reconcile.testing.faults import (
    Drop,
    FailOperation,
    PartOfBatch,
    Refuse,
    StaleRead,
    What,
)
from reconcile.testing.recorded_requests import RecordedRequest, service_of, service_path

AT_ANY: tuple[What, ...] = (Drop(), Refuse(503), Refuse(429, retry_after=2))
"""A service may refuse any request for a while."""
AT_SERVICE_WRITES: tuple[What, ...] = (*AT_ANY[1:], Refuse(504, applied=True))
"""An error does not mean that nothing was done."""
_ACCEPTED = 202


def faults_at(request: RecordedRequest, service: FakeService) -> Iterator[What]:
    """What a `sweep` does to one request of a run without faults, beside crashes and a lost answer."""
    if not request.mutating:
        yield from AT_ANY[1:]
        if is_late(service):
            yield StaleRead()
        return
    yield from AT_SERVICE_WRITES
    if request.server_status == _ACCEPTED:
        yield FailOperation()
    if request.path.endswith(":batch"):
        yield PartOfBatch()


def drawn_faults(service: FakeService) -> tuple[What, ...]:
    """What `fuzz` does to requests of a service, beside the faults of any request."""
    return (
        *AT_ANY,
        PartOfBatch(),
        *([StaleRead(1), StaleRead(3)] if is_late(service) else ()),
        *([FailOperation()] if any(one.declared.operations for one in service.collections.values()) else ()),
    )


def is_late(service: FakeService) -> bool:
    """Whether its reads may not see a write yet."""
    return any(one.declared.is_late for one in service.collections.values())


def pattern_of(service: FakeService) -> str:
    """The pattern of the paths of all its requests."""
    return service_path(service.name, "/*")


def is_of(request: RecordedRequest, service: FakeService) -> bool:
    """Whether a request was sent to a service."""
    return request.outside and service_of(request.path) == service.name
