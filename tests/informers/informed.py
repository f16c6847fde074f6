"""A client and a running informer of a server that is never late."""

from collections.abc import Sequence

from attrs import frozen

from informers import APIResource, Informer, InformerOptions
from reconcile import Client
from reconcile.embedded import ApiServer, InProcessTransport
from reconcile.testing import Fault, FaultPlan, FaultyTransport, VirtualClock, simulate
from tests.helpers.scenarios import Scenario
from tests.helpers.tasks import beside

CONFIG_MAPS = APIResource("", "v1", "ConfigMap", "configmaps")


@frozen
class World:
    client: Client
    informer: Informer
    transport: FaultyTransport


def informed(
    scenario: Scenario, faults: Sequence[Fault] = (), options: InformerOptions | None = None
) -> None:
    """Play a scenario; the faults meet the requests of the informer."""

    async def run() -> None:
        server = ApiServer(clock=VirtualClock())
        client = Client(InProcessTransport(server), clock=VirtualClock())
        transport = FaultyTransport(InProcessTransport(server), FaultPlan(tuple(faults)))
        informer = Informer(transport, CONFIG_MAPS, options=options, clock=VirtualClock())
        async with beside(informer.run):
            await informer.wait_synced()
            await scenario(World(client, informer, transport))

    simulate(run, limit_seconds=100_000)
