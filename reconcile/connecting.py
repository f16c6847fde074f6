"""Getting to where a manager runs."""

from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import anyio

from informers import Transport
from reconcile.client import Client
from reconcile.models import Object, definition_of, kind_of

if TYPE_CHECKING:
    from reconcile.embedded import ApiServer


async def connected(context: str, connections: AsyncExitStack) -> Transport:
    """The way to the server of a context of the kubeconfig (empty: the current one, or the pod's).

    It is open as long as `connections` are.
    """
    from informers.kubernetes import connect

    transport = await connect(None, context or None)
    connections.push_async_callback(_close, transport)
    return transport


async def _close(transport: Transport) -> None:
    with anyio.CancelScope(shield=True):
        await transport.aclose()


async def define(server: "ApiServer", client: Client, kinds: Iterable[type[Object]]) -> None:
    """Let an embedded server serve what it does not know yet."""
    for kind in dict.fromkeys(kinds):
        served = kind_of(kind).resource
        if server.resources.get(served.group, served.version, served.plural) is None:
            await client.apply(definition_of(kind))
