"""Opens the transports that a manager runs on: given, embedded, or of contexts of the kubeconfig."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio

from informers import Transport
from reconcile.client.client import Client
from reconcile.controller.declaration import Controller
from reconcile.manager.installed_definitions import install_missing
from reconcile.manager.option_list import ManagerOptions


@asynccontextmanager
async def open_transports(
    options: ManagerOptions, controllers: Iterable[Controller[Any]]
) -> AsyncIterator[Mapping[str, Transport]]:
    """Transports by cluster name, empty for a single one. Raises TypeError as `install` does."""
    if options["embedded"]:
        async with _embedded(options, controllers) as transport:
            yield {"": transport}
        return
    async with AsyncExitStack() as opened:
        ways = options["clusters"] or {"": options["transport"] or ""}
        yield {
            name: await _connected(way, opened) if isinstance(way, str) else way for name, way in ways.items()
        }


@asynccontextmanager
async def _embedded(
    options: ManagerOptions, controllers: Iterable[Controller[Any]]
) -> AsyncIterator[Transport]:
    from reconcile.embedded import ApiServer, InProcessTransport

    server = ApiServer(clock=options["clock"])
    transport = InProcessTransport(server)
    await serve_embedded(transport, options, controllers)
    async with anyio.create_task_group() as group:
        group.start_soon(server.run)
        yield transport
        group.cancel_scope.cancel()


async def serve_embedded(
    transport: Transport | None, options: ManagerOptions, controllers: Iterable[Controller[Any]]
) -> None:
    """Have the embedded server serve the kinds of controllers, and call their webhooks in this process.

    Raises TypeError as `install` does, and ValueError for webhooks with one name.
    """
    from reconcile.embedded import InProcessTransport
    from reconcile.webhooks.in_process import configure, served_by, webhooks_of

    assert isinstance(transport, InProcessTransport), transport
    controllers, webhooks = list(controllers), webhooks_of(transport.api)
    client = Client(transport, field_manager=options["name"], clock=options["clock"])
    await install_missing(client, served_by(controllers), webhooks.conversion_for)
    if webhooks.serve(controllers):
        await configure(client, webhooks)


async def _connected(context: str, opened: AsyncExitStack) -> Transport:
    """The transport of a context of the kubeconfig; empty: of the current one, or of the pod's account."""
    from informers.kubernetes import connect

    transport = await connect(None, context or None)
    opened.push_async_callback(_close, transport)
    return transport


async def _close(transport: Transport) -> None:
    with anyio.CancelScope(shield=True):
        await transport.aclose()
