"""An object that kopf created by half stays held until the last write of its release."""

from typing import Any

import pytest

from informers import Conflict, HttpRequest, Key, OutcomeUnknown, Response, Transport
from informers.transport import PassingTransport
from reconcile import Client, Object, resource
from reconcile.adoption.adopted_kinds import AdoptedKind
from reconcile.adoption.switch_release import ATTEMPTS, HeldObject, Release
from reconcile.client.sender import Sender
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.models import kind_of
from reconcile.predecessors import KopfTraces, ObjectTraces, traces_on
from reconcile.testing import VirtualClock
from tests.adoption.kopf_objects import FINALIZER, PREFIX, SECRET, record
from tests.helpers.definitions import definition

KEY = Key("default", "a")
NAMES = KopfTraces()
LONG = "x" * 70
"""A handler with a record under two names."""


@resource("held.example.com/v1")
class Gadget(Object): ...


KIND = AdoptedKind(kind_of(Gadget).resource)


class Cluster:
    def __init__(self, **version: Any) -> None:
        self.transport = InProcessTransport(ApiServer(clock=VirtualClock()))
        self.client = Client(self.transport)
        self.version = version

    async def hold(self, *, in_status: bool = False, handler: str = "make") -> None:
        await self.client.create(definition("Gadget", group="held.example.com", **self.version))
        forms = NAMES.names_of(handler)
        metadata = {
            "name": KEY.name,
            "namespace": KEY.namespace,
            "finalizers": [FINALIZER],
            "annotations": {} if in_status else dict.fromkeys(forms, record()),
        }
        head = {"apiVersion": "held.example.com/v1", "kind": "Gadget", "metadata": metadata}
        made = await self.client.create(head)
        if in_status:
            kept = {"started": "2026-11-23T10:00:00", "purpose": "create", "message": SECRET}
            part = "" if self.version.get("subresources") == {} else "status"
            patch = {"status": {"kopf": {"progress": {handler: kept}, "dummy": "1"}, "mine": 1}}
            await self.client.raw.merge(made, patch, guard={}, subresource=part)

    async def document(self) -> dict[str, Any]:
        found = await self.client.raw.snapshot(KIND.resource, KEY, live=True)
        assert found is not None
        return dict(found.to_dict())

    async def traces(self) -> ObjectTraces:
        return traces_on(await self.document(), NAMES)

    async def is_held(self) -> bool:
        traces = await self.traces()
        return bool(traces.half_created or traces.begun)


async def held_in(transport: Transport) -> HeldObject:
    (held,) = await Release(Sender(transport, VirtualClock())).held([KIND], KEY)
    return held


class Killed(PassingTransport):
    """The process ends after a number of writes, which all arrive."""

    def __init__(self, inner: Transport, writes: int) -> None:
        super().__init__(inner)
        self.left = writes

    async def request(self, request: HttpRequest) -> Response:
        self.left -= request.method != "GET"
        if self.left < 0:
            raise OutcomeUnknown("killed")
        return await super().request(request)


class Disturbed(PassingTransport):
    """Another client changes the object before each of the first writes arrives."""

    def __init__(self, inner: Transport, times: int) -> None:
        super().__init__(inner)
        self.left = times

    async def request(self, request: HttpRequest) -> Response:
        if request.method == "PATCH" and self.left:
            self.left -= 1
            body = b'{"metadata":{"labels":{"changed":"%d"}}}' % self.left
            await super().request(HttpRequest("PATCH", request.path, {}, request.headers, body))
        return await super().request(request)


@pytest.mark.parametrize("handler", ["make", LONG])
async def test_its_records_go_and_it_counts_as_handled(handler: str) -> None:
    here = Cluster()
    await here.hold(handler=handler)
    held = await held_in(here.transport)
    assert f"{held}".startswith("gadgets.held.example.com default/a: ")
    assert SECRET not in str(held)
    await Release(Sender(here.transport, VirtualClock())).release(held)
    metadata = (await here.document())["metadata"]
    assert metadata["annotations"] == {f"{PREFIX}/last-handled-configuration": "{}"}
    assert metadata["finalizers"] == [FINALIZER]
    assert await Release(Sender(here.transport, VirtualClock())).held([KIND], KEY) == []


@pytest.mark.parametrize("version", [{}, {"subresources": {}}], ids=["subresource", "plain"])
async def test_records_in_the_status_go_and_the_rest_of_it_stays(version: dict[str, Any]) -> None:
    here = Cluster(**version)
    await here.hold(in_status=True)
    await Release(Sender(here.transport, VirtualClock())).release(await held_in(here.transport))
    assert not await here.is_held()
    assert (await here.document())["status"] == {"kopf": {"dummy": "1"}, "mine": 1}


@pytest.mark.parametrize("in_status", [True, False])
@pytest.mark.parametrize("version", [{}, {"subresources": {}}], ids=["subresource", "plain"])
async def test_it_stays_held_until_the_last_write_and_a_second_release_goes_on(
    version: dict[str, Any], in_status: bool
) -> None:
    here = Cluster(**version)
    await here.hold(in_status=in_status)
    writes = 0
    while await here.is_held():
        release = Release(Sender(Killed(here.transport, writes), VirtualClock()))
        try:
            await release.release(await held_in(here.transport))
        except OutcomeUnknown:
            assert await here.is_held()
        writes += 1
    assert writes <= 4
    assert (await here.traces()).last_handled


async def test_a_change_by_another_client_meanwhile_is_not_lost() -> None:
    here = Cluster()
    await here.hold()
    release = Release(Sender(Disturbed(here.transport, ATTEMPTS - 1), VirtualClock()))
    await release.release(await held_in(here.transport))
    assert not await here.is_held()
    assert (await here.document())["metadata"]["labels"] == {"changed": "0"}


async def test_an_object_that_is_changed_all_the_time_is_an_error() -> None:
    here = Cluster()
    await here.hold()
    release = Release(Sender(Disturbed(here.transport, ATTEMPTS), VirtualClock()))
    with pytest.raises(Conflict):
        await release.release(await held_in(here.transport))
    assert await here.is_held()


async def test_a_namesake_that_was_made_since_is_left_alone() -> None:
    here = Cluster()
    await here.hold()
    held = await held_in(here.transport)
    await here.client.raw.patch(KIND.resource, KEY, {"metadata": {"finalizers": None}}, guard={})
    await here.client.delete(await here.client.get(Gadget, KEY.name, KEY.namespace))
    head = {
        "apiVersion": "held.example.com/v1",
        "kind": "Gadget",
        "metadata": {"name": "a", "namespace": "default"},
    }
    await here.client.create({**head, "metadata": {**head["metadata"], "finalizers": [FINALIZER]}})
    await Release(Sender(here.transport, VirtualClock())).release(held)
    assert await here.is_held()


async def test_what_is_being_deleted_or_of_another_scope_is_not_held() -> None:
    here = Cluster()
    await here.hold()
    release = Release(Sender(here.transport, VirtualClock()))
    assert await release.held([KIND], Key("", "a")) == []
    assert await release.held([KIND], Key("default", "b")) == []
    await here.client.delete(await here.client.get(Gadget, KEY.name, KEY.namespace))
    assert await release.held([KIND], KEY) == []
