"""An informer asks its server to leave managedFields out, unless something needs them (KEP-5958)."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from informers import APIResource, HttpRequest, Informer, InformerOptions, Key, StreamingResponse
from informers.stored_shape import MANAGED_FIELDS
from informers.transport import PassingTransport
from reconcile import Client
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.testing import VirtualClock, simulate
from tests.helpers.tasks import beside

CONFIG_MAPS = APIResource("", "v1", "ConfigMap", "configmaps")
PLAIN = "application/json"
DROPPING = "application/json;drop=metadata.managedFields"
KEY = Key("default", "a")


class Asked(PassingTransport):
    """Notes what is asked for; if it `drops`, a server that leaves managedFields out where asked to."""

    def __init__(self, server: ApiServer, drops: bool = True) -> None:
        super().__init__(InProcessTransport(server))
        self.drops = drops
        self.accepted: list[str] = []
        self.lists = 0

    @asynccontextmanager
    async def stream(self, request: HttpRequest) -> AsyncIterator[StreamingResponse]:
        self.accepted.append(request.headers["accept"])
        self.lists += "resourceVersion" not in request.query
        async with super().stream(request) as answer:
            if self.drops and DROPPING in self.accepted[-1].split(","):
                answer = StreamingResponse(answer.status, answer.headers, _without(answer.chunks))
            yield answer


async def _without(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async for chunk in chunks:  # the server in this process sends whole lines
        for line in chunk.splitlines():
            event = json.loads(line)
            event["object"]["metadata"].pop("managedFields", None)
            yield json.dumps(event).encode() + b"\n"


def asked(options: InformerOptions, drops: bool = True) -> tuple[list[str], Mapping[str, Any]]:
    """What an informer with those options asks for in its first seconds, and the object that it holds."""
    server = ApiServer(clock=VirtualClock())
    transport = Asked(server, drops)
    informer = Informer(transport, CONFIG_MAPS, options=options, clock=VirtualClock())

    async def run() -> None:
        await Client(InProcessTransport(server), clock=VirtualClock()).apply(config_map("1"))
        async with beside(informer.run):
            await informer.wait_synced()

    simulate(run)
    stored = informer.store.get(KEY)
    assert stored is not None
    return transport.accepted, stored.to_dict()


def config_map(value: str) -> dict[str, Any]:
    metadata = {"namespace": KEY.namespace, "name": KEY.name}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": value}}


@pytest.mark.parametrize("drops", [True, False])
def test_managed_fields_are_asked_to_be_left_out_and_a_server_that_ignores_it_changes_nothing(
    drops: bool,
) -> None:
    accepted, stored = asked(InformerOptions(), drops)
    assert accepted == [f"{DROPPING},{PLAIN}"]
    assert stored["data"] == {"k": "1"}
    assert "managedFields" not in stored["metadata"]


def test_metadata_alone_is_asked_for_without_managed_fields_too() -> None:
    accepted, _ = asked(InformerOptions(metadata_only=True))
    form = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    assert accepted == [f"{form};drop=metadata.managedFields,{form}"]


@pytest.mark.parametrize(
    "options",
    [InformerOptions(drop=["/data"]), InformerOptions(transform=lambda obj: obj, drop=[MANAGED_FIELDS])],
    ids=["kept", "a transform may read them"],
)
def test_managed_fields_that_something_may_read_are_asked_for(options: InformerOptions) -> None:
    accepted, _ = asked(options)
    assert accepted == [PLAIN]


def test_applies_that_are_to_be_marked_from_the_start_need_managed_fields() -> None:
    transport = Asked(ApiServer(clock=VirtualClock()))
    informer = Informer(transport, CONFIG_MAPS, clock=VirtualClock())
    informer.mark_applies("m")

    async def run() -> None:
        async with beside(informer.run):
            await informer.wait_synced()

    simulate(run)
    assert transport.accepted == [PLAIN]


def test_applies_that_are_to_be_marked_later_are_seen_by_the_watch_that_goes_on() -> None:
    server = ApiServer(clock=VirtualClock())
    transport = Asked(server)
    informer = Informer(transport, CONFIG_MAPS, clock=VirtualClock())
    client = Client(InProcessTransport(server), field_manager="m", clock=VirtualClock())

    async def run() -> None:
        await client.apply(config_map("1"))
        async with beside(informer.run):
            await informer.wait_synced()
            assert not informer.mark_applies("m")
            await anyio.sleep(1)
            await client.apply(config_map("2"))
            await anyio.sleep(1)

    simulate(run)
    stored = informer.store.get(KEY)
    assert stored is not None
    assert stored.to_dict()["data"] == {"k": "2"}
    assert stored.applied
    assert transport.accepted == [f"{DROPPING},{PLAIN}", PLAIN]
    assert transport.lists == 1
