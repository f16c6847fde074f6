"""Objects are handed back one by one, while other clients write, and wherever the command is killed."""

import pytest

from informers import HttpRequest, OutcomeUnknown, Response, SystemClock, Transport
from informers.transport import PassingTransport
from reconcile import Client, ObjectMeta
from reconcile.adoption.handing_back import ATTEMPTS, HandingBack
from reconcile.adoption.kopf_return import Fate, ReturnedKind
from reconcile.client.sender import Sender
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.models import definition_of
from reconcile.predecessors import KopfTraces
from tests.adoption.returned_sites import Site, sites

KIND = ReturnedKind(sites.resource, finalizers=(sites.finalizer,), managers=frozenset((sites.field_manager,)))
NAMES = tuple(f"s{number}" for number in range(20))
LABEL = b'{"metadata":{"labels":{"changed":"yes"}}}'


class Disturbed(PassingTransport):
    """Another client changes an object before each of the first writes to it arrives."""

    def __init__(self, inner: Transport, times: int) -> None:
        super().__init__(inner)
        self.left = dict.fromkeys((f"{sites.resource.path('default', name)}" for name in NAMES), times)
        self.count = 0

    async def request(self, request: HttpRequest) -> Response:
        if request.method == "PATCH" and self.left[request.path]:
            self.left[request.path] -= 1
            self.count += 1
            body = LABEL.replace(b"yes", f"{self.count}".encode())
            await super().request(HttpRequest("PATCH", request.path, {}, request.headers, body))
        return await super().request(request)


class Killed(PassingTransport):
    """The process ends after a number of writes: the last one is carried out, and no later one is sent."""

    def __init__(self, inner: Transport, writes: int) -> None:
        super().__init__(inner)
        self.writes = writes

    async def request(self, request: HttpRequest) -> Response:
        if request.method == "GET":
            return await super().request(request)
        self.writes -= 1
        if self.writes < 0:
            raise OutcomeUnknown("killed")
        response = await super().request(request)
        if self.writes == 0:
            raise OutcomeUnknown("killed")
        return response


async def filled() -> InProcessTransport:
    transport = InProcessTransport(ApiServer())
    client = Client(transport)
    await client.apply(definition_of(Site))
    for name in NAMES:
        await client.create(Site(metadata=ObjectMeta(name, "default", finalizers=(sites.finalizer,))))
    return transport


async def states(transport: Transport) -> dict[str, tuple[tuple[str, ...], dict[str, str]]]:
    found = await Client(transport).list(Site)
    return {one.name: (one.metadata.finalizers, dict(one.metadata.annotations)) for one in found}


def handing_back(transport: Transport) -> HandingBack:
    return HandingBack(Sender(transport, SystemClock()))


HANDED = (
    (KopfTraces().finalizer,),
    {"kopf.zalando.org/last-handled-configuration": '{"size":1}\n'},
)


@pytest.mark.parametrize("writes", [0, 1, 7, 19, 20])
async def test_what_was_killed_after_any_write_goes_on_when_it_is_run_again(writes: int) -> None:
    transport = await filled()
    await handing_back(Killed(transport, writes)).run(KIND)
    done = [state for state in (await states(transport)).values() if state == HANDED]
    assert len(done) == writes
    fates = await handing_back(transport).run(KIND)
    assert [fates.counts[fate] for fate in (Fate.HANDED, Fate.KEPT)] == [len(NAMES) - writes, writes]
    assert set(map(str, (await states(transport)).values())) == {str(HANDED)}
    assert fates.complete


async def test_a_change_by_another_client_meanwhile_is_in_the_copy() -> None:
    transport = await filled()
    fates = await handing_back(Disturbed(transport, 2)).run(KIND)
    assert fates.counts == {Fate.HANDED: len(NAMES)}
    for site in await Client(transport).list(Site):
        label = site.metadata.labels["changed"]
        copy = site.metadata.annotations["kopf.zalando.org/last-handled-configuration"]
        assert copy == f'{{"size":1,"metadata":{{"labels":{{"changed":"{label}"}}}}}}\n'


async def test_what_is_changed_all_the_time_is_told_of_and_is_not_complete() -> None:
    transport = await filled()
    fates = await handing_back(Disturbed(transport, ATTEMPTS)).run(KIND)
    assert fates.failed == len(NAMES)
    assert not fates.complete
    line = next(iter(fates.lines()))
    assert line.startswith("sites.back.example.com: 20 not written: default/s")
    assert {finalizers for finalizers, _ in (await states(transport)).values()} == {(sites.finalizer,)}
