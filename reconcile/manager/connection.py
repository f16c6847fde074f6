"""Getting to where a manager runs."""

from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import anyio

from informers import Reachability, ReachTransport, Transport
from reconcile.client.client import Client
from reconcile.manager.leadership import LeaderElector, LedTransport
from reconcile.manager.option_list import ManagerOptions
from reconcile.manager.shadow import ShadowTransport
from reconcile.models import Object, kind_of, thaw, unstructured_kind
from reconcile.models.versions import definition_to_install

if TYPE_CHECKING:
    from reconcile.embedded import ApiServer
    from reconcile.ops.tracing import Traces


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


def elector_on(transport: Transport, reach: Reachability, options: ManagerOptions) -> LeaderElector:
    """The elector of a manager. It keeps its own pace, also after an outage."""
    assert options.leader_election is not None
    way = ReachTransport(transport, reach, paced=False)
    client = Client(way, field_manager=options.name, clock=options.clock)
    return LeaderElector(client, options.leader_election)


def way_of_runs(
    transport: Transport,
    reach: Reachability,
    options: ManagerOptions,
    elector: LeaderElector | None,
    traces: "Traces | None",
) -> Transport:
    """The way to the server that the requests of runs take: paced after outages, led, traced, or shadowed."""
    transport = ReachTransport(transport, reach)
    if elector is not None:
        transport = LedTransport(transport, elector)
    if traces is not None:
        transport = traces.traced(transport)
    return ShadowTransport(transport, options.clock) if options.takeover.dry_run else transport


async def define(server: "ApiServer", client: Client, kinds: Iterable[type[Object]]) -> None:
    """Let an embedded server serve what it does not know yet.

    Raises TypeError for a kind without a definition, and for versions that lose each other's fields.
    """
    for kind in dict.fromkeys(kinds):
        served = kind_of(kind).resource
        if server.resources.get(served.group, served.version, served.plural) is None:
            await install(client, kind)


async def install(client: Client, kind: type[Object]) -> None:
    """Apply the definition of a kind with all its versions, beside those that are installed.

    Raises TypeError as `define` does.
    """
    installed = await client.find(_DEFINITION, kind_of(kind).resource.name)
    await client.apply(definition_to_install(kind, None if installed is None else thaw(installed.body)))


_DEFINITION = unstructured_kind("apiextensions.k8s.io/v1", "CustomResourceDefinition", namespaced=False)
