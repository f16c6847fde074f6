"""A client whose cache holds what a server has, and is brought up to date by hand, without tasks."""

from collections.abc import Sequence
from typing import Any

import msgspec

from informers import APIResource, Cache, InformerOptions
from reconcile import Client
from reconcile.client.client import bound
from reconcile.client.own_writes import Journal
from reconcile.testing import FakeClient


def cached(
    fake: FakeClient,
    *resources: APIResource,
    manager: str = "mine",
    former: Sequence[str] = (),
    declared: bool = True,
    options: InformerOptions | None = None,
) -> Client:
    """The client of a process that has just started; `declared`: its controller may apply these resources."""
    cache = Cache(fake.transport, clock=fake.clock, defaults=options)
    for resource in resources:
        informer = cache.declare(resource)
        for name in (manager, *former) if declared else ():
            informer.mark_applies(name)
    client = Client(fake.transport, cache=cache, clock=fake.clock, field_manager=manager)
    refresh(fake, client)
    return bound(client, Journal(), manager, former)


def refresh(fake: FakeClient, client: Client) -> None:
    """The cache comes to know all that there is."""
    assert client.cache is not None
    for informer in client.cache:
        listed: dict[str, Any] = fake.request("GET", informer.resource.path())
        items = [informer._read(msgspec.json.encode(item)) for item in listed["items"]]
        chosen = [item for item in items if informer.selects(item)]
        informer.store.replace(chosen, int(listed["metadata"]["resourceVersion"]))


def applies(fake: FakeClient) -> int:
    """How many requests for a change the client has sent by patch."""
    return sum(request.verb == "patch" for request in fake.transport.writes)
